"""Sensitivity: what becomes of RS and accuracies when M or N is chosen differently."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import msgspec

from sfra.attack.grid import Setting, relearn_release
from sfra.auditing.config import AuditConfig
from sfra.auditing.measure import measure
from sfra.auditing.rules import RULES
from sfra.auditing.score import scores
from sfra.auditing.subject import Measurable
from sfra.core.errors import InputError
from sfra.core.head import Head
from sfra.core.types import Progress
from sfra.data.sets import FeatureSet
from sfra.diagnostics.record import Record


@dataclass(frozen=True, kw_only=True)
class Point(Record):
    """An audit with one choice of N and M."""

    n: int
    """Candidates per retain class."""
    m: int
    """Probes per retain class."""
    rs: float
    """Mean over seeds."""
    rs_std: float | None
    """Sample deviation over seeds; None for one."""
    retain_before: float
    retain_after: float
    forget_before: float
    forget_after: float


@dataclass(frozen=True, kw_only=True)
class Sensitivity(Record):
    """A grid of audits, all else equal."""

    scale: str
    variant: str
    rule: str
    points: tuple[Point, ...]
    """By N, then M."""
    left_out: tuple[tuple[int, int], ...] = ()
    """Pairs (N, M) whose pools are too small: ``(1 + number of forget classes) M > N``."""


def sensitivity(
    head: Head,
    data: FeatureSet,
    forget: Sequence[int],
    *,
    n: Sequence[int],
    m: Sequence[int],
    config: AuditConfig | None = None,
    rule: str = "source-free",
    progress: Progress | None = None,
) -> Sensitivity:
    """Audit a released head once for each pair of N and M.

    The same two steps as in an audit, without data; then each is measured on ``data``. For the usual curves
    give one N and several M, or one M and several N.

    Args:
        head: The released head.
        data: Released features with labels.
        forget: Forget classes.
        n: Candidates per retain class.
        m: Probes per retain class.
        config: All other settings, the scale (``config.kappa``) among them; ``n`` and ``m`` in it do not count.
        rule: Which epoch counts: ``source-free`` or ``worst-case``.
        progress: Called with what is going on, how many pairs are done and of how many.

    >>> from sfra.data.sets import FeatureSet
    >>> import torch
    >>> data = FeatureSet(features=torch.eye(4), labels=torch.arange(4))
    >>> few = AuditConfig(epochs=1, threads=1)
    >>> found = sensitivity(Head(torch.eye(4)), data, [3], n=[100], m=[10, 60], config=few)
    >>> [(point.n, point.m) for point in found.points], found.left_out
    ([(100, 10)], ((100, 60),))
    """
    usable_rules = [name for name, one in RULES.items() if not one.validates]
    if rule not in usable_rules:
        raise InputError("sensitivity cannot use this rule", expected=" or ".join(usable_rules), got=rule)
    config = config or AuditConfig()
    setting = Setting(scale=config.scales.verdict, variant="released")
    pairs = [(a, b) for a in sorted(set(n)) for b in sorted(set(m))]
    usable = [(a, b) for a, b in pairs if (1 + len(forget)) * b <= a]
    if not usable:
        raise InputError(
            "no pair of n and m can be used", expected=f"(1 + {len(forget)}) m <= n", got=f"n={[*n]}, m={[*m]}"
        )
    points = []
    for done, (a, b) in enumerate(usable):
        if progress is not None:
            progress("auditing other N and M", done, len(usable))
        runs = relearn_release(head, forget, [setting], replace(config, n=a, m=b))
        measured = measure(runs, Measurable(report=data, validation=None, own_validation=False), forget)
        found = next(one for one in scores(measured) if one.rule == rule)
        points.append(msgspec.convert({**msgspec.structs.asdict(found), "n": a, "m": b}, Point))
    left_out = tuple(pair for pair in pairs if pair not in usable)
    return Sensitivity(
        scale=setting.scale.name, variant=setting.variant, rule=rule, points=tuple(points), left_out=left_out
    )
