"""The local executor: long-lived worker processes on this machine."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from typing import IO, Any

from sfra.bench.engine.cell import pack
from sfra.bench.engine.compute import Outcome
from sfra.bench.engine.executor import ExecutorError, Order, Steps
from sfra.bench.engine.store import Store
from sfra.bench.engine.worker import arguments
from sfra.core.errors import InputError

_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_MAX_THREADS", "NUMBA_NUM_THREADS")
START_LIMIT = 300.0


class LocalExecutor:
    """Runs every cell in one of ``workers`` processes, each replaced when it crashes or overruns its time.

    Workers are fresh interpreters, never forks of this one, so CUDA and thread pools start clean in each.
    """

    def __init__(
        self,
        store: Store,
        *,
        modules: Sequence[str],
        workers: int | None = None,
        devices: Sequence[str] = ("cpu",),
        steps: Steps | None = None,
    ) -> None:
        count = cores() if workers is None else workers
        if count < 1 or not devices:
            raise InputError("there must be a worker and a device", expected="workers >= 1", got=f"{count}, {devices}")
        self._store, self._modules, self._steps = store, tuple(modules), steps
        self._threads = max(1, cores() // count)
        self._devices = [devices[place % len(devices)] for place in range(count)]
        self._workers: list[_Worker] = []
        self._selector = selectors.DefaultSelector()

    @property
    def width(self) -> int:
        """Say how many orders run at the same time."""
        return len(self._devices)

    @property
    def room(self) -> int:
        """Say how many more orders it would take now."""
        return len(self._devices) - sum(worker.order is not None for worker in self._workers)

    def submit(self, order: Order) -> None:
        """Give the order to an idle worker, or to a new one."""
        idle = [worker for worker in self._workers if worker.order is None]
        worker = idle[0] if idle else self._hire()
        worker.take(order)

    def wait(self, seconds: float) -> list[Outcome]:
        """Return outcomes as soon as there are any, or none after some seconds."""
        until = time.monotonic() + seconds
        while True:
            now = time.monotonic()
            deadlines = [worker.deadline - now for worker in self._workers]
            self._selector.select(max(0.0, min([until - now, 0.25, *deadlines])))
            ended = [outcome for worker in list(self._workers) for outcome in self._ask(worker)]
            if ended or time.monotonic() >= until:
                return ended

    def close(self) -> None:
        """Kill the workers and wait until they are gone."""
        for worker in list(self._workers):
            self._dismiss(worker)
        self._selector.close()

    def _hire(self) -> _Worker:
        taken = [worker.place for worker in self._workers]
        place = next(place for place in range(len(self._devices)) if place not in taken)
        worker = _Worker(place, self._threads)
        worker.send({"store": str(self._store.root), "modules": self._modules, "device": self._devices[place]})
        self._workers.append(worker)
        self._selector.register(worker.answers, selectors.EVENT_READ)
        return worker

    def _dismiss(self, worker: _Worker) -> None:
        self._selector.unregister(worker.answers)
        self._workers.remove(worker)
        worker.kill()

    def _ask(self, worker: _Worker) -> list[Outcome]:
        """Read a worker's answers; a dead one, or one past its limit, ends its order too."""
        ended: list[Outcome] = []
        for answer in worker.read():
            if "step" in answer and self._steps is not None:
                self._steps(answer["key"], *answer["step"])
            elif "what" in answer:
                ended.append(Outcome(**answer))
                worker.finish()
        if worker.process.poll() is not None and worker.read_to_end():
            return ended + self._bury(worker)
        if worker.order is not None and time.monotonic() > worker.deadline:
            return ended + self._overrun(worker)
        return ended

    def _bury(self, worker: _Worker) -> list[Outcome]:
        order, code, ready = worker.order, worker.process.returncode, worker.ready
        complaint = worker.complaint()
        self._dismiss(worker)
        if not ready and code >= 0:
            raise ExecutorError("a worker process does not start", got=complaint or f"exit status {code}")
        if order is None:
            return []
        how = f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit status {code}: {complaint}"
        return [Outcome(key=order.cell.key, what="crashed", message=how)]

    def _overrun(self, worker: _Worker) -> list[Outcome]:
        order, ready = worker.order, worker.ready
        assert order is not None
        self._dismiss(worker)
        if not ready:
            raise ExecutorError("a worker process does not get ready", got=f"{START_LIMIT:g} s of importing")
        return [Outcome(key=order.cell.key, what="time-limit", message=f"{order.time_limit:g} s")]


class _Worker:
    """One process: orders to its standard input, answers through a pipe, complaints of its start in a file."""

    def __init__(self, place: int, threads: int) -> None:
        self.place = place
        self.order: Order | None = None
        self.ready = False
        self.deadline = time.monotonic() + START_LIMIT
        self._rest = b""
        self._ended = False
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the process
        self.answers, theirs = os.pipe()
        os.set_blocking(self.answers, False)
        self.process = subprocess.Popen(  # noqa: S603 - our own interpreter with our own program
            arguments(theirs),
            stdin=subprocess.PIPE,
            stdout=self._errors,
            stderr=self._errors,
            pass_fds=(theirs,),
            env={**os.environ, **_thread_limits(threads)},
            start_new_session=True,
        )
        os.close(theirs)

    def send(self, message: dict[str, Any]) -> None:
        """Write one line to the worker; a dead one is found out when its answers are read."""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps(message).encode() + b"\n")
            self.process.stdin.flush()

    def take(self, order: Order) -> None:
        """Hand over an order; its clock starts when the worker is ready."""
        self.order = order
        self.send({"cell": pack(order.cell), "tag": order.tag})
        if self.ready:
            self._set_clock()

    def finish(self) -> None:
        """Note that the order has ended."""
        self.order = None
        self.deadline = float("inf")

    def read(self) -> list[dict[str, Any]]:
        """Read whole lines, as many as there are."""
        with contextlib.suppress(BlockingIOError):
            while part := os.read(self.answers, 65536):
                self._rest += part
            self._ended = True
        *lines, self._rest = self._rest.split(b"\n")
        answers = [json.loads(line) for line in lines]
        if not self.ready and any("ready" in answer for answer in answers):
            self.ready = True
            self._set_clock()
        return answers

    def read_to_end(self) -> bool:
        """Tell whether nothing is left to be read of a dead worker."""
        return self._ended or not select_ready(self.answers)

    def complaint(self) -> str:
        """Read the end of what the worker said outside of any work."""
        self._errors.seek(0)
        return self._errors.read()[-2000:].decode(errors="replace").strip()

    def kill(self) -> None:
        """Kill the worker and every process of its group."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        os.close(self.answers)
        self._errors.close()

    def _set_clock(self) -> None:
        limit = None if self.order is None else self.order.time_limit
        self.deadline = float("inf") if limit is None else time.monotonic() + limit


def select_ready(handle: int) -> bool:
    """Tell whether a pipe has something to read."""
    with selectors.DefaultSelector() as selector:
        selector.register(handle, selectors.EVENT_READ)
        return bool(selector.select(0))


def cores() -> int:
    """Count the cores that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not every platform can say
        return os.cpu_count() or 1


def _thread_limits(threads: int) -> dict[str, str]:
    """Share the cores out; a lower limit that the user has set stays."""
    return {name: str(min(threads, _number(os.environ.get(name), threads))) for name in _THREADS}


def _number(text: str | None, default: int) -> int:
    return int(text) if text is not None and text.isdigit() and int(text) > 0 else default
