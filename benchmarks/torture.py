"""Kill a benchmark with SIGKILL at random moments, resume it, and check that nothing was lost or computed twice.

Every round starts on an empty store. Half of the kills hit the first process only, half of them all its descendants as
well; three quarters come while cells are being computed, the others at any time after the start. At the end of a round
the results, files and tables must equal those of an undisturbed run byte for byte (but for times), and the journal must
show that no cell was started after it was written; no process may outlive its parent.

    python benchmarks/torture.py                                   # toy grid, local workers, 50 kills: about a minute
    python benchmarks/torture.py --executor ray --kills 10
    python benchmarks/torture.py --protocol digits-tiny --kills 50 --linger 3

Exits with 1 if a promise was broken. Linux only: processes are watched through /proc.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from builders.kills import Command, torment, toy_command


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--executor", choices=("local", "ray"), default="local")
    parser.add_argument("--kills", type=int, default=50, help="at least so many")
    parser.add_argument("--protocol", help="run this protocol instead of the toy grid")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--linger", type=float, help="seconds after the first computation, or the start, until a kill")
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    return parser.parse_args(arguments)


def make_command(chosen: argparse.Namespace) -> Command:
    """Build the command line of one run on a given store."""
    options = ["--executor", chosen.executor, "--workers", str(chosen.workers)]
    if chosen.protocol:
        program = [sys.executable, "-m", "sfra", "bench", "run", chosen.protocol, "--quiet"]
        return lambda store: [*program, "--store", str(store), *options]
    return toy_command(*options, "--sleep", "0.05", "--size", "20")


def tables(protocol: str, store: Path) -> list[object]:
    """Make the tables of a protocol, but for the one that holds seconds."""
    from sfra.bench.report import make_report

    return [table.to_dict() for table in make_report(protocol, store).tables if table.label != "probe-cost"]


def main() -> int:
    """Torture, report, and return the exit code."""
    chosen = parse(sys.argv[1:])
    slow = chosen.executor == "ray"
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="sfra-torture-") as folder:
        told = torment(
            make_command(chosen),
            Path(folder),
            kills=chosen.kills,
            seed=chosen.seed,
            linger=chosen.linger or (1.0 if slow else 0.4),
            patience=60.0 if slow else 10.0,
            table=(lambda store: tables(chosen.protocol, store)) if chosen.protocol else lambda store: None,
        )
    print(f"executor   {chosen.executor}, {chosen.workers} workers")
    print(f"kills      {told.kills} in {told.runs} runs, {told.rounds} rounds of {told.cells} cells")
    print(
        f"computed   {told.starts} started, {told.starts - told.cells * told.rounds} of them cut off and started again"
    )
    print(f"orphans    {told.orphans}")
    print(f"seconds    {time.monotonic() - began:.0f}")
    for problem in told.problems:
        print(f"VIOLATION  {problem}")
    print("all promises kept" if not told.problems else f"{len(told.problems)} violations")
    return 1 if told.problems else 0


if __name__ == "__main__":
    sys.exit(main())
