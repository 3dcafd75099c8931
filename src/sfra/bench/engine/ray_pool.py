"""The same orders as Ray tasks: on a cluster, or on this machine through Ray."""

from __future__ import annotations

import inspect
import os
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from typing import Any

from sfra.bench.engine.cell import Order
from sfra.bench.engine.compute import Outcome, attempt
from sfra.bench.engine.pool import Pool, PoolError, Step
from sfra.bench.engine.store import Store
from sfra.bench.engine.task import load_tasks
from sfra.core.errors import MissingPackageError

OBJECT_STORE = 100 * 2**20
"""Bytes for Ray's shared memory: nothing but orders and outcomes goes through it."""

_QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_DEDUP_LOGS_SKIP_REGEX": "A worker died or was killed|Task run_attempt failed",  # the failure record says it
}
"""Settings that Ray reads while it is imported."""


@dataclass
class _Flight:
    """An order on its way, and since when its present attempt runs."""

    order: Order
    reference: Any
    log: int = 0
    began: float = 0.0
    overran: bool = False


class RayPool(Pool):
    """Runs every cell as a Ray task of its own; the store must be a folder that all machines see.

    Ray tries a task again when its process or machine dies. A time limit counts from the moment at which the task has
    claimed the cell, not from when it was queued. The first of the devices is every task's, unless its kind asks for a
    GPU; without an address Ray is started on this machine, and stopped at the end.
    """

    tries = 3

    def __init__(
        self,
        store: Store,
        *,
        modules: Sequence[str],
        workers: int | None = None,
        devices: Sequence[str] = ("cpu",),
        address: str | None = None,
        resources: Mapping[str, Mapping[str, float | int]] | None = None,
    ) -> None:
        self._ray = _import_ray()
        self._store, self._modules, self._device = store, tuple(modules), devices[0]
        self._resources = resources or {}
        self._flying: dict[str, _Flight] = {}
        self._ours = address is None and not self._ray.is_initialized()
        with quiet():
            self._connect(address, workers)
            self._total = self._ray.cluster_resources()
        self.width = max(1, int(self._total.get("CPU", 1)) if workers is None else workers)
        self._task = self._ray.remote(max_retries=self.tries - 1)(_portable())

    def submit(self, order: Order) -> Future[Any]:
        """Start a task for the order, or queue it with Ray."""
        takes = self._takes(order)
        device = "cuda" if takes.get("num_gpus") else self._device
        paths = [os.path.abspath(entry or ".") for entry in sys.path]
        task = self._task.options(**takes)
        reference = task.remote(paths, list(self._modules), asdict(order), str(self._store.root), device)
        self._flying[order.tag] = _Flight(order, reference)
        future: Future[Any] = reference.future()
        return future

    def outcome(self, order: Order, future: Future[Any]) -> Outcome:
        """Say how an order ended."""
        flight = self._flying.pop(order.tag)
        try:
            return Outcome(**future.result())
        except self._ray.exceptions.RayTaskError as problem:  # not the cell's fault, or it would be an outcome
            raise problem.cause from None
        except self._ray.exceptions.RayError as problem:
            if flight.overran:
                return Outcome(what="time-limit", message=f"{order.time_limit or 0:g} s")
            lines = [line for line in str(problem).strip().splitlines() if line.strip()]
            return Outcome(what="crashed", message=f"{type(problem).__name__}: {lines[0] if lines else ''}"[:500])

    def look(self) -> Iterator[Step]:
        """Cancel tasks whose limit is over; progress within a cell does not leave the task."""
        for flight in self._flying.values():
            limit = flight.order.time_limit
            if limit is None or flight.overran:
                continue
            with suppress(OSError):  # the output of an attempt is a new file
                log = self._store.log(flight.order).stat().st_ino
                if log != flight.log:
                    flight.log, flight.began = log, time.monotonic()
            if flight.began and time.monotonic() - flight.began > limit:
                flight.overran = self._store.is_claimed(flight.order)
                flight.began = 0.0  # of an attempt that died, while Ray starts the next one
                if flight.overran:
                    with quiet():
                        self._ray.cancel(flight.reference, force=True)
        return iter(())

    def close(self) -> None:
        """Cancel what still runs; stop Ray if it was started here."""
        references = [flight.reference for flight in self._flying.values()]
        with quiet():
            for reference in references:
                self._ray.cancel(reference, force=True)
            if references:
                self._ray.wait(references, num_returns=len(references), timeout=10)
            self._flying.clear()
            if self._ours:
                self._ray.shutdown()

    def _connect(self, address: str | None, workers: int | None) -> None:
        if self._ray.is_initialized():
            return
        here = {"num_cpus": workers, "include_dashboard": False, "object_store_memory": OBJECT_STORE}
        options = {"address": address} if address else {"address": "local", **here}
        try:
            self._ray.init(log_to_driver=False, logging_level="ERROR", **options)
        except (ConnectionError, ValueError, RuntimeError) as problem:
            raise PoolError(
                "Ray does not start", got=problem, do="check the address, or use --executor local"
            ) from None

    def _takes(self, order: Order) -> dict[str, float]:
        takes = {"num_cpus": 1.0, **self._resources.get(order.kind, self._resources.get("*", {}))}
        if self._device.startswith("cuda"):
            takes.setdefault("num_gpus", 1.0)
        for name, total in (("num_cpus", "CPU"), ("num_gpus", "GPU")):
            if self._ours and takes.get(name, 0.0) > self._total.get(total, 0.0):
                raise PoolError(
                    f"no machine here can run a cell of kind {order.kind}",
                    expected=f"{name} of at most {self._total.get(total, 0.0):g}",
                    got=f"{takes[name]:g}",
                    do="lower the resources of this kind, or give the address of a cluster",
                )
        return takes


def serve(modules: list[str], order: dict[str, Any], root: str, device: str) -> dict[str, Any]:
    """Compute a cell inside a Ray task."""
    try:
        load_tasks(modules)
    except Exception:
        return {"what": "broken", "message": traceback.format_exc()[-2000:]}
    return asdict(attempt(Order(**order), root, device, lambda done, total, note: None))


def _portable() -> Callable[..., dict[str, Any]]:
    """Build a function that carries its own code, so that a task can find this package by our own search path."""

    def run_attempt(paths: list[str], *arguments: Any) -> dict[str, Any]:
        import sys

        sys.path += [path for path in paths if path not in sys.path]
        from sfra.bench.engine.ray_pool import serve

        return serve(*arguments)

    bare: Callable[..., dict[str, Any]] = inspect.unwrap(run_attempt)  # decorators may not travel
    return bare


@contextmanager
def quiet() -> Iterator[None]:
    """Keep Ray's own warnings about unclosed files and coming changes to itself."""
    with warnings.catch_warnings():
        for category in (ResourceWarning, FutureWarning, DeprecationWarning):
            warnings.simplefilter("ignore", category)
        yield


def _import_ray() -> Any:
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)
    try:
        with quiet():
            import ray
            import ray.exceptions
    except ImportError:
        raise MissingPackageError("the ray executor needs the ray package", do="pip install 'sfra[ray]'") from None
    return ray
