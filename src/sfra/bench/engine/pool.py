"""Worker processes on this machine: each computes one cell at a time, within its time limit, and dies with the run."""

from __future__ import annotations

import ctypes
import faulthandler
import os
import signal
import sys
import threading
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, InvalidStateError
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing import parent_process
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnContext, SpawnProcess
from types import ModuleType
from typing import Any, cast

import msgspec
from pebble import ProcessExpired, ProcessPool

from sfra.bench.engine.cell import Order
from sfra.bench.engine.compute import Outcome, attempt
from sfra.bench.engine.store import Store
from sfra.bench.engine.task import load_tasks
from sfra.core.cpu import cores
from sfra.core.errors import InputError, SfraError

THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_MAX_THREADS", "NUMBA_NUM_THREADS")
STILLBORN = 3
"""Processes in a row that may die before they begin."""

MOURNING = 0.5
"""Seconds after which a process that is gone without a word counts as dead."""


class PoolError(SfraError):
    """Nothing can be computed here at all: a worker process does not start, or the cluster is not there."""


class Step(msgspec.Struct):
    """How far an attempt is; the first one says which process it runs in."""

    tag: str
    pid: int = 0
    done: int = 0
    total: int = 0
    note: str = ""


class Pool(ABC):
    """Runs orders somewhere."""

    width: int
    """How many orders run at the same time."""
    tries: int = 1
    """How often it tries an order whose process dies before it tells that one crashed."""

    @abstractmethod
    def submit(self, order: Order) -> Future[Any]:
        """Start an order; at most ``width`` of them may be under way."""

    @abstractmethod
    def outcome(self, order: Order, future: Future[Any]) -> Outcome:
        """Say how an order ended."""

    @abstractmethod
    def look(self) -> Iterator[Step]:
        """Do what is due, and tell how far orders are; called several times a second."""

    @abstractmethod
    def close(self) -> None:
        """Kill whatever still runs and take everything down."""


@dataclass
class _Seat:
    """One worker process, replaced when it dies, and what it works at."""

    device: str
    pool: ProcessPool | None = None
    future: Future[Any] | None = None
    pid: int = 0
    """Of the process that has begun the order; 0 before."""
    gone: float = 0.0
    """When that process was found to be gone."""

    def stop(self) -> Callable[[], object]:
        """Kill the process and everything that it has started; what is returned waits until it is gone."""
        if self.pid:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)
        pool, self.pool, self.pid = self.pool, None, 0
        if pool is None:
            return lambda: None
        pool.stop()  # type: ignore[no-untyped-call]
        return pool.join

    def mourn(self) -> None:
        """End the order of a process that left with status 0, which pebble does not notice."""
        if not self.pid or self.future is None:
            return
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            self.gone = self.gone or time.monotonic()
            if time.monotonic() - self.gone > MOURNING:
                with suppress(InvalidStateError):
                    self.future.set_exception(ProcessExpired("gone"))  # type: ignore[no-untyped-call]


class LocalPool(Pool):
    """A seat for each worker: a pool of one process, so that a death concerns no other."""

    def __init__(
        self, store: Store, *, modules: Sequence[str], workers: int | None = None, devices: Sequence[str] = ("cpu",)
    ) -> None:
        count = cores() if workers is None else workers
        if count < 1 or not devices:
            raise InputError("there must be a worker and a device", expected="workers >= 1", got=f"{count}, {devices}")
        self.width = count
        self._store, self._modules = store, tuple(modules)
        self._context = _Fresh(threads=max(1, cores() // count))
        self._steps, self._writer = self._context.Pipe(duplex=False)
        os.set_blocking(self._writer.fileno(), False)
        self._idle = [_Seat(devices[place % len(devices)]) for place in reversed(range(count))]
        self._busy: dict[str, _Seat] = {}
        self._stillborn = 0

    def submit(self, order: Order) -> Future[Any]:
        """Give the order to an idle worker, the one that was busy last if there are several."""
        seat = self._busy[order.tag] = self._idle.pop()
        if seat.pool is not None and not seat.pool.active:  # its process died while it had nothing to do
            seat.stop()()
        seat.pid, seat.gone = 0, 0.0
        if seat.pool is None:
            start = (self._modules, self._writer)
            seat.pool = ProcessPool(max_workers=1, initializer=_begin, initargs=start, context=self._context)
        told = order, str(self._store.root), seat.device
        seat.future = Future()
        seat.pool.schedule(_serve, args=told, timeout=order.time_limit).add_done_callback(
            partial(_pass_on, seat.future)
        )
        return seat.future

    def outcome(self, order: Order, future: Future[Any]) -> Outcome:
        """Say how an order ended; a worker that died, or was too slow, is replaced."""
        list(self.look())
        seat = self._busy.pop(order.tag)
        self._idle.append(seat)
        stillborn, self._stillborn = self._stillborn, 0
        try:
            return cast(Outcome, future.result())
        except TimeoutError:
            ended = Outcome(what="time-limit", message=f"{order.time_limit or 0:g} s")
        except (ProcessExpired, BrokenProcessPool) as problem:
            ended = Outcome(what="crashed", message=_how(problem))
            self._stillborn = 0 if seat.pid else stillborn + 1
        seat.stop()()
        if self._stillborn == STILLBORN:
            raise PoolError("worker processes do not start", got=ended.message, do="see whether memory is short")
        return ended

    def look(self) -> Iterator[Step]:
        """Tell how far orders are."""
        while self._steps.poll():
            step = msgspec.json.decode(self._steps.recv_bytes(), type=Step)
            if step.tag in self._busy:
                self._busy[step.tag].pid = step.pid
                if step.total:
                    yield step
        for seat in self._busy.values():
            seat.mourn()

    def close(self) -> None:
        """Kill the workers and wait until they are gone."""
        list(self.look())
        for wait in [seat.stop() for seat in (*self._busy.values(), *self._idle)]:
            wait()
        self._steps.close()
        self._writer.close()


class _FreshProcess(SpawnProcess):
    """A new interpreter that imports what its task needs, and not the script that started the run."""

    threads = 1

    @staticmethod
    def _Popen(process_obj: Any) -> Any:  # noqa: N802 - as multiprocessing names it
        main, before = sys.modules["__main__"], dict(os.environ)
        sys.modules["__main__"] = ModuleType("__main__")
        for name in THREADS:
            limit = before.get(name, "")
            if not limit.isdigit() or not 0 < int(limit) < process_obj.threads:  # a lower limit of the user stays
                os.environ[name] = str(process_obj.threads)
        try:
            return SpawnProcess._Popen(process_obj)
        finally:
            sys.modules["__main__"] = main
            for name in THREADS:
                os.environ.pop(name)
                os.environ |= {name: before[name]} if name in before else {}


class _Fresh(SpawnContext):
    """How workers are started: the cores are shared out among them."""

    def __init__(self, threads: int) -> None:
        super().__init__()
        self._threads = threads

    def Process(self, **given: Any) -> _FreshProcess:  # type: ignore[override]  # noqa: N802
        """Make a process, not started yet."""
        process = _FreshProcess(**given)
        process.threads = self._threads
        return process


_WORKER: dict[str, Any] = {"broken": "", "steps": None}


def _begin(modules: Sequence[str], steps: Connection) -> None:
    """Prepare a new worker process."""
    os.setsid()
    _die_with_parent()
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nothing, number)
    faulthandler.enable()
    _WORKER["steps"] = steps
    try:
        load_tasks(modules)
    except Exception:
        _WORKER["broken"] = traceback.format_exc()[-2000:]


def _serve(order: Order, root: str, device: str) -> Outcome:
    if _WORKER["broken"]:
        return Outcome(what="broken", message=_WORKER["broken"])
    return attempt(order, root, device, _steps(order.tag, _WORKER["steps"]))


def _steps(tag: str, pipe: Connection) -> Callable[[int, int, str], None]:
    """Say who is at work, then report progress, at most five times a second; a full pipe takes none."""
    last = [0.0]

    def report(done: int, total: int, note: str) -> None:
        if done >= total or time.monotonic() - last[0] >= 0.2:
            last[0] = time.monotonic()
            step = Step(tag, os.getpid(), int(done), int(total), str(note)[:500])
            with suppress(BlockingIOError):
                pipe.send_bytes(msgspec.json.encode(step))

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


def _pass_on(future: Future[Any], ended: Future[Any]) -> None:
    """Tell how an order ended, unless that is known."""
    if ended.cancelled():
        return
    problem = ended.exception()
    with suppress(InvalidStateError):
        if problem is None:
            future.set_result(ended.result())
        else:
            future.set_exception(problem)


def _how(problem: Exception) -> str:
    code = getattr(problem, "exitcode", None)
    if code is None:
        return "before it began"
    return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"
