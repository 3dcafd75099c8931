"""Findings about the set-up: whether the model is fed what it was trained on, and the labels are its own."""

from __future__ import annotations

import math
from collections import Counter

from sfra.auditing.answers import Answers
from sfra.auditing.feed import LEAST_GAIN, Feed
from sfra.auditing.findings.registry import above, finding, percent
from sfra.auditing.result import Finding
from sfra.auditing.subject import Subject
from sfra.core.metrics import TOLERANCE, degenerate_floor

RETAIN_LOW = 0.5  # below it a head that always answers the forget class scores 0.67 and more
CERTAIN = 2.0  # standard errors
CONFIDENCE_GAP = 0.25  # networks that are fed as they should be stay below 0.2
MISORDERED = 0.3  # of the samples of classes that another order would put right
EXPECTED_SLACK = 0.03
DRIFT = 1.0  # sound networks stay below 0.02, images that are not normalised or normalised twice begin at 0.8

PREPARED = (
    "prepare the inputs as in training (size, range, mean and std, channel order) and number the classes as the model "
    "does"
)


@finding("class-order")
def class_order(answers: Answers) -> Finding | None:
    """Fire when two or more labels agree far better with the answers once they stand for other classes."""
    order = {label: answer for label, answer in answers.best_order.items() if label != answer}
    samples = sum(int(answers.counts[label].sum()) for label in order)
    if len(order) < 2:
        return None
    own, other = (
        sum(int(answers.counts[label, order[label] if moved else label]) for label in order) / samples
        for moved in (False, True)
    )
    steps = Counter(answer - label for label, answer in order.items())
    step, times = steps.most_common(1)[0]
    pairs = ", ".join(f"{label} with {answer}" for label, answer in [*order.items()][:4]) + (
        " …" if len(order) > 4 else ""
    )
    how = f"answers label {pairs}"
    if abs(step) == 1 and 2 * times > len(order):
        how = f"answers one class {'below' if step < 0 else 'above'} the label: the labels are shifted by one"
    message = (
        f"The released model {how}. Read that way, {percent(other)} of these {samples} samples are right, and "
        f"{percent(own)} as labelled: the labels are not in the order of the model's outputs."
    )
    remedy = (
        "number the labels as the model numbers its outputs, from 0; where model and data both have names of the "
        "classes, these settle it"
    )
    return above(other - own - CERTAIN * 0.5 / samples**0.5, MISORDERED, "class-order", "critical", message, remedy)


@finding("inputs-differ")
def inputs_differ(feed: Feed, answers: Answers, expect_accuracy: float | None = None) -> Finding | None:
    """Fire when the same images serve the model far better prepared otherwise, or are unlike those of its training."""
    better, drift = feed.better, feed.drift
    if better is not None:
        message = (
            f"The released model gets {percent(better.given)} of the images right as they are prepared here, and "
            f"{percent(better.accuracy)} of the same images {better.how}: training prepared its images differently."
        )
        gain = better.accuracy - better.given
        remedy = f"prepare the images exactly as in training: {better.how} is right, or closer to it"
        return Finding("inputs-differ", "critical", gain, LEAST_GAIN, message, remedy)
    message = (
        "The images are unlike those that the network was trained on: at its first batch norm, mean and variance are "
        f"{drift or 0.0:.1f} off in the median channel, where training images are less than 0.02 off. They may be "
        "unnormalised, normalised twice, or in another range."
    )
    found = above(drift or 0.0, DRIFT, "inputs-differ", "critical", message, PREPARED)
    return None if is_as_expected(answers, expect_accuracy) else found


@finding("images-unprepared")
def images_unprepared(unprepared: bool) -> Finding | None:
    """Fire when a model directory that should say how it wants its images does not, and nobody else did."""
    message = (
        "The model directory has no preprocessor_config.json: images went in as they are, neither resized nor "
        "normalised, bytes divided by 255. Few published networks were trained on such images."
    )
    remedy = (
        "pass --size, --mean and --std, or put the file back; --mean 0 --std 1, if the network takes images as they are"
    )
    return Finding("images-unprepared", "warning", None, None, message, remedy) if unprepared else None


@finding("below-expected")
def below_expected(answers: Answers, expect_accuracy: float) -> Finding | None:
    """Fire when the model is right less often than it is known to be, beyond sampling error and a few points."""
    message = (
        f"The released model gets {percent(answers.accuracy)} of the retain samples right, and "
        f"{percent(expect_accuracy)} were expected: its inputs are not prepared as in training, the labels are not its "
        "own, or it is another model."
    )
    missed = expect_accuracy - answers.accuracy - CERTAIN * _error(expect_accuracy, answers)
    return above(missed, EXPECTED_SLACK, "below-expected", "critical", message, PREPARED)


def is_as_expected(answers: Answers, expect_accuracy: float | None) -> bool:
    """Say whether the model is known to be as good as it was measured: then no guess at its input is needed."""
    return expect_accuracy is not None and below_expected(answers, expect_accuracy) is None


def expected_of_reference(answers: Answers | None, expect_accuracy: float | None) -> float | None:
    """Return the accuracy of the model where its reference reaches it: one that does not has broken no promise."""
    return expect_accuracy if answers is not None and is_as_expected(answers, expect_accuracy) else None


@finding("retain-low")
def retain_low(retain_before: float, retain_after: float, answers: Answers) -> Finding | None:
    """Fire when the released model guesses (critical), or it or the relearned head has less than half of it right."""
    guesses = (
        f"The released model gets {percent(answers.accuracy)} of the retain samples right, and its answers assigned at "
        f"random would get {percent(answers.chance[0])}: its inputs are not prepared as in training, or the labels are "
        "not its own."
    )
    released = (
        f"The released model recognises only {percent(retain_before)} of the retain samples. Check the order of the "
        "classes and how the inputs are prepared. If it really is no better, RS says little: a head that always "
        f"answers the forget class scores {degenerate_floor(retain_before):.2f}."
    )
    relearned = (
        f"The relearned head recognises only {percent(retain_after)} of the retain samples: it is no longer a "
        "classifier, whatever came back of the forget class. Read RS@ε."
    )
    if answers.guesses:
        return Finding("retain-low", "critical", answers.accuracy, answers.limit, guesses, PREPARED)
    if retain_before < RETAIN_LOW - TOLERANCE:
        return Finding("retain-low", "warning", retain_before, RETAIN_LOW, released)
    fires = retain_after < RETAIN_LOW - TOLERANCE
    return Finding("retain-low", "warning", retain_after, RETAIN_LOW, relearned) if fires else None


@finding("confidence-gap")
def confidence_gap(answers: Answers, expect_accuracy: float | None = None) -> Finding | None:
    """Fire when the model is right far less often than its own probabilities claim, beyond sampling error."""
    accuracy, claimed = answers.accuracy, answers.confidence
    message = (
        f"The released model is {percent(claimed)} sure of its answers to the retain samples, and {percent(accuracy)} "
        "of them are right. Networks are overconfident, but not by that much: its inputs are not prepared as in "
        "training, the labels are not its own, or unlearning has broken it."
    )
    remedy = f"{PREPARED}; or, if the model really is no better, say so: --expect-accuracy {accuracy:.2f}"
    gap = claimed - accuracy - CERTAIN * _error(accuracy, answers)
    found = above(gap, CONFIDENCE_GAP, "confidence-gap", "critical", message, remedy)
    return None if is_as_expected(answers, expect_accuracy) else found


def _error(accuracy: float, answers: Answers) -> float:
    """Return the standard error of an accuracy on as many samples."""
    return math.sqrt(accuracy * (1.0 - accuracy) / answers.samples)


def set_up_problems(subject: Subject, expect_accuracy: float | None = None) -> list[Finding]:
    """Return what these findings say of a model and its data before anything is relearned."""
    answers, feed = subject.answers, subject.feed
    if answers is None:
        return []
    found = [
        class_order(answers),
        None if feed is None else inputs_differ(feed, answers, expect_accuracy),
        None if expect_accuracy is None else below_expected(answers, expect_accuracy),
        confidence_gap(answers, expect_accuracy),
        retain_low(answers.accuracy, answers.accuracy, answers),
        images_unprepared(subject.kind == "images" and subject.release.silent),
    ]
    return [one for one in found if one is not None]
