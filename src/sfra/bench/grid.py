"""Run a protocol on a store, look at it, and try failed cells again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sfra.bench.cell import reachable
from sfra.bench.plan import Goal, plan
from sfra.bench.protocol import Protocol, load_protocol
from sfra.bench.runner import retry, run, status
from sfra.bench.store import Failure, Store
from sfra.bench.summary import Progress, Summary

STORE = Path("sfra-bench")
"""Where benchmarks are kept unless the user names another folder; protocols share their cells there."""


def run_protocol(
    protocol: str | Path | Protocol,
    store: str | Path = STORE,
    *,
    only: Mapping[str, str] | None = None,
    executor: str = "local",
    workers: int | None = None,
    device: str = "cpu",
    time_limit: float | None = None,
    address: str | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Summary:
    """Compute what a protocol still lacks.

    Args:
        protocol: Name of a protocol that comes with the package, a ``.toml`` file, or one in memory.
        store: Folder of the results; made if absent, continued if there.
        only: Restrict to goals with these properties, such as ``{"method": "delete", "forget": "7"}``.
        executor: ``local`` or ``ray``.
        workers: Cells at the same time.
        device: Where to compute; several with commas are given to the workers in turn.
        time_limit: Seconds for a cell; overrides the protocol's limits.
        address: Of a Ray cluster; by default a local one is started.
        progress: Called after every change.
    """
    chosen, goals = _goals(protocol, only)
    cells = [goal.cell for goal in goals]
    options: dict[str, Any] = {}
    if executor == "ray":
        options = {"address": address, "resources": chosen.resources if device != "cpu" else {}}
    return run(
        cells,
        Store(store),
        executor=executor,
        workers=workers,
        time_limit=_limits(chosen, cells, time_limit),
        devices=tuple(device.split(",")),
        progress=progress,
        **options,
    )


def protocol_status(
    protocol: str | Path | Protocol, store: str | Path = STORE, *, only: Mapping[str, str] | None = None
) -> Summary:
    """Tell what is done, failed and left; writes nothing."""
    _, goals = _goals(protocol, only)
    return status([goal.cell for goal in goals], Store(store, read_only=True))


def retry_failed(
    protocol: str | Path | Protocol, store: str | Path = STORE, *, only: Mapping[str, str] | None = None
) -> list[Failure]:
    """Forget the failures of a protocol, so that the next run tries those cells again."""
    _, goals = _goals(protocol, only)
    return retry([goal.cell for goal in goals], Store(store))


def _goals(protocol: str | Path | Protocol, only: Mapping[str, str] | None) -> tuple[Protocol, list[Goal]]:
    chosen = protocol if isinstance(protocol, Protocol) else load_protocol(protocol)
    return chosen, plan(chosen, only)


def _limits(protocol: Protocol, cells: Sequence[Any], given: float | None) -> dict[str, float]:
    """Set the limit of every kind: the one given, the kind's own, or the default."""
    kinds = {cell.kind for cell in reachable(cells).values()}
    default = protocol.limits.get("default")
    found = {kind: given or protocol.limits.get(kind, default) for kind in sorted(kinds)}
    return {kind: float(limit) for kind, limit in found.items() if limit is not None}
