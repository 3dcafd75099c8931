"""Intervals of a score, from the traces of its seeds; ``sfra.core.metrics.intervals`` has the mathematics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from sfra.auditing.result import Interval, Score
from sfra.auditing.trace import Trace
from sfra.core.metrics import Change, Estimate, difference_interval, estimate_accuracy, estimate_rs


def score_intervals(
    picks: Sequence[tuple[int, Trace]], accuracies: Sequence[Sequence[float]], rs_seeds: Sequence[float]
) -> dict[str, Any]:
    """Return the intervals of a score by the names of its fields, and what they cover.

    Args:
        picks: Of each seed, the epoch that counts and the trace to read it on.
        accuracies: Of each seed, retain accuracy before and after, then forget accuracy before and after.
        rs_seeds: RS of each seed.
    """
    retain, forget = (_change(picks, forget=which) for which in (False, True))
    names = ("retain_before", "retain_after", "forget_before", "forget_after")
    means = (retain.before, retain.after, forget.before, forget.after)
    found: dict[str, Any] = {
        f"{name}_interval": estimate_accuracy(mean, seeds).interval
        for name, mean, seeds in zip(names, means, zip(*accuracies, strict=True), strict=True)
    }
    rs, several = estimate_rs(retain, forget, rs_seeds), len(picks) > 1
    found |= {
        "rs_interval": rs.interval,
        "rs_sample_interval": rs.samples,
        "rs_seed_error": rs.error if several else None,
    }
    return found | {"interval_covers": "test samples and audit seeds" if several else "test samples"}


def _change(picks: Sequence[tuple[int, Trace]], *, forget: bool) -> Change:
    """Return the change of the forget or of the retain accuracy, sample by sample."""
    starts = [(0, trace) for _, trace in picks]
    before, after = (
        torch.stack([trace.right_of(epoch, forget=forget) for epoch, trace in heads]).sum(0)
        for heads in (starts, picks)
    )
    width = len(picks) + 1
    return Change.of(torch.bincount(before * width + after, minlength=width**2).view(width, width).tolist())


def delta_interval(score: Score, references: Sequence[Score]) -> Interval | None:
    """Compute the interval of RS minus the mean RS of the references; None where one of them has no interval.

    It holds the errors of the model and of these references, not how other references would differ from them.
    """
    model, *others = (_estimate(one) for one in (score, *references))
    known = [one for one in others if one is not None]
    return None if model is None or len(known) < len(others) else difference_interval(model, known)


def _estimate(score: Score) -> Estimate | None:
    """Return RS of a score with its errors; those of an older version are not told apart."""
    samples = score.rs_sample_interval or score.rs_interval
    if samples is None:
        return None
    return Estimate(value=score.rs, samples=samples, error=score.rs_seed_error or 0.0, seeds=len(score.rs_seeds))
