"""How well one column of numbers stands in for another: correlation, slope and sign."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfra.core.errors import InputError
from sfra.diagnostics.record import Record

Column = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Agreement(Record):
    """Exact values ``y`` against their approximation ``x``, pair by pair."""

    pairs: int
    pearson: float | None
    """Linear correlation, -1 to 1; None when one of the columns is constant."""
    spearman: float | None
    """Correlation of the ranks, ties sharing their mean rank; None when one of the columns is constant."""
    slope_through_origin: float | None
    """``Σ x y / Σ x²``: the factor between the two; None when all ``x`` are zero."""
    slope: float | None
    """Least squares of ``y`` on ``x`` with an intercept; None when ``x`` is constant."""
    intercept: float | None
    """The intercept of that line."""
    sign_agreement: float
    """Share of pairs of the same sign; a zero agrees with a zero only."""


def agreement(exact: ArrayLike, approximate: ArrayLike) -> Agreement:
    """Compare exact values with approximate ones.

    >>> found = agreement([2.0, 4.0, -6.0], [1.0, 2.0, -3.0])
    >>> found.slope_through_origin, found.sign_agreement
    (2.0, 1.0)
    """
    y, x = _column(exact), _column(approximate)
    if len(x) == 0 or len(x) != len(y):
        raise InputError("the pairs do not match", expected="one exact value per approximate one", got=(len(y), len(x)))
    square = float(x @ x)
    slope = _slope(x, y)
    return Agreement(
        pairs=len(x),
        pearson=_correlation(x, y),
        spearman=_correlation(_ranks(x), _ranks(y)),
        slope_through_origin=float(x @ y) / square if square > 0.0 else None,
        slope=slope,
        intercept=None if slope is None else float(y.mean() - slope * x.mean()),
        sign_agreement=float((np.sign(x) == np.sign(y)).mean()),
    )


def _column(values: ArrayLike) -> Column:
    return np.asarray(values, dtype=np.float64).ravel()


def _ranks(values: Column) -> Column:
    """Return ranks from 1, the mean of its places for each value of a tie."""
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(count)
    ranks: Column = (last - (count - 1) / 2.0)[place]
    return ranks


def _correlation(x: Column, y: Column) -> float | None:
    if np.ptp(x) == 0.0 or np.ptp(y) == 0.0:
        return None
    dx, dy = x - x.mean(), y - y.mean()
    return float(np.clip(dx @ dy / (np.linalg.norm(dx) * np.linalg.norm(dy)), -1.0, 1.0))


def _slope(x: Column, y: Column) -> float | None:
    if np.ptp(x) == 0.0:
        return None
    dx = x - x.mean()
    return float(dx @ (y - y.mean()) / (dx @ dx))
