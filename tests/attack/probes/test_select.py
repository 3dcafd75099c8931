from collections.abc import Sequence
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from sfra.attack.probes.pools import Chunk, Pools
from sfra.attack.probes.select import Extremes, Selected

CLASSES = 3
candidates = st.lists(st.tuples(st.integers(0, CLASSES - 1), st.integers(-3, 3)), min_size=1, max_size=60)
cuts = st.lists(st.integers(0, 60), max_size=5)


def brute_force(labels: Tensor, values: Tensor, keep: int, *, highest: bool) -> list[tuple[int, float, int]]:
    """Class, score and position of the kept candidates by a plain sort; of equal scores the earlier is the lower."""
    kept = []
    rows = list(zip(labels.tolist(), values.tolist(), range(len(labels)), strict=True))
    for k in sorted(set(labels.tolist())):
        mine = [(value, i) for label, value, i in rows if label == k]
        mine.sort(reverse=highest)
        kept += [(k, value, i) for value, i in mine[:keep]]
    return kept


def listed(selected: Selected) -> list[tuple[int, float, int]]:
    columns = (selected.labels.tolist(), selected.scores.tolist(), selected.items.tolist())
    return list(zip(*columns, strict=True))


def pieces(length: int, where: Sequence[int]) -> list[slice]:
    edges = [0, *sorted(min(cut, length) for cut in where), length]
    return [slice(a, b) for a, b in pairwise(edges)]


@settings(deadline=None)
@given(candidates, cuts, st.integers(1, 4), st.integers(1, 4))
def test_any_split_of_a_stream_keeps_what_a_sort_of_each_class_keeps(
    stream: list[tuple[int, int]], where: list[int], top: int, bottom: int
) -> None:
    labels = torch.tensor([k for k, _ in stream])
    values = torch.tensor([float(v) for _, v in stream])
    extremes = Extremes(CLASSES, top=top, bottom=bottom)
    for piece in pieces(len(stream), where):
        extremes.update(labels[piece], values[piece], torch.arange(len(stream))[piece])
    assert listed(extremes.top) == brute_force(labels, values, top, highest=True)
    assert listed(extremes.bottom) == brute_force(labels, values, bottom, highest=False)


def long_stream(length: int, *, levels: int = 300) -> tuple[Tensor, Tensor]:
    """Labels of uneven classes, and scores on few levels, so that ties at the thresholds are certain."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.multinomial(torch.tensor([0.6, 0.3, 0.1]), length, replacement=True, generator=generator)
    values = torch.randn(length, generator=generator).mul(levels / 8).round().div(levels / 8)
    return labels, values


@pytest.mark.parametrize("delay", [1, 5])
def test_a_long_stream_filtered_by_fresh_or_stale_limits_loses_no_candidate(delay: int) -> None:
    labels, values = long_stream(60_000)
    extremes, emitted = Extremes(CLASSES, top=40, bottom=25), 0
    behind = [(extremes.high.clone(), extremes.low.clone())] * delay
    for start in range(0, 60_000, 1500):
        piece = slice(start, start + 1500)
        high, low = behind.pop(0)
        k, v = labels[piece], values[piece]
        near = (v >= high[k]) | (v <= low[k])
        emitted += int(near.sum())
        extremes.update(k[near], v[near], torch.arange(60_000)[piece][near])
        behind.append((extremes.high.clone(), extremes.low.clone()))
    assert listed(extremes.top) == brute_force(labels, values, 40, highest=True)
    assert listed(extremes.bottom) == brute_force(labels, values, 25, highest=False)
    assert emitted < 30_000  # the limits did filter


@settings(deadline=None)
@given(st.lists(st.integers(-3, 3), min_size=1, max_size=30), st.integers(1, 5), st.integers(1, 5))
def test_a_shortlist_of_one_class_keeps_all_that_the_selection_would_keep(
    row: list[int], top: int, bottom: int
) -> None:
    values = torch.tensor(row, dtype=torch.float32)
    whole, short = (Extremes(CLASSES, top=top, bottom=bottom) for _ in range(2))
    near = whole.shortlist(values)
    assert near.numel() <= top + bottom
    label = torch.ones(len(row), dtype=torch.int64)
    whole.update(label, values, torch.arange(len(row)))
    short.update(label[near], values[near], near)
    assert listed(short.top) == listed(whole.top)
    assert listed(short.bottom) == listed(whole.bottom)


@settings(max_examples=60, deadline=None)
@given(candidates, cuts, st.integers(2, 8), st.data())
def test_the_first_n_of_each_retain_class_count_however_the_stream_is_cut(
    stream: list[tuple[int, int]], where: list[int], n: int, data: st.DataObject
) -> None:
    top, bottom = data.draw(st.integers(1, n // 2)), data.draw(st.integers(1, n // 2))
    labels = torch.tensor([k for k, _ in stream] + [0, 2] * n)
    values = torch.tensor([float(v) for _, v in stream] + [0.0] * (2 * n))
    pools = Pools(CLASSES, [1], n=n, top=top, bottom=bottom)
    for piece in pieces(len(labels), where):
        pools.absorb(chunk_of(labels[piece], values[piece], torch.arange(len(labels))[piece]))
    counted = torch.tensor([k != 1 and int((labels[:i] == k).sum()) < n for i, k in enumerate(labels.tolist())])
    positions = torch.nonzero(counted).flatten().tolist()
    for selected, keep, highest in ((pools.surest, top, True), (pools.least_sure, bottom, False)):
        expected = brute_force(labels[counted], values[counted], keep, highest=highest)
        assert listed(selected) == [(k, v, positions[i]) for k, v, i in expected]
    assert pools.open == []
    assert pools.draws == len(labels)
    assert pools.landed.tolist() == torch.bincount(labels, minlength=CLASSES).tolist()


def chunk_of(labels: Tensor, values: Tensor, items: Tensor) -> Chunk:
    ranks = torch.tensor([int((labels[:i] == k).sum()) for i, k in enumerate(labels)], dtype=torch.int64)
    counts = torch.bincount(labels, minlength=CLASSES)
    return Chunk(draws=len(labels), counts=counts, labels=labels, scores=values, ranks=ranks, items=items)


def test_a_full_pool_and_a_forget_class_take_nothing_more() -> None:
    pools = Pools(CLASSES, [2], n=2, top=1, bottom=1)
    labels = torch.tensor([0, 0, 1, 2])
    pools.absorb(chunk_of(labels, torch.zeros(4), torch.arange(4)))
    assert pools.open == [1]
    high, low = pools.limits()
    assert high.isposinf().tolist() == [True, False, True]
    assert low.isneginf().tolist() == [True, False, True]
    torch.testing.assert_close(pools.acceptance, torch.tensor([0.5, 0.25, 0.25], dtype=torch.float64))


def test_a_topped_up_pool_ranks_the_new_candidates_with_the_old() -> None:
    pools = Pools(CLASSES, [2], n=4, top=2, bottom=1)
    pools.absorb(chunk_of(torch.tensor([0, 0]), torch.tensor([1.0, 5.0]), torch.tensor([10, 11])))
    pools.top_up(0, torch.tensor([3.0, 0.0]), torch.tensor([-1, -2]))
    assert listed(pools.surest) == [(0, 5.0, 11), (0, 3.0, -1)]
    assert listed(pools.least_sure) == [(0, 0.0, -2)]
