"""The draws themselves: their laws, and the independence of everything that must be independent."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from sfra.probes import codes, kernels

Floats = NDArray[Any]
LAWS: dict[str, tuple[int, Any, Callable[[int], float]]] = {
    "gaussian": (codes.GAUSSIAN, stats.norm(), lambda k: 2 ** (k / 2) * math.gamma((k + 1) / 2) / math.sqrt(math.pi)),
    "uniform": (codes.UNIFORM, stats.uniform(-math.sqrt(3), 2 * math.sqrt(3)), lambda k: 3 ** (k / 2) / (k + 1)),
    "laplace": (codes.LAPLACE, stats.laplace(0, math.sqrt(0.5)), lambda k: math.factorial(k) * 0.5 ** (k / 2)),
    "abs-gaussian": (
        codes.ABS_GAUSSIAN,
        stats.halfnorm(),
        lambda k: 2 ** (k / 2) * math.gamma((k + 1) / 2) / math.sqrt(math.pi),
    ),
}
"""Code, law, and the absolute moments ``E|x|^k``."""


def draws(indices: Floats, r: int, *, stream: int = 0, seed: int = 7, proposal: int = codes.GAUSSIAN) -> Floats:
    out = np.empty((len(indices), r), np.float32)
    kernels.make_draws(indices.astype(np.int64), stream, np.uint64(seed), proposal, out)
    return out


@pytest.mark.parametrize("name", LAWS)
def test_a_million_draws_follow_their_law(name: str) -> None:
    code, law, absolute = LAWS[name]
    values = draws(np.arange(131_072), 8, proposal=code).astype(np.float64)
    flat = values.ravel()
    assert stats.kstest(flat, law.cdf).pvalue > 1e-3
    for power in (1, 2, 3, 4):
        mean = absolute(power) if power % 2 == 0 or name == "abs-gaussian" else 0.0
        spread = math.sqrt((absolute(2 * power) - mean**2) / flat.size)
        assert abs((flat**power).mean() - mean) < 4.5 * spread
    for column in values.T:
        assert stats.kstest(column, law.cdf).pvalue > 1e-4


def test_a_rectified_draw_is_zero_half_the_time_and_half_normal_otherwise() -> None:
    values = draws(np.arange(262_144), 4, proposal=codes.RELU_GAUSSIAN).astype(np.float64)
    assert values.min() == 0
    zeros = int((values == 0).sum())
    assert stats.binomtest(zeros, values.size).pvalue > 1e-3
    assert stats.kstest(values[values > 0], stats.halfnorm.cdf).pvalue > 1e-3


def test_the_law_test_would_notice_a_scale_one_percent_off() -> None:
    values = draws(np.arange(131_072), 8).astype(np.float64).ravel()
    assert stats.kstest(1.01 * values, stats.norm.cdf).pvalue < 1e-3


def test_the_tails_of_a_normal_are_not_cut_short() -> None:
    values = np.abs(draws(np.arange(1_000_000), 8).astype(np.float64))
    for bound in (4.0, 4.8):
        expected = values.size * 2 * stats.norm.sf(bound)
        assert abs(int((values > bound).sum()) - expected) < 4.5 * math.sqrt(expected)


@pytest.mark.parametrize("code", [codes.GAUSSIAN, codes.UNIFORM, codes.LAPLACE])
def test_coordinates_indices_streams_and_seeds_are_uncorrelated(code: int) -> None:
    n, r = 65_536, 10
    indices = np.arange(n)
    groups = [
        draws(indices, r, proposal=code),
        draws(indices, r, proposal=code, stream=1),
        draws(indices, r, proposal=code, seed=8),
        draws(indices, r, proposal=code, seed=7 + 2**32),
        draws(indices + 1, r, proposal=code),
        draws(indices + 2**32, r, proposal=code),
    ]
    columns = np.concatenate(groups, axis=1).astype(np.float64)
    off_diagonal = ~np.eye(columns.shape[1], dtype=bool)
    for view in (columns, np.abs(columns), columns**2):
        correlation = np.corrcoef(view.T)[off_diagonal]
        assert np.abs(correlation).max() < 5.5 / math.sqrt(n)


def test_two_coordinates_of_one_box_muller_pair_are_independent() -> None:
    pair = draws(np.arange(400_000), 2).astype(np.float64)
    cells = np.floor(stats.norm.cdf(pair) * 16).astype(int).clip(0, 15)
    counts = np.bincount(cells[:, 0] * 16 + cells[:, 1], minlength=256)
    assert stats.chisquare(counts).pvalue > 1e-3
