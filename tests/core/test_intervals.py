"""Intervals of accuracies, of RS and of ΔRS, against numpy, scipy and the bootstrap."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from sfra.core.metrics import (
    Accuracy,
    Change,
    Estimate,
    difference_interval,
    estimate_accuracy,
    estimate_rs,
    relearning_score,
    wilson_interval,
)

Hits = NDArray[Any]


def hits(rng: np.random.Generator, shares: list[float], samples: int, shared: float = 0.8) -> Hits:
    """Draw who is right, [shares, samples], with difficulties that all rows share."""
    noise = math.sqrt(1 - shared) * rng.standard_normal((len(shares), samples))
    return np.asarray(math.sqrt(shared) * rng.standard_normal(samples) + noise < stats.norm.ppf(shares)[:, None])


def change(before: Hits, after: Hits) -> Change:
    """Count how many seeds are right on each sample."""
    S = len(before)
    table = np.zeros((S + 1, S + 1), int)
    np.add.at(table, (before.sum(0), after.sum(0)), 1)
    return Change.of(table.tolist())


def test_an_accuracy_and_its_correlation_are_those_of_the_samples() -> None:
    rng = np.random.default_rng(0)
    before, after = hits(rng, [0.2, 0.2, 0.3], 20_000), hits(rng, [0.5, 0.6, 0.4], 20_000)
    after[:, :5000] |= before[:, :5000]
    found, x, y = change(before, after), before.mean(0), after.mean(0)
    assert found.after.mean == pytest.approx(after.mean())
    assert found.after.mean * (1 - found.after.mean) / found.after.size == pytest.approx(y.var() / 20_000, rel=1e-3)
    assert found.after.noise == pytest.approx(after.var(0, ddof=1).mean() / 20_000)
    assert found.correlation == pytest.approx(np.corrcoef(x, y)[0, 1], rel=1e-3)


def test_seeds_without_anything_in_common_count_as_so_many_samples_more_unless_there_are_few() -> None:
    assert Accuracy.of([0, 60_000, 0, 0]).size == pytest.approx(180_000, rel=1e-3)
    assert Accuracy.of([40, 0, 0, 20]).size == pytest.approx(60)
    assert Accuracy.of([60, 0, 0, 0]).size == 60
    assert 60 < Accuracy.of([59, 1, 0, 0]).size < 110


def test_the_interval_of_one_seed_is_wilsons() -> None:
    for right in (0, 3, 50, 100):
        expected = stats.binomtest(right, 100).proportion_ci(method="wilson")
        found = estimate_accuracy(Accuracy.of([100 - right, right]), [right / 100]).interval
        assert found == pytest.approx(tuple(expected), abs=1e-12)
        assert found[1] - found[0] > 0.03


def test_where_samples_abound_the_interval_is_students_over_the_seeds() -> None:
    seeds = [0.4, 0.5, 0.55, 0.65]
    expected = stats.t.interval(0.95, 3, loc=np.mean(seeds), scale=stats.sem(seeds))
    assert estimate_accuracy(Accuracy(mean=0.525, size=1e12), seeds).interval == pytest.approx(expected, abs=1e-5)
    known = Change(before=Accuracy(mean=0.0, size=1e12), after=Accuracy(mean=0.525, size=1e12))
    retain = Change(before=Accuracy(mean=0.9, size=1e12), after=Accuracy(mean=0.9, size=1e12))
    scores = [relearning_score(0.9, 0.9, 0.0, one) for one in seeds]
    expected = stats.t.interval(0.95, 3, loc=np.mean(scores), scale=stats.sem(scores))
    assert estimate_rs(retain, known, scores).interval == pytest.approx(expected, abs=1e-5)


def test_both_parts_add_up_as_squares_less_what_seeds_differ_by_on_few_samples_anyway() -> None:
    seeds = [0.4, 0.5, 0.6]
    low, high = wilson_interval(50, 100)
    both = estimate_accuracy(Accuracy(mean=0.5, size=100.0, noise=0.004), seeds).interval
    margin = stats.t.ppf(0.975, 2) * math.sqrt((0.01 - 0.004) / 3)
    assert both == pytest.approx((0.5 - math.hypot(0.5 - low, margin), 0.5 + math.hypot(high - 0.5, margin)))
    assert estimate_accuracy(Accuracy(mean=0.5, size=100.0, noise=0.02), seeds).interval == pytest.approx((low, high))


def test_seeds_that_agree_on_every_sample_give_the_interval_of_one() -> None:
    rng = np.random.default_rng(1)
    retain, forget = hits(rng, [0.95, 0.9], 300), hits(rng, [0.1, 0.6], 80)
    rs = relearning_score(*(float(row.mean()) for row in (*retain, *forget)))
    one = estimate_rs(change(retain[:1], retain[1:]), change(forget[:1], forget[1:]), [rs]).interval
    four = [change(*(np.repeat(row[None], 4, 0) for row in group)) for group in (retain, forget)]
    assert estimate_rs(four[0], four[1], [rs] * 4).interval == pytest.approx(one)


@pytest.mark.parametrize(("before", "after", "drop"), [(0.0, 0.5, 0.05), (0.2, 0.6, 0.1), (0.02, 0.9, 0.02)])
def test_with_many_samples_the_interval_of_rs_is_the_stratified_bootstraps(
    before: float, after: float, drop: float
) -> None:
    rng = np.random.default_rng(2)
    retain, forget = hits(rng, [0.9, *[0.9 - drop] * 3], 3000), hits(rng, [before, *[after] * 3], 2000)
    drawn = []
    for _ in range(2000):
        r, f = (group[:, rng.integers(0, group.shape[1], group.shape[1])].mean(1) for group in (retain, forget))
        drawn.append(np.mean([relearning_score(r[0], r[s], f[0], f[s]) for s in (1, 2, 3)]))
    pairs = [change(np.repeat(group[:1], 3, 0), group[1:]) for group in (retain, forget)]
    rs = relearning_score(*(float(part) for group in (retain, forget) for part in (group[0].mean(), group[1:].mean())))
    low, high = estimate_rs(pairs[0], pairs[1], [rs] * 3).samples
    assert (low, high) == pytest.approx(np.quantile(drawn, (0.025, 0.975)), abs=0.1 * (high - low))


@pytest.mark.parametrize(("right", "rs"), [(0, 0.0), (100, 1.0)])
def test_nothing_and_everything_have_an_interval_of_some_width(right: int, rs: float) -> None:
    retain, forget = Change.of([[50, 0], [0, 850]]), Change.of([[100 - right, right], [0, 0]])
    low, high = estimate_rs(retain, forget, [rs]).interval
    assert low <= rs <= high
    assert 0.02 < high - low < 0.1


def test_sampling_errors_of_references_go_together() -> None:
    model, reference = Estimate(value=0.8, samples=(0.6, 0.9)), Estimate(value=0.3, samples=(0.2, 0.5))
    expected = 0.5 - math.hypot(0.2, 0.2), 0.5 + math.hypot(0.1, 0.1)
    assert difference_interval(model, [reference]) == pytest.approx(expected)
    assert difference_interval(model, [reference] * 3) == pytest.approx(expected)
    sure = [Estimate(value=value, samples=(value, value)) for value in (0.3, 0.1)]
    assert difference_interval(model, sure) == pytest.approx((0.4, 0.7))


def test_errors_of_seeds_are_independent_with_welchs_degrees_of_freedom() -> None:
    a, b = [0.5, 0.6, 0.75, 0.7], [0.1, 0.12, 0.2]
    model, reference = (Estimate.of(seeds, 0.0, 0.0, 0.0) for seeds in (a, b))
    welch = stats.ttest_ind(a, b, equal_var=False).confidence_interval()
    assert difference_interval(model, [reference]) == pytest.approx((welch.low, welch.high))
    assert difference_interval(model, [reference])[0] < difference_interval(model, [reference] * 2)[0]
