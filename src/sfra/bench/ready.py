"""Find out before the first cell what would stop all of them: a device, a data set, a class that is not there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sfra.bench.plan import Goal
from sfra.bench.protocol import Protocol
from sfra.core.errors import InputError

if TYPE_CHECKING:
    from sfra.data import ImageSet, Split

NEEDED: tuple[Split, ...] = ("train", "validation")
"""Splits beside the test split."""

EXECUTORS = ("local", "ray")


def check_executor(name: str) -> None:
    """Refuse an executor that does not exist."""
    if name not in EXECUTORS:
        raise InputError("there is no such executor", expected=" or ".join(EXECUTORS), got=name)


def check_devices(devices: tuple[str, ...]) -> None:
    """Refuse devices that this machine does not have."""
    from sfra.release.base import usable_device

    for device in devices:
        usable_device(device)


def check_data(protocol: Protocol, goals: Sequence[Goal]) -> None:
    """Refuse data that cannot be loaded or do not fit the protocol; reads the test split only."""
    from sfra.data import ImageSet, has_split, load_data

    images = load_data(protocol.dataset, split="test")
    if not isinstance(images, ImageSet):
        raise InputError(f"{images.source} holds no images", expected="images to train on", got="features")
    absent = [split for split in NEEDED if not has_split(protocol.dataset, split)]
    if absent:
        raise InputError(
            f"{images.source} has no {' and no '.join(absent)} split",
            expected="a data set with train, validation and test",
            do="name another data set in the protocol",
        )
    check_audits(goals, _count_classes(images))


def check_audits(goals: Sequence[Goal], classes: int) -> None:
    """Refuse forget classes that the data do not have, and audits that want more probes than there are candidates."""
    from sfra.auditing.config import AuditConfig

    for goal in goals:
        if goal.what == "audit":
            config, forget = goal.cell.settings["config"], goal.cell.settings["forget"]
            try:
                AuditConfig(n=config["n"], m=config["m"]).probe_settings(classes, len(forget)).check(classes, forget)
            except InputError as problem:
                raise InputError(f"{goal.cell.label}: {problem}") from None


def _count_classes(images: ImageSet) -> int:
    return len(images.class_names) if images.class_names else int(images.labels.max()) + 1
