"""Scores of an audit: pure functions of accuracies in [0, 1]; empty input raises."""

from sfra.core.metrics.scores import (
    TOLERANCE,
    degenerate_floor,
    delta_rs,
    is_relearned,
    recovery_terms,
    relearning_curve,
    relearning_score,
    rs_at_budget,
)
from sfra.core.metrics.spread import ClassAggregates, aggregate_classes, mean_and_std, wilson_interval

__all__ = [
    "TOLERANCE",
    "ClassAggregates",
    "aggregate_classes",
    "degenerate_floor",
    "delta_rs",
    "is_relearned",
    "mean_and_std",
    "recovery_terms",
    "relearning_curve",
    "relearning_score",
    "rs_at_budget",
    "wilson_interval",
]
