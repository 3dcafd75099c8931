import numpy as np
import pytest
import torch

from builders.regions import random_head
from sfra.attack.probes.region import EmptyRegionError, win_region
from sfra.core.errors import InputError


@pytest.mark.parametrize("label", [0, 3])
def test_a_point_is_inside_exactly_if_the_class_wins(label: int) -> None:
    A, b = random_head(6, 4, seed=0, handicap=0.3)
    samples = np.random.default_rng(1).standard_normal((5000, 4)).astype(np.float32)
    wins = (torch.from_numpy(samples) @ A.T + b).argmax(dim=1) == label
    inside = win_region(A, b, label).contains(samples)
    assert 0 < inside.sum() < 5000
    np.testing.assert_array_equal(inside, wins.numpy())


def test_a_point_that_wins_by_rounding_only_is_not_inside() -> None:
    region = win_region(torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, -1.0]]), torch.zeros(3), 0)
    inside = region.contains(np.array([[1e-8, 3.0], [1e-5, 3.0]], dtype=np.float32))
    assert inside.tolist() == [False, True]


def test_a_class_that_shares_the_row_is_beaten_or_wins_by_its_bias_alone() -> None:
    A = torch.tensor([[1.0, 2.0], [1.0, 2.0], [0.0, 1.0]])
    assert len(win_region(A, torch.tensor([0.5, 0.0, 0.0]), 0).offsets) == 1
    with pytest.raises(EmptyRegionError, match=r"class 1 can never win: class 0 has the same row"):
        win_region(A, torch.tensor([0.5, 0.0, 0.0]), 1)


def test_of_two_equal_classes_the_first_wins_as_in_argmax() -> None:
    A, b = torch.tensor([[1.0], [1.0], [-1.0]]), torch.zeros(3)
    assert (torch.tensor([[2.0]]) @ A.T + b).argmax() == 0
    assert len(win_region(A, b, 0).offsets) == 1
    with pytest.raises(EmptyRegionError, match="class 1"):
        win_region(A, b, 1)


def test_the_radius_is_that_of_the_largest_ball_inside() -> None:
    # Class 2 wins where |u| < 0.25.
    A = torch.tensor([[1.0], [-1.0], [0.0]])
    assert win_region(A, torch.tensor([0.0, 0.0, 0.25]), 2).radius() == pytest.approx(0.25)
    assert win_region(A, torch.tensor([0.0, 0.0, -0.25]), 2).radius() == pytest.approx(-0.25)
    assert win_region(A, torch.zeros(3), 0).radius() == pytest.approx(1.0)


def test_a_class_out_of_range_is_named() -> None:
    with pytest.raises(InputError, match=r"expected: 0 to 2\n  got:      7"):
        win_region(torch.eye(3), torch.zeros(3), 7)
