"""The price of recovery: RS against the change in retain accuracy along a relearning."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from sfra.auditing.result import RunTrace
from sfra.auditing.trace import Trace
from sfra.core.errors import InputError
from sfra.core.metrics import mean_and_std, relearning_curve, rs_at_budget
from sfra.core.types import Curve
from sfra.diagnostics.record import Record

BUDGETS = (0.0, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1)
"""Retain budgets ε at which RS is read by default."""


@dataclass(frozen=True, kw_only=True)
class Efficient(Record):
    """A Pareto-efficient epoch."""

    epoch: int
    change: float
    """Retain accuracy minus that of the released head; negative is a loss."""
    rs: float


@dataclass(frozen=True, kw_only=True)
class Budgeted(Record):
    """RS@ε over the seeds: the best RS among epochs that lose at most ε of retain accuracy."""

    epsilon: float
    rs: float
    """Mean over seeds."""
    rs_std: float | None
    """Sample deviation over seeds; None for one."""
    rs_seeds: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class Tradeoff(Record):
    """RS against retain change, per seed and over the seeds."""

    efficient: tuple[tuple[Efficient, ...], ...]
    """Per seed, the Pareto-efficient epochs by falling retain accuracy, hence rising RS."""
    budgets: tuple[Budgeted, ...]
    """The mean curve: the change in retain accuracy is ``-ε`` or better. The same grid for every seed."""


def tradeoff(traces: Sequence[Trace | RunTrace], *, epsilons: Sequence[float] = BUDGETS) -> Tradeoff:
    """Trace RS against the change in retain accuracy, over the seeds of one setting.

    Read off one seed's efficient epochs, RS as a function of the allowed loss is a staircase: at ``ε`` it is the best
    RS of the epochs that lose no more, RS@ε. Different seeds have different efficient epochs, but the staircases can
    all be read at the same ``ε``: mean and deviation are those of RS@ε on a common grid.

    Args:
        traces: Accuracies per epoch, one trace per seed; those of a stored audit will do (``report.traces``).
        epsilons: The grid of budgets, fractions of 0 to 1.

    >>> right = torch.tensor([[True, True, False, False], [True, True, True, False], [True, False, True, True]])
    >>> found = tradeoff([Trace(right=right, counts=torch.tensor([2, 2]), forget_classes=(1,))], epsilons=[0.0])
    >>> [point.epoch for point in found.efficient[0]], round(found.budgets[0].rs, 4)
    ([1], 0.6667)
    """
    if not traces:
        raise InputError("there is no trace", expected="one per seed, one or more")
    curves, efficient = [_curves(trace) for trace in traces], []
    for retain, forget in curves:
        rs, change = relearning_curve(retain, forget).tolist(), (retain - retain[0]).tolist()
        efficient.append(tuple(Efficient(epoch=i, change=change[i], rs=rs[i]) for i in pareto(rs, change)))
    budgets = []
    for epsilon in sorted(map(float, epsilons)):
        scores = tuple(rs_at_budget(retain, forget, epsilon) for retain, forget in curves)
        mean, std = mean_and_std(scores)
        budgets.append(Budgeted(epsilon=epsilon, rs=mean, rs_std=std, rs_seeds=scores))
    return Tradeoff(efficient=tuple(efficient), budgets=tuple(budgets))


def _curves(trace: Trace | RunTrace) -> tuple[Curve, Curve]:
    """Return retain and forget accuracy per epoch."""
    if trace.retain is None or trace.forget is None:
        raise InputError("nothing was measured in this audit", expected="retain and forget accuracies per epoch")
    retain, forget = (torch.as_tensor(curve, dtype=torch.float64) for curve in (trace.retain, trace.forget))
    return retain, forget


def pareto(rs: Sequence[float], change: Sequence[float]) -> list[int]:
    """Return the epochs that no other epoch dominates, by falling retain accuracy, ties by epoch.

    An epoch is dominated by one that is at least as good in both RS and retain change, and better in one. Epochs that
    agree in both do not dominate each other: all of them are efficient, or none.

    >>> pareto([0.0, 0.5, 0.5, 0.4], [0.0, -0.1, -0.2, -0.1])
    [0, 1]
    """
    order = sorted(range(len(rs)), key=lambda i: (-change[i], -rs[i], i))
    kept: list[int] = []
    for i in order:
        same = bool(kept) and (rs[i], change[i]) == (rs[kept[-1]], change[kept[-1]])
        if not kept or same or rs[i] > rs[kept[-1]]:
            kept.append(i)
    return kept
