import math
import statistics
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from sfra.core import metrics
from sfra.core.errors import InputError

accuracy = st.integers(0, 1000).map(lambda hits: hits / 1000)
curve = st.lists(st.tuples(accuracy, accuracy), min_size=1, max_size=20)


def column(points: list[tuple[float, float]], which: int) -> torch.Tensor:
    return torch.tensor([point[which] for point in points], dtype=torch.float64)


def exact_score(rb: float, ra: float, fb: float, fa: float) -> Fraction:
    """RS in exact arithmetic on thousandths, as the harmonic mean 2 / (1/R_r + 1/R_f)."""
    before_r, after_r, before_f, after_f = (Fraction(round(1000 * a), 1000) for a in (rb, ra, fb, fa))
    terms = (1 - max(Fraction(0), before_r - after_r), max(Fraction(0), after_f - before_f))
    return Fraction(0) if 0 in terms else 2 / (1 / terms[0] + 1 / terms[1])


@given(accuracy, accuracy, accuracy, accuracy)
def test_the_score_is_the_harmonic_mean_of_the_two_terms(rb: float, ra: float, fb: float, fa: float) -> None:
    score = metrics.relearning_score(rb, ra, fb, fa)
    assert score == pytest.approx(float(exact_score(rb, ra, fb, fa)), abs=1e-12)
    terms = metrics.recovery_terms(rb, ra, fb, fa)
    assert score == pytest.approx(statistics.harmonic_mean(terms), abs=1e-12)
    assert 0.0 <= score <= 1.0


@pytest.mark.parametrize(
    ("before_and_after", "terms", "score"),
    [
        ((0.9, 0.9, 0.0, 1.0), (1.0, 1.0), 1.0),
        ((0.9, 0.95, 0.0, 0.5), (1.0, 0.5), 2 / 3),
        ((1.0, 0.0, 0.0, 0.0), (0.0, 0.0), 0.0),
        ((1.0, 0.0, 0.0, 1.0), (0.0, 1.0), 0.0),
        ((0.9, 0.9, 0.5, 0.2), (1.0, 0.0), 0.0),
        ((1, 1, 0, 1), (1.0, 1.0), 1.0),
    ],
    ids=["full", "better-retain-is-no-bonus", "both-terms-zero", "collapse", "forgot-more", "integers"],
)
def test_the_score_at_its_corners(
    before_and_after: tuple[float, float, float, float], terms: tuple[float, float], score: float
) -> None:
    assert metrics.recovery_terms(*before_and_after) == pytest.approx(terms)
    assert metrics.relearning_score(*before_and_after) == pytest.approx(score)


@given(curve)
def test_the_curve_is_the_score_of_each_epoch_against_epoch_zero(points: list[tuple[float, float]]) -> None:
    scores = metrics.relearning_curve(column(points, 0), column(points, 1)).tolist()
    (rb, fb), single = points[0], metrics.relearning_score
    assert scores == [pytest.approx(single(rb, ra, fb, fa), abs=1e-12) for ra, fa in points]
    assert scores[0] == 0.0


@pytest.mark.parametrize(
    "call",
    [
        lambda: metrics.relearning_score(94.6, 93.1, 0.0, 97.0),
        lambda: metrics.degenerate_floor(94.6),
        lambda: metrics.relearning_curve(torch.tensor([94.6, 93.0]), torch.tensor([0.0, 97.0])),
        lambda: metrics.rs_at_budget(torch.tensor([0.9]), torch.tensor([0.0]), 5.0),
    ],
)
def test_percentages_are_refused_with_the_hint_to_divide(call: Callable[[], object]) -> None:
    with pytest.raises(InputError, match=r"(?s)fraction from 0 to 1.*percentage.*divide by 100"):
        call()


@pytest.mark.parametrize("value", [-0.1, math.nan, math.inf])
def test_what_is_no_accuracy_is_refused_without_talk_of_percentages(value: float) -> None:
    with pytest.raises(InputError, match="retain accuracy before") as caught:
        metrics.relearning_score(value, 0.9, 0.0, 0.5)
    assert "percentage" not in str(caught.value)


def test_empty_input_raises_everywhere() -> None:
    nothing = torch.empty(0)
    calls: list[Callable[[], object]] = [
        lambda: metrics.relearning_curve(nothing, nothing),
        lambda: metrics.rs_at_budget(nothing, nothing, 0.05),
        lambda: metrics.mean_and_std([]),
        lambda: metrics.wilson_interval(0, 0),
    ]
    for call in calls:
        with pytest.raises(InputError, match="empty"):
            call()


def test_curves_of_different_length_are_refused() -> None:
    with pytest.raises(InputError, match="different numbers of epochs"):
        metrics.relearning_curve(torch.tensor([0.9, 0.9]), torch.tensor([0.0]))


def test_delta_is_the_excess_over_the_reference() -> None:
    assert metrics.delta_rs(0.75, 0.5) == 0.25
    assert metrics.delta_rs(0.25, 0.5) == -0.25
    with pytest.raises(InputError, match="RS of the reference"):
        metrics.delta_rs(0.5, 1.5)


def test_relearned_at_edges_that_binary_fractions_miss() -> None:
    assert 0.95 - 0.94 > 0.01
    assert 0.7 - 0.6 < 0.1
    assert metrics.is_relearned(0.95, 0.94, 0.6, 0.7, epsilon_r=0.01, delta_f=0.1)
    assert not metrics.is_relearned(0.95, 0.9399, 0.6, 0.7, epsilon_r=0.01, delta_f=0.1)
    assert not metrics.is_relearned(0.95, 0.94, 0.6, 0.6999, epsilon_r=0.01, delta_f=0.1)


def test_a_forget_accuracy_that_fell_is_not_relearned_even_at_threshold_zero() -> None:
    assert not metrics.is_relearned(0.9, 0.9, 0.1, 0.05, epsilon_r=0.0, delta_f=0.0)
    assert metrics.is_relearned(0.9, 0.9, 0.1, 0.1, epsilon_r=0.0, delta_f=0.0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("before", "after"), [(0.94, 0.93), (0.30, 0.29)])
def test_an_epoch_exactly_at_the_budget_counts(before: float, after: float, dtype: torch.dtype) -> None:
    retain = torch.tensor([before, after], dtype=dtype)
    forget = torch.tensor([0.0, 0.8], dtype=dtype)
    reached = metrics.relearning_score(before, after, 0.0, 0.8)
    assert metrics.rs_at_budget(retain, forget, 0.01) == pytest.approx(reached, abs=1e-6)
    one_sample_more = retain - torch.tensor([0.0, 1e-5], dtype=dtype)
    assert metrics.rs_at_budget(one_sample_more, forget, 0.01) == 0.0


@given(curve, st.integers(0, 100))
def test_the_budget_score_is_the_best_exact_score_within_it(points: list[tuple[float, float]], percent: int) -> None:
    rb, fb = points[0]
    allowed = [p for p in points if round(1000 * p[0]) - round(1000 * rb) >= -10 * percent]
    best = max(exact_score(rb, ra, fb, fa) for ra, fa in allowed)
    got = metrics.rs_at_budget(column(points, 0), column(points, 1), percent / 100)
    assert got == pytest.approx(float(best), abs=1e-12)


@given(accuracy)
def test_the_floor_is_the_score_of_a_head_that_always_answers_the_forget_class(before: float) -> None:
    always_forget = metrics.relearning_score(before, 0.0, 0.0, 1.0)
    assert metrics.degenerate_floor(before) == pytest.approx(always_forget, abs=1e-12)


@given(st.lists(accuracy, min_size=2, max_size=12))
def test_mean_and_spread_are_those_of_numpy_with_n_minus_one(values: list[float]) -> None:
    mean, std = metrics.mean_and_std(values)
    assert mean == pytest.approx(float(np.mean(values)))
    assert std == pytest.approx(float(np.std(values, ddof=1)), abs=1e-12)


@pytest.mark.parametrize("confidence", [0.8, 0.95, 0.99])
@pytest.mark.parametrize(("hits", "total"), [(0, 10), (10, 10), (3, 1000), (970, 1000), (1, 1)])
def test_the_interval_is_scipys_wilson_interval(hits: int, total: int, confidence: float) -> None:
    expected = binomtest(hits, total).proportion_ci(confidence_level=confidence, method="wilson")
    got = metrics.wilson_interval(hits, total, confidence=confidence)
    assert got == pytest.approx((expected.low, expected.high), abs=1e-9)


@pytest.mark.parametrize(("hits", "total", "confidence"), [(11, 10, 0.95), (-1, 10, 0.95), (1, 10, 95.0)])
def test_impossible_counts_and_confidences_are_refused(hits: int, total: int, confidence: float) -> None:
    with pytest.raises(InputError, match=r"interval"):
        metrics.wilson_interval(hits, total, confidence=confidence)
