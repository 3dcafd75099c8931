"""Worker processes on this machine: each computes one cell at a time, within its time limit, and dies with the run."""

from __future__ import annotations

import ctypes
import faulthandler
import math
import os
import signal
import sys
import threading
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import connection, get_context, parent_process
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from types import ModuleType

from sfra.bench.engine.cell import Order
from sfra.bench.engine.compute import Outcome, attempt
from sfra.bench.engine.store import Store
from sfra.bench.engine.task import load_tasks
from sfra.core.cpu import cores
from sfra.core.errors import InputError, SfraError

THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_MAX_THREADS", "NUMBA_NUM_THREADS")
STILLBORN = 3
"""Processes in a row that may die before they begin."""


class PoolError(SfraError):
    """Nothing can be computed here at all: a worker process does not start, or the cluster is not there."""


@dataclass(frozen=True)
class Step:
    """How far an attempt is; the first one, of no total, says that it has begun."""

    done: int
    total: int
    note: str


class Pool(ABC):
    """Runs orders somewhere."""

    width: int
    """How many orders run at the same time."""
    tries: int = 1
    """How often it tries an order whose process dies before it tells that one crashed."""

    @abstractmethod
    def submit(self, order: Order) -> None:
        """Start an order; at most ``width`` of them may be under way."""

    @abstractmethod
    def wait(self, seconds: float) -> Iterator[tuple[Order, Step | Outcome]]:
        """Wait at most so long for news of orders: how far one is, or how it ended."""

    @abstractmethod
    def close(self) -> None:
        """Kill whatever still runs and take everything down."""


class _Seat:
    """One worker process, replaced when it dies, and what it works at."""

    process: SpawnProcess | None = None
    pipe: Connection
    order: Order
    begun: bool
    until: float
    """When the time limit is over, counted from the beginning."""

    def __init__(self, device: str) -> None:
        self.device = device

    def begin(self, order: Order, root: str, modules: Sequence[str], threads: int) -> None:
        """Give an order to the process; to a new one if there is none, or it died while it had nothing to do."""
        self.order, self.begun, self.until = order, False, math.inf
        if not self.is_alive():
            self.pipe, theirs = get_context("spawn").Pipe()
            self.process = get_context("spawn").Process(target=_work, args=(modules, theirs))
            with _fresh(threads):
                self.process.start()
            theirs.close()
        with suppress(OSError):  # it has died this moment, which will be heard
            self.pipe.send((order, root, self.device))

    def is_alive(self) -> bool:
        """Tell whether there is a process."""
        return self.process is not None and self.process.is_alive()

    def hear(self) -> Iterator[Step | Outcome]:
        """Yield what the process says, at last an outcome; its own last word counts more than how it ended."""
        gone = not self.is_alive()
        while (news := self._next()) is not None:
            if isinstance(news, Exception):
                raise news
            if isinstance(news, Outcome) or news.total:
                yield news
            elif not self.begun:
                self.begun, self.until = True, time.monotonic() + (self.order.time_limit or math.inf)
        if gone:
            assert self.process is not None
            yield Outcome(what="crashed", message=_how(self.process.exitcode or 0))
        elif time.monotonic() > self.until:
            yield Outcome(what="time-limit", message=f"{self.order.time_limit:g} s")

    def _next(self) -> Step | Outcome | Exception | None:
        with suppress(EOFError, OSError):  # it is gone
            if self.pipe.poll():
                news: Step | Outcome | Exception = self.pipe.recv()
                return news
        return None

    def kill(self) -> None:
        """Kill the process and everything that it has started, and wait until it is gone."""
        if self.process is not None and self.process.pid is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.kill()
            self.process.join()


class LocalPool(Pool):
    """A seat for each worker, so that a death concerns no other."""

    def __init__(
        self, store: Store, *, modules: Sequence[str], workers: int | None = None, devices: Sequence[str] = ("cpu",)
    ) -> None:
        count = cores() if workers is None else workers
        if count < 1 or not devices:
            raise InputError("there must be a worker and a device", expected="workers >= 1", got=f"{count}, {devices}")
        self.width = count
        self._root, self._modules = str(store.root), tuple(modules)
        self._idle = [_Seat(devices[place % len(devices)]) for place in reversed(range(count))]
        self._busy: list[_Seat] = []
        self._stillborn = 0

    def submit(self, order: Order) -> None:
        """Give the order to an idle worker, the one that was busy last if there are several."""
        seat = self._idle.pop()
        self._busy.append(seat)
        seat.begin(order, self._root, self._modules, max(1, cores() // self.width))

    def wait(self, seconds: float) -> Iterator[tuple[Order, Step | Outcome]]:
        """Wait for news; a worker that died, or was too slow, is replaced."""
        connection.wait([seat.pipe for seat in self._busy], seconds)
        for seat in [*self._busy]:
            for news in seat.hear():
                if isinstance(news, Step):
                    yield seat.order, news
                else:
                    self._rise(seat, news)
                    yield seat.order, news
                    break

    def close(self) -> None:
        """Kill the workers; of one that is gone for long, the number may be another's by now."""
        for seat in [*self._busy, *(seat for seat in self._idle if seat.is_alive())]:
            seat.kill()

    def _rise(self, seat: _Seat, ended: Outcome) -> None:
        self._busy.remove(seat)
        self._idle.append(seat)
        self._stillborn = 0 if seat.begun else self._stillborn + 1
        if ended.what in ("crashed", "time-limit"):
            seat.kill()
        if self._stillborn == STILLBORN:
            raise PoolError("worker processes do not start", got=ended.message, do="see whether memory is short")


@contextmanager
def _fresh(threads: int) -> Iterator[None]:
    """Start a process here: it imports what its task needs, not the script that started the run, and shares the cores.

    A lower limit that the user has set for its threads stays.
    """
    main, before = sys.modules["__main__"], dict(os.environ)
    sys.modules["__main__"] = ModuleType("__main__")
    for name in THREADS:
        limit = before.get(name, "")
        if not limit.isdigit() or not 0 < int(limit) < threads:
            os.environ[name] = str(threads)
    try:
        yield
    finally:
        sys.modules["__main__"] = main
        for name in THREADS:
            os.environ.pop(name)
            os.environ |= {name: before[name]} if name in before else {}


def _work(modules: Sequence[str], pipe: Connection) -> None:
    """Compute orders as they come: what a worker process does."""
    os.setsid()
    _die_with_parent()
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nothing, number)
    faulthandler.enable()
    broken = ""
    try:
        load_tasks(modules)
    except Exception:
        broken = traceback.format_exc()[-2000:]
    while True:
        order, root, device = pipe.recv()
        tell = _steps(pipe)
        try:
            ended = Outcome(what="broken", message=broken) if broken else attempt(order, root, device, tell)
        except Exception as problem:  # not the cell's fault, or it would be an outcome
            problem.add_note(traceback.format_exc())
            pipe.send(problem)
        else:
            pipe.send(ended)


def _steps(pipe: Connection) -> Callable[[int, int, str], None]:
    """Say that an order has begun, then report its progress, at most five times a second."""
    last = 0.0

    def report(done: int, total: int, note: str) -> None:
        nonlocal last
        if done >= total or time.monotonic() - last >= 0.2:
            last = time.monotonic()
            pipe.send(Step(int(done), int(total), str(note)[:500]))

    report(0, 0, "")
    return report


def _die_with_parent() -> None:
    """Die when the run dies: at once on Linux, elsewhere as soon as its end of a pipe is closed."""
    parent = parent_process()
    assert parent is not None
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
        if os.getppid() != parent.pid:
            os._exit(1)

    def watch() -> None:
        parent.join()
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()


def _how(code: int) -> str:
    return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"
