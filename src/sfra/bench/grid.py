"""Run a protocol on a store, look at it, and compute failed or chosen cells again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sfra.bench.engine.cell import reachable
from sfra.bench.engine.run import discard, find_pool, retry, run, status
from sfra.bench.engine.store import Failure, Store
from sfra.bench.engine.summary import Progress, Summary
from sfra.bench.plan import Goal, plan
from sfra.bench.protocol import Protocol, load_protocol
from sfra.core.errors import InputError
from sfra.core.text import written_out

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
    """Compute what a protocol still lacks; what would stop every cell is found out first.

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
    _check(chosen, goals, store, executor=executor, device=device, address=address)
    if time_limit is not None and not time_limit > 0:
        raise InputError("the time limit is out of range", expected="seconds above 0", got=time_limit)
    cells = [goal.cell for goal in goals]
    limits: dict[Any, float] = {**chosen.limits}
    kinds = {cell.kind for cell in reachable(cells).values()}
    found = {kind: time_limit or limits.get(kind, limits.get("default")) for kind in kinds}
    options: dict[str, Any] = {}
    if executor == "ray":
        options = {"address": address, "resources": chosen.resources if device != "cpu" else {}}
    return run(
        cells,
        make_store(store),
        executor=executor,
        workers=workers,
        time_limit={kind: limit for kind, limit in found.items() if limit is not None},
        devices=_devices(device),
        progress=progress,
        **options,
    )


def check_run(
    protocol: str | Path | Protocol,
    store: str | Path = STORE,
    *,
    only: Mapping[str, str] | None = None,
    executor: str = "local",
    device: str = "cpu",
    address: str | None = None,
) -> None:
    """Refuse a run that could compute nothing, on a store that is there; writes nothing.

    The data and the devices are those of this machine, so they are not looked at when a cluster computes, or when
    nothing is left to be computed.
    """
    open_store(store)
    _check(*_goals(protocol, only), store, executor=executor, device=device, address=address)


def protocol_status(
    protocol: str | Path | Protocol, store: str | Path = STORE, *, only: Mapping[str, str] | None = None
) -> Summary:
    """Tell what is done, failed and left; writes nothing."""
    _, goals = _goals(protocol, only)
    return status([goal.cell for goal in goals], open_store(store))


def retry_failed(
    protocol: str | Path | Protocol, store: str | Path = STORE, *, only: Mapping[str, str] | None = None
) -> list[Failure]:
    """Forget the failures of a protocol, so that the next run tries those cells again."""
    _, goals = _goals(protocol, only)
    open_store(store)
    return retry([goal.cell for goal in goals], Store(store))


def discard_done(
    protocol: str | Path | Protocol, store: str | Path = STORE, *, only: Mapping[str, str]
) -> tuple[int, int]:
    """Remove what is done of a part of a protocol, and all that was made of it, so that runs compute it again.

    A model is made again where the part holds everything that is asked of it: ``method=delete`` makes it again,
    ``method=delete,what=audit`` only audits it again. Failures of the part are forgotten.

    Returns:
        How many cells of the part a run will compute again, and how many others were made of them and are gone too.
    """
    chosen, part = _goals(protocol, only)
    open_store(store)
    opened = Store(store)
    goals = {goal.cell.key: goal.cell for goal in part}
    kept = {goal.model.key for goal in plan(chosen) if goal.cell.key not in goals}
    models = [goal.model for goal in part if goal.model.key not in kept]
    removed = {*discard([*goals.values(), *models], opened)}
    failed = {failure.key for failure in retry([*goals.values()], opened)}
    mine = reachable(goals.values())
    return len(failed | (removed & mine.keys())), len(removed - mine.keys())


def open_store(folder: str | Path) -> Store:
    """Open a store to read it; where there is none, say how to make one."""
    path = written_out(folder)
    if not path.is_dir() or not any(path.iterdir()):
        raise InputError(
            f"there is no benchmark store at {folder}",
            got="a file" if path.is_file() else "an empty folder" if path.is_dir() else "no such folder",
            do="compute one first with sfra bench run, or name the right folder with --store",
        )
    return Store(path, read_only=True)


def make_store(folder: str | Path) -> Store:
    """Open a store to write to, made if absent."""
    try:
        return Store(folder)
    except OSError as problem:  # a file in its place, or on the way to it
        raise InputError(
            "the store cannot be made there",
            expected="a folder, existing or not, that you may write to",
            got=f"{folder}: {problem.strerror}",
        ) from None


def _goals(protocol: str | Path | Protocol, only: Mapping[str, str] | None) -> tuple[Protocol, list[Goal]]:
    chosen = protocol if isinstance(protocol, Protocol) else load_protocol(protocol)
    return chosen, plan(chosen, only)


def _devices(names: str) -> tuple[str, ...]:
    """Split what ``--device`` takes: one device, or several for the workers in turn."""
    return tuple(name.strip() for name in names.split(","))


def _check(
    protocol: Protocol, goals: Sequence[Goal], folder: str | Path, *, executor: str, device: str, address: str | None
) -> None:
    from sfra.release.base import usable_device

    find_pool(executor)
    if address is not None:
        return
    if (written_out(folder) / "store.json").is_file():
        store = Store(folder, read_only=True)
        if all(store.is_done(goal.cell) for goal in goals):
            return
    for name in _devices(device) if executor == "local" else ():
        usable_device(name)
    _check_data(protocol, goals)


def _check_data(protocol: Protocol, goals: Sequence[Goal]) -> None:
    """Refuse data that cannot be loaded, lack a split or a forget class, or have too few candidates for an audit."""
    from sfra.auditing.config import AuditConfig
    from sfra.data import ImageSet, Split, has_split, load_data

    images = load_data(protocol.dataset, split="test")
    if not isinstance(images, ImageSet):
        raise InputError(f"{images.source} holds no images", expected="images to train on", got="features")
    needed: tuple[Split, ...] = ("train", "validation")
    absent = [split for split in needed if not has_split(protocol.dataset, split)]
    if absent:
        raise InputError(
            f"{images.source} has no {' and no '.join(absent)} split",
            expected="a data set with train, validation and test",
            do="name another data set in the protocol",
        )
    classes = len(images.class_names) if images.class_names else int(images.labels.max()) + 1
    for goal in goals:
        if goal.what == "audit":
            config, forget = goal.cell.settings["config"], goal.cell.settings["forget"]
            try:
                AuditConfig(n=config["n"], m=config["m"]).probe_settings(classes, len(forget)).check(classes, forget)
            except InputError as problem:
                raise InputError(f"{goal.cell.label}: {problem}") from None
