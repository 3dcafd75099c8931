"""What a reader must know before quoting a score: one small rule per finding, on plain numbers.

A rule returns a :class:`Finding` when its condition holds and None otherwise. "More than" is meant literally:
a value exactly at the threshold passes. Every code has its paragraph in ``docs/flags.md``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import ceil
from statistics import median
from typing import Literal, get_args

from sfra.errors import InputError
from sfra.metrics import TOLERANCE, degenerate_floor, mean_and_std

Severity = Literal["info", "warning", "critical"]
"""How to read a score with it: in this light; with care; not at all."""

CODES = (
    "nothing-measured",
    "reference-missing",
    "reference-saw-class",
    "reference-differs",
    "generic-relearnability",
    "negative-delta",
    "retain-drop",
    "degenerate",
    "forget-not-low",
    "forget-row-missing",
    "forget-row-outlier",
    "scale-disagreement",
    "rare-class",
    "small-m",
    "few-eval-samples",
    "seed-spread",
    "late-recovery",
)

RETAIN_DROP, DEGENERATE_DROP = 0.05, 0.10  # retain accuracy lost by relearning
FORGET_LOW = 0.10  # above it R_f stays below 0.9 and RS cannot pass 0.95
REFERENCE_FORGET = 0.02  # retrained models print 0.00; one stray hit in 50 samples is 0.02
REFERENCE_GAP = 0.05
HIGH_RS, DELTA_BAND = 0.5, 0.1  # the band is twice the spread between printings of one and the same audit
OUTLIER_Z = 3.5  # the usual cut of a robust z
NORM_FLOOR, BIAS_FLOOR = 0.25, 0.5  # least spread assumed: of the median norm; in logits
STABLE_M, STABLE_PROBES = 200, 1800  # stable at ten classes: M = 200, so 9 x 200 forget probes
STANDARD_ERROR, SEED_SPREAD = 0.05, 0.05
LATE_RISE, LATE_SHARE = 0.05, 0.1


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


def nothing_measured(samples: int) -> Finding | None:
    """Fire when the audit had no evaluation samples."""
    message = "No evaluation data was given: the head was relearned, but nothing was measured or can be concluded."
    return Finding("nothing-measured", "warning", None, None, message) if samples == 0 else None


def reference_missing(reference_rs: float | None) -> Finding | None:
    """Fire when there is no retrained reference to compare with."""
    message = (
        "No retrained reference was given: the score says how much of the class comes back, not whether the model "
        "remembers it. A model that never saw the class may score as high."
    )
    return Finding("reference-missing", "warning", None, None, message) if reference_rs is None else None


def reference_saw_class(reference_forget_before: float) -> Finding | None:
    """Fire when the reference recognises the forget class before any relearning."""
    message = (
        f"The reference already recognises {_percent(reference_forget_before)} of the forget samples. A model trained "
        "without the class recognises about none: it is no valid reference, and ΔRS must not be used."
    )
    return _above(reference_forget_before, REFERENCE_FORGET, "reference-saw-class", "critical", message)


def reference_differs(retain_before: float, reference_retain_before: float) -> Finding | None:
    """Fire when model and reference are not equally good on the retain classes."""
    message = (
        f"Model and reference differ in retain accuracy, {_percent(retain_before)} and "
        f"{_percent(reference_retain_before)}: part of ΔRS may be a difference in training, not memory."
    )
    gap = abs(retain_before - reference_retain_before)
    return _above(gap, REFERENCE_GAP, "reference-differs", "warning", message)


def generic_relearnability(rs: float, delta: float) -> Finding | None:
    """Fire when RS is at least 0.5 and ΔRS at most 0.1 away from zero."""
    if rs < HIGH_RS - TOLERANCE or abs(delta) > DELTA_BAND + TOLERANCE:
        return None
    message = (
        f"RS is high ({rs:.2f}), but a model that never saw the class scores about as high (ΔRS {delta:+z.2f}): the "
        "class is easy to relearn in general. This is not evidence that the model remembers it."
    )
    return Finding("generic-relearnability", "warning", delta, DELTA_BAND, message)


def negative_delta(delta: float) -> Finding | None:
    """Fire when the model gives back clearly less than its reference."""
    if delta >= -DELTA_BAND - TOLERANCE:
        return None
    message = (
        f"The class comes back less easily than in a model that never saw it (ΔRS {delta:+z.2f}): unlearning may have "
        "damaged or hidden it, or the reference is not comparable. This is not a proof of erasure."
    )
    return Finding("negative-delta", "info", delta, -DELTA_BAND, message)


def retain_drop(retain_before: float, retain_after: float) -> Finding | None:
    """Fire when relearning costs more than 5 points of retain accuracy."""
    message = (
        f"Relearning lowered the retain accuracy from {_percent(retain_before)} to {_percent(retain_after)}: part of "
        "what the forget class gained was taken from other classes."
    )
    return _above(retain_before - retain_after, RETAIN_DROP, "retain-drop", "warning", message)


def degenerate(rs: float, retain_before: float, retain_after: float) -> Finding | None:
    """Fire when retain accuracy fell by more than 10 points, or RS does not exceed the degenerate floor."""
    drop, floor = retain_before - retain_after, degenerate_floor(retain_before)
    collapse = (
        f"Relearning destroyed {100 * drop:.1f} points of retain accuracy ({_percent(retain_before)} to "
        f"{_percent(retain_after)}): the head answers the forget class too often, and RS {rs:.2f} is not recovery."
    )
    nothing = (
        f"RS {rs:.2f} is not above {floor:.2f}, the score of a head that always answers the forget class: there is no "
        "sign of recovery in it."
    )
    if rs <= floor + TOLERANCE and drop <= DEGENERATE_DROP + TOLERANCE:
        return Finding("degenerate", "info", rs, floor, nothing)
    return _above(drop, DEGENERATE_DROP, "degenerate", "critical", collapse)


def forget_not_low(forget_before: float) -> Finding | None:
    """Fire when the released model still recognises the forget class."""
    message = (
        f"The released model still recognises {_percent(forget_before)} of the forget samples: it has not unlearned "
        f"the class in the first place, and only the other {_percent(1.0 - forget_before)} can come back."
    )
    return _above(forget_before, FORGET_LOW, "forget-not-low", "warning", message)


def forget_row_missing(restored: int) -> Finding | None:
    """Fire when the head had lost forget rows that were drawn anew."""
    message = (
        f"The released head has no output for {restored} forget class(es): each was restored with a random row. "
        "The scores depend a little on that draw, and the accuracy before is that of the restored head."
    )
    return _above(float(restored), 0.0, "forget-row-missing", "info", message)


def forget_row_outlier(
    forget: int, norm: float, bias: float, retain_norms: Sequence[float], retain_biases: Sequence[float]
) -> Finding | None:
    """Fire when a forget row stands out among the retain rows, in norm or in bias.

    ``z = |x - median| / max(1.4826 MAD, least spread)``. The least spread, a quarter of the median norm and
    half a logit, lets pass the small rows of retrained models (a third of the median norm, bias -0.2) and
    stops rows that were zeroed, blown up or biased away.
    """
    z_norm = _robust_z(norm, retain_norms, NORM_FLOOR * median(retain_norms))
    z_bias = _robust_z(bias, retain_biases, BIAS_FLOOR)
    odd = [f"norm {norm:.2f} against {median(retain_norms):.2f}"] if z_norm > OUTLIER_Z else []
    odd += [f"bias {bias:+z.2f} against {median(retain_biases):+z.2f}"] if z_bias > OUTLIER_Z else []
    message = (
        f"The row of forget class {forget} is unlike those of the retain classes ({', '.join(odd)} in the median): "
        "it may hide the class from a short audit. Read the result of the reset-row variant as well."
    )
    return _above(max(z_norm, z_bias), OUTLIER_Z, "forget-row-outlier", "warning", message)


def scale_disagreement(native: str, canonical: str, native_rs: float, canonical_rs: float) -> Finding | None:
    """Fire when the verdicts at native and at canonical scale, any two words, differ."""
    message = (
        f"The verdict depends on the scale of the features: {native} (RS {native_rs:.2f}) as released, {canonical} "
        f"(RS {canonical_rs:.2f}) at the common scale. Compare models at the common scale, and look at the sweep."
    )
    gap = abs(native_rs - canonical_rs)
    return Finding("scale-disagreement", "warning", gap, None, message) if native != canonical else None


def rare_class(acceptance: Mapping[int, float]) -> Finding | None:
    """Fire when classes were sampled conditionally; `acceptance` is the share of plain draws that each wins."""
    if not acceptance:
        return None
    rarest = sorted(acceptance.items(), key=lambda item: item[1])
    named = ", ".join(f"{label} ({share:.1e})" for label, share in rarest[:8]) + (" …" if len(rarest) > 8 else "")
    message = (
        f"{len(rarest)} retain class(es) win too few random draws and were sampled conditionally: {named}. "
        "The number in brackets is the share of draws that each wins."
    )
    return Finding("rare-class", "info", rarest[0][1], None, message)


def stable_m(retain_classes: int) -> int:
    """Return the least M that was seen to be stable: ``min(200, 1800 / retain classes)``, rounded up.

    >>> stable_m(9), stable_m(99)
    (200, 19)
    """
    return min(STABLE_M, ceil(STABLE_PROBES / retain_classes))


def small_m(m: int, retain_classes: int) -> Finding | None:
    """Fire when M is below :func:`stable_m`, the least that was seen to be stable."""
    stable = stable_m(retain_classes)
    message = (
        f"M = {m} probes per class are few for {retain_classes} retain classes: below about {stable}, results vary "
        "from seed to seed."
    )
    return Finding("small-m", "warning", float(m), float(stable), message) if m < stable else None


def few_eval_samples(forget_samples: int) -> Finding | None:
    """Fire when the standard error of the forget accuracy, at its worst ``0.5 / √n``, is more than 0.05."""
    error = 0.5 / forget_samples**0.5
    message = (
        f"The forget accuracy was measured on {forget_samples} samples: it is uncertain by up to "
        f"±{100 * error:.1f} points (one standard error)."
    )
    return _above(error, STANDARD_ERROR, "few-eval-samples", "warning", message)


def seed_spread(rs: Sequence[float]) -> Finding | None:
    """Fire when RS varies between seeds; one seed alone has no spread."""
    mean, std = mean_and_std(rs)
    if std is None:
        return None
    message = f"RS varies between the {len(rs)} seeds: {mean:.2f} ± {std:.2f}, from {min(rs):.2f} to {max(rs):.2f}."
    return _above(std, SEED_SPREAD, "seed-spread", "warning", message)


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
    return _above(rise, LATE_RISE, "late-recovery", "warning", message)


def _above(measured: float, threshold: float, code: str, severity: Severity, message: str) -> Finding | None:
    fires = measured > threshold + TOLERANCE
    return Finding(code, severity, measured, threshold, message) if fires else None


def _robust_z(value: float, others: Sequence[float], least_spread: float) -> float:
    """Measure the distance of a value from the median of others in robust standard deviations."""
    centre = median(others)
    spread = 1.4826 * median(abs(other - centre) for other in others)
    return abs(value - centre) / max(spread, least_spread, TOLERANCE)


def _percent(fraction: float) -> str:
    return f"{100 * fraction:.1f} %"
