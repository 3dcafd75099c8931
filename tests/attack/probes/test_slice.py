import numpy as np
import pytest
import torch
from scipy import stats

from builders.regions import GRID, by_rejection, independent_logits, random_head, smallest_p_value
from sfra.attack.probes.arcs import pick_angle, restrict, walk
from sfra.attack.probes.linear import BLOCK, pad
from sfra.attack.probes.region import Region, win_region
from sfra.attack.probes.slice import CHAINS, Chains
from sfra.attack.probes.tilting import prepare


def angles_on_ellipse(p: np.ndarray, w: np.ndarray, offsets: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """Angles of one ellipse, drawn as the chains draw them."""
    low, high, counts = np.full(1, -np.inf), np.full(1, np.inf), np.zeros(1, np.int64)
    starts, ends = np.empty((1, len(p))), np.empty((1, len(p)))
    for i in range(len(p)):
        restrict(p[i : i + 1] - offsets[i], p[i : i + 1], w[i : i + 1], low, high, starts, ends, counts)
    gaps = starts[0, : counts[0]], ends[0, : counts[0]]
    return np.array([pick_angle(low[0], high[0], *gaps, share) for share in shares])


@pytest.mark.parametrize("seed", range(12))
def test_angles_are_uniform_on_the_allowed_part_of_the_ellipse(seed: int) -> None:
    generator = np.random.default_rng(seed)
    p, w = generator.standard_normal(5), generator.standard_normal(5)
    offsets = p - generator.exponential(1.0 if seed % 2 else 0.2, 5)
    shares = np.linspace(0.001, 0.999, 999)
    angles = angles_on_ellipse(p, w, offsets, shares)

    def allowed(angle: np.ndarray) -> np.ndarray:
        return angle[(np.outer(np.cos(angle), p) + np.outer(np.sin(angle), w) > offsets).all(axis=1)]

    grid = allowed(np.linspace(-np.pi, np.pi, 200_001))
    assert len(allowed(angles)) == len(angles)
    np.testing.assert_allclose(np.searchsorted(grid, angles) / len(grid), shares, atol=3e-3)


def test_without_constraints_the_whole_ellipse_is_allowed() -> None:
    nothing = np.empty(0)
    angles = angles_on_ellipse(nothing, nothing, nothing, np.array([0.25, 0.5, 0.75]))
    np.testing.assert_allclose(angles, [-np.pi / 2, 0.0, np.pi / 2])


@pytest.mark.parametrize("center", [0.0, 0.7])
def test_a_walk_keeps_the_distribution_and_forgets_where_it_was(center: float) -> None:
    A, b = random_head(6, 5, seed=0, handicap=1.5)
    region = win_region(A, b, 0)
    before = by_rejection(A, b, 0, 3000, seed=0)
    middle = np.full(5, center)
    rows = pad(np.vstack([region.rows, -middle]), BLOCK, 4)
    offsets = np.append(region.offsets - region.rows @ middle, 0.0)
    y = pad(np.ascontiguousarray((before - middle).T), 4, 1)
    walk(rows, offsets, y, np.array([0, 2, 5]), 100, np.uint64(1), np.uint64(0))
    after = y[:5].T + middle
    assert (after @ region.rows.T > region.offsets).all()
    assert smallest_p_value(after, by_rejection(A, b, 0, 3000, seed=1), A, b, 0) > 1e-3
    assert all(abs(np.corrcoef(before[:, i], after[:, i])[0, 1]) < 4 / np.sqrt(3000) for i in range(5))


def chain_draws(region: Region, draws: int, seed: int) -> tuple[np.ndarray, Chains]:
    chains = Chains(region, seed)
    return np.concatenate([chains.draw() for _ in range(draws)]), chains


@pytest.mark.parametrize(("classes", "width", "handicap"), [(8, 7, 1.5), (30, 4, 0.0)])
def test_chains_and_rejection_give_the_same_distribution(classes: int, width: int, handicap: float) -> None:
    A, b = random_head(classes, width, seed=2, handicap=handicap)
    samples, chains = chain_draws(win_region(A, b, 0), 2, seed=1)
    assert smallest_p_value(samples, by_rejection(A, b, 0, 3000, seed=4), A, b, 0) > 1e-3
    assert chains.memory < 0.2


def test_chains_reach_a_region_of_probability_1e_15_and_know_it() -> None:
    exact, distribution = independent_logits(20, 11.0)
    region = win_region(torch.eye(20), torch.tensor([-11.0] + [0.0] * 19), 0)
    samples, chains = chain_draws(region, 2, seed=2)
    assert exact < np.log(1e-14)
    assert chains.log_probability == pytest.approx(exact, abs=0.2)
    assert stats.kstest(np.interp(samples[:, 0], GRID, distribution), "uniform").pvalue > 1e-3


def test_levels_lead_through_constraints_that_no_proposal_satisfies() -> None:
    A, b = random_head(30, 4, seed=11, handicap=1.0)
    region = win_region(A, b, 0)
    tilting = prepare(region)
    exact = np.concatenate([tilting.propose(1, index) for index in range(40)])
    reference = tilting.log_bound + np.log(len(exact) / (40 * tilting.tile))
    samples, chains = chain_draws(region, 2, seed=3)
    assert chains.log_probability == pytest.approx(reference, abs=0.4)
    assert smallest_p_value(samples, exact[:4000], A, b, 0) > 1e-3


def test_the_population_is_the_same_for_any_number_of_threads() -> None:
    A, b = random_head(12, 3, seed=5)
    one, four = (Chains(win_region(A, b, 0), 7, threads).draw() for threads in (1, 4))
    assert one.shape == (CHAINS, 3)
    np.testing.assert_array_equal(one, four)
