"""What must hold of every run: the laws of the draws, their independence, and the same probes from the same seed."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

from builders.algorithm import HEAD, SMALL, compiled_draws, normal
from sfra.attack.probes import Probes, codes, proposals, sample_probes, scores
from sfra.attack.probes.stream import CompiledStream
from sfra.core.cpu import one_thread
from sfra.core.head import Head

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


@pytest.mark.parametrize("name", LAWS)
def test_a_million_draws_follow_their_law(name: str) -> None:
    code, law, absolute = LAWS[name]
    values = compiled_draws(np.arange(131_072), 8, proposal=code).astype(np.float64)
    flat = values.ravel()
    assert stats.kstest(flat, law.cdf).pvalue > 1e-3
    for power in (1, 2, 3, 4):
        mean = absolute(power) if power % 2 == 0 or name == "abs-gaussian" else 0.0
        spread = math.sqrt((absolute(2 * power) - mean**2) / flat.size)
        assert abs((flat**power).mean() - mean) < 4.5 * spread
    for column in values.T:
        assert stats.kstest(column, law.cdf).pvalue > 1e-4


def test_a_rectified_draw_is_zero_half_the_time_and_half_normal_otherwise() -> None:
    values = compiled_draws(np.arange(262_144), 4, proposal=codes.RELU_GAUSSIAN).astype(np.float64)
    assert values.min() == 0
    zeros = int((values == 0).sum())
    assert stats.binomtest(zeros, values.size).pvalue > 1e-3
    assert stats.kstest(values[values > 0], stats.halfnorm.cdf).pvalue > 1e-3


def test_the_law_test_would_notice_a_scale_one_percent_off() -> None:
    values = compiled_draws(np.arange(131_072), 8).astype(np.float64).ravel()
    assert stats.kstest(1.01 * values, stats.norm.cdf).pvalue < 1e-3


def test_the_tails_of_a_normal_are_not_cut_short() -> None:
    values = np.abs(compiled_draws(np.arange(1_000_000), 8).astype(np.float64))
    for bound in (4.0, 4.8):
        expected = values.size * 2 * stats.norm.sf(bound)
        assert abs(int((values > bound).sum()) - expected) < 4.5 * math.sqrt(expected)


@pytest.mark.parametrize("code", [codes.GAUSSIAN, codes.UNIFORM, codes.LAPLACE])
def test_coordinates_indices_streams_and_seeds_are_uncorrelated(code: int) -> None:
    n, r = 65_536, 10
    indices = np.arange(n)
    groups = [
        compiled_draws(indices, r, proposal=code),
        compiled_draws(indices, r, proposal=code, stream=1),
        compiled_draws(indices, r, proposal=code, seed=8),
        compiled_draws(indices, r, proposal=code, seed=7 + 2**32),
        compiled_draws(indices + 1, r, proposal=code),
        compiled_draws(indices + 2**32, r, proposal=code),
    ]
    columns = np.concatenate(groups, axis=1).astype(np.float64)
    off_diagonal = ~np.eye(columns.shape[1], dtype=bool)
    for view in (columns, np.abs(columns), columns**2):
        correlation = np.corrcoef(view.T)[off_diagonal]
        assert np.abs(correlation).max() < 5.5 / math.sqrt(n)


def test_two_coordinates_of_one_box_muller_pair_are_independent() -> None:
    pair = compiled_draws(np.arange(400_000), 2).astype(np.float64)
    cells = np.floor(stats.norm.cdf(pair) * 16).astype(int).clip(0, 15)
    counts = np.bincount(cells[:, 0] * 16 + cells[:, 1], minlength=256)
    assert stats.chisquare(counts).pvalue > 1e-3


def same(one: Probes, other: Probes) -> bool:
    return all(
        torch.equal(getattr(one, name), getattr(other, name)) for name in ("samples", "labels", "sources", "sureness")
    )


@pytest.mark.parametrize("proposal", proposals.names())
def test_a_seed_fixes_the_probes_bit_by_bit_and_another_seed_changes_all_of_them(proposal: str) -> None:
    first, again, other = (sample_probes(SMALL, 1, n=500, m=20, proposal=proposal, seed=s) for s in (4, 4, 5))
    assert same(first, again)
    assert first.draws == again.draws
    unlike = (first.samples != other.samples).any(1) | (first.samples == 0).all(1)
    assert bool(unlike.all())


@pytest.mark.parametrize("score", scores.names())
def test_threads_chunks_and_tiles_leave_the_probes_bit_identical(score: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def sampled(threads: int) -> Probes:
        return sample_probes(HEAD, (2, 5), n=3000, m=40, score=score, threads=threads)

    first = sampled(1)
    assert same(first, sampled(2))
    assert same(first, sampled(7))
    build = CompiledStream.__init__
    for longest, tile in ((1000, 64), (4096, 33)):

        def small(self: CompiledStream, *a: Any, longest: int = longest, tile: int = tile, **k: Any) -> None:
            build(self, *a, **k)
            self._longest, self._tile = longest, tile

        monkeypatch.setattr(CompiledStream, "__init__", small)
        assert same(first, sampled(3))


def test_the_number_of_torch_threads_leaves_the_probes_bit_identical() -> None:
    def sampled() -> Probes:
        return sample_probes(Head(normal(200, 768) / 10), 0, n=60, m=20)

    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        two = sampled()
    finally:
        torch.set_num_threads(before)
    with one_thread():
        assert same(sampled(), two)


def test_global_generators_and_the_head_are_left_alone() -> None:
    head = Head(HEAD.weight, HEAD.bias)
    torch_state, numpy_state = torch.random.get_rng_state(), np.random.get_state()[1]  # type: ignore[index]  # noqa: NPY002
    sample_probes(head, (1, 2), n=300, m=20)
    assert torch.equal(torch.random.get_rng_state(), torch_state)
    np.testing.assert_array_equal(np.random.get_state()[1], numpy_state)  # type: ignore[index]  # noqa: NPY002
    assert head.fingerprint == HEAD.fingerprint
