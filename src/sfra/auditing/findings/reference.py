"""Findings about the reference: whether there is one, whether it is valid, and what the comparison says."""

from __future__ import annotations

from collections.abc import Sequence

from sfra.auditing.findings.registry import HIGH_RS, above, finding, percent
from sfra.auditing.result import Finding
from sfra.core.metrics import TOLERANCE

REFERENCE_FORGET = 0.02  # retrained models print 0.00; one stray hit in 50 samples is 0.02
REFERENCE_GAP, REFERENCE_FAR = 0.05, 0.25
DELTA_BAND = 0.1  # twice the spread between published numbers of the same audit


@finding("reference-missing")
def reference_missing(rs: float, reference_rs: float | None = None) -> Finding | None:
    """Fire when there is no retrained reference to compare with."""
    message = (
        "No retrained reference was given: the score says how much of the class comes back, not whether the model "
        "remembers it. A model that never saw the class may score as high."
    )
    return Finding("reference-missing", "warning", None, None, message) if reference_rs is None else None


@finding("reference-unusable")
def reference_unusable(reference_problems: Sequence[Finding]) -> Finding | None:
    """Fire when the reference guesses, or is fed or labelled otherwise than it was trained."""
    if not reference_problems:
        return None
    problem = reference_problems[0]
    message = problem.message.replace("The released model", "The reference")
    message += " It is no valid reference as it is measured here."
    remedy = f"for the reference (--reference, --reference-data): {problem.remedy}"
    return Finding("reference-unusable", "critical", problem.measured, problem.threshold, message, remedy)


@finding("reference-saw-class")
def reference_saw_class(reference_forget_before: float, forget_samples: int) -> Finding | None:
    """Fire when the reference recognises the forget class before any relearning, but for a stray hit."""
    message = (
        f"The reference already recognises {percent(reference_forget_before)} of the forget samples. A model trained "
        "without the class recognises about none: it is no valid reference, and ΔRS must not be used."
    )
    remedy = "pass a reference that was trained without the class, numbered alike: sfra train … --without CLASS"
    limit = max(REFERENCE_FORGET, 1.0 / forget_samples)
    return above(reference_forget_before, limit, "reference-saw-class", "critical", message, remedy)


@finding("reference-differs")
def reference_differs(retain_before: float, reference_retain_before: float) -> Finding | None:
    """Fire when model and reference are not equally good on the retain classes; critical: the reference is no good."""
    message = (
        f"Model and reference differ in retain accuracy, {percent(retain_before)} and "
        f"{percent(reference_retain_before)}: part of ΔRS may be a difference in training, not memory."
    )
    worse = retain_before - reference_retain_before
    if worse > REFERENCE_FAR + TOLERANCE:
        message = (
            f"The reference has {percent(reference_retain_before)} of the retain samples right, and the model "
            f"{percent(retain_before)}: it was trained on other data or too briefly, or its inputs are not prepared as "
            "in training. ΔRS against it says nothing."
        )
        remedy = "train the reference with the recipe of the original, without the class: sfra train … --without CLASS"
        return Finding("reference-differs", "critical", worse, REFERENCE_FAR, message, remedy)
    gap = abs(worse)
    return above(gap, REFERENCE_GAP, "reference-differs", "warning", message)


@finding("generic-relearnability")
def generic_relearnability(rs: float, delta_rs: float) -> Finding | None:
    """Fire when RS is at least 0.5 and ΔRS at most 0.1 away from zero."""
    if rs < HIGH_RS - TOLERANCE or abs(delta_rs) > DELTA_BAND + TOLERANCE:
        return None
    message = (
        f"RS is high ({rs:.2f}), but a model that never saw the class scores about as high (ΔRS {delta_rs:+z.2f}): the "
        "class is easy to relearn in general. This is not evidence that the model remembers it."
    )
    return Finding("generic-relearnability", "warning", delta_rs, DELTA_BAND, message)


@finding("negative-delta")
def negative_delta(delta_rs: float) -> Finding | None:
    """Fire when the model gives back clearly less than its reference."""
    if delta_rs >= -DELTA_BAND - TOLERANCE:
        return None
    message = (
        f"The class comes back less easily than in a model that never saw it (ΔRS {delta_rs:+z.2f}): unlearning may "
        "have damaged or hidden it, or the reference is not comparable, or the two were exchanged. This is not a "
        "proof of erasure."
    )
    return Finding("negative-delta", "info", delta_rs, -DELTA_BAND, message)
