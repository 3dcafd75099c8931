"""Compute the published experiments on a GPU, in as many sittings as it takes, and take the results home.

    python benchmarks/reproduce.py plan                              # the parts, and the minutes of each
    python benchmarks/reproduce.py run --parts vit-3 --minutes 25 --store STORE --device cuda --workers 4 --measuring 8
    python benchmarks/reproduce.py bring --parts vit-3 --store STORE --out OUT       # what is done so far
    sfra bench unpack OUT/GROUP-results.tar.gz --store STORE         # elsewhere, to go on or to keep
    python benchmarks/reproduce.py keep --store STORE --out reproduction --models OUT/*-heads.tar.gz
    python benchmarks/reproduce.py report --out reproduction-report  # all that is made of what is kept

The goals of all parts are one grid, so that the GPU is never idle between them; NVIDIA's multi-process service is
started where it is installed. Goals are finished class by class, so that a sitting may end at any time: ``bring`` may
be called while ``run`` computes. After ``--minutes`` the run ends, and it starts no training that would not end by
then; whatever it was computing is lost, but a training goes on from its last epoch if the store is the same.
``--protocols NAME…`` instead of parts computes whole protocols. ``--only NAME=VALUE,…`` computes a part of what is
asked, as ``sfra bench run`` does. Audits and probes starve on a GPU that trains: with ``--measuring 8``, eight more
workers compute them on the processor.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any

from gpu import share_gpu
from reproduction.heads import PROTOCOLS, bring, own_goals
from reproduction.parts import OTHERS, PARTS, find, minutes, seconds, turn
from sfra.bench.engine.cell import Cell, Order, reachable
from sfra.bench.engine.compute import Outcome
from sfra.bench.engine.pool import LocalPool
from sfra.bench.engine.run import run, status
from sfra.bench.engine.store import Store
from sfra.bench.engine.summary import Progress
from sfra.bench.plan import Goal, parse_only
from sfra.core.cpu import cores

MEASUREMENTS = ("audit", "diagnostics", "linear-probe", "pra")
"""Kinds of cells that rest on features alone: their many small steps wait for a GPU that trains."""

QUIET = 5.0
"""Seconds without work after which a sitting is over: all that is left would take too long."""


class TimeIsUpError(Exception):
    """The sitting is over."""


def tell(progress: Progress) -> None:
    """Print a line for each cell that ends."""
    if progress.event in ("written", "failed", "again"):
        note = f": {progress.message}" if progress.event != "written" else ""
        counts = f"{progress.done} done, {progress.left} left, {progress.failed} failed"
        label = progress.cell.label if progress.cell else ""
        print(f"{time.strftime('%H:%M:%S')}  {counts}  {progress.event} {label}{note}", flush=True)


class Sitting(LocalPool):
    """Workers until a time: what would not end by then is not started. Some measure on the processor, and only that."""

    def __init__(
        self,
        store: Store,
        *,
        cells: dict[str, Cell],
        workers: int | None = None,
        devices: Sequence[str] = ("cpu",),
        end: float = math.inf,
        measuring: int = 0,
        **options: Any,
    ) -> None:
        count = cores() if workers is None else workers
        seats = [*(devices[place % len(devices)] for place in range(count)), *("cpu",) * measuring]
        super().__init__(store, workers=len(seats), devices=seats, **options)
        self._cells, self._end, self._refused = cells, end, set[str]()
        self._measuring = {id(seat) for seat in self._idle[:measuring]}  # the last places come first
        self._worked = time.monotonic()

    def submit(self, order: Order) -> Future[Any]:
        """Start an order, or answer that it is taken, for the run to look at it again."""
        measures = bool(self._measuring) and order.kind in MEASUREMENTS
        seats = [seat for seat in self._idle if (id(seat) in self._measuring) is measures]
        if seats and self._ends_in_time(order):
            self._idle = [seat for seat in self._idle if seat is not seats[-1]] + seats[-1:]
            return super().submit(order)
        self._refused.add(order.tag)
        answer: Future[Any] = Future()
        answer.set_result(Outcome(what="locked"))
        return answer

    def outcome(self, order: Order, future: Future[Any]) -> Outcome:
        """Say how an order ended."""
        return future.result() if order.tag in self._refused else super().outcome(order, future)

    def look(self) -> Any:
        """Tell how far orders are, as long as there is time and something that ends in it."""
        now = time.monotonic()
        self._worked = now if self._busy else self._worked
        if now > min(self._end, self._worked + QUIET):
            self._end = self._worked = math.inf
            raise TimeIsUpError
        return super().look()

    def _ends_in_time(self, order: Order) -> bool:
        training = sum(id(seat) not in self._measuring for seat in self._busy.values())
        took = (1 + OTHERS * training) * seconds(self._cells[order.key])
        return order.kind not in ("train", "unlearn") or time.monotonic() + took < self._end


def wanted(asked: argparse.Namespace) -> list[tuple[str, Goal]]:
    """List the goals of parts, or of protocols, in turn, each once."""
    if asked.parts:
        return list({g.cell.key: (name, g) for part in find(asked.parts).values() for name, g in part.goals()}.values())
    goals = [(name, goal) for name, some in own_goals(asked.protocols) for goal in some]
    return sorted(goals, key=lambda one: turn(one[1]))


def compute(asked: argparse.Namespace) -> int:
    """Compute what the store lacks."""
    store, only = Store(asked.store), parse_only(asked.only)
    cells = [goal.cell for _, goal in wanted(asked) if goal.matches(only)]
    if asked.device.startswith("cuda"):
        share_gpu()
    options: dict[str, Any] = {"workers": asked.workers, "devices": tuple(asked.device.split(","))}
    if asked.minutes or asked.measuring:
        end = time.monotonic() + 60 * asked.minutes if asked.minutes else math.inf
        options["executor"] = partial(Sitting, cells=reachable(cells), end=end, measuring=asked.measuring)
    try:
        summary = run(cells, store, in_turn=True, progress=tell, **options)
    except TimeIsUpError:
        summary = status(cells, store)
    print(summary)
    return 0 if summary.complete else 1


def show(asked: argparse.Namespace) -> None:
    """Print the parts and the minutes of one GPU that each takes, after those before it."""
    store = Store(asked.store, read_only=True) if asked.store and asked.store.exists() else None
    parts, total = find(asked.parts or list(PARTS)), 0.0
    for name, each in minutes(parts, store.is_done if store else lambda _: False):
        total += each
        print(f"{name:12} {each:6.1f} min {total:6.1f} in all  {parts[name].what}")


def main() -> int:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True, dest="command")
    of = {name: commands.add_parser(name) for name in ("plan", "run", "bring", "keep", "report")}
    for name, command in of.items():
        if name != "report":
            command.add_argument("--store", type=Path, required=name != "plan")
        if name in ("plan", "run", "bring"):
            command.add_argument("--parts", nargs="+", metavar="PART", help=", ".join(PARTS))
        if name in ("run", "bring", "keep"):
            command.add_argument("--protocols", nargs="+", default=PROTOCOLS)
        if name in ("bring", "keep", "report"):
            command.add_argument("--out", type=Path, required=True)
    of["run"].add_argument("--device", default="cpu")
    of["run"].add_argument("--workers", type=int)
    of["run"].add_argument(
        "--minutes", type=float, help="end after these, and start nothing that would not end by then"
    )
    of["run"].add_argument("--only", help="only a part, such as method=retrained")
    of["run"].add_argument("--measuring", type=int, default=0, help="workers besides, which measure on the processor")
    of["bring"].add_argument("--originals", action="store_true", help="the original models too, to go on elsewhere")
    of["keep"].add_argument("--models", type=Path, nargs="*", default=[], help="archives with facts and heads")
    asked = parser.parse_args()
    if asked.command == "plan":
        show(asked)
    elif asked.command == "run":
        return compute(asked)
    elif asked.command == "bring":
        for file in bring(wanted(asked), Store(asked.store, read_only=True), asked.out, originals=asked.originals):
            print(f"{file}: {file.stat().st_size / 2**20:.1f} MiB")
    elif asked.command == "keep":
        from reproduction.keep import keep

        keep(asked.protocols, Store(asked.store, read_only=True), asked.out, asked.models)
    else:
        from reproduction.report import make_documents, make_report

        make_documents()
        make_report(asked.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
