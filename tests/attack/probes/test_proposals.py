import math

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor

from sfra.attack.probes import kernels, proposals
from sfra.attack.probes.proposals import support
from sfra.core.errors import InputError

LAWS = {
    "gaussian": stats.norm().cdf,
    "uniform": stats.uniform(-math.sqrt(3), 2 * math.sqrt(3)).cdf,
    "laplace": stats.laplace(0, math.sqrt(0.5)).cdf,
    "abs-gaussian": stats.halfnorm().cdf,
}


def torch_draws(name: str, rows: int, width: int, seed: int = 5) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return proposals.get(name).fill(torch.empty(rows, width), generator)


def compiled_draws(name: str, rows: int, width: int, seed: int = 5) -> Tensor:
    out = np.empty((rows, width), np.float32)
    kernels.make_draws(np.arange(rows), 0, np.uint64(seed), proposals.get(name).code, out)
    return torch.from_numpy(out)


@pytest.mark.parametrize("name", LAWS)
def test_the_torch_draws_follow_the_named_law(name: str) -> None:
    values = torch_draws(name, 50_000, 4).double().numpy()
    assert stats.kstest(values.ravel(), LAWS[name]).pvalue > 1e-3
    assert np.abs(np.corrcoef(values.T) - np.eye(4)).max() < 5 / math.sqrt(50_000)


@pytest.mark.parametrize("name", proposals.names())
def test_torch_and_the_kernels_draw_from_the_same_law(name: str) -> None:
    one, other = torch_draws(name, 40_000, 3), compiled_draws(name, 40_000, 3)
    shares = [float((draws == 0).float().mean()) for draws in (one, other)]
    assert shares[0] == pytest.approx(shares[1], abs=5 * math.sqrt(0.5 / 120_000))
    assert stats.ks_2samp(one[one != 0].numpy(), other[other != 0].numpy()).pvalue > 1e-3


@pytest.mark.parametrize("name", ["gaussian", "uniform", "laplace"])
@pytest.mark.parametrize("draw", [torch_draws, compiled_draws])
def test_signed_proposals_have_zero_mean_and_unit_variance(name: str, draw: object) -> None:
    assert callable(draw)
    values = draw(name, 200_000, 4).double()
    assert abs(float(values.mean())) < 4.5 / math.sqrt(800_000)
    assert float(values.var()) == pytest.approx(1.0, abs=4.5 * math.sqrt(5 / 800_000))


def test_only_the_gaussian_is_rotation_invariant() -> None:
    assert [name for name in proposals.names() if proposals.get(name).isotropic] == ["gaussian"]
    rotation = torch.linalg.qr(torch.randn(8, 8, generator=torch.Generator().manual_seed(0))).Q
    for name in LAWS:
        turned = (torch_draws(name, 50_000, 8) @ rotation).double().numpy().ravel()
        assert (stats.kstest(turned, LAWS[name]).pvalue > 1e-3) == proposals.get(name).isotropic


@pytest.mark.parametrize("name", proposals.names())
def test_a_seed_fixes_the_torch_draws_and_the_global_generator_is_left_alone(name: str) -> None:
    before = torch.random.get_rng_state()
    first, again = torch_draws(name, 50, 7, seed=1), torch_draws(name, 50, 7, seed=1)
    assert torch.equal(first, again)
    assert not torch.equal(first, torch_draws(name, 50, 7, seed=2))
    assert torch.equal(before, torch.random.get_rng_state())


def test_support_counts_signs_zeros_and_lengths() -> None:
    samples = torch.tensor([[3.0, 4.0, 0.0], [0.0, 0.0, 0.0], [-1.0, 2.0, 2.0], [0.0, 5.0, -12.0]])
    found = support(samples)
    assert found.negative_coordinates == pytest.approx(2 / 12)
    assert found.zero_coordinates == pytest.approx(5 / 12)
    assert found.nonnegative_vectors == pytest.approx(2 / 4)
    assert found.mean_norm == pytest.approx((5 + 0 + 3 + 13) / 4)


@pytest.mark.parametrize(
    ("name", "negative", "zero", "nonnegative"),
    [
        ("gaussian", 0.5, 0.0, 1 / 8),
        ("uniform", 0.5, 0.0, 1 / 8),
        ("laplace", 0.5, 0.0, 1 / 8),
        ("relu-gaussian", 0.0, 0.5, 1.0),
        ("abs-gaussian", 0.0, 0.0, 1.0),
    ],
)
def test_support_of_raw_draws_is_what_the_law_says(name: str, negative: float, zero: float, nonnegative: float) -> None:
    found = support(compiled_draws(name, 40_000, 3))
    assert found.negative_coordinates == pytest.approx(negative, abs=0.01)
    assert found.zero_coordinates == pytest.approx(zero, abs=0.01)
    assert found.nonnegative_vectors == pytest.approx(nonnegative, abs=0.01)


def test_the_support_of_nothing_is_refused() -> None:
    with pytest.raises(InputError, match="the support of no probes is not defined"):
        support(torch.empty(0, 4))


def test_an_unknown_proposal_is_refused_with_the_known_names() -> None:
    with pytest.raises(InputError) as problem:
        proposals.get("cauchy")
    assert str(problem.value) == (
        "unknown proposal\n"
        "  expected: gaussian or uniform or laplace or relu-gaussian or abs-gaussian\n"
        "  got:      cauchy"
    )
