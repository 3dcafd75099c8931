"""The margin approximation, against autograd, plain loops, a plain bootstrap and scipy."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from torch import Tensor, nn

from builders.diagnostics import Labelled, Scene, scene
from sfra.core.errors import InputError
from sfra.diagnostics import agreement, margin
from sfra.diagnostics.margin import BINS, QUANTILES

RETAIN = (0, 2, 4)


def margins_after_step(toy: Scene, forget_class: int, rate: float, *, gain: float = 1.0, bias: bool = True) -> Tensor:
    """Return the change of the mean margin over every class by one step of torch's SGD, in float64."""
    layer = nn.Linear(toy.head.width, toy.head.classes, dtype=torch.float64)
    layer.load_state_dict({"weight": toy.head.weight.double(), "bias": toy.head.bias.double()})
    layer.bias.requires_grad_(bias)
    real = toy.features[toy.labels == forget_class].double() / gain

    def mean_margin() -> Tensor:
        with torch.no_grad():
            logits = layer(real).mean(0)
        return torch.as_tensor(logits[forget_class] - logits)

    before = mean_margin()
    mine = toy.probes.labels == forget_class
    loss = nn.functional.cross_entropy(layer(toy.probes.samples[mine].double()), toy.probes.labels[mine])
    loss.backward()  # type: ignore[no-untyped-call]
    torch.optim.SGD([p for p in layer.parameters() if p.requires_grad], lr=rate).step()
    return mean_margin() - before


@pytest.mark.parametrize("rate", [1e-3, 0.37, 10.0])
@pytest.mark.parametrize("gain", [1.0, 0.5])
def test_the_margin_moves_by_weight_and_bias_term_exactly_whatever_the_step(rate: float, gain: float) -> None:
    toy = scene()
    for found in margin(toy.head, toy.probes, toy.features, toy.labels, toy.forget, gain=gain, bootstrap=2):
        moved = margins_after_step(toy, found.forget_class, rate, gain=gain)
        frozen = margins_after_step(toy, found.forget_class, rate, gain=gain, bias=False)
        assert tuple(one.label for one in found.competitors) == RETAIN
        for one in found.competitors:
            assert rate * one.total == pytest.approx(float(moved[one.label]), abs=1e-9)
            assert rate * one.exact == pytest.approx(float(frozen[one.label]), abs=1e-9)
            assert rate * one.bias == pytest.approx(float(moved[one.label] - frozen[one.label]), abs=1e-9)


def test_alpha_and_the_residual_are_those_of_plain_loops() -> None:
    toy = scene()
    W, b = toy.head.weight.double().numpy(), toy.head.bias.double().numpy()
    for found in margin(toy.head, toy.probes, toy.features, toy.labels, toy.forget, bootstrap=2):
        c = found.forget_class
        mu_E = toy.features[toy.labels == c].double().numpy().mean(0)
        for one in found.competitors:
            values, residuals, exact = [], [], []
            for s in toy.probes.samples[toy.probes.labels == c].double().numpy():
                odds = [math.exp(float(W[k] @ s + b[k])) for k in range(5)]
                alpha = 1.0 - odds[c] / sum(odds) + odds[one.label] / sum(odds)
                values.append(alpha)
                residuals.append((alpha - 1.0) * float(s @ mu_E))
                exact.append(alpha * float(s @ mu_E))
            assert (one.alpha_mean, one.alpha_std) == pytest.approx((np.mean(values), np.std(values)), abs=1e-12)
            assert one.alpha_quantiles == pytest.approx(np.quantile(values, QUANTILES), abs=1e-12)
            assert one.alpha_histogram == tuple(np.histogram(values, BINS, (0.0, 2.0))[0])
            assert one.residual == pytest.approx(np.mean(residuals), abs=1e-12)
            assert one.exact == pytest.approx(np.mean(exact), abs=1e-12)
            assert one.exact == pytest.approx(found.inner + one.residual, abs=1e-12)
            assert one.sufficient == (found.inner > abs(np.mean(residuals)))


def test_the_sufficient_condition_implies_a_rising_margin_and_is_not_always_met() -> None:
    seen = set()
    for seed in range(40):
        toy = scene(seed)
        for found in margin(toy.head, toy.probes, toy.features, toy.labels, toy.forget, bootstrap=2):
            for one in found.competitors:
                seen.add((one.sufficient, one.exact > 0.0))
            assert found.sufficient == sum(one.sufficient for one in found.competitors)
            assert found.rising == sum(one.total > 0.0 for one in found.competitors)
    assert seen == {(True, True), (False, True), (False, False)}


def test_the_bootstrap_matches_one_drawn_row_by_row() -> None:
    toy = scene(probes=25, samples=50)
    found = margin(toy.head, toy.probes, toy.features, toy.labels, [1], bootstrap=30, seed=4)[0]
    S = toy.probes.samples[toy.probes.labels == 1].double()
    E = toy.features[toy.labels == 1].double()
    p = (S @ toy.head.weight.double().T + toy.head.bias.double()).softmax(1)
    generator = torch.Generator().manual_seed(4)
    rows, reals = (torch.randint(len(part), (30, len(part)), generator=generator) for part in (S, E))
    exact, approximate, inner = [], [], []
    for chosen, real in zip(rows, reals, strict=True):
        mu_E = E[real].mean(0)
        inner.append(float(S[chosen].mean(0) @ mu_E))
        for j in (0, 2, 3, 4):
            alpha = 1.0 - p[chosen, 1] + p[chosen, j]
            exact.append(float((alpha[:, None] * S[chosen]).mean(0) @ mu_E))
            approximate.append(inner[-1])
    expected, got = agreement(exact, approximate), found.agreement
    assert got.pairs == 30 * 4
    assert (got.pearson, got.spearman) == pytest.approx((expected.pearson, expected.spearman), abs=1e-9)
    assert got.slope_through_origin == pytest.approx(expected.slope_through_origin, abs=1e-9)
    assert got.sign_agreement == expected.sign_agreement
    assert found.inner_interval == pytest.approx(np.quantile(inner, (0.025, 0.975)), abs=1e-9)
    assert [point[0] for point in found.points[:4]] == [0, 2, 3, 4]
    assert [point[1] for point in found.points] == pytest.approx(exact)
    assert [point[2] for point in found.points] == pytest.approx(approximate)


def test_the_seed_decides_the_bootstrap_and_nothing_else_and_the_global_generator_is_left_alone() -> None:
    toy = scene()
    state = torch.get_rng_state()
    one, same, other = (margin(toy.head, toy.probes, toy.features, toy.labels, [1], seed=s)[0] for s in (0, 0, 1))
    assert torch.equal(torch.get_rng_state(), state)
    assert one == same
    assert one.agreement != other.agreement
    assert one.competitors == other.competitors


def test_another_forget_class_is_no_competitor_but_stays_in_the_softmax() -> None:
    toy = scene()
    alone = margin(toy.head, toy.probes, toy.features, toy.labels, [1], bootstrap=2)[0]
    both = margin(toy.head, toy.probes, toy.features, toy.labels, [1, 3], bootstrap=2)[0]
    assert [one.label for one in alone.competitors] == [0, 2, 3, 4]
    assert both.competitors == tuple(one for one in alone.competitors if one.label != 3)


@pytest.mark.parametrize("most", [3, 119, 500])
def test_few_pairs_are_spread_over_samples_and_competitors(most: int) -> None:
    toy = scene()
    whole, some = (
        margin(toy.head, toy.probes, toy.features, toy.labels, [1], bootstrap=30, points=points)[0].points
        for points in (120, most)
    )
    assert len(set(whole)) == 120
    assert len(set(some)) == len(some) == min(most, 120)
    assert set(some) <= set(whole)
    per_competitor = [sum(point[0] == label for point in some) for label in (0, 2, 3, 4)]
    assert max(per_competitor) - min(per_competitor) <= 1
    assert len({point[2] for point in some}) == min(most, 30)


def test_too_few_bootstrap_samples_are_refused() -> None:
    toy = scene()
    with pytest.raises(InputError, match="there are too few bootstrap samples"):
        margin(toy.head, toy.probes, toy.features, toy.labels, [1], bootstrap=1)


def test_one_probe_and_one_sample_are_enough() -> None:
    toy = scene()
    probes = Labelled(toy.probes.samples[1:2], toy.probes.labels[1:2])
    found = margin(toy.head, probes, toy.features[1:2], toy.labels[1:2], [1])[0]
    assert found.agreement.pearson is None
    assert found.inner_interval == pytest.approx((found.inner, found.inner))


SMALL = st.integers(-3, 3).map(float)


@settings(max_examples=80, deadline=None)
@given(st.lists(st.tuples(SMALL, SMALL), min_size=3, max_size=30))
def test_correlations_are_those_of_scipy_with_and_without_ties(pairs: list[tuple[float, float]]) -> None:
    y, x = (np.array(column) for column in zip(*pairs, strict=True))
    found = agreement(y, x)
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        assert (found.pearson, found.spearman) == (None, None)
    else:
        assert found.pearson == pytest.approx(stats.pearsonr(x, y).statistic, abs=1e-10)
        assert found.spearman == pytest.approx(stats.spearmanr(x, y).statistic, abs=1e-10)
    assert found.sign_agreement == sum((a > 0) - (a < 0) == (b > 0) - (b < 0) for a, b in pairs) / len(pairs)


def test_both_slopes_are_least_squares() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=50) + 2.0
    y = 3.0 * x + 1.0 + rng.normal(size=50)
    found = agreement(y, x)
    line = stats.linregress(x, y)
    assert (found.slope, found.intercept) == pytest.approx((line.slope, line.intercept), abs=1e-10)
    through_origin = np.linalg.lstsq(x[:, None], y, rcond=None)[0][0]
    assert found.slope_through_origin == pytest.approx(through_origin, abs=1e-10)


def test_what_does_not_vary_has_no_slope_and_no_correlation() -> None:
    found = agreement([1.0, 2.0], [0.0, 0.0])
    assert (found.pearson, found.spearman, found.slope, found.intercept) == (None, None, None, None)
    assert found.slope_through_origin is None
    assert found.sign_agreement == 0.0


@pytest.mark.parametrize(("exact", "approximate"), [([], []), ([1.0], [1.0, 2.0])])
def test_pairs_that_do_not_match_are_refused(exact: list[float], approximate: list[float]) -> None:
    with pytest.raises(InputError, match="the pairs do not match"):
        agreement(exact, approximate)
