import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from scipy import stats

from sfra.core.errors import InputError
from sfra.core.files import write_npz
from sfra.core.head import Head

ROWS = [[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]]


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


HEAD = Head(normal(5, 7), normal(5, seed=1))


@pytest.mark.parametrize(
    "weight",
    [
        ROWS,
        np.array(ROWS, np.int64),
        torch.tensor(ROWS, dtype=torch.bfloat16, requires_grad=True),
        torch.tensor(ROWS).T.contiguous().T,
        np.array(ROWS)[::-1][::-1],
    ],
)
def test_numbers_of_any_kind_become_a_float32_matrix(weight: Any) -> None:
    head = Head(weight, [0, 1, 2])
    assert head.weight.dtype == head.bias.dtype == torch.float32
    assert head.weight.tolist() == ROWS
    assert head.bias.tolist() == [0.0, 1.0, 2.0]
    assert head.weight.is_contiguous()
    assert not head.weight.requires_grad
    assert (head.classes, head.width) == (3, 2)


def test_a_head_keeps_copies_and_not_views() -> None:
    weight, bias = torch.tensor(ROWS), torch.zeros(3)
    array = np.array(ROWS, np.float32)
    heads = [Head(weight, bias), Head(array), Head(Head(ROWS).weight)]
    before = [head.fingerprint for head in heads]
    weight.fill_(9.0)
    bias.fill_(9.0)
    array.fill(9.0)
    assert [head.fingerprint for head in heads] == before


def test_the_logits_are_the_affine_map() -> None:
    z = normal(11, 7, seed=2)
    expected = z.double().numpy() @ HEAD.weight.double().numpy().T + HEAD.bias.double().numpy()
    np.testing.assert_allclose(HEAD(z).numpy(), expected, atol=1e-5)


@pytest.mark.parametrize(
    ("weight", "bias", "message"),
    [
        ([1.0, 2.0, 3.0], None, "weight is not a matrix"),
        (np.zeros((3, 0)), None, "weight is not a matrix"),
        (ROWS[:2], None, "too few classes"),
        (ROWS, [1.0, 2.0], r"weight and bias disagree\n  expected: bias of shape \[3\]\n  got:      \[2\]"),
        (ROWS, np.array(1.0), "weight and bias disagree"),
        (np.zeros((4, 3)), np.zeros(3), r"weight and bias disagree(\n.*)*do: .*transposed.*weight\.T"),
        ([[1.0, math.nan], [math.inf, 0.0], [0.0, 0.0]], None, r"weight is not finite(\n.*)*2 of 6 entries"),
        (np.full((3, 2), 1e300), None, "weight is not finite"),
        (ROWS, [0.0, -math.inf, 0.0], "bias is not finite"),
        ([["a", "b"]] * 3, None, "weight is not numeric"),
        ([[1.0], [1.0, 2.0], [3.0]], None, "weight is not numeric"),
        (np.array([{}]), None, "weight is not numeric"),
        (torch.empty(3, 2, device="meta"), None, "weight is not numeric"),
        (np.full((3, 2), 1j), None, "weight is not numeric"),
    ],
)
def test_what_is_not_a_head_is_refused(weight: Any, bias: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Head(weight, bias)


def test_a_fingerprint_tells_heads_apart_by_every_number_and_by_shape() -> None:
    assert Head(HEAD.weight, HEAD.bias).fingerprint == HEAD.fingerprint
    other = [Head(HEAD.weight), Head(HEAD.weight * (1 + 2e-7), HEAD.bias), Head(HEAD.weight, HEAD.bias + 1e-6)]
    flat = torch.arange(12.0)
    other += [Head(flat.reshape(4, 3)), Head(flat.reshape(3, 4))]
    assert len({head.fingerprint for head in [HEAD, *other]}) == 6
    assert len(HEAD.fingerprint) == 64


@pytest.mark.parametrize(
    ("forget", "kept"), [([0], [1, 2, 3, 4, 5]), ([5], [0, 1, 2, 3, 4]), ([4, 1], [0, 2, 3, 5, 6])]
)
def test_restored_rows_take_their_places_and_move_no_other(forget: list[int], kept: list[int]) -> None:
    restored = HEAD.restore_rows(forget, seed=3)
    assert restored.classes == 5 + len(forget)
    assert torch.equal(restored.weight[kept], HEAD.weight)
    assert torch.equal(restored.bias[kept], HEAD.bias)
    again, other = HEAD.restore_rows(forget, seed=3), HEAD.restore_rows(forget, seed=4)
    assert again.fingerprint == restored.fingerprint
    assert not bool((other.weight[forget] == restored.weight[forget]).any())


def test_reset_rows_are_the_rows_that_would_have_been_restored() -> None:
    reset = HEAD.reset_rows([1, 3], seed=8)
    kept = [0, 2, 4]
    assert torch.equal(reset.weight[kept], HEAD.weight[kept])
    assert torch.equal(reset.bias[kept], HEAD.bias[kept])
    restored = Head(HEAD.weight[kept], HEAD.bias[kept]).restore_rows([1, 3], seed=8)
    assert reset.fingerprint == restored.fingerprint
    assert HEAD.reset_rows([3, 1], seed=8).fingerprint == reset.fingerprint


def test_fresh_rows_are_uniform_as_a_linear_layer_starts_out() -> None:
    wide = Head(torch.zeros(3, 4096))
    fresh = wide.restore_rows(range(1, 31), seed=1)
    rows, biases = fresh.weight[1:31], fresh.bias[1:31]
    scaled = (rows * 64).flatten().double().numpy()  # ±1/√4096
    assert np.abs(scaled).max() <= 1.0
    assert stats.kstest(scaled, stats.uniform(-1, 2).cdf).pvalue > 1e-3
    assert stats.kstest((biases * 64).double().numpy(), stats.uniform(-1, 2).cdf).pvalue > 1e-3
    theirs = torch.nn.Linear(4096, 30).weight.detach().mul(64).flatten().double().numpy()
    assert stats.ks_2samp(scaled, theirs).pvalue > 1e-4


def test_fresh_rows_leave_the_global_generator_and_the_head_alone() -> None:
    state, before = torch.random.get_rng_state(), HEAD.fingerprint
    HEAD.restore_rows([2])
    HEAD.reset_rows([2])
    assert torch.equal(torch.random.get_rng_state(), state)
    assert HEAD.fingerprint == before


@pytest.mark.parametrize("forget", [[6], [-1], [2, 2], []])
def test_rows_that_cannot_be_placed_are_refused(forget: list[int]) -> None:
    with pytest.raises(InputError, match="the forget rows cannot be placed"):
        HEAD.restore_rows(forget)
    with pytest.raises(InputError, match="the forget rows cannot be reset"):
        HEAD.reset_rows(forget)


@pytest.mark.parametrize("name", ["head.npz", "head.safetensors", "deep/er/head.npz"])
def test_a_head_survives_a_file_bit_by_bit(name: str, tmp_path: Path) -> None:
    HEAD.save(tmp_path / name)
    assert Head.load(tmp_path / name).fingerprint == HEAD.fingerprint
    assert Head.load(str(tmp_path / name)).fingerprint == HEAD.fingerprint
    Head(ROWS).save(str(tmp_path / name))  # an old file is replaced
    assert Head.load(tmp_path / name).fingerprint == Head(ROWS).fingerprint


def test_a_file_without_bias_is_a_head_without_bias(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", weight=np.array(ROWS))
    save_file({"weight": torch.tensor(ROWS)}, tmp_path / "a.safetensors")
    for name in ("a.npz", "a.safetensors"):
        assert Head.load(tmp_path / name).fingerprint == Head(ROWS).fingerprint


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    write_npz(tmp_path / "state.npz", **{"fc.weight": np.array(ROWS), "conv.weight": np.zeros(3)})
    with pytest.raises(InputError, match=r"state\.npz is not a head file(\n.*)*--arch"):
        Head.load(tmp_path / "state.npz")
    np.savez(tmp_path / "more.npz", weight=np.array(ROWS), scale=np.ones(1))
    with pytest.raises(InputError, match=r"more\.npz is not a head file"):
        Head.load(tmp_path / "more.npz")


def test_a_name_that_says_no_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the head cannot be written"):
        HEAD.save(tmp_path / "head.pt")
    assert list(tmp_path.iterdir()) == []
