"""The weighted stream on a torch device against its oracle, draw by draw, and against plain rejection.

The tests run with plain torch on the CPU, with the Triton kernels in Triton's interpreter where it is installed
(``TRITON_INTERPRET=1``), and with both on a GPU where there is one.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy import stats
from torch import Tensor

from builders.algorithm import compiled_draws, logits_of
from builders.weighted import HEADS, SEED, check_candidates
from sfra.attack.probes import choose, sample_probes
from sfra.attack.probes.device_lines import DeviceLines
from sfra.attack.probes.device_weights import DeviceWeightedStream, pilot_on_device
from sfra.attack.probes.lines import Lines, interval_of
from sfra.attack.probes.mixing import SIZE
from sfra.attack.probes.rowspace import row_space
from sfra.attack.probes.weighing import CLOSED, PILOT
from sfra.attack.probes.weighted import PILOT_DRAWS, SPREADS, Pilot, WeightedPools, WeightedStream
from sfra.core.head import Head

CPU = torch.device("cpu")


def open_weights(
    head: Head, spread: float = 8.0, device: torch.device = CPU
) -> tuple[DeviceLines, NDArray[np.float64], DeviceWeightedStream]:
    """Return the lines, bounds and stream of a head with class 0 to be forgotten."""
    lines = DeviceLines.of(row_space(head).weight, head.bias, torch.arange(head.classes) > 0, device)
    pilot = pilot_on_device(lines, SEED)
    bounds = np.where(pilot.probability > 0, spread * pilot.probability, np.inf)
    return lines, bounds, DeviceWeightedStream(lines, bounds, seed=SEED)


@pytest.mark.parametrize("name", HEADS)
def test_lines_are_those_of_the_compiled_stream(name: str) -> None:
    head = HEADS[name]
    weight, retain = row_space(head).weight, torch.arange(head.classes) > 0
    ours, theirs = DeviceLines.of(weight, head.bias, retain, CPU), Lines.of(weight, head.bias, retain)
    assert ours.order.tolist() == theirs.order.tolist()
    assert ours.slots[ours.real].tolist() == list(range(head.classes))
    assert ours.kinds.tolist() == theirs.kinds.tolist()
    np.testing.assert_allclose(ours.gram.numpy(), theirs.gram, atol=1e-6)
    np.testing.assert_allclose(ours.bias.numpy(), theirs.bias, atol=1e-6)


@pytest.mark.parametrize("name", HEADS)
def test_the_pilot_weighs_its_draws_as_the_oracle_does(name: str) -> None:
    head = HEADS[name]
    weight = row_space(head).weight
    lines = DeviceLines.of(weight, head.bias, torch.arange(head.classes) > 0, CPU)
    pilot = pilot_on_device(lines, SEED)
    draws = torch.from_numpy(compiled_draws(np.arange(PILOT_DRAWS), weight.shape[1], stream=PILOT, seed=SEED))
    for position, k in enumerate(lines.order.tolist()):
        _, low, high = interval_of(weight, head.bias, k, draws)
        weights = (stats.norm.sf(low) - stats.norm.sf(high)).clip(0)
        if lines.kinds[position] == CLOSED or not weights.any():
            assert pilot.probability[k] == 0.0
            assert np.isinf(pilot.repeats[:, k]).all()
            continue
        assert pilot.probability[k] == pytest.approx(weights.mean(), rel=1e-4)
        over = [np.maximum(weights / weights.mean() - s, 0).mean() for s in SPREADS]
        np.testing.assert_allclose(pilot.repeats[:, k], over, rtol=1e-3, atol=1e-6)


def group_draws(lines: DeviceLines, position: int, count: int) -> Tensor:
    """The draws that the class at a position sees: the plain ones, mixed by its group."""
    group = int((lines.slots == position).any(1).nonzero()[0, 0])
    plain = compiled_draws(np.arange(count), lines.rows.shape[1], seed=SEED).reshape(-1, SIZE, lines.rows.shape[1])
    turn = lines.mixing[group * SIZE : (group + 1) * SIZE].double().cpu()
    return (turn @ torch.from_numpy(plain).double()).flatten(0, 1)


@pytest.mark.parametrize("name", HEADS)
def test_every_class_takes_the_draws_that_the_oracle_gives_it(name: str) -> None:
    head = HEADS[name]
    lines, bounds, stream = open_weights(head)
    chunk = stream._chunk(0, 1, torch.full((head.classes,), -torch.inf), torch.full((head.classes,), torch.inf))
    check_candidates(head, stream, chunk, lines.order.tolist(), bounds, lambda k: group_draws(lines, k, chunk.draws))


def fill(stream: DeviceWeightedStream | WeightedStream, pools: WeightedPools) -> WeightedPools:
    for chunk in stream.chunks(pools.limits):
        if not pools.absorb(chunk).open:
            return pools
    raise AssertionError


@pytest.mark.parametrize("name", ["with bias", "exploded row"])
def test_pools_are_those_of_the_compiled_stream_up_to_rounding(name: str) -> None:
    """Counters, bounds and phases are the same, so all but the rare candidate at an edge must be."""
    head = HEADS[name]
    _, bounds, stream = open_weights(head)
    lines = Lines.of(row_space(head).weight, head.bias, torch.arange(head.classes) > 0)
    compiled = WeightedStream(lines, bounds, seed=SEED)
    refused = [k for k in range(head.classes) if not np.isfinite(bounds[k])]
    ours, theirs = (fill(each, WeightedPools(bounds, refused, n=700, top=20, bottom=20)) for each in (stream, compiled))
    for mine, other in ((ours.surest, theirs.surest), (ours.least_sure, theirs.least_sure)):
        assert len(set(mine.items[:, 0].tolist()) ^ set(other.items[:, 0].tolist())) <= 0.02 * len(other.items)
        np.testing.assert_allclose(mine.scores.numpy(), other.scores.numpy(), atol=0.05)
    np.testing.assert_allclose(ours.acceptance.numpy(), theirs.acceptance.numpy(), rtol=0.05, atol=1e-9)
    shares = [float(pools.repeats.sum() / pools.landed.sum()) for pools in (ours, theirs)]
    assert 0 < shares[0] == pytest.approx(shares[1], rel=0.15)


def prepare(
    weight: Tensor, bias: Tensor, retain: Tensor, seed: int, device: torch.device, threads: int
) -> tuple[DeviceLines, Pilot]:
    """Prepare as for a GPU, on whatever device."""
    lines = DeviceLines.of(weight, bias, retain, device)
    return lines, pilot_on_device(lines, seed)


@pytest.mark.parametrize("budget", [1, 10**9])
def test_probes_lie_in_their_regions_also_those_that_are_added_by_conditional_sampling(
    budget: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choose, "prepare", prepare)
    head = HEADS["with bias"]
    probes = sample_probes(head, 0, n=500, m=20, path="weighted", max_draws=budget)
    assert probes.engine == "weighted, torch"
    assert (len(probes.conditional) == 39) == (budget == 1)
    assert 0 < probes.repeats < 5e-3
    assert (logits_of(head, probes.samples.numpy()).argmax(1) == probes.sources.numpy()).all()
    assert probes.samples.shape == (2 * 39 * 20, 64)
    assert 0.9 < float(probes.acceptance[1:].sum()) < 1.0
