import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from builders.audits import scored
from sfra.attack import settings
from sfra.auditing.answers import Answers
from sfra.auditing.feed import Feed, Preparation
from sfra.auditing.findings import FINDINGS, HIGH_RS, Finding, fit, reference, release, score
from sfra.auditing.result import Calibration, ScaleStep, Score
from sfra.auditing.verdict import FORGET_LOW
from sfra.core.metrics import degenerate_floor

FLAGS = Path(__file__).parents[2] / "docs" / "flags.md"
HAIR = 1e-4

Rule = Callable[..., Finding | None]

# Norms and biases of heads trained on CIFAR-10; the first entry is the forget row, the rest are retain rows.
RETRAINED_NORMS = [0.64, 2.01, 2.12, 2.04, 2.15, 2.07, 2.07, 2.08, 2.05, 2.05]
RETRAINED_BIASES = [-0.213, -0.014, 0.042, 0.076, 0.006, 0.081, 0.026, 0.030, -0.019, -0.014]
FINETUNED_NORMS = [1.36, 2.12, 2.09, 2.01, 2.15, 2.05, 2.10, 2.13, 2.12, 2.09]
FINETUNED_BIASES = [-0.251, -0.012, 0.065, 0.075, 0.017, 0.092, 0.009, 0.029, -0.008, -0.010]
DELETE_NORMS = [2.09, 2.02, 2.10, 2.03, 2.09, 2.06, 2.08, 2.07, 2.10, 2.02]
DELETE_BIASES = [-0.042, -0.026, 0.025, 0.044, -0.009, 0.048, -0.003, 0.004, -0.012, -0.024]


def row(norm: float, bias: float) -> tuple[Any, ...]:
    """A forget row among retain rows whose norms and biases are all alike."""
    return 0, norm, bias, [2.0] * 9, [0.0] * 9


def climb(rise: float, *, epochs: int = 100) -> list[float]:
    """RS that is flat at 0.2 up to the last tenth of the epochs and then rises."""
    tail = epochs // 10
    return [0.2] * (epochs + 1 - tail) + [0.2 + rise * (i + 1) / tail for i in range(tail)]


def passing(
    ends: str = "generic",
    peaks: str = "recovered",
    *,
    last: float = 0.1,
    best: float = 0.9,
    epochs: tuple[int, ...] = (7,),
) -> tuple[Score, Score]:
    """A trajectory that is at its best after 7 epochs."""
    return scored(verdict=ends, rs=last), scored(verdict=peaks, rs=best, epochs=epochs)


def scales(native: str, canonical: str, native_rs: float = 0.9, canonical_rs: float = 0.1) -> tuple[Score, Score]:
    return scored(verdict=native, rs=native_rs), scored(verdict=canonical, rs=canonical_rs)


def looked(*, found: bool) -> Calibration:
    step = ScaleStep(kappa=0.85, rs=(0.9 if found else 0.1,), retain_drop=0.0)
    return Calibration(kappa=0.85, found=found, classes=((3,),), steps=(step,))


def answers(right: int = 810, confidence: float = 0.9) -> Answers:
    """Ten classes of 900 samples: ``right`` of each are right, the others spread evenly, so that chance is 0.1."""
    counts = torch.full((10, 10), (900 - right) // 9)
    return Answers(counts=counts.fill_diagonal_(right), confidence=confidence)


CLAIMED = 0.5 + 0.25 + 2 * (0.25 / 9000) ** 0.5
"""Confidence at the threshold for a model that is right about half of these samples."""

KNOWN = max(e for e in (0.9 + i * 1e-6 for i in range(50_000)) if e - 0.9 - 2 * (e * (1 - e) / 9000) ** 0.5 <= 0.03)
"""Accuracy at the threshold that was expected of a model that is right about 0.9 of these samples."""

SURE = answers()
BGR = Preparation(how="with red and blue exchanged", accuracy=0.9, given=0.4)
GUESSES = Finding("retain-low", "critical", 0.1, 0.15, "The released model guesses.", "feed it")


def shifted(moved: int) -> Answers:
    """Ten thousand samples of classes 1 and 2: ``moved`` of each are answered one class lower, the rest with any."""
    counts = torch.zeros(103, 103, dtype=torch.long)
    counts[1, 0] = counts[2, 1] = moved
    counts[1:3, 3:] = (5000 - moved) // 100
    return Answers(counts=counts, confidence=0.5)


# code, rule, arguments at the threshold where it is silent, arguments just past it
EDGES: list[tuple[str, Rule, tuple[Any, ...], tuple[Any, ...]]] = [
    ("nothing-measured", score.nothing_measured, (1,), (0,)),
    ("reference-missing", reference.reference_missing, (0.5, 0.0), (0.5, None)),
    ("reference-saw-class", reference.reference_saw_class, (0.02, 1000), (0.02 + HAIR, 1000)),
    ("reference-saw-class", reference.reference_saw_class, (1 / 36, 36), (2 / 36, 36)),  # one stray hit
    ("reference-unusable", reference.reference_unusable, ([],), ([GUESSES],)),
    ("reference-differs", reference.reference_differs, (0.95, 0.95), (0.95, 0.70 - HAIR)),
    ("class-order", fit.class_order, (shifted(1500),), (shifted(1600),)),
    (
        "inputs-differ",
        fit.inputs_differ,
        (Feed(drift=1.0, better=None), SURE),
        (Feed(drift=1.0 + HAIR, better=None), SURE),
    ),
    ("inputs-differ", fit.inputs_differ, (Feed(drift=None, better=None), SURE), (Feed(drift=None, better=BGR), SURE)),
    ("images-unprepared", fit.images_unprepared, (False,), (True,)),
    ("below-expected", fit.below_expected, (answers(), KNOWN), (answers(), KNOWN + HAIR)),
    ("reference-differs", reference.reference_differs, (0.95, 0.90), (0.95, 0.90 - HAIR)),
    ("reference-differs", reference.reference_differs, (0.90, 0.95), (0.90, 0.95 + HAIR)),
    ("generic-relearnability", reference.generic_relearnability, (0.5 - HAIR, 0.0), (0.5, 0.0)),
    ("generic-relearnability", reference.generic_relearnability, (0.9, 0.1 + HAIR), (0.9, 0.1)),
    ("generic-relearnability", reference.generic_relearnability, (0.9, -0.1 - HAIR), (0.9, -0.1)),
    ("negative-delta", reference.negative_delta, (-0.1,), (-0.1 - HAIR,)),
    ("retain-drop", score.retain_drop, (0.95, 0.90), (0.95, 0.90 - HAIR)),
    ("degenerate", score.degenerate, (0.9, 0.95, 0.85), (0.9, 0.95, 0.85 - HAIR)),
    ("degenerate", score.degenerate, (degenerate_floor(0.7) + HAIR, 0.7, 0.7), (degenerate_floor(0.7), 0.7, 0.7)),
    ("retain-low", fit.retain_low, (0.5, 0.9, answers()), (0.5 - HAIR, 0.9, answers())),
    ("retain-low", fit.retain_low, (0.9, 0.5, answers()), (0.9, 0.5 - HAIR, answers())),
    ("retain-low", fit.retain_low, (0.9, 0.9, answers(135)), (0.9, 0.9, answers(126))),
    ("confidence-gap", fit.confidence_gap, (answers(450, CLAIMED),), (answers(450, CLAIMED + HAIR),)),
    ("forget-not-low", score.forget_not_low, (0.10, 0), (0.10 + HAIR, 0)),
    ("forget-not-low", score.forget_not_low, (0.10, 1), (0.10 + HAIR, 1)),
    ("cosine-head", release.cosine_head, (1e-3 + HAIR,), (1e-3,)),
    ("forget-row-missing", release.forget_row_missing, (0,), (1,)),
    ("forget-row-outlier", release.row_outlier, row(3.75, 0.0), row(3.75 + HAIR, 0.0)),
    ("forget-row-outlier", release.row_outlier, row(0.25, 0.0), row(0.25 - HAIR, 0.0)),
    ("forget-row-outlier", release.row_outlier, row(2.0, -1.75), row(2.0, -1.75 - HAIR)),
    ("scale-disagreement", score.scale_disagreement, scales("a", "a"), scales("a", "b")),
    ("no-scale", score.no_scale, (looked(found=True),), (looked(found=False),)),
    ("no-normalisation", score.no_normalisation, (False, 0.5), (False, 0.5 - HAIR)),
    ("no-normalisation", score.no_normalisation, (True, 0.0), (False, 0.0)),
    ("rare-class", release.rare_class, ({},), ({3: 2e-6},)),
    ("small-m", release.small_m, (200, 9), (199, 9)),
    ("small-m", release.small_m, (200, 2), (199, 2)),
    ("small-m", release.small_m, (19, 99), (18, 99)),
    ("small-n", release.small_n, (100_000, 20), (99_999, 20)),
    ("small-n", release.small_n, (100_000, 21), (99_999, 21)),
    ("small-n", release.small_n, (50_000, 1000), (5_000, 21_841)),
    ("few-eval-samples", score.few_eval_samples, (100,), (99,)),
    ("few-eval-samples", score.few_eval_samples, (100,), (5,)),
    ("seed-spread", score.seed_spread, ([0.4, 0.45, 0.5],), ([0.4 - HAIR, 0.45, 0.5 + HAIR],)),
    ("late-recovery", score.late_recovery, (climb(0.05),), (climb(0.05 + HAIR),)),
    ("passing-recovery", score.passing_recovery, passing(best=0.5 - HAIR), passing(best=0.5)),
    ("passing-recovery", score.passing_recovery, passing(last=0.7, best=0.8), passing(last=0.7, best=0.8 + HAIR)),
]


@pytest.mark.parametrize(("code", "rule", "silent", "fires"), EDGES)
def test_a_rule_is_silent_up_to_its_threshold_and_fires_past_it(
    code: str, rule: Rule, silent: tuple[Any, ...], fires: tuple[Any, ...]
) -> None:
    assert rule(*silent) is None
    found = rule(*fires)
    assert found is not None
    assert found.code == code
    assert found.message.endswith(".")


def test_every_code_has_its_edges() -> None:
    assert {code for code, *_ in EDGES} == set(FINDINGS)


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (score.retain_drop(0.95, 0.88), "from 95.0 % to 88.0 %"),
        (score.degenerate(0.67, 0.93, 0.43), r"destroyed 50.0 points.*93.0 % to 43.0 %.*not recovery"),
        (score.degenerate(0.04, 0.95, 0.95), r"RS 0.04 is not above 0.10.*shows no recovery"),
        (
            release.row_outlier(7, 2.1, -15.0, [2.0] * 9, [0.0] * 9),
            r"class 7.*\(bias -15.00 against a median of \+0.00\)",
        ),
        (fit.retain_low(0.24, 0.2, answers()), r"released model recognises only 24.0 %.*scores 0.86\."),
        (
            score.passing_recovery(*passing("degenerate", last=0.67, best=0.88, epochs=(2, 9, 4))),
            r"at epochs 2 to 9, by seed\)",
        ),
        (release.rare_class({4: 3e-6, 9: 1e-7}), r"2 retain classes win.*were.*9 \(1.0e-07\), 4 \(3.0e-06\)"),
        (score.few_eval_samples(50), r"50 samples.*±7.1 points"),
        (score.seed_spread([0.0, 0.2]), r"2 seeds: 0.10 ± 0.14, from 0.00 to 0.20"),
        (score.late_recovery(climb(0.3)), r"rose by 0.30 to 0.50 in the last 10 of 100 epochs"),
        (score.scale_disagreement(*scales("hidden", "gone", 0.93, 0.48)), r"hidden \(RS 0.93\).*gone \(RS 0.48\)"),
    ],
)
def test_a_message_carries_the_numbers(found: Finding | None, words: str) -> None:
    assert found is not None
    assert re.search(words, found.message)


def test_severity_tells_a_collapse_from_a_score_that_is_merely_low() -> None:
    low, collapse = score.degenerate(0.0, 0.95, 0.95), score.degenerate(0.0, 0.95, 0.05)
    assert low is not None
    assert collapse is not None
    assert (low.severity, collapse.severity) == ("info", "warning")


@pytest.mark.parametrize(
    ("norms", "biases"),
    [(RETRAINED_NORMS, RETRAINED_BIASES), (FINETUNED_NORMS, FINETUNED_BIASES), (DELETE_NORMS, DELETE_BIASES)],
    ids=["retrained", "finetune", "delete"],
)
@pytest.mark.parametrize(
    ("norm", "bias", "expected"),
    [(None, None, False), (None, -15.0, True), (0.0, None, True), (11.8, None, True)],
    ids=["as-trained", "biased-away", "zeroed", "blown-up"],
)
def test_trained_heads_pass_and_the_same_heads_tampered_with_do_not(
    norms: list[float], biases: list[float], norm: float | None, bias: float | None, expected: bool
) -> None:
    norm, bias = norms[0] if norm is None else norm, biases[0] if bias is None else bias
    found = release.row_outlier(0, norm, bias, norms[1:], biases[1:])
    assert (found is not None) is expected


def test_rows_that_vary_by_themselves_raise_the_bar() -> None:
    varied = [0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5]
    assert release.row_outlier(0, 5.0, 0.0, [2.0] * 7, [0.0] * 7) is not None
    assert release.row_outlier(0, 5.0, 0.0, varied, [0.0] * 7) is None


@pytest.mark.parametrize(
    ("ends", "peaks"),
    [
        ("recovered", "recovered"),
        ("not-recovered", "generic"),
        ("no-reference", "no-reference"),
        ("not-unlearned", "recovered"),
    ],
)
def test_nothing_passes_where_the_last_epoch_says_it_too_or_the_best_one_says_nothing(ends: str, peaks: str) -> None:
    assert score.passing_recovery(*passing("not-recovered", "no-reference")) is not None
    assert score.passing_recovery(*passing(ends, peaks)) is None


def test_a_broken_end_needs_no_fall_in_rs() -> None:
    assert score.passing_recovery(*passing("degenerate", last=0.9)) is not None
    assert score.passing_recovery(*passing("generic", last=0.9)) is None


def test_one_seed_and_a_released_head_alone_say_nothing() -> None:
    assert score.seed_spread([0.3]) is None
    assert score.late_recovery([0.0]) is None


def test_short_runs_are_judged_by_their_last_epoch() -> None:
    assert score.late_recovery([0.0, 0.3, 0.3]) is None
    assert score.late_recovery([0.0, 0.0, 0.3]) is not None


def paragraphs() -> dict[str, str]:
    """Each second-level heading of the document in backquotes, with the text below it."""
    parts = re.split(r"^## `([a-z-]+)`$", FLAGS.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_every_code_has_its_paragraph_and_every_paragraph_its_code() -> None:
    assert set(paragraphs()) == set(FINDINGS)


@pytest.mark.parametrize("code", FINDINGS)
def test_a_paragraph_says_when_what_and_what_to_do(code: str) -> None:
    said = re.findall(r"^\*\*(Raised when|What it means|What to do)\.\*\* \S", paragraphs()[code], flags=re.MULTILINE)
    assert said == ["Raised when", "What it means", "What to do"]


def test_the_document_states_the_thresholds_that_the_rules_use() -> None:
    text = paragraphs()
    assert f"{100 * score.RETAIN_DROP:.0f} points" in text["retain-drop"]
    assert f"{100 * score.DEGENERATE_DROP:.0f} points" in text["degenerate"]
    assert f"{FORGET_LOW:.2f}" in text["forget-not-low"]
    assert f"{reference.REFERENCE_FORGET:.2f}" in text["reference-saw-class"]
    assert f"{100 * reference.REFERENCE_GAP:.0f} points" in text["reference-differs"]
    assert f"{release.ONE_LENGTH} of the longest" in text["cosine-head"]
    assert f"{HIGH_RS} or more" in text["generic-relearnability"]
    assert f"{HIGH_RS} or more" in text["passing-recovery"]
    assert f"{score.PASSING_FALL}" in text["passing-recovery"]
    assert f"below {HIGH_RS}" in text["no-normalisation"]
    assert f"below {fit.RETAIN_LOW:.2f}" in text["retain-low"]
    assert f"scores {degenerate_floor(fit.RETAIN_LOW):.2f} or more" in text["retain-low"]
    assert f"more than {fit.CONFIDENCE_GAP}" in text["confidence-gap"]
    assert f"more than {fit.DRIFT:g} off" in text["inputs-differ"]
    assert f"{fit.MISORDERED} more of the samples" in text["class-order"]
    assert f"more than {100 * fit.EXPECTED_SLACK:g} points" in text["below-expected"]
    assert f"more than {100 * reference.REFERENCE_FAR:.0f} points below" in text["reference-differs"]
    assert f"{reference.DELTA_BAND}" in text["generic-relearnability"]
    assert f"-{reference.DELTA_BAND}" in text["negative-delta"]
    assert f"{release.OUTLIER_Z}" in text["forget-row-outlier"]
    assert f"min({settings.STABLE_M}, {settings.STABLE_PROBES}" in text["small-m"]
    assert f"{score.STANDARD_ERROR}" in text["few-eval-samples"]
    assert f"{score.SEED_SPREAD}" in text["seed-spread"]
    assert f"{score.LATE_RISE}" in text["late-recovery"]
