import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sfra.attack.probes import review, sample_probes
from sfra.attack.probes.pools import Pools
from sfra.attack.probes.review import WARM_UP, Review
from sfra.core.errors import SamplingError
from sfra.core.head import Head

CONDITIONAL_COST, SET_UP_COST = review.CONDITIONAL_COST["cpu"], review.SET_UP_COST["cpu"]


N = 100_000


def pools_after(draws: int, landed: list[int], *, n: int = N) -> Pools:
    """Pools whose retain classes 1, 2, … have the given counts; class 0 is the forget class."""
    pools = Pools(1 + len(landed), [0], n=n, top=1, bottom=1)
    pools.draws = draws
    pools.landed = torch.tensor([draws - sum(landed), *landed])
    return pools


def costs(pools: Pools) -> tuple[float, float]:
    """Cost of switching at once, and the least cost of drawing on and switching later or never.

    A plain draw costs 1, preparing a class SET_UP_COST, a conditional sample CONDITIONAL_COST. After ``t`` more
    draws class ``k`` still needs ``need - p t`` candidates. The cost is linear between the times at which a class
    fills, so those times and a fine grid hold the minimum.
    """
    need = np.array([pools.n - int(pools.landed[k]) for k in pools.open], float)
    p = np.array([float(pools.acceptance[k]) for k in pools.open])
    filled = need / np.maximum(p, 1e-300)

    def cost(t: float) -> float:
        still = filled > t
        return t + float((SET_UP_COST + CONDITIONAL_COST * (need - p * t)[still]).sum()) if still.any() else t

    later = [cost(t) for t in (*filled, *np.geomspace(1, filled.max(), 200))]
    return cost(0.0), min(later)


landed_counts = st.lists(st.integers(0, N - 1), min_size=1, max_size=6)


@settings(deadline=None, max_examples=150)
@given(landed_counts, st.integers(WARM_UP, 2**34))
def test_the_stream_goes_on_exactly_while_that_is_the_cheaper_way(landed: list[int], draws: int) -> None:
    pools = pools_after(max(draws, 2 * sum(landed)), landed)
    now, later = costs(pools)
    if Review(2**62, can_condition=True).goes_on(pools):
        assert later <= now * (1 + 1e-9)
    else:
        assert later >= now * (1 - 1e-9)


def test_a_class_that_is_all_but_full_is_finished_before_the_switch() -> None:
    pools = pools_after(20_000_000, [99_900, 3])  # 100 candidates at p = .005: 20,000 draws save a preparation
    now, later = costs(pools)
    assert now - later > 0.7 * SET_UP_COST
    assert Review(2**62, can_condition=True).goes_on(pools)


def test_nothing_is_judged_before_the_warm_up() -> None:
    early, later = pools_after(WARM_UP - 1, [0]), pools_after(WARM_UP, [0])
    for can_condition in (True, False):
        assert Review(2**62, can_condition=can_condition).goes_on(early)
    assert not Review(2**62, can_condition=True).goes_on(later)


def test_the_budget_ends_the_stream_of_a_proposal_that_can_be_conditioned() -> None:
    healthy = pools_after(2_000_000, [90_000])
    assert Review(2_000_001, can_condition=True).goes_on(healthy)
    assert not Review(2_000_000, can_condition=True).goes_on(healthy)


def test_the_budget_is_an_error_for_a_proposal_that_cannot_be_conditioned() -> None:
    healthy = pools_after(2_000_000, [90_000, 99_000])
    assert Review(2_300_000, can_condition=False).goes_on(healthy)
    with pytest.raises(SamplingError, match=r"budget cannot fill .*(\n.*)*class 1: 4\.5e-02, class 2: 5\.0e-02"):
        Review(2_000_000, can_condition=False).goes_on(healthy)


def test_a_hopeless_class_is_named_long_before_the_budget_is_spent() -> None:
    pools = pools_after(WARM_UP, [50_000, 2])
    with pytest.raises(SamplingError, match=r"class 2: 1\.9e-06") as problem:
        Review(10**9, can_condition=False).goes_on(pools)
    assert "class 1" not in str(problem.value)


def test_a_class_is_not_given_up_for_bad_luck() -> None:
    draws, budget = WARM_UP, 10**8
    p = N / budget * 1.1  # would be filled within the budget, with a tenth to spare
    rng = np.random.default_rng(0)
    for landed in rng.binomial(draws, p, size=2000):
        assert Review(budget, can_condition=False).goes_on(pools_after(draws, [int(landed)]))
    half = rng.binomial(draws, p / 2)  # about half of what is needed: given up
    with pytest.raises(SamplingError):
        Review(budget, can_condition=False).goes_on(pools_after(draws, [int(half)]))


def impossible() -> Head:
    """Class 1 lies nowhere on the non-negative orthant, and nowhere near it."""
    return Head(weight=torch.tensor([[1.0, 0.0], [-1.0, -1.0], [0.0, 1.0]]), bias=torch.tensor([0.0, -0.5, 0.0]))


@pytest.mark.parametrize("proposal", ["relu-gaussian", "abs-gaussian"])
def test_an_impossible_class_is_an_error_that_names_it_and_not_an_endless_loop(proposal: str) -> None:
    with pytest.raises(SamplingError) as problem:
        sample_probes(impossible(), 0, n=500, m=10, proposal=proposal)
    message = str(problem.value)
    assert "class 1: 0.0e+00" in message
    assert "class 2" not in message
    assert "500 candidates in every retain class" in message


@pytest.mark.parametrize("budget", [1, 5000, 50_000])
def test_the_budget_bounds_the_draws_of_every_run(budget: int, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    goes_on = Review.goes_on

    def watch(self: Review, pools: Pools) -> bool:
        seen.append(pools.draws)
        return goes_on(self, pools)

    monkeypatch.setattr(review.Review, "goes_on", watch)
    with pytest.raises(SamplingError, match="class 1"):
        sample_probes(impossible(), 0, n=500, m=10, proposal="relu-gaussian", max_draws=budget)
    assert seen[-1] >= budget
    assert all(draws < budget for draws in seen[:-1])
    assert seen[-1] < budget + 2 ** math.ceil(math.log2(budget + 4096))
