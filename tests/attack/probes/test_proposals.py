import math

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor

from builders.algorithm import compiled_draws
from sfra.attack.probes import proposals
from sfra.attack.probes.proposals import support
from sfra.core.errors import InputError


def torch_draws(name: str, rows: int, width: int, seed: int = 5) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return proposals.get(name).fill(torch.empty(rows, width), generator)


@pytest.mark.parametrize("name", proposals.names())
def test_torch_and_the_kernels_draw_from_the_same_law(name: str) -> None:
    one = torch_draws(name, 40_000, 3).numpy()
    other = compiled_draws(np.arange(40_000), 3, proposal=proposals.get(name).code)
    shares = [float((draws == 0).mean()) for draws in (one, other)]
    assert shares[0] == pytest.approx(shares[1], abs=5 * math.sqrt(0.5 / 120_000))
    assert stats.ks_2samp(one[one != 0], other[other != 0]).pvalue > 1e-3


def test_only_the_gaussian_is_rotation_invariant() -> None:
    assert [name for name in proposals.names() if proposals.get(name).isotropic] == ["gaussian"]
    rotation = torch.linalg.qr(torch.randn(8, 8, generator=torch.Generator().manual_seed(0))).Q
    for name in proposals.names():
        plain, turned = torch_draws(name, 50_000, 8, seed=6), torch_draws(name, 50_000, 8) @ rotation
        alike = stats.ks_2samp(plain.numpy().ravel(), turned.numpy().ravel()).pvalue > 1e-3
        assert alike == proposals.get(name).isotropic


def test_support_counts_signs_zeros_and_lengths() -> None:
    samples = torch.tensor([[3.0, 4.0, 0.0], [0.0, 0.0, 0.0], [-1.0, 2.0, 2.0], [0.0, 5.0, -12.0]])
    found = support(samples)
    assert found.negative_coordinates == pytest.approx(2 / 12)
    assert found.zero_coordinates == pytest.approx(5 / 12)
    assert found.nonnegative_vectors == pytest.approx(2 / 4)
    assert found.mean_norm == pytest.approx((5 + 0 + 3 + 13) / 4)


def test_the_support_of_nothing_is_refused() -> None:
    with pytest.raises(InputError, match="the support of no probes is not defined"):
        support(torch.empty(0, 4))
