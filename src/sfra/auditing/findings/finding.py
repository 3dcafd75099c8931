"""A finding: something that a reader must know before quoting a score."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal, get_args

from sfra.core.errors import InputError
from sfra.core.metrics import TOLERANCE

Severity = Literal["info", "warning", "critical"]
"""How to read a score with it: in this light; with care; not at all."""

HIGH_RS = 0.5
"""What counts as a high score; figures draw a line there."""

CODES = (
    "nothing-measured",
    "reference-missing",
    "reference-saw-class",
    "reference-differs",
    "generic-relearnability",
    "negative-delta",
    "retain-drop",
    "degenerate",
    "retain-low",
    "forget-not-low",
    "forget-row-missing",
    "forget-row-outlier",
    "scale-disagreement",
    "no-normalisation",
    "rare-class",
    "small-m",
    "few-eval-samples",
    "seed-spread",
    "late-recovery",
    "passing-recovery",
)


@dataclass(frozen=True)
class Finding:
    """Something about an audit that changes how its score is read.

    >>> Finding("retain-drop", "warning", 0.07, 0.05, "relearning cost 7.0 points").code
    'retain-drop'
    """

    code: str
    """Name of the rule, as in ``docs/flags.md``."""
    severity: Severity
    """``info``, ``warning`` or ``critical``."""
    measured: float | None
    """The number that the rule compared; None where there was nothing to measure."""
    threshold: float | None
    """What it was compared with; None for a rule without a threshold."""
    message: str
    """One or two sentences for a reader who does not know the rule."""

    def __post_init__(self) -> None:
        if self.code not in CODES or self.severity not in get_args(Severity):
            raise InputError("there is no such finding", expected=", ".join(CODES), got=self.code)

    def to_dict(self) -> dict[str, object]:
        """Return the fields for JSON."""
        return asdict(self)


def above(measured: float, threshold: float, code: str, severity: Severity, message: str) -> Finding | None:
    """Return the finding if the number is more than its threshold."""
    fires = measured > threshold + TOLERANCE
    return Finding(code, severity, measured, threshold, message) if fires else None


def percent(fraction: float) -> str:
    """Write a fraction as a percentage."""
    return f"{100 * fraction:.1f} %"
