import itertools
import math

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor

from builders.algorithm import normal
from sfra.attack.probes import proposals, rowspace, scores
from sfra.attack.probes.rowspace import RowSpace, row_space
from sfra.attack.probes.stream import CompiledStream, Stream, TorchStream
from sfra.core.head import Head


def low_rank(classes: int, width: int, rank: int) -> Head:
    return Head(normal(classes, rank, seed=1) @ normal(rank, width, seed=2), normal(classes, seed=3))


HEADS = {
    "wide": (Head(normal(10, 64)), 10),
    "more classes than features": (Head(normal(12, 5)), 5),
    "low rank": (low_rank(9, 30, 3), 3),
    "rank one": (Head(normal(4, 1) @ normal(1, 8)), 1),
    "duplicated rows": (Head(normal(6, 20)[[0, 1, 2, 0, 4, 1]]), 4),
    "one feature": (Head(normal(3, 1)), 1),
    "zero weight": (Head(torch.zeros(4, 6), normal(4)), 1),
}


@pytest.fixture(params=["by_singular_vectors", "by_eigenvectors"])
def _each_way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Find the row space as the CPU does, and as a GPU does for large heads."""
    monkeypatch.setattr(rowspace, "by_singular_vectors", getattr(rowspace, request.param))


@pytest.mark.usefixtures("_each_way")
@pytest.mark.parametrize("name", HEADS)
def test_the_basis_is_orthonormal_and_spans_the_rows(name: str) -> None:
    head, rank = HEADS[name]
    space = row_space(head)
    assert space.rank == rank == max(1, np.linalg.matrix_rank(head.weight.double().numpy(), rtol=1e-5))
    V = space.basis.double()
    torch.testing.assert_close(V.T @ V, torch.eye(rank).double(), atol=1e-6, rtol=0)
    W = head.weight.double()
    torch.testing.assert_close(W @ V @ V.T, W, atol=2e-6 * float(W.abs().max() + 1), rtol=0)
    torch.testing.assert_close(space.weight.double(), W @ V, atol=2e-6, rtol=2e-6)


@pytest.mark.parametrize("name", HEADS)
def test_a_lifted_draw_has_the_logits_of_its_row_space_part_and_keeps_the_rest_of_the_noise(name: str) -> None:
    head, _ = HEADS[name]
    space = row_space(head)
    inside, noise = normal(200, space.rank, seed=5), normal(200, head.width, seed=6)
    samples = space.lift(inside, noise)
    expected = inside @ space.weight.T + head.bias
    torch.testing.assert_close(head(samples), expected, atol=2e-5, rtol=1e-5)
    V = space.basis
    torch.testing.assert_close(samples - samples @ V @ V.T, noise - noise @ V @ V.T, atol=5e-6, rtol=0)


def test_equal_rows_stay_bitwise_equal_in_row_space_coordinates() -> None:
    for classes, width in itertools.product((5, 9, 101), (7, 64, 300)):
        weight = normal(classes, width)
        weight[classes - 1] = weight[classes // 2] = weight[1]
        reduced = row_space(Head(weight)).weight
        assert torch.equal(reduced[1], reduced[classes - 1])
        assert torch.equal(reduced[1], reduced[classes // 2])


def relative_error(space: RowSpace, head: Head) -> Tensor:
    """Per class, how much of its row the row space misses."""
    V, W = space.basis.double(), head.weight.double()
    missed: Tensor = (W - W @ V @ V.T).norm(dim=1) / W.norm(dim=1)
    return missed


@pytest.mark.usefixtures("_each_way")
@pytest.mark.parametrize("factor", [1.0, 100.0, 1e5, 1e10])
def test_one_exploded_row_does_not_hide_the_others(factor: float) -> None:
    weight = normal(10, 512)
    weight[3] *= factor
    head = Head(weight)
    assert float(relative_error(row_space(head), head).max()) < 1e-4


@pytest.mark.usefixtures("_each_way")
@pytest.mark.parametrize("length", [1.0, 1e3])
def test_a_row_that_all_classes_share_does_not_hide_their_differences(length: float) -> None:
    common = normal(1, 768, seed=9)
    head = Head(normal(200, 768) / 28 + length * common / common.norm())
    centred = Head(head.weight - head.weight.mean(0))
    assert float(relative_error(row_space(head), centred).max()) < 1e-3


def streams(seed: int = 3) -> dict[str, Stream]:
    head, law, score = HEADS["wide"][0], proposals.get("gaussian"), scores.get("softmax")
    weight = row_space(head).weight
    return {
        "compiled": CompiledStream(weight, head.bias, proposal=law, score=score, seed=seed),
        "torch": TorchStream(weight, head.bias, proposal=law, score=score, seed=seed, device=torch.device("cpu")),
    }


@pytest.mark.parametrize("engine", ["compiled", "torch"])
def test_the_noise_outside_the_row_space_is_not_made_of_the_draws_inside(engine: str) -> None:
    stream = streams()[engine]
    everything = torch.full((10,), -torch.inf), torch.full((10,), torch.inf)
    chunks = stream.chunks(lambda: everything)
    inside = stream.rows(next(chunks).items[:2000])
    chunks.close()  # type: ignore[attr-defined]
    noise = stream.noise(2000, 10)
    assert inside.shape == noise.shape == (2000, 10)
    correlation = torch.corrcoef(torch.stack([inside.flatten(), noise.flatten()]))[0, 1]
    assert abs(float(correlation)) < 5 / math.sqrt(20_000)


@pytest.mark.parametrize("engine", ["compiled", "torch"])
def test_stored_rows_and_noise_come_back_as_they_should(engine: str) -> None:
    stream = streams()[engine]
    rows = normal(5, 10, seed=8)
    first, second = stream.store(rows[:3]), stream.store(rows[3:])
    torch.testing.assert_close(stream.rows(torch.cat([second, first])), rows[[3, 4, 0, 1, 2]])
    noise = streams()[engine].noise(20_000, 5)
    assert torch.equal(noise, streams()[engine].noise(20_000, 5))
    assert not torch.equal(noise, streams(seed=4)[engine].noise(20_000, 5))
    assert stats.kstest(noise.double().numpy().ravel(), stats.norm.cdf).pvalue > 1e-3
