"""The plain stream from counters selects what sorting all of its draws in float64 selects, in torch and in Triton."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import numpy as np
import pytest
import torch
from torch import Tensor

from builders.algorithm import HEAD, compiled_draws, normal
from builders.algorithm import sureness as exact_sureness
from builders.triton import DEVICE, open_loops
from sfra.attack.probes import counter_stream, proposals, sample, sample_probes, scores, torch_loops
from sfra.attack.probes.counter_stream import CounterStream, Scan
from sfra.attack.probes.pools import Pools
from sfra.attack.probes.stream import CompiledStream
from sfra.core.head import Head

SEED, FORGET, N, M = 2**40 + 5, 1, 300, 12
Limit = Callable[[], tuple[Tensor, Tensor]]


@pytest.fixture(scope="module", params=["torch", "triton"])
def loops(request: pytest.FixtureRequest) -> ModuleType:
    return open_loops(request.param)


def head_of(classes: int, rank: int) -> tuple[Tensor, Tensor]:
    return 2 * torch.nn.functional.normalize(normal(classes, rank, seed=classes), dim=1), normal(classes, seed=1) / 4


@pytest.mark.parametrize(("classes", "rank"), [(2, 1), (10, 9), (21, 37), (130, 20), (260, 7)])
def test_draws_are_routed_as_float64_routes_them(loops: Scan, classes: int, rank: int) -> None:
    weight, bias = head_of(classes, rank)
    everything = torch.full((classes,), -torch.inf, device=DEVICE), torch.full((classes,), torch.inf, device=DEVICE)
    start = 2**33 + 512
    head = loops.prepare(weight.to(DEVICE), bias.to(DEVICE))
    found = loops.scan(start, 1024, head, SEED, *everything)
    draws = compiled_draws(np.arange(start, start + 1024), rank, seed=SEED).astype(np.float64)
    logits = draws @ weight.double().numpy().T + bias.double().numpy()
    assert found.near.tolist() == list(range(1024))
    assert found.labels.tolist() == logits.argmax(1).tolist()
    assert found.counts.tolist() == np.bincount(logits.argmax(1), minlength=classes).tolist()
    np.testing.assert_allclose(found.scores.cpu().numpy(), exact_sureness(logits, "softmax"), rtol=1e-4, atol=1e-4)
    for k in range(classes):
        mine = found.labels == k
        assert found.ranks[mine].tolist() == list(range(int(mine.sum())))


def test_a_row_far_longer_than_the_others_leaves_them_their_precision(loops: Scan) -> None:
    weight, bias = head_of(10, 9)
    weight *= 10.0 ** torch.linspace(-3, 3, 10)[:, None]
    everything = torch.full((10,), -torch.inf, device=DEVICE), torch.full((10,), torch.inf, device=DEVICE)
    found = loops.scan(0, 1024, loops.prepare(weight.to(DEVICE), bias.to(DEVICE)), SEED, *everything)
    draws = compiled_draws(np.arange(1024), 9, seed=SEED).astype(np.float64)
    logits = draws @ weight.double().numpy().T + bias.double().numpy()
    assert found.labels.tolist() == logits.argmax(1).tolist()
    np.testing.assert_allclose(found.scores.cpu().numpy(), exact_sureness(logits, "softmax"), rtol=1e-5, atol=1e-3)


def test_only_draws_beyond_the_limits_of_their_class_are_kept(loops: Scan) -> None:
    weight, bias = head_of(10, 9)
    high, low = torch.linspace(0.5, 2.5, 10), torch.linspace(-2.5, -0.5, 10)
    given = [part.to(DEVICE) for part in (weight, bias, high, low)]
    found = loops.scan(0, 1024, loops.prepare(given[0], given[1]), SEED, given[2], given[3])
    logits = compiled_draws(np.arange(1024), 9, seed=SEED).astype(np.float64) @ weight.double().numpy().T
    logits += bias.double().numpy()
    sure, winner = exact_sureness(logits, "softmax"), logits.argmax(1)
    near = np.flatnonzero((sure >= high.numpy()[winner]) | (sure <= low.numpy()[winner]))
    assert 50 < len(near) < 900
    assert found.near.tolist() == near.tolist()
    assert found.labels.tolist() == winner[near].tolist()
    assert found.ranks.tolist() == [int((winner[:i] == winner[i]).sum()) for i in near]
    assert found.counts.tolist() == np.bincount(winner, minlength=10).tolist()


def fill(loops: Scan, limits: Callable[[Pools], Limit]) -> tuple[Pools, CounterStream]:
    weight, bias = head_of(10, 9)
    stream = CounterStream(weight, bias, seed=SEED, device=DEVICE, loops=loops)
    pools = Pools(10, [FORGET], n=N, top=M, bottom=M, device=DEVICE)
    for chunk in stream.chunks(limits(pools)):
        if not pools.absorb(chunk).open:
            break
    return pools, stream


def current(pools: Pools) -> Limit:
    return pools.limits


def stale(pools: Pools) -> Limit:
    """Limits that are never renewed: all that comes is kept, which costs time alone."""
    once = pools.limits()
    return lambda: once


def wrong(pools: Pools) -> Limit:
    """Limits that belong to nothing the pools have seen."""

    def limits() -> tuple[Tensor, Tensor]:
        high, low = pools.limits()
        return high.clamp_min(1.5), low.clamp_max(-1.0)

    return limits


def agrees(pools: Pools) -> bool:
    """Whether the pools hold the extremes of the first ``N`` draws of each class, by a plain sort in float64."""
    weight, bias = head_of(10, 9)
    logits = compiled_draws(np.arange(pools.draws), 9, seed=SEED).astype(np.float64) @ weight.double().numpy().T
    logits += bias.double().numpy()
    sure, winner = exact_sureness(logits, "softmax"), logits.argmax(1)
    labels = torch.cat([pools.surest.labels, pools.least_sure.labels])
    items = torch.cat([pools.surest.items, pools.least_sure.items])
    for k in set(range(10)) - {FORGET}:
        pool = np.flatnonzero(winner == k)[:N]
        order = pool[np.argsort(sure[pool], kind="stable")].tolist()
        if set(items[labels == k].tolist()) != set(order[:M] + order[-M:]):
            return False
    return True


@pytest.fixture
def _short_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counter_stream, "_FIRST", 1024)  # the interpreter takes its time
    monkeypatch.setattr(counter_stream, "LONGEST", 2048)


@pytest.mark.usefixtures("_short_chunks")
def test_pools_hold_what_a_sort_selects_with_current_and_with_stale_limits_but_not_with_wrong_ones(loops: Scan) -> None:
    pools, stream = fill(loops, current)
    assert agrees(pools)
    rows = stream.rows(pools.surest.items).cpu().numpy()
    np.testing.assert_allclose(rows, compiled_draws(pools.surest.items.cpu().numpy(), 9, seed=SEED), atol=2e-6)
    assert agrees(fill(loops, stale)[0])
    assert not agrees(fill(loops, wrong)[0])


def test_stored_rows_come_back_beside_draws(loops: Scan) -> None:
    weight, bias = head_of(10, 9)
    stream = CounterStream(weight, bias, seed=SEED, device=DEVICE, loops=loops)
    rows = normal(5, 9, seed=4)
    items = torch.cat([stream.store(rows[:2]), torch.tensor([7], device=DEVICE), stream.store(rows[2:])])
    found = stream.rows(items).cpu()
    assert torch.equal(found[[0, 1, 3, 4, 5]], rows)
    np.testing.assert_allclose(found[2].numpy(), compiled_draws(np.array([7]), 9, seed=SEED)[0], atol=2e-6)


def test_it_selects_the_draws_that_the_compiled_stream_selects() -> None:
    weight, bias = head_of(10, 9)
    law, score = proposals.get("gaussian"), scores.get("softmax")
    theirs = Pools(10, [FORGET], n=N, top=M, bottom=M)
    for chunk in CompiledStream(weight, bias, proposal=law, score=score, seed=SEED).chunks(theirs.limits):
        if not theirs.absorb(chunk).open:
            break
    ours, _ = fill(torch_loops, current)
    assert ours.surest.items.tolist() == theirs.surest.items.tolist()
    assert ours.least_sure.items.tolist() == theirs.least_sure.items.tolist()


@pytest.mark.parametrize("budget", [1, 10**9])
def test_probes_are_those_of_the_compiled_stream_up_to_rounding(budget: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a budget of one chunk some pools are completed by conditional samples, which the stream has to store."""

    def open_here(weight: Tensor, bias: Tensor, *, seed: int, **_: object) -> CounterStream:
        return CounterStream(weight, bias, seed=seed, device=torch.device("cpu"))

    theirs = sample_probes(HEAD, 3, n=400, m=20, max_draws=budget)
    monkeypatch.setattr(sample, "open_stream", open_here)
    monkeypatch.setattr(counter_stream, "_FIRST", 2**12)
    monkeypatch.setattr(counter_stream, "LONGEST", 2**12)
    ours = sample_probes(HEAD, 3, n=400, m=20, max_draws=budget)
    assert (ours.engine, theirs.engine) == ("counters, torch", "compiled")
    assert ours.conditional == theirs.conditional
    assert bool(ours.conditional) == (budget == 1)
    assert torch.equal(ours.labels, theirs.labels)
    assert torch.equal(ours.sources, theirs.sources)
    torch.testing.assert_close(ours.samples, theirs.samples, atol=1e-4, rtol=1e-4)


@pytest.mark.skipif(DEVICE.type != "cuda", reason="there is no GPU")
@pytest.mark.parametrize("path", ["plain", "weighted"])
@pytest.mark.parametrize("classes", [10, 300])
def test_on_a_gpu_probes_lie_in_their_regions_and_repeated_runs_give_the_same_bits(classes: int, path: str) -> None:
    head = Head(*head_of(classes, classes + 20))
    one, two = (sample_probes(head, 0, n=2000, m=10, device="cuda", path=path) for _ in range(2))  # type: ignore[arg-type]
    assert torch.equal(one.samples, two.samples)
    assert torch.equal(one.sureness, two.sureness)
    logits = one.samples.double().cpu() @ head.weight.double().T + head.bias.double()
    assert torch.equal(logits.argmax(1), one.sources.cpu())
    here = sample_probes(head, 0, n=2000, m=10, path=path)  # type: ignore[arg-type]
    torch.testing.assert_close(one.acceptance, here.acceptance, rtol=0.2, atol=1e-4)
    assert float(one.sureness.mean().cpu()) == pytest.approx(float(here.sureness.mean()), abs=0.05)
