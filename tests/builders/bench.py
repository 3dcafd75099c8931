"""Toy tasks: numbers instead of networks, some of them ill-behaved, importable by worker processes."""

from __future__ import annotations

import argparse
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from sfra.bench.engine.cell import Cell, Order, order
from sfra.bench.engine.compute import Outcome, compute
from sfra.bench.engine.pool import Pool, Step
from sfra.bench.engine.run import run
from sfra.bench.engine.store import Store
from sfra.bench.engine.task import Context, load_tasks, task
from sfra.core.errors import NotFiniteError

Settings = dict[str, Any]


@task("number")
def number(settings: Settings, inputs: dict[str, Path], out: Path, context: Context) -> dict[str, Any]:
    """Sleep a little, then write down the number of the settings."""
    time.sleep(settings.get("sleep", 0.0))
    (out / "value.txt").write_text(str(settings["value"]))
    return {"value": settings["value"]}


@task("sum", version=3)
def total(settings: Settings, inputs: dict[str, Path], out: Path, context: Context) -> dict[str, Any]:
    """Add up the numbers in the inputs' files."""
    time.sleep(settings.get("sleep", 0.0))
    parts = {role: int((folder / "value.txt").read_text()) for role, folder in inputs.items()}
    (out / "value.txt").write_text(str(sum(parts.values())))
    context.progress(len(parts), len(parts), "added")
    return {"value": sum(parts.values()), "parts": parts}


@task("trouble")
def trouble(settings: Settings, inputs: dict[str, Path], out: Path, context: Context) -> dict[str, Any]:
    """Do what the settings say, none of it good."""
    (out / "half.txt").write_text("half")
    print("about to", settings["how"], flush=True)  # noqa: T201 - it is what the failure record must show
    result: dict[str, Any] = TROUBLES[settings["how"]](settings, context)
    return result


@task("surroundings")
def surroundings(settings: Settings, inputs: dict[str, Path], out: Path, context: Context) -> dict[str, Any]:
    """Tell what a work finds around it; the second of two is started before the first has ended."""
    time.sleep(0.3)
    facts = {"threads": os.environ["OMP_NUM_THREADS"], "mkl": os.environ["MKL_NUM_THREADS"], "pid": os.getpid()}
    return {**facts, "device": context.device, "stdin": sys.stdin.read()}


def _throw(problem: Exception) -> None:
    raise problem


def _suicide(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _hang(settings: Settings, context: Context) -> dict[str, Any]:
    while True:
        time.sleep(1)


def _crash_twice(settings: Settings, context: Context) -> dict[str, Any]:
    """Die the first two times; the scratch folder survives and counts."""
    tries = len(list(context.scratch.iterdir()))
    (context.scratch / f"{tries}").write_text("")
    if tries < 2:
        _suicide()
    return {"tries": tries + 1}


def _leave_child(settings: Settings, context: Context) -> dict[str, Any]:
    """Die and leave a forked child behind, as a data loader might; it must not keep the lock."""
    if os.fork() == 0:
        os.setsid()
        time.sleep(settings["seconds"])
        os._exit(0)
    _suicide()
    return {}


def _start_child(settings: Settings, context: Context) -> dict[str, Any]:
    """Start a process, say which, and never end."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    Path(settings["tell"]).write_text(str(child.pid))
    return _hang(settings, context)


TROUBLES: dict[str, Any] = {
    "raise": lambda settings, context: _throw(ValueError("seven is not a prime")),
    "diverge": lambda settings, context: _throw(NotFiniteError("the weights are not finite", got="nan after epoch 3")),
    "hang": _hang,
    "segfault": lambda settings, context: ctypes.string_at(0),
    "suicide": _suicide,
    "leave": lambda settings, context: os._exit(0),
    "exit": lambda settings, context: sys.exit(3),
    "crash twice": _crash_twice,
    "leave a child": _leave_child,
    "start a child": _start_child,
    "be refused": lambda settings, context: _throw(PermissionError(13, "Permission denied", settings["place"])),
    "fill the disk": lambda settings, context: _throw(OSError(28, "No space left on device")),
    "return a set": lambda settings, context: {"value": {1, 2}},
    "return nan": lambda settings, context: {"scores": [0.5, float("nan")]},
    "return a list": lambda settings, context: [1, 2],
}


def make_grid(size: int, sleep: float) -> list[Cell]:
    """Build ``size`` sums of three shared numbers and, on top of every two sums, another sum."""
    leaves = [Cell(kind="number", settings={"value": value, "sleep": sleep}) for value in range(size)]
    sums = [
        Cell(
            kind="sum",
            settings={"sleep": sleep},
            needs={name: leaves[(place + step) % size] for step, name in enumerate("abc")},
            label=f"sum {place}",
        )
        for place in range(size)
    ]
    pairs = zip(sums[::2], sums[1::2], strict=False)
    return sums + [Cell(kind="sum", settings={"sleep": sleep}, needs={"a": a, "b": b}) for a, b in pairs]


def make_trouble(how: str, **settings: object) -> Cell:
    """Build a cell that goes wrong."""
    return Cell(kind="trouble", settings={"how": how, **settings})


def put(store: Store, *cells: Cell) -> list[str]:
    """Compute cells in this process and say how each ended."""
    return [compute(order(cell), store).what for cell in cells]


class Here(Pool):
    """Computes in this process, one order after the other."""

    width = 1

    def __init__(self, store: Store, *, modules: Sequence[str] = (), **settings: object) -> None:
        self.store = store
        load_tasks(modules)

    def submit(self, order: Order) -> Future[Any]:
        """Compute an order before anything else is done."""
        future: Future[Any] = Future()
        future.set_result(self.work(order))
        return future

    def work(self, order: Order) -> Outcome:
        """Compute an order."""
        return compute(order, self.store)

    def outcome(self, order: Order, future: Future[Any]) -> Outcome:
        """Say how an order ended."""
        ended = future.result()
        assert isinstance(ended, Outcome)
        return ended

    def look(self) -> Iterator[Step]:
        """Tell nothing: whoever asks comes too late."""
        return iter(())

    def close(self) -> None:
        """There is nothing to take down."""


@contextmanager
def in_this_process() -> Iterator[None]:
    """Let local workers be this process, which has imported torch already; a new one takes seconds to."""
    with patch("sfra.bench.engine.run.LocalPool", Here):
        yield


def main() -> None:
    """Run the toy grid in a store: what the tests of killed runs kill."""
    parser = argparse.ArgumentParser()
    parser.add_argument("store", type=Path)
    parser.add_argument("--executor", default="local")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--size", type=int, default=10)
    parser.add_argument("--sleep", type=float, default=0.03)
    chosen = parser.parse_args()
    grid = make_grid(chosen.size, chosen.sleep)
    summary = run(grid, Store(chosen.store), executor=chosen.executor, workers=chosen.workers)
    sys.exit(0 if summary.complete else 1)
