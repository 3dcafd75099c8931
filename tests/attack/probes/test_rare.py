import math

import numpy as np
import pytest
import torch
from torch import Tensor

from builders.regions import by_rejection, independent_logits, random_head, smallest_p_value
from sfra.attack.probes.rare import EmptyRegionError, RegionSample, sample_region
from sfra.attack.probes.region import win_region
from sfra.attack.probes.tilting import prepare
from sfra.core.errors import InputError, SamplingError


def draw(A: Tensor, b: Tensor, label: int = 0, count: int = 500, *, seed: int = 0, threads: int = 2) -> RegionSample:
    return sample_region(A, b, label, count, generator=torch.Generator().manual_seed(seed), threads=threads)


def winners(drawn: RegionSample, A: Tensor, b: Tensor) -> set[int]:
    return set((drawn.samples @ A.T + b).argmax(dim=1).tolist())


def crowded_head() -> tuple[Tensor, Tensor, int]:
    """60 classes in 4 dimensions, and one whose cone is cut out by far more constraints than can be tilted."""
    A, b = random_head(60, 4, seed=0)
    return A, b, 3


@pytest.mark.parametrize(
    ("classes", "width", "handicap"), [(3, 2, 0.0), (10, 10, 12.0), (50, 8, 3.0), (20, 19, 60.0), (40, 200, 25.0)]
)
def test_every_sample_lies_in_the_region_in_float32_too(classes: int, width: int, handicap: float) -> None:
    A, b = random_head(classes, width, seed=1, handicap=handicap)
    drawn = draw(A, b)
    assert drawn.samples.shape == (500, width)
    assert drawn.samples.dtype == torch.float32
    assert drawn.samples.isfinite().all()
    assert winners(drawn, A, b) == {0}


def test_a_class_far_below_1e_7_is_sampled_exactly_and_its_probability_is_told() -> None:
    exact, _ = independent_logits(10, 9.0)
    drawn = draw(torch.eye(10), torch.tensor([-9.0] + [0.0] * 9), count=5000)
    assert exact < math.log(1e-9)
    assert drawn.method == "tilting"
    assert drawn.acceptance > 0.3
    assert drawn.memory == 0.0
    assert drawn.log_probability == pytest.approx(exact, abs=0.1)


def test_the_samples_are_those_of_rejection() -> None:
    A, b = random_head(15, 6, seed=5, handicap=1.0)
    drawn = draw(A, b, count=4000)
    plain = by_rejection(A, b, 0, 3000, seed=9)
    assert smallest_p_value(drawn.samples.double().numpy(), plain, A, b, 0) > 1e-3


def test_a_region_that_tilting_serves_badly_falls_to_markov_chains_which_say_so() -> None:
    A, b, label = crowded_head()
    drawn = draw(A, b, label, 1500)
    assert drawn.method == "slice"
    assert math.isnan(drawn.acceptance)
    assert 0 < abs(drawn.memory) < 0.3
    assert drawn.samples.shape == (1500, 4)
    assert winners(drawn, A, b) == {label}
    assert len(np.unique(drawn.samples.numpy(), axis=0)) == 1500


def test_the_same_generator_gives_the_same_samples_whatever_the_threads() -> None:
    A, b = random_head(60, 40, seed=2, handicap=3.0)
    one, four, other = draw(A, b, threads=1), draw(A, b, threads=4), draw(A, b, seed=1)
    torch.testing.assert_close(one.samples, four.samples, rtol=0, atol=0)
    assert (one.proposals, one.log_probability) == (four.proposals, four.log_probability)
    assert not torch.equal(one.samples, other.samples)


def test_a_longer_run_continues_a_shorter_one() -> None:
    A, b = random_head(10, 10, seed=2)
    assert torch.equal(draw(A, b, count=9000).samples[:500], draw(A, b, count=500).samples)


def test_a_class_that_no_input_is_assigned_to_is_an_error() -> None:
    A, b = random_head(5, 4, seed=0)
    A[0] = (A[1] + A[2]) / 2
    b[0] = -0.1
    with pytest.raises(EmptyRegionError, match="class 0 can never win: the linear program finds no input") as caught:
        draw(A, b)
    assert isinstance(caught.value, SamplingError)


def test_samples_that_float32_cannot_place_are_replaced() -> None:
    A, b = torch.tensor([[0.0, 0.0], [-1.0, 0.0], [1.0, -1e-5]]), torch.zeros(3)
    region = win_region(A, b, 0)
    raw = prepare(region).propose(1, 0).astype(np.float32)
    drawn = draw(A, b, count=3000)
    assert not region.contains(raw).all()
    assert region.contains(drawn.samples.numpy()).all()
    assert drawn.samples.shape == (3000, 2)


def test_a_region_thinner_than_float32_rounding_is_an_error() -> None:
    A = torch.tensor([[0.0, 0.0], [-1.0, 0.0], [1.0, -1e-8]])
    with pytest.raises(EmptyRegionError, match="the region of class 0 is too thin for float32"):
        draw(A, torch.zeros(3))


def test_a_class_that_always_wins_gives_the_plain_gaussian() -> None:
    drawn = draw(torch.ones(3, 2), torch.tensor([0.0, 1.0, 0.0]), 1, 4000)
    assert drawn.log_probability == 0.0
    assert drawn.samples.std().item() == pytest.approx(1.0, abs=0.05)


def test_no_samples_cannot_be_asked_for() -> None:
    with pytest.raises(InputError, match="the number of samples is too small"):
        draw(torch.eye(3), torch.zeros(3), count=0)
