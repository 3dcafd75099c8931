"""How numbers are written, in one place; None stands for a missing one throughout."""

from __future__ import annotations

import math
from collections.abc import Iterable
from statistics import fmean, stdev

from sfra.core.errors import printable

Number = float | int
"""As JSON has it: a count, or an accuracy of exactly 1, may come as a whole number."""


def percent(fraction: Number | None) -> str | None:
    """Write a fraction as a percentage with two decimals.

    >>> percent(0.9465), percent(None)
    ('94.65', None)
    """
    return None if _is_missing(fraction) else f"{100 * fraction:z.2f}"  # type: ignore[operator]


def score(value: Number | None) -> str | None:
    """Write a score or a difference of scores with two decimals, never as minus zero.

    >>> score(0.987), score(-0.001)
    ('0.99', '0.00')
    """
    return None if _is_missing(value) else f"{value:z.2f}"


def fine(value: Number | None) -> str | None:
    """Write a confidence or another small difference with three decimals, never as minus zero.

    >>> fine(0.9744), fine(-0.0001)
    ('0.974', '0.000')
    """
    return None if _is_missing(value) else f"{value:z.3f}"


def count(value: Number | None) -> str | None:
    """Write a whole number."""
    return None if _is_missing(value) else f"{value:.0f}"


def millions(value: Number | None) -> str | None:
    """Write a count in millions with two decimals."""
    return None if _is_missing(value) else f"{value / 1e6:.2f}"  # type: ignore[operator]


def seconds(value: Number | None) -> str | None:
    """Write a duration: two decimals, but whole from 100 on and two significant digits below 1.

    >>> seconds(204.3), seconds(12.345), seconds(0.00512)
    ('204', '12.35', '0.0051')
    """
    if _is_missing(value):
        return None
    assert value is not None
    return f"{value:.0f}" if value >= 100 else f"{value:.2f}" if value >= 1 else f"{value:.2g}"


def words(text: object) -> str | None:
    """Write text on one line without control characters; None and empty text are missing.

    >>> words("two" + chr(10) + "lines"), words("")
    ('two lines', None)
    """
    line = " ".join(str(text).split()) if text is not None else ""
    return printable(line) or None


def mean(values: Iterable[Number | None]) -> float | None:
    """Average what is there; None when nothing is."""
    there = present(values)
    return fmean(there) if there else None


def deviation(values: Iterable[Number | None]) -> float | None:
    """Compute the sample standard deviation (n - 1) of what is there; None for fewer than two."""
    there = present(values)
    return stdev(there) if len(there) > 1 else None


def present(values: Iterable[Number | None]) -> list[float]:
    """Drop what is missing."""
    return [float(value) for value in values if not _is_missing(value)]  # type: ignore[arg-type]


def _is_missing(value: Number | None) -> bool:
    return value is None or math.isnan(value)
