"""Findings about the score: what was measured, what relearning cost, and how far the number can be trusted."""

from __future__ import annotations

from collections.abc import Sequence

from sfra.findings.finding import Finding, above, percent
from sfra.metrics import TOLERANCE, degenerate_floor, mean_and_std

RETAIN_DROP, DEGENERATE_DROP = 0.05, 0.10  # retain accuracy lost by relearning
FORGET_LOW = 0.10  # above it R_f stays below 0.9 and RS cannot pass 0.95
STANDARD_ERROR, SEED_SPREAD = 0.05, 0.05
LATE_RISE, LATE_SHARE = 0.05, 0.1


def nothing_measured(samples: int) -> Finding | None:
    """Fire when the audit had no evaluation samples."""
    message = "No evaluation data was given: the head was relearned, but nothing was measured or can be concluded."
    return Finding("nothing-measured", "warning", None, None, message) if samples == 0 else None


def forget_not_low(forget_before: float) -> Finding | None:
    """Fire when the released model still recognises the forget class."""
    message = (
        f"The released model still recognises {percent(forget_before)} of the forget samples: it has not unlearned "
        f"the class in the first place, and only the other {percent(1.0 - forget_before)} can come back."
    )
    return above(forget_before, FORGET_LOW, "forget-not-low", "warning", message)


def retain_drop(retain_before: float, retain_after: float) -> Finding | None:
    """Fire when relearning costs more than 5 points of retain accuracy."""
    message = (
        f"Relearning lowered the retain accuracy from {percent(retain_before)} to {percent(retain_after)}: part of "
        "what the forget class gained was taken from other classes."
    )
    return above(retain_before - retain_after, RETAIN_DROP, "retain-drop", "warning", message)


def degenerate(rs: float, retain_before: float, retain_after: float) -> Finding | None:
    """Fire when retain accuracy fell by more than 10 points, or RS does not exceed the degenerate floor."""
    drop, floor = retain_before - retain_after, degenerate_floor(retain_before)
    collapse = (
        f"Relearning destroyed {100 * drop:.1f} points of retain accuracy ({percent(retain_before)} to "
        f"{percent(retain_after)}): the head answers the forget class too often, and RS {rs:.2f} is not recovery."
    )
    nothing = (
        f"RS {rs:.2f} is not above {floor:.2f}, the score of a head that always answers the forget class: there is no "
        "sign of recovery in it."
    )
    if rs <= floor + TOLERANCE and drop <= DEGENERATE_DROP + TOLERANCE:
        return Finding("degenerate", "info", rs, floor, nothing)
    return above(drop, DEGENERATE_DROP, "degenerate", "critical", collapse)


def scale_disagreement(native: str, canonical: str, native_rs: float, canonical_rs: float) -> Finding | None:
    """Fire when the verdicts at native and canonical scale differ."""
    message = (
        f"The verdict depends on the scale of the features: {native} (RS {native_rs:.2f}) as released, {canonical} "
        f"(RS {canonical_rs:.2f}) at the canonical scale. Compare models at the canonical scale, and look at the sweep."
    )
    gap = abs(native_rs - canonical_rs)
    return Finding("scale-disagreement", "warning", gap, None, message) if native != canonical else None


def few_eval_samples(forget_samples: int) -> Finding | None:
    """Fire when the standard error of the forget accuracy, at its worst ``0.5 / √n``, is more than 0.05."""
    error = 0.5 / forget_samples**0.5
    message = (
        f"The forget accuracy was measured on {forget_samples} samples: it is uncertain by up to "
        f"±{100 * error:.1f} points (one standard error)."
    )
    return above(error, STANDARD_ERROR, "few-eval-samples", "warning", message)


def seed_spread(rs: Sequence[float]) -> Finding | None:
    """Fire when RS varies between seeds; one seed alone has no spread."""
    mean, std = mean_and_std(rs)
    if std is None:
        return None
    message = f"RS varies between the {len(rs)} seeds: {mean:.2f} ± {std:.2f}, from {min(rs):.2f} to {max(rs):.2f}."
    return above(std, SEED_SPREAD, "seed-spread", "warning", message)


def late_recovery(rs: Sequence[float]) -> Finding | None:
    """Fire when RS still rises over the last tenth of the epochs; `rs` starts with the released head."""
    if len(rs) < 2:
        return None
    tail = max(1, round(LATE_SHARE * (len(rs) - 1)))
    rise = rs[-1] - rs[-1 - tail]
    message = (
        f"The class was still coming back when relearning ended: RS rose by {rise:.2f} to {rs[-1]:.2f} in the last "
        f"{tail} of {len(rs) - 1} epochs. A longer run would probably score higher."
    )
    return above(rise, LATE_RISE, "late-recovery", "warning", message)
