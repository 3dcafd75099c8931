"""Over seeds and classes: means with their spread, and the line of a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import SupportsFloat

from sfra.core.errors import InputError
from sfra.core.metrics.scores import fraction, refuse_empty


def mean_and_std(values: Sequence[SupportsFloat]) -> tuple[float, float | None]:
    """Compute the mean and the sample standard deviation (n - 1).

    A single value has no spread: its deviation is None, never 0.

    >>> mean_and_std([0.25, 0.75]), mean_and_std([0.5])
    ((0.5, 0.3535533905932738), (0.5, None))
    """
    refuse_empty(values, "values")
    numbers = [float(value) for value in values]
    return fmean(numbers), stdev(numbers) if len(numbers) > 1 else None


@dataclass(frozen=True, kw_only=True)
class ClassAggregates:
    """One line of a table over forget classes.

    >>> aggregate_classes([0.75, 0.25], [0.0, 0.5]).forget_mean
    0.25
    """

    retain_mean: float
    """Mean of ``A_r``."""
    retain_std: float | None
    """Sample standard deviation of ``A_r``; None for one class."""
    forget_min: float
    """Lowest ``A_f``."""
    forget_mean: float
    """Mean of ``A_f``."""
    forget_max: float
    """Highest ``A_f``."""
    rs_max: float | None
    """Highest RS; None for a model that was not audited."""
    delta_rs_max: float | None
    """Highest ΔRS, not necessarily of the class with the highest RS; None without a reference."""


def aggregate_classes(
    retain: Sequence[SupportsFloat],
    forget: Sequence[SupportsFloat],
    *,
    rs: Sequence[SupportsFloat] | None = None,
    delta_rs: Sequence[SupportsFloat] | None = None,
) -> ClassAggregates:
    """Aggregate audits of several forget classes, one value per class in each argument.

    Maxima of RS and ΔRS are taken independently of each other.

    >>> line = aggregate_classes([0.75, 0.25], [0.0, 0.5], rs=[0.5, 0.25], delta_rs=[-0.25, 0.0])
    >>> line.retain_mean, line.rs_max, line.delta_rs_max
    (0.5, 0.5, 0.0)
    """
    columns = [column for column in (retain, forget, rs, delta_rs) if column is not None]
    for column in columns:
        refuse_empty(column, "aggregates")
    if len({len(column) for column in columns}) > 1:
        raise InputError(
            "the aggregates need one value per forget class",
            expected="columns of equal length",
            got=[len(column) for column in columns],
        )
    A_r = [fraction(value, "retain accuracy") for value in retain]
    A_f = [fraction(value, "forget accuracy") for value in forget]
    mean, std = mean_and_std(A_r)
    return ClassAggregates(
        retain_mean=mean,
        retain_std=std,
        forget_min=min(A_f),
        forget_mean=fmean(A_f),
        forget_max=max(A_f),
        rs_max=None if rs is None else max(map(float, rs)),
        delta_rs_max=None if delta_rs is None else max(map(float, delta_rs)),
    )
