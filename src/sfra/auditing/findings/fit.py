"""Findings about the set-up: whether the model is fed what it was trained on, and the labels are its own."""

from __future__ import annotations

from sfra.auditing.answers import Answers
from sfra.auditing.findings.registry import above, finding, percent
from sfra.auditing.result import Finding
from sfra.core.metrics import TOLERANCE, degenerate_floor

RETAIN_LOW = 0.5  # below it a head that always answers the forget class scores 0.67 and more
NO_BETTER = 0.05  # of the way from chance to 1: what is no better than this is chance, however many samples there are
CERTAIN = 2.0  # standard errors
CONFIDENCE_GAP = 0.35

PREPARED = (
    "prepare the inputs as in training (size, range, mean and std, order of channels) and number the classes alike"
)


@finding("retain-low")
def retain_low(retain_before: float, retain_after: float, answers: Answers) -> Finding | None:
    """Fire when the released model guesses (critical), or it or the relearned head has less than half of it right."""
    chance, spread = answers.chance
    limit = chance + max(CERTAIN * spread, NO_BETTER * (1.0 - chance))
    guesses = (
        f"The released model has {percent(answers.accuracy)} of the retain samples right, and its answers dealt out at "
        f"random would have {percent(chance)}: it is not fed what it was trained on, or these are not its labels."
    )
    released = (
        f"The released model recognises only {percent(retain_before)} of the retain samples. Check the order of the "
        "classes and how the inputs are prepared. If that is how good it is, RS says little: a head that always "
        f"answers the forget class scores {degenerate_floor(retain_before):.2f}."
    )
    relearned = (
        f"The relearned head recognises only {percent(retain_after)} of the retain samples: whatever came back of the "
        "forget class, this head is no classifier any more. Read RS@ε."
    )
    if answers.accuracy <= limit + TOLERANCE:
        return Finding("retain-low", "critical", answers.accuracy, limit, guesses, PREPARED)
    if retain_before < RETAIN_LOW - TOLERANCE:
        return Finding("retain-low", "warning", retain_before, RETAIN_LOW, released)
    fires = retain_after < RETAIN_LOW - TOLERANCE
    return Finding("retain-low", "warning", retain_after, RETAIN_LOW, relearned) if fires else None


@finding("confidence-gap")
def confidence_gap(answers: Answers) -> Finding | None:
    """Fire when the model is right far less often than its own probabilities claim, beyond sampling error."""
    accuracy, claimed = answers.accuracy, answers.confidence
    error = (accuracy * (1.0 - accuracy) / answers.samples) ** 0.5
    message = (
        f"The released model is {percent(claimed)} sure of its answers to the retain samples, and {percent(accuracy)} "
        "of them are right. Networks are too sure of themselves, but not by that much: it is not fed what it was "
        "trained on, the labels are not its own, or unlearning has broken it."
    )
    gap = claimed - accuracy - CERTAIN * error
    return above(gap, CONFIDENCE_GAP, "confidence-gap", "critical", message, PREPARED)
