"""Scores of an audit: pure functions of accuracies in [0, 1]; empty input raises."""

from sfra.core.metrics.intervals import (
    Accuracy,
    Change,
    Estimate,
    difference_interval,
    estimate_accuracy,
    estimate_rs,
    wilson_interval,
)
from sfra.core.metrics.scores import (
    TOLERANCE,
    degenerate_floor,
    delta_rs,
    is_relearned,
    mean_and_std,
    recovery_terms,
    relearning_curve,
    relearning_score,
    rs_at_budget,
)

__all__ = [
    "TOLERANCE",
    "Accuracy",
    "Change",
    "Estimate",
    "degenerate_floor",
    "delta_rs",
    "difference_interval",
    "estimate_accuracy",
    "estimate_rs",
    "is_relearned",
    "mean_and_std",
    "recovery_terms",
    "relearning_curve",
    "relearning_score",
    "rs_at_budget",
    "wilson_interval",
]
