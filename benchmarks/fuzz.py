"""Feed odd and hostile inputs to the command line, each in a process of its own, and count what comes of them.

    python benchmarks/fuzz.py --inputs 2016 --seed 0 1 2 3 4 --out benchmarks/results/fuzz.csv

Every input comes from the seed and its number: a whole one of some kind, changed at random, or a file that was made to
do harm. A process that was forked from a warm one reads it, with limits on time and memory, and an audit hook that
notes other programs, connections and files written elsewhere. An input must be read (``ok``) or refused with one
message and exit code 2 (``refused``); anything else is a defect, kept in ``--keep`` with its command. Exits with 1 if
there is one. ``--only KIND:NUMBER`` repeats a single input. Linux only.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import gc
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from fuzzing import hostile, kinds, settings
from fuzzing.outcome import DEFECTS, OK, REFUSED, Child, Limits, Outcome

KINDS: dict[str, kinds.Kind] = {
    "head": kinds.head,
    "features": kinds.features,
    "state-dict": kinds.state_dict,
    "model-directory": kinds.directory,
    "onnx": kinds.onnx,
    "audit.json": kinds.audit_json,
    "table": kinds.tables,
    "image-folder": kinds.images,
    "recipe": settings.recipe,
    "protocol": settings.protocol,
    "packed-store": settings.packed,
    "command-line": settings.command_line,
    "hostile-pickle": hostile.pickles,
    "hostile-directory": hostile.code_in_directories,
    "hostile-path": hostile.outside,
    "hostile-size": hostile.bombs,
    "hostile-text": hostile.scripts,
    "hostile-reference": hostile.earlier,
}
"""Every kind of input; they take turns."""

MUST_REFUSE = ("hostile-reference",)
"""Kinds of which none may be read."""

Input = tuple[str, int, int]
"""Kind, seed and number."""


def prepare(folder: Path) -> Callable[[Sequence[str]], int]:
    """Write the whole inputs, import and compile everything once, and return what runs a command."""
    import torch

    from fuzzing.seeds import write_seeds
    from sfra.cli import main
    from sfra.unlearn import make

    torch.set_num_threads(1)
    os.environ["SFRA_CACHE"] = str(folder / "cache")
    write_seeds(folder)

    def begun(*arguments: object, **settings: object) -> None:
        raise SystemExit(0)  # the recipe was read: how long it trains is the user's business

    make.train = begun  # type: ignore[assignment]
    gc.collect()
    gc.freeze()  # so that collecting does not touch, and so copy, every page in every child
    return main


def feed(folder: Path, inputs: Sequence[Input], asked: argparse.Namespace) -> Iterator[tuple[str, int, int, Outcome]]:
    """Run the inputs, several at a time, and yield what came of each."""
    run, running, left = prepare(folder), dict[int, tuple[Input, Child]](), list(reversed(inputs))
    limits = Limits(seconds=asked.seconds)
    while left or running:
        while left and len(running) < asked.workers:
            kind, seed, number = left.pop()
            chance = random.Random(f"{seed} {kind} {number}")  # noqa: S311 - inputs, not secrets
            place = folder / "inputs" / f"{kind}-{seed}-{number}"

            def make(place: Path, kind: str = kind, chance: random.Random = chance) -> Sequence[str]:
                return KINDS[kind](folder, place, chance)

            child = Child(kind, make, run, place, limits)
            running[child.pid] = ((kind, seed, number), child)
        for pid, (about, child) in [*running.items()]:
            if (outcome := child.poll()) is not None:
                del running[pid]
                outcome = _strict(outcome, child.place)
                if outcome.result in DEFECTS and asked.keep is not None:
                    shutil.copytree(child.place, asked.keep / child.place.name, symlinks=True, ignore=_odd)
                shutil.rmtree(child.place, ignore_errors=True)
                yield *about, outcome
        time.sleep(0.002)


def _odd(folder: str, names: list[str]) -> list[str]:
    return [name for name in names if not (Path(folder, name).is_file() or Path(folder, name).is_dir())]


def _strict(outcome: Outcome, place: Path) -> Outcome:
    """Count it as a defect where what must be refused was read, or a page holds what would run."""
    page = place / "page.html"
    text = page.read_text(encoding="utf-8", errors="replace") if page.is_file() else ""
    shown = "".join((place / name).read_text("utf-8", "replace") for name in ("stdout.txt", "stderr.txt"))
    runs = any(evil in text for evil in hostile.EVIL) or "\x1b" in shown
    believed = outcome.kind in MUST_REFUSE and outcome.result == OK
    if not (runs or believed):
        return outcome
    why = "a page or a terminal that acts upon it" if runs else "wrong numbers were believed"
    return Outcome(kind=outcome.kind, result="executed", detail=why, seconds=outcome.seconds, memory=outcome.memory)


def choose(asked: argparse.Namespace) -> list[Input]:
    """List the inputs to run: all kinds in turn, or those of one kind, or a single one; of every seed."""
    kind, _, number = (asked.only or "").partition(":")
    numbers = [int(number)] if number else range(asked.inputs)
    return [(kind or [*KINDS][at % len(KINDS)], seed, at) for seed in asked.seed for at in numbers]


def table(outcomes: Sequence[Outcome]) -> list[list[str]]:
    """Count the outcomes by kind of input; the largest time and memory beside them."""
    rows = [["kind", "inputs", OK, REFUSED, *DEFECTS, "longest s", "most MiB"]]
    for kind in (*KINDS, "all"):
        mine = [one for one in outcomes if kind in (one.kind, "all")]
        if mine:
            counts = Counter(one.result for one in mine)
            most = [f"{max(one.seconds for one in mine):.1f}", f"{max(one.memory for one in mine) / 2**20:.0f}"]
            rows.append([kind, str(len(mine)), *(str(counts[name]) for name in (OK, REFUSED, *DEFECTS)), *most])
    return rows


def main(arguments: Sequence[str] | None = None) -> int:
    """Fuzz, print the counts and return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--inputs", type=int, default=1000)
    parser.add_argument("--seed", type=int, nargs="+", default=[0], help="as many inputs of each")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=Limits.seconds, help="of one input")
    parser.add_argument("--only", metavar="KIND[:NUMBER]", help="one kind of inputs, or one input")
    parser.add_argument("--keep", type=Path, help="folder for inputs that show a defect")
    parser.add_argument("--out", type=Path, help="file for the counts, .csv")
    chosen = parser.parse_args(arguments)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
    found: list[Outcome] = []
    with tempfile.TemporaryDirectory(prefix="sfra-fuzz-") as name:
        folder = Path(name)
        (folder / "proof").mkdir()
        print(f"{hostile.prove(folder / 'proof')} of {hostile.WAYS} bombs go off where they are opened without care")
        with contextlib.suppress(KeyboardInterrupt):  # counts what was done so far
            for kind, seed, number, outcome in feed(folder, choose(chosen), chosen):
                found.append(outcome)
                if outcome.result in DEFECTS or (chosen.only and ":" in chosen.only):
                    told = f"{outcome.result}: {kind}:{number}, seed {seed} ({outcome.seconds:.1f} s): {outcome.detail}"
                    print(told, flush=True)
    rows = table(found)
    for row in rows:
        print("  ".join(f"{cell:>{18 if at == 0 else 10}}" for at, cell in enumerate(row)))
    if chosen.out is not None:
        with chosen.out.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerows(rows)
    return 1 if any(one.result in DEFECTS for one in found) else 0


if __name__ == "__main__":
    sys.exit(main())
