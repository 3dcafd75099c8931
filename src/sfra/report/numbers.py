"""Numbers for readers: a true minus, a sign where a difference is meant, and a dash for what was not measured."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from math import isfinite

from sfra.auditing.result import AuditResult

MISSING = "–"
"""Stands for what was not measured."""

_MINUS = re.compile(r"(?<![\w.)\]-])-(?=\.?\d)")


def number(value: float | None, digits: int = 2) -> str:
    """Write a number for a reader.

    >>> number(0.456), number(None), number(-0.001)
    ('0.46', '–', '0.00')
    """
    if value is not None and not isfinite(value):
        raise ValueError(f"{value} cannot be shown")
    return MISSING if value is None else f"{value:z.{digits}f}".replace("-", "−")


def signed(value: float | None, digits: int = 2) -> str:
    """Write a difference with its sign, but zero without.

    >>> signed(0.456), signed(-0.456), signed(0.001)
    ('+0.46', '−0.46', '0.00')
    """
    text = number(value, digits)
    return f"+{text}" if value is not None and value > 0 and float(text) > 0 else text


def percent(value: float | None, digits: int = 1) -> str:
    """Write a share in percent.

    >>> percent(0.4567)
    '45.7 %'
    """
    return MISSING if value is None else f"{number(100 * value, digits)} %"


def minus(text: str) -> str:
    """Write the minus of numbers within a text as one; hyphens of names stay.

    >>> minus("-0.5 against +0.1, reset-row, 2-norm")
    '−0.5 against +0.1, reset-row, 2-norm'
    """
    return _MINUS.sub("−", str(text))


def span(values: Sequence[float] | None, *, sign: bool = False) -> str:
    """Write an interval.

    >>> span([0.1, 0.3]), span([-0.1, 0.3], sign=True)
    ('0.10 to 0.30', '−0.10 to +0.30')
    """
    write = signed if sign else number
    return MISSING if values is None else f"{write(values[0])} to {write(values[1])}"


def numbers(audit: AuditResult) -> Iterator[tuple[str, str, str]]:
    """Yield what is measured, the number, and what it means."""
    for name, pair in (("other classes", audit.retain), ("forgotten class", audit.forget)):
        shown = f"{percent(pair.before)} → {percent(pair.after)}"
        yield f"accuracy, {name}", shown, "before and after relearning"
    if not audit.scored:
        return
    between = "" if audit.rs_interval is None else f"95 % interval {span(audit.rs_interval)}; "
    yield "RS", number(audit.rs), f"{between}0: nothing comes back; 1: all of it, at no cost"
    against = "RS minus that of a model that never saw it" if audit.delta_rs is not None else "no reference was given"
    between = "" if audit.delta_rs_interval is None else f"95 % interval {span(audit.delta_rs_interval, sign=True)}; "
    yield "ΔRS", signed(audit.delta_rs), f"{between}{against}"


def class_rows(audit: AuditResult) -> Iterator[tuple[int, str, str, str, str, str]]:
    """Yield, of each of several forgotten classes, label, verdict, accuracy before and after, RS and ΔRS."""
    for one in audit.classes:
        score, shown = next(iter(one.scores), None), (MISSING,) * 4
        if score is not None:
            gone = one.verdict != "not-unlearned"
            scores = (number(score.rs), signed(score.delta_rs)) if gone else (MISSING, MISSING)
            shown = (percent(score.forget_before), percent(score.forget_after), *scores)
        yield (one.label, one.verdict, *shown)
