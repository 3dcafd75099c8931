"""Findings about the score: what was measured, what relearning cost, and how far the number can be trusted."""

from __future__ import annotations

from collections.abc import Sequence

from sfra.auditing.findings.registry import HIGH_RS, above, finding, percent
from sfra.auditing.result import Calibration, Finding, Score
from sfra.auditing.verdict import FORGET_LOW
from sfra.core.errors import counted
from sfra.core.metrics import TOLERANCE, degenerate_floor, mean_and_std

RETAIN_DROP, DEGENERATE_DROP = 0.05, 0.10  # retain accuracy lost by relearning
STANDARD_ERROR, SEED_SPREAD = 0.05, 0.05
LATE_RISE, LATE_SHARE = 0.05, 0.1
PASSING_FALL = 0.1  # single epochs jump by less
FOUND = ("recovered", "no-reference")  # readings in which the class is back


@finding("forget-not-low")
def forget_not_low(forget_before: float, restored_rows: int) -> Finding | None:
    """Fire when the released model still recognises the forget class, or a row that was restored takes its samples."""
    share, other = percent(forget_before), percent(1.0 - forget_before)
    message = (
        f"The released model still recognises {share} of the forget samples: it has not unlearned the class in the "
        f"first place, and only the other {other} can come back."
    )
    if restored_rows:
        message = (
            f"The restored row, drawn at random, answers {share} of the forget samples before any relearning: only "
            f"the other {other} can come back, and a low RS says little. Other --seeds draw other rows."
        )
    return above(forget_before, FORGET_LOW, "forget-not-low", "warning", message)


@finding("retain-drop")
def retain_drop(retain_before: float, retain_after: float) -> Finding | None:
    """Fire when relearning costs more than 5 points of retain accuracy."""
    message = (
        f"Relearning lowered the retain accuracy from {percent(retain_before)} to {percent(retain_after)}: part of "
        "what the forget class gained was taken from other classes."
    )
    return above(retain_before - retain_after, RETAIN_DROP, "retain-drop", "warning", message)


@finding("degenerate")
def degenerate(rs: float, retain_before: float, retain_after: float) -> Finding | None:
    """Fire when retain accuracy fell by more than 10 points, or RS does not exceed the degenerate floor."""
    drop, floor = retain_before - retain_after, degenerate_floor(retain_before)
    collapse = (
        f"Relearning destroyed {100 * drop:.1f} points of retain accuracy ({percent(retain_before)} to "
        f"{percent(retain_after)}): the head answers the forget class too often, and RS {rs:.2f} is not recovery."
    )
    nothing = (
        f"RS {rs:.2f} is not above {floor:.2f}, the score of a head that always answers the forget class: it shows no "
        "recovery."
    )
    if rs <= floor + TOLERANCE and drop <= DEGENERATE_DROP + TOLERANCE:
        return Finding("degenerate", "info", rs, floor, nothing)
    return above(drop, DEGENERATE_DROP, "degenerate", "warning", collapse)


@finding("seed-spread")
def seed_spread(rs_seeds: Sequence[float]) -> Finding | None:
    """Fire when RS varies between seeds; one seed alone has no spread."""
    mean, std = mean_and_std(rs_seeds)
    if std is None:
        return None
    ends = f"from {min(rs_seeds):.2f} to {max(rs_seeds):.2f}"
    message = f"RS varies between the {len(rs_seeds)} seeds: {mean:.2f} ± {std:.2f}, {ends}."
    return above(std, SEED_SPREAD, "seed-spread", "warning", message)


@finding("scale-disagreement")
def scale_disagreement(native: Score, canonical: Score) -> Finding | None:
    """Fire when the verdicts at native and canonical scale differ."""
    message = (
        f"The verdict depends on the scale of the features: {native.verdict} (RS {native.rs:.2f}) as released, "
        f"{canonical.verdict} (RS {canonical.rs:.2f}) at the canonical scale. Compare models at the canonical scale, "
        "and look at the sweep."
    )
    gap = abs(native.rs - canonical.rs)
    differ = native.verdict != canonical.verdict
    return Finding("scale-disagreement", "warning", gap, None, message) if differ else None


@finding("no-scale")
def no_scale(calibration: Calibration) -> Finding | None:
    """Fire when hidden classes come back at no size of the head."""
    if calibration.found:
        return None
    message = (
        f"Hidden retain classes come back at no size of the head from {calibration.steps[0].kappa:.2f} to "
        f"{calibration.steps[-1].kappa:.2f}: the verdict is read at the canonical size, and a low RS says nothing."
    )
    return Finding("no-scale", "warning", None, None, message)


@finding("few-eval-samples")
def few_eval_samples(fewest_samples: int) -> Finding | None:
    """Fire when the standard error of the accuracy on a forget class, at its worst ``0.5 / √n``, is more than 0.05.

    Critical where not even 0 of n and n of n can be told apart: their exact 95 % intervals, ``[0, 1 - 0.025^(1/n)]``
    and ``[0.025^(1/n), 1]``, overlap.
    """
    if fewest_samples == 0 or 0.025 ** (1.0 / fewest_samples) <= 0.5:
        samples = counted(fewest_samples, "sample", "samples")
        few = f"A forget class has {samples}: too few to tell a class that is gone from one that is fully there."
        remedy = "pass --data with more samples of the forgotten class: at least 6, better 100"
        return Finding("few-eval-samples", "critical", float(fewest_samples), 6.0, few, remedy)
    error = 0.5 / fewest_samples**0.5
    message = (
        f"A forget class was measured on {counted(fewest_samples, 'sample', 'samples')}: its accuracy is uncertain by "
        f"up to ±{100 * error:.1f} points (one standard error)."
    )
    return above(error, STANDARD_ERROR, "few-eval-samples", "warning", message)


@finding("late-recovery")
def late_recovery(rs_curve: Sequence[float]) -> Finding | None:
    """Fire when RS still rises over the last tenth of the epochs; `rs_curve` starts with the released head."""
    if len(rs_curve) < 2:
        return None
    tail = max(1, round(LATE_SHARE * (len(rs_curve) - 1)))
    rise = rs_curve[-1] - rs_curve[-1 - tail]
    when = f"the last {tail} of {len(rs_curve) - 1} epochs" if tail > 1 else "the last epoch"
    message = (
        f"The class was still coming back when relearning ended: RS rose by {rise:.2f} to {rs_curve[-1]:.2f} in {when}."
        " A longer run would probably score higher."
    )
    return above(rise, LATE_RISE, "late-recovery", "warning", message)


@finding("passing-recovery")
def passing_recovery(last: Score, best: Score) -> Finding | None:
    """Fire when the class is back at an earlier epoch, but not at the last one, which the verdict rests on."""
    broken = last.verdict == "degenerate"
    lost = best.verdict in FOUND and last.verdict not in (*FOUND, "not-unlearned") and best.rs >= HIGH_RS - TOLERANCE
    if not lost or (best.rs - last.rs <= PASSING_FALL + TOLERANCE and not broken):
        return None
    first, final = min(best.epochs), max(best.epochs)
    when = f"epoch {first}" if first == final else f"epochs {first} to {final}, by seed"
    end = "relearning has broken the retain classes" if broken else "it is not"
    message = (
        f"Along the way the class is back (RS {best.rs:.2f} at {when}); at the last epoch, which the verdict rests on, "
        f"{end} (RS {last.rs:.2f}). The best of many epochs flatters, but the class was in reach: read RS@ε as well."
    )
    return Finding("passing-recovery", "warning", best.rs, HIGH_RS, message)


@finding("no-normalisation")
def no_normalisation(normalised: bool | None, rs: float) -> Finding | None:
    """Fire when RS is below 0.5 in a network without normalisation; None: nothing is known of the network."""
    message = (
        f"The network has no layer that normalises (batch norm, layer norm …), and RS is {rs:.2f}. In such a network "
        "even a class that is there by construction can stay hidden: a low RS says little here, unless such a class "
        "comes back in the original (--control ORIGINAL)."
    )
    low = normalised is False and rs < HIGH_RS - TOLERANCE
    return Finding("no-normalisation", "warning", rs, HIGH_RS, message) if low else None


@finding("nothing-measured")
def nothing_measured(samples: int) -> Finding | None:
    """Fire when the audit had no evaluation samples."""
    message = "No evaluation data was given: the head was relearned, but nothing was measured or can be concluded."
    return Finding("nothing-measured", "warning", None, None, message) if samples == 0 else None
