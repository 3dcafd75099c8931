import numpy as np
import pytest
import torch
from scipy import optimize, stats
from torch import Tensor

from builders.regions import (
    GRID,
    Floats,
    by_rejection,
    independent_logits,
    moment_z_scores,
    random_head,
    smallest_p_value,
)
from sfra.attack.probes.region import win_region
from sfra.attack.probes.saddle import log_tail, mean_above, saddle_point
from sfra.attack.probes.tilting import Tilting, prepare


def run(
    A: Tensor, b: Tensor, label: int = 0, *, tiles: int = 8, limit: int | None = None
) -> tuple[Floats, float, float]:
    """Draw a few tiles; return samples, acceptance and ``log P``."""
    tilting = prepare(win_region(A, b, label), limit)
    found = np.concatenate([tilting.propose(3, index) for index in range(tiles)])
    acceptance = len(found) / (tiles * tilting.tile)
    return found, acceptance, tilting.log_bound + float(np.log(acceptance))


def log_error(acceptance: float, accepted: int) -> float:
    """Four standard errors of the logarithm of an acceptance."""
    return 4 * float(np.sqrt((1 - acceptance) / accepted))


def test_the_probability_is_that_of_the_multivariate_normal() -> None:
    A, b = random_head(6, 8, seed=1, handicap=4.0)
    region = win_region(A, b, 0)
    law = stats.multivariate_normal(np.zeros(5), region.rows @ region.rows.T, seed=1, abseps=1e-12, maxpts=10**6)
    samples, acceptance, log_probability = run(A, b)
    assert log_probability == pytest.approx(np.log(law.cdf(-region.offsets)), abs=log_error(acceptance, len(samples)))


@pytest.mark.parametrize(("classes", "handicap"), [(3, 2.0), (30, 5.0), (60, 12.0), (8, 45.0)])
def test_draws_and_probability_are_exact_from_common_to_absurdly_rare(classes: int, handicap: float) -> None:
    exact, distribution = independent_logits(classes, handicap)
    samples, acceptance, log_probability = run(torch.eye(classes), torch.tensor([-handicap] + [0.0] * (classes - 1)))
    assert log_probability == pytest.approx(exact, abs=log_error(acceptance, len(samples)))
    assert stats.kstest(np.interp(samples[:, 0], GRID, distribution), "uniform").pvalue > 1e-3
    assert (samples[:, :1] - handicap > samples[:, 1:]).all()


def test_a_half_space_of_probability_1e_9_gives_the_truncated_normal_and_leaves_the_rest_alone() -> None:
    A = torch.tensor([[1.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    samples, acceptance, log_probability = run(A, torch.tensor([-6.0, 0.0, 0.0]), tiles=1)
    assert acceptance == 1.0
    assert log_probability == pytest.approx(stats.norm.logsf(6.0), rel=1e-6)
    assert stats.kstest(samples[:, 0], stats.truncnorm(6.0, np.inf).cdf).pvalue > 1e-3
    assert all(stats.kstest(samples[:, i], "norm").pvalue > 1e-3 for i in (1, 2))
    assert np.abs(np.corrcoef(samples.T) - np.eye(3)).max() < 4 / np.sqrt(len(samples))


@pytest.mark.parametrize(("classes", "width", "handicap"), [(8, 12, 1.5), (30, 4, 0.0), (12, 11, 2.0)])
def test_tilting_and_rejection_give_the_same_distribution(classes: int, width: int, handicap: float) -> None:
    A, b = random_head(classes, width, seed=6, handicap=handicap)
    plain = by_rejection(A, b, 0, 3000, seed=4)
    tilted = run(A, b, tiles=24)[0][:4000]
    assert smallest_p_value(tilted, plain, A, b, 0) > 1e-3
    assert np.abs(moment_z_scores(tilted, plain)).max() < 4.5


def test_that_comparison_notices_a_bias_of_a_tenth() -> None:
    A, b = random_head(8, 12, seed=6, handicap=1.5)
    plain = by_rejection(A, b, 0, 3000, seed=4)
    shifted = run(A, b - torch.tensor([0.3] + [0.0] * 7), tiles=24)[0][:4000]
    assert smallest_p_value(shifted, plain, A, b, 0) < 1e-3


def test_fewer_tilted_constraints_cost_acceptance_but_not_correctness() -> None:
    A, b = random_head(20, 20, seed=6, handicap=2.0)
    full, most, log_full = run(A, b, tiles=4)
    some, fewer, log_some = run(A, b, tiles=40, limit=4)
    assert fewer < 0.7 * most
    assert log_some == pytest.approx(log_full, abs=log_error(fewer, len(some)) + log_error(most, len(full)))
    assert smallest_p_value(full[:4000], some[:4000], A, b, 0) > 1e-3


@pytest.mark.parametrize("limit", [0, None])
def test_the_bound_is_never_below_the_probability(limit: int | None) -> None:
    for seed in range(5):
        A, b = random_head(10, 12, seed=seed, handicap=1.0)
        tilting = prepare(win_region(A, b, 0), limit)
        assert tilting.log_bound >= run(A, b, limit=limit)[2]


def test_repeated_rows_change_nothing() -> None:
    A, b = random_head(6, 4, seed=2, handicap=1.0)
    samples, acceptance, log_probability = run(A, b)
    twice, _, log_twice = run(torch.cat([A, A[1:3]]), torch.cat([b, b[1:3]]))
    assert log_twice == pytest.approx(log_probability, abs=2 * log_error(acceptance, len(samples)))
    assert smallest_p_value(samples[:4000], twice[:4000], A, b, 0) > 1e-3


def test_the_saddle_point_minimises_the_bound() -> None:
    generator = np.random.default_rng(3)
    M = np.tril(generator.standard_normal((7, 7)), -1) + np.eye(7)
    offsets = generator.standard_normal(7) * 2

    def bound(t: Floats) -> float:
        rate = mean_above(t)
        shifts = M.T @ rate - rate
        value = shifts**2 / 2 + rate * (shifts - offsets) + log_tail(t) + rate * t
        return float(value.sum())

    found = saddle_point(M, offsets)
    assert bound(found) == pytest.approx(optimize.minimize(bound, np.zeros(7)).fun, abs=1e-6)
    assert all(bound(found) <= bound(found + generator.standard_normal(7) / 10) for _ in range(20))


def test_the_cone_forgets_the_constraints_that_are_only_checked() -> None:
    A, b = random_head(30, 4, seed=6)
    region = win_region(A, b, 0)
    cone: Tilting = prepare(region).cone
    slack = cone.propose(1, 0) @ region.rows.T - region.offsets
    assert (slack[:, cone.order] > 0).all()
    assert (slack < 0).any()
