"""Run a grid to its end: what is done stays, what fails is kept with its reason, the rest goes on."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sfra.bench.engine.cell import Cell, reachable
from sfra.bench.engine.demand import LEFT, Demand
from sfra.bench.engine.executor import Executor
from sfra.bench.engine.folders import disk_errors
from sfra.bench.engine.journal import read_journals, seconds_per_kind
from sfra.bench.engine.local import LocalExecutor
from sfra.bench.engine.loop import Loop, Seconds
from sfra.bench.engine.store import Failure, Store
from sfra.bench.engine.summary import Progress, Summary, estimate, summarise
from sfra.bench.engine.work import modules_of
from sfra.core.errors import InputError


def run(
    goals: Sequence[Cell],
    store: Store,
    *,
    executor: str | Callable[..., Executor] = "local",
    workers: int | None = None,
    time_limit: Seconds | Mapping[str, Seconds] | None = None,
    devices: Sequence[str] = ("cpu",),
    modules: Sequence[str] | None = None,
    in_turn: bool = False,
    progress: Callable[[Progress], None] | None = None,
    **options: Any,
) -> Summary:
    """Compute whatever the goals still need, and return when nothing is left that can be computed.

    Any number of runs may work on one store at the same time, from any machine that sees the folder: every cell is
    computed by one of them. A killed run loses the cells that it was computing and nothing else.

    Args:
        goals: Cells that are wanted; what they need is computed only if one of them is not done.
        store: Where the cells are kept.
        executor: ``local`` (processes on this machine), ``ray``, or a class of your own that is an :class:`Executor`.
        workers: Cells at the same time; by default one per core, or what the cluster can hold.
        time_limit: Seconds after which a cell is killed and has failed; a number, or one for each kind.
        devices: Given to the workers in turn (local only).
        modules: Modules that register the works; by default those where the works of the plan are defined.
        in_turn: Finish the goals in the order given, for a run that may be cut short; by default the longest chain
            of cells goes first, which ends sooner.
        progress: Called after every change.
        options: Passed to the executor, e.g. ``address`` and ``resources`` for Ray.
    """
    with disk_errors(store.root):
        store.sweep()
        demand = Demand(goals, store, in_turn=in_turn)
    began = time.monotonic()
    if not demand.of(LEFT):
        return summarise(demand, eta=0.0)
    if modules is None:
        modules = modules_of({cell.kind for cell in reachable(demand.of(LEFT)).values()})
    loop = Loop(demand, time_limit, progress)
    loop.executor = _open(
        executor, store, modules=modules, workers=workers, devices=devices, steps=loop.step, **options
    )
    try:
        with disk_errors(store.root):
            loop.work_off()
    finally:
        loop.executor.close()
    store.sweep()
    found = {"computed": tuple(loop.computed), "elsewhere": tuple(loop.elsewhere)}
    return summarise(demand, **found, seconds=time.monotonic() - began, eta=0.0)


def status(goals: Sequence[Cell], store: Store) -> Summary:
    """Tell what is done, failed, blocked and left for some goals; writes nothing."""
    demand = Demand(goals, store)
    events = read_journals(store.root / "log")
    begun = _begun(events)
    running = tuple(cell for cell in demand.of(LEFT) if cell.key in begun and store.is_locked(cell))
    return summarise(demand, running=running, eta=estimate(demand.to_do, seconds_per_kind(events)))


def retry(goals: Sequence[Cell], store: Store, only: Callable[[Failure], bool] | None = None) -> list[Failure]:
    """Forget the failures of these goals and of all they need, or only some of them; the next run tries again."""
    failures = store.failures()
    cleared = [failures[key] for key in reachable(goals) if key in failures and (only is None or only(failures[key]))]
    with disk_errors(store.root):
        for failure in cleared:
            store.clear_failure(failure.key)
            store.journal.write("cleared", key=failure.key, reason=failure.reason)
    return cleared


def prune(goals: Sequence[Cell], store: Store, *, kinds: Sequence[str]) -> list[Cell]:
    """Remove finished cells of some kinds that are not goals and that no unfinished goal needs."""
    demand = Demand(goals, store)
    wanted = {need.key for cell in demand.of(LEFT) for need in cell.needs.values()} | set(demand.goals)
    candidates = [cell for cell in reachable(goals).values() if cell.kind in kinds and cell.key not in wanted]
    return [cell for cell in candidates if store.is_done(cell) and store.discard(cell)]


def _open(name: str | Callable[..., Executor], store: Store, **settings: Any) -> Executor:
    if not isinstance(name, str):
        return name(store, **settings)
    if name == "local":
        return LocalExecutor(store, **settings)
    if name == "ray":
        from sfra.bench.engine.ray_executor import RayExecutor

        return RayExecutor(store, **settings)
    raise InputError("there is no such executor", expected="local or ray", got=name)


def _begun(events: list[dict[str, Any]]) -> set[str]:
    """List the keys of cells whose last event is a start."""
    last = {event["key"]: event["event"] for event in events if "key" in event}
    return {key for key, event in last.items() if event == "start"}
