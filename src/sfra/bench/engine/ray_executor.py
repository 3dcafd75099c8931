"""The Ray executor: the same orders on a cluster, or on this machine through Ray."""

from __future__ import annotations

import contextlib
import inspect
import os
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sfra.bench.engine.cell import Cell, pack, unpack
from sfra.bench.engine.compute import Outcome, compute
from sfra.bench.engine.executor import ExecutorError, Order, Steps
from sfra.bench.engine.store import Store
from sfra.bench.engine.work import Context, load_works
from sfra.core.errors import MissingPackageError

OBJECT_STORE = 100 * 2**20
"""Bytes for Ray's shared memory: nothing but orders and outcomes goes through it."""

_QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_DEDUP_LOGS_SKIP_REGEX": "A worker died or was killed",  # it would go to stdout; the failure record says it
}
"""Settings that Ray reads while it is imported."""


class RayExecutor:
    """Runs every cell as a Ray task of its own; the store must be a folder that all machines see.

    A time limit counts from the moment at which the task has taken the cell's lock, not from when it was queued.
    """

    def __init__(
        self,
        store: Store,
        *,
        modules: Sequence[str],
        workers: int | None = None,
        devices: Sequence[str] = ("cpu",),
        steps: Steps | None = None,
        address: str | None = None,
        resources: Mapping[str, Mapping[str, float | int]] | None = None,
    ) -> None:
        """Connect to Ray.

        Args:
            store: Where the cells are kept.
            modules: Modules that register the works.
            workers: Tasks in flight at the same time; by default one per CPU of the cluster.
            devices: The first one is every task's device, unless its kind asks for a GPU.
            steps: Not used: progress within a cell does not leave the task.
            address: Of a running cluster, or ``auto``; None starts Ray on this machine and stops it at the end.
            resources: What a task of each kind takes (``num_cpus``, ``num_gpus``, ``memory``); ``*`` for the others.
        """
        self._ray = _import_ray()
        self._store, self._modules, self._device = store, tuple(modules), devices[0]
        self._resources = {kind: dict(each) for kind, each in (resources or {}).items()}
        self._flying: dict[Any, _Flight] = {}
        self._ours = address is None and not self._ray.is_initialized()
        with quiet():
            self._connect(address, workers)
            self._total = self._ray.cluster_resources()
        self.width = max(1, int(self._total.get("CPU", 1)) if workers is None else workers)
        self._task = self._ray.remote(max_retries=0)(_portable())

    @property
    def room(self) -> int:
        """Say how many more orders it would take now."""
        return self.width - len(self._flying)

    def submit(self, order: Order) -> None:
        """Start a task for the order, or queue it with Ray."""
        takes = self._takes(order.cell)
        device = "cuda" if takes.get("num_gpus") else self._device
        paths = [os.path.abspath(entry or ".") for entry in sys.path]
        arguments = (paths, list(self._modules), str(self._store.root), pack(order.cell), order.tag, device)
        self._flying[self._task.options(**takes).remote(*arguments)] = _Flight(order)

    def wait(self, seconds: float) -> list[Outcome]:
        """Return outcomes as soon as there are any, or none after some seconds."""
        until = time.monotonic() + seconds
        while True:
            ended = self._look(max(0.0, min(0.2, until - time.monotonic())))
            if ended or time.monotonic() >= until:
                return ended

    def close(self) -> None:
        """Cancel what still runs; stop Ray if it was started here."""
        with quiet():
            for reference in self._flying:
                self._ray.cancel(reference, force=True)
            if self._flying:
                self._ray.wait(list(self._flying), num_returns=len(self._flying), timeout=10)
            self._flying.clear()
            if self._ours:
                self._ray.shutdown()

    def _connect(self, address: str | None, workers: int | None) -> None:
        if self._ray.is_initialized():
            return
        here = {"num_cpus": workers, "include_dashboard": False, "object_store_memory": OBJECT_STORE}
        try:
            self._ray.init(
                address=address or "local", log_to_driver=False, logging_level="ERROR", **({} if address else here)
            )
        except (ConnectionError, ValueError, RuntimeError) as problem:
            raise ExecutorError(
                "Ray does not start", got=problem, do="check the address, or use --executor local"
            ) from None

    def _takes(self, cell: Cell) -> dict[str, float]:
        takes = {"num_cpus": 1.0, **self._resources.get(cell.kind, self._resources.get("*", {}))}
        if self._device.startswith("cuda"):
            takes.setdefault("num_gpus", 1.0)
        for name, total in (("num_cpus", "CPU"), ("num_gpus", "GPU")):
            if self._ours and takes.get(name, 0.0) > self._total.get(total, 0.0):
                raise ExecutorError(
                    f"no machine here can run a cell of kind {cell.kind}",
                    expected=f"{name} of at most {self._total.get(total, 0.0):g}",
                    got=f"{takes[name]:g}",
                    do="lower the resources of this kind, or give the address of a cluster",
                )
        return takes

    def _look(self, seconds: float) -> list[Outcome]:
        if not self._flying:
            time.sleep(seconds)
            return []
        done, _ = self._ray.wait(list(self._flying), num_returns=1, timeout=seconds)
        self._enforce_limits()
        return [self._end(reference) for reference in done]

    def _enforce_limits(self) -> None:
        """Kill tasks whose limit is over; their references end with an error, like those of crashed ones."""
        now = time.monotonic()
        for reference, flight in self._flying.items():
            order = flight.order
            if order.time_limit is None or flight.overran:
                continue
            if flight.began is None and self._has_begun(order):
                flight.began = now
            if flight.began is not None and now - flight.began > order.time_limit:
                flight.overran = True
                with quiet():
                    self._ray.cancel(reference, force=True)

    def _has_begun(self, order: Order) -> bool:
        return self._store.owner(order.cell).get("tag") == order.tag

    def _end(self, reference: Any) -> Outcome:
        flight = self._flying.pop(reference)
        order = flight.order
        try:
            answer: dict[str, Any] = self._ray.get(reference)
        except self._ray.exceptions.RayError as problem:
            if flight.overran:
                return Outcome(key=order.cell.key, what="time-limit", message=f"{order.time_limit:g} s")
            return Outcome(key=order.cell.key, what="crashed", message=_brief(problem))
        if answer["what"] == "broken":
            raise ExecutorError("the works cannot be imported on a machine of the cluster", got=answer["message"])
        return Outcome(**answer)


@dataclass
class _Flight:
    """An order on its way, and since when it runs."""

    order: Order
    began: float | None = None
    overran: bool = False


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep Ray's own warnings about unclosed files and coming changes to itself."""
    with warnings.catch_warnings():
        for category in (ResourceWarning, FutureWarning, DeprecationWarning):
            warnings.simplefilter("ignore", category)
        yield


def attempt(modules: list[str], store: str, rows: list[dict[str, Any]], tag: str, device: str) -> dict[str, Any]:
    """Compute a cell inside a task."""
    try:
        load_works(modules)
    except Exception:
        return {"key": rows[-1]["key"], "what": "broken", "message": traceback.format_exc()[-2000:]}
    cell, place = unpack(rows), Store(store)
    try:
        context = Context(device=device, keep=place.scratch(cell))
        return asdict(compute(cell, place, tag=tag, context=context))
    finally:
        place.journal.close()


def _portable() -> Callable[..., dict[str, Any]]:
    """Build a function that carries its own code, so that a task can find this package by our own search path."""

    def run_attempt(paths: list[str], *arguments: Any) -> dict[str, Any]:
        import sys

        sys.path += [path for path in paths if path not in sys.path]
        from sfra.bench.engine.ray_executor import attempt

        return attempt(*arguments)

    bare: Callable[..., dict[str, Any]] = inspect.unwrap(run_attempt)  # decorators may not travel
    return bare


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


def _brief(problem: Exception) -> str:
    lines = [line for line in str(problem).strip().splitlines() if line.strip()]
    return f"{type(problem).__name__}: {lines[0] if lines else ''}"[:500]
