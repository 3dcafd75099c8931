from itertools import permutations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from builders.algorithm import share_greedily
from sfra.attack.known import NAMES
from sfra.attack.probes.assign import assign
from sfra.core.errors import InputError


def affinity(n: int, classes: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return (3 * torch.randn(n, classes + 3, generator=generator)).log_softmax(1)[:, :classes]


def total(values: Tensor, owner: Tensor) -> float:
    return float(values.double()[torch.arange(len(owner)), owner].sum())


@settings(deadline=None)
@given(st.integers(1, 5), st.integers(1, 8), st.integers(0, 999), st.sampled_from([*NAMES["assignment"]]))
def test_every_forget_class_gets_m_candidates_and_none_is_given_twice(
    classes: int, m: int, seed: int, method: str
) -> None:
    owner = assign(affinity(classes * m, classes, seed), m, method)
    assert owner.shape == (classes * m,)
    assert torch.bincount(owner, minlength=classes).tolist() == [m] * classes


@settings(deadline=None)
@given(st.integers(1, 4), st.integers(1, 6), st.integers(0, 999))
def test_greedy_is_the_rule_of_the_method_word_for_word(classes: int, m: int, seed: int) -> None:
    values = affinity(classes * m, classes, seed)
    expected = share_greedily(values.double().numpy(), m)
    np.testing.assert_array_equal(assign(values, m, "greedy").numpy(), expected)


def test_greedy_serves_the_lowest_index_first() -> None:
    values = torch.tensor([[-1.0, -1.0], [-2.0, -9.0], [-3.0, -0.5], [-4.0, -7.0]])
    assert assign(values, 2, "greedy").tolist() == [0, 0, 1, 1]
    swapped = assign(values[:, [1, 0]], 2, "greedy")
    assert swapped.tolist() == [0, 1, 0, 1]  # the order of the classes matters: the weakness of the rule


@pytest.mark.parametrize(("classes", "m"), [(2, 1), (2, 3), (3, 2), (6, 1)])
@pytest.mark.parametrize("seed", range(5))
def test_optimal_reaches_the_best_of_all_balanced_assignments(classes: int, m: int, seed: int) -> None:
    values = affinity(classes * m, classes, seed)
    seats = [c for c in range(classes) for _ in range(m)]
    best = max(total(values, torch.tensor(owner)) for owner in set(permutations(seats)))
    assert total(values, assign(values, m, "optimal")) == pytest.approx(best, abs=1e-9)
    assert total(values, assign(values, m, "greedy")) <= best + 1e-9


def test_an_uneven_share_is_refused() -> None:
    with pytest.raises(InputError, match="cannot be shared out evenly"):
        assign(torch.zeros(7, 2), 3, "greedy")


def test_optimal_does_not_depend_on_the_order_of_the_classes() -> None:
    values, order = affinity(30, 3), torch.tensor([2, 0, 1])
    straight, turned = assign(values, 10, "optimal"), assign(values[:, order], 10, "optimal")
    assert torch.equal(order[turned], straight)
    assert not torch.equal(order[assign(values[:, order], 10, "greedy")], assign(values, 10, "greedy"))
