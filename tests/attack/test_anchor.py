"""The anchor: mean and covariance as numpy has them, and a root that moves along with the features."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from sfra.attack.anchor import Affine, Anchor
from sfra.core.errors import InputError

N, D = 60, 5


def points(seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    mixed = torch.randn(N, D, generator=generator).relu() @ torch.randn(D, D, generator=generator)
    return mixed + torch.arange(D)


def matrix(seed: int = 1) -> Tensor:
    return torch.randn(D, D, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_mean_and_covariance_are_those_of_numpy_and_the_inverse_whitens() -> None:
    anchor = Anchor.of(points())
    np.testing.assert_allclose(anchor.mean, points().double().mean(0), rtol=1e-12)
    np.testing.assert_allclose(anchor.root @ anchor.root.T, np.cov(points().double().T, ddof=0), rtol=1e-10, atol=1e-12)
    white = (points().double() - anchor.mean) @ anchor.inverse.T
    np.testing.assert_allclose(np.cov(white.T, ddof=0), np.eye(D), atol=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_white_features_are_the_same_in_every_coordinate_system(seed: int) -> None:
    plain, A = points().double(), matrix(seed)
    other = plain @ A.T + torch.linspace(-3, 9, D)
    one, two = Anchor.of(plain), Anchor.of(other)
    torch.testing.assert_close(two.root, A @ one.root, rtol=1e-8, atol=1e-8)
    torch.testing.assert_close(
        (other - two.mean) @ two.inverse.T, (plain - one.mean) @ one.inverse.T, rtol=1e-8, atol=1e-8
    )


def test_dead_features_are_left_out() -> None:
    dead = torch.cat([points()[:, :3], torch.full((N, 1), 7.0), points()[:, 3:]], dim=1)
    whole, part = Anchor.of(points()), Anchor.of(dead)
    assert part.root.shape == (D + 1, D)
    assert float(part.root[3].abs().max()) < 1e-12
    kept = [0, 1, 2, 4, 5]
    torch.testing.assert_close(part.root[kept], whole.root, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(part.inverse[:, kept], whole.inverse, rtol=1e-9, atol=1e-9)


def test_too_few_or_equal_images_are_refused() -> None:
    with pytest.raises(InputError, match="too few synthetic images"):
        Anchor.of(points()[:D])
    with pytest.raises(InputError, match="the same features"):
        Anchor.of(torch.ones(N, D))


def test_an_affine_map_is_matrix_times_features_plus_shift() -> None:
    A, c = matrix(), torch.linspace(-1, 1, D, dtype=torch.float64)
    mapped = Affine(matrix=A[:3], shift=c[:3])(points())
    expected = np.stack([A[:3].numpy() @ row + c[:3].numpy() for row in points().double().numpy()])
    assert mapped.dtype == torch.float32
    np.testing.assert_allclose(mapped, expected, rtol=1e-6, atol=1e-6)
