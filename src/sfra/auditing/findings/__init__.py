"""What a reader must know before quoting a score: one small rule per finding, on plain numbers.

A rule returns a :class:`Finding` when its condition holds and None otherwise. "More than" is meant literally:
a value exactly at the threshold passes. Every code has its paragraph in ``docs/flags.md``.
"""

from sfra.auditing.findings.finding import CODES, Finding, Severity
from sfra.auditing.findings.reference import (
    generic_relearnability,
    negative_delta,
    reference_differs,
    reference_missing,
    reference_saw_class,
)
from sfra.auditing.findings.release import (
    forget_row_missing,
    forget_row_outlier,
    no_normalisation,
    rare_class,
    small_m,
)
from sfra.auditing.findings.score import (
    degenerate,
    few_eval_samples,
    forget_not_low,
    late_recovery,
    nothing_measured,
    passing_recovery,
    retain_drop,
    retain_low,
    scale_disagreement,
    seed_spread,
)

__all__ = [
    "CODES",
    "Finding",
    "Severity",
    "degenerate",
    "few_eval_samples",
    "forget_not_low",
    "forget_row_missing",
    "forget_row_outlier",
    "generic_relearnability",
    "late_recovery",
    "negative_delta",
    "no_normalisation",
    "nothing_measured",
    "passing_recovery",
    "rare_class",
    "reference_differs",
    "reference_missing",
    "reference_saw_class",
    "retain_drop",
    "retain_low",
    "scale_disagreement",
    "seed_spread",
    "small_m",
]
