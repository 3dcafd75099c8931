"""The registry of findings: one decorated function per code.

A finding's function names in its parameters what it looks at, out of the facts of an audit. Where one of them is
unknown (None) the function is not called, unless the parameter has a default.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from inspect import Parameter, signature
from typing import Any, TypeVar

from sfra.auditing.result import Finding, Severity
from sfra.core.metrics import TOLERANCE

HIGH_RS = 0.5
"""What counts as a high score; figures draw a line there."""

SEVERITIES: tuple[Severity, ...] = ("critical", "warning", "info")
"""Gravest first."""

Found = Finding | Sequence[Finding] | None
F = TypeVar("F", bound=Callable[..., Found])
FINDINGS: dict[str, Callable[..., Found]] = {}
"""Every finding by its code, in the order in which they are raised. ``docs/flags.md`` explains each."""


def finding(code: str) -> Callable[[F], F]:
    """Register a function as the one that raises a finding."""

    def register(check: F) -> F:
        assert code not in FINDINGS, f"two findings are called {code}"
        FINDINGS[code] = check
        return check

    return register


def raise_findings(facts: Mapping[str, Any]) -> tuple[Finding, ...]:
    """Return every finding that the facts give rise to, gravest first."""
    raised: list[Finding] = []
    for check in FINDINGS.values():
        given = {name: facts[name] for name in signature(check).parameters}
        unknown = [name for name, value in given.items() if value is None]
        if any(signature(check).parameters[name].default is Parameter.empty for name in unknown):
            continue
        found = check(**given)
        raised += [] if found is None else [found] if isinstance(found, Finding) else found
    return tuple(sorted(raised, key=lambda one: SEVERITIES.index(one.severity)))


def critical(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return the findings with which a measurement carries no verdict."""
    return tuple(one for one in findings if one.severity == "critical")


def above(
    measured: float, threshold: float, code: str, severity: Severity, message: str, remedy: str | None = None
) -> Finding | None:
    """Return the finding if the number is more than its threshold; a value exactly at it passes."""
    return Finding(code, severity, measured, threshold, message, remedy) if measured > threshold + TOLERANCE else None


def percent(fraction: float) -> str:
    """Write a share in percent.

    >>> percent(0.123)
    '12.3 %'
    """
    return f"{100 * fraction:.1f} %"
