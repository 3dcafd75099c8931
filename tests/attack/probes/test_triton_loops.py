"""The Triton kernels of the weighted stream, and the same loops in torch, against float64."""

from __future__ import annotations

from importlib.util import find_spec
from types import ModuleType

import numpy as np
import pytest
import torch
from torch import Tensor

from builders.algorithm import compiled_draws, normal
from builders.triton import DEVICE, open_loops
from sfra.attack.probes import device_lines, torch_loops
from sfra.attack.probes.device_lines import DeviceLines
from sfra.attack.probes.device_weights import DeviceWeightedStream, Loops, loops_on, pilot_on_device
from sfra.attack.probes.mixing import SIZE, matrix, signs
from sfra.attack.probes.rowspace import row_space
from sfra.attack.probes.weighing import BINS, uniform_at
from sfra.attack.probes.weighted import latest_starts
from sfra.core.head import Head

HEAD = Head(normal(44, 64) / 4, normal(44, seed=1) / 2)
SEED = 2**40 + 7


@pytest.fixture(scope="module", params=["torch", "triton"])
def loops(request: pytest.FixtureRequest) -> ModuleType:
    return open_loops(request.param)


def test_normals_are_those_of_the_compiled_loops_up_to_rounding(loops: Loops) -> None:
    indices = torch.tensor([0, 1, 77, 2**31, 2**32 + 5, 2**40] * 4)
    for width in (1, 6, 130):
        found = loops.normals(indices.to(DEVICE), 3, width, SEED)
        expected = compiled_draws(indices.numpy(), width, stream=3, seed=SEED)
        np.testing.assert_allclose(found.cpu().numpy(), expected, atol=2e-6)


def test_uniform_numbers_are_those_of_the_compiled_loops_bit_for_bit(loops: Loops) -> None:
    index, word, stream = [0, 5, 2**33 + 1], [0, 999, 21840], [2, 4, 5]
    given = [torch.tensor(values, device=DEVICE) for values in (index, word, stream)]
    expected = [uniform_at(i, w, s, np.uint64(SEED)) for i, w, s in zip(index, word, stream, strict=True)]
    assert loops.uniforms(given[0], given[1], given[2], SEED).tolist() == expected
    alike = loops.uniforms(torch.tensor(index, device=DEVICE), 0, 2, 3)
    assert alike.tolist() == [uniform_at(i, 0, 2, np.uint64(3)) for i in index]


def pairs(columns: int = 96) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Logits, products of rows some of which are longer along a class's row than its own, and pairs."""
    rows = normal(columns, 50, seed=3) / 5 * (1 + normal(columns, 1, seed=4).abs())
    z, n = 3 * normal(40, columns, seed=5), 203
    row, k = torch.arange(n) * 7 % 40, torch.arange(n) * 5 % columns
    return z.to(DEVICE), (rows @ rows.T).to(DEVICE), row.to(DEVICE), k.to(DEVICE)


@pytest.mark.parametrize("columns", [32, 96, 288])
def test_a_class_wins_between_the_ends_that_float64_finds(loops: Loops, columns: int) -> None:
    z, gram, row, k = pairs(columns)
    low, high = (end.cpu().double() for end in loops.ends(z, gram, row, k))
    G, own = gram.double().cpu(), z.double().cpu()[row.cpu(), k.cpu()]
    below = (G.diagonal()[:, None] - G)[k.cpu()]
    ratio = (z.double().cpu()[row.cpu()] - own[:, None]) / below
    ratio[torch.arange(len(k)), k.cpu()] = torch.nan
    begin = ratio.where(below > 0, torch.nan).nan_to_num(nan=-torch.inf).amax(1)
    end = ratio.where(below < 0, torch.nan).nan_to_num(nan=torch.inf).amin(1)
    assert 0 < int(end.isinf().sum()) < len(end)
    torch.testing.assert_close(low, begin, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(high, end, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("size", [0.01, 1.0, 100.0])
def test_losers_are_those_that_float64_finds(loops: Loops, size: float) -> None:
    z, gram, row, k = pairs()
    y = (size * normal(len(k), seed=6)).to(DEVICE)
    top, total = (value.cpu().double() for value in loops.losers(z, gram, row, k, y))
    logits = z.double().cpu()[row.cpu()] + y.double().cpu()[:, None] * gram.double().cpu()[k.cpu()]
    logits[torch.arange(len(k)), k.cpu()] = -torch.inf
    torch.testing.assert_close(top, logits.amax(1), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(total, logits.logsumexp(1), rtol=1e-5, atol=2e-5)


def test_every_group_mixes_its_draws_by_its_own_matrix(loops: Loops) -> None:
    plain, offset = normal(48, 160, seed=8).to(DEVICE), normal(160, seed=9).to(DEVICE)
    turns = torch.from_numpy(np.stack([matrix(sign) for sign in signs(5)])).to(DEVICE)
    found = loops.mix(plain, turns.flatten(0, 1), offset).view(3, 5, SIZE, 160)
    for block in range(3):
        expected = turns.double() @ plain[block * SIZE : (block + 1) * SIZE].double() + offset.double()
        torch.testing.assert_close(found[block].double(), expected, atol=1e-5, rtol=1e-5)


def open_lines() -> tuple[DeviceLines, np.ndarray]:
    lines = DeviceLines.of(row_space(HEAD).weight, HEAD.bias, torch.arange(HEAD.classes) > 0, DEVICE)
    pilot = pilot_on_device(lines, SEED)
    return lines, np.where(pilot.probability > 0, 8 * pilot.probability, np.inf)


def test_the_sieve_lets_through_every_pair_that_wins_at_tau_and_few_others(loops: Loops) -> None:
    lines, bounds = open_lines()
    taus = torch.from_numpy(latest_starts(bounds)).to(DEVICE)[lines.order]
    share = torch.tensor([0.31, 0.77] * 16, device=DEVICE, dtype=torch.float64)
    phases = torch.linspace(0, 0.99, HEAD.classes, dtype=torch.float64, device=DEVICE)
    draws = torch_loops.normals(torch.arange(32, device=DEVICE), 0, lines.rows.shape[1], SEED)
    z = torch_loops.mix(draws @ lines.rows.T, lines.mixing, lines.offset)
    found = loops.sieve(z, lines.gram, share, lines.slots, phases, taus, lines.lengths, lines.bias, 1e-3)
    block, group, x, slot = torch.ones_like(found).nonzero().unbind(1)
    k = lines.slots[group, slot]
    own = z[(block * len(lines.slots) + group) * SIZE + x]
    tau = taus[k, ((share[block * SIZE + x] + phases[k]).frac() * BINS).long()]
    y = (tau - (own.gather(1, k[:, None])[:, 0] - lines.bias[k]) / lines.lengths[k]) / lines.lengths[k]
    wins = (own + y[:, None] * lines.gram[k]).amax(1) <= lines.lengths[k] * tau + lines.bias[k] + 5e-4
    assert 0.05 < float(wins.float().mean()) < 0.5
    assert bool(found.flatten()[wins].all())
    assert float(found.float().mean()) < 1.3 * float(wins.float().mean())


def chunk_of(loops: Loops, tiles: int = 2) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    lines, bounds = open_lines()
    stream = DeviceWeightedStream(lines, bounds, seed=SEED, loops=loops)
    limits = torch.full((HEAD.classes,), -1.0, device=DEVICE), torch.full((HEAD.classes,), -3.0, device=DEVICE)
    chunk = stream._chunk(0, tiles, *limits)
    return chunk.items, chunk.scores, chunk.counts, stream.rows(chunk.items)


@pytest.fixture
def _small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(device_lines._NUMBERS, DEVICE.type, 2**15)  # the interpreter takes its time


@pytest.mark.usefixtures("_small_tiles")
def test_the_stream_takes_the_same_candidates_with_triton_as_with_torch() -> None:
    items, scores, counts, rows = chunk_of(open_loops("triton"))
    expected = chunk_of(torch_loops)
    ours, theirs = items[:, 0].tolist(), expected[0][:, 0].tolist()
    assert len(theirs) > 50
    assert len(set(ours) ^ set(theirs)) <= 0.01 * len(theirs)
    assert int((counts - expected[2]).abs().sum()) <= 0.01 * int(expected[2].sum())
    at = {item: i for i, item in enumerate(theirs)}
    both = [(i, at[item]) for i, item in enumerate(ours) if item in at]
    mine, other = (torch.tensor(column, device=DEVICE) for column in zip(*both, strict=True))
    torch.testing.assert_close(scores[mine], expected[1][other], rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(rows[mine], expected[3][other], rtol=1e-3, atol=1e-3)


@pytest.mark.usefixtures("_small_tiles")
def test_repeated_runs_give_the_same_bits(loops: Loops) -> None:
    assert all(torch.equal(one, other) for one, other in zip(chunk_of(loops), chunk_of(loops), strict=True))


def test_triton_is_for_cuda_alone() -> None:
    assert loops_on(torch.device("cpu")) is torch_loops
    name = loops_on(torch.device("cuda")).__name__  # type: ignore[attr-defined]
    assert name.endswith("triton_loops" if find_spec("triton") else "torch_loops")
