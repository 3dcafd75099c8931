"""Heads for the weighted streams, and the oracle that says which draws a class takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import stats
from torch import Tensor

from builders.algorithm import logits_of, normal
from sfra.attack.probes.lines import interval_of
from sfra.attack.probes.pools import Chunk
from sfra.attack.probes.rowspace import row_space
from sfra.attack.probes.weighing import ACCEPT, uniform_at
from sfra.core.head import Head

SEED = 7


def exploded() -> Head:
    weight = normal(12, 20, seed=3) / 3
    weight[4] *= 12
    return Head(weight, normal(12, seed=4) / 4)


HEADS = {
    "with bias": Head(normal(40, 64) / 4, normal(40, seed=1) / 2),
    "more classes than features": Head(normal(30, 6, seed=5) / 2, normal(30, seed=6) / 8),
    "low rank": Head(normal(17, 4, seed=7) @ normal(4, 24, seed=8) / 4, normal(17, seed=9) / 8),
    "common row": Head(normal(20, 30, seed=10) / 3 + 5 * normal(1, 30, seed=11)),
    "exploded row": exploded(),
}


def check_candidates(
    head: Head,
    stream: Any,
    chunk: Chunk,
    order: Sequence[int],
    bounds: NDArray[np.float64],
    draws_of: Callable[[int], Tensor],
) -> None:
    """Compare a chunk that took everything with the oracle, draw by draw; ``draws_of`` a position in the order."""
    space, labels = row_space(head), chunk.labels.numpy()
    logits = logits_of(Head(space.weight, head.bias), stream.rows(chunk.items).numpy())
    assert (logits.argmax(1) == labels).all()
    own = np.take_along_axis(logits, labels[:, None], 1)[:, 0]
    np.put_along_axis(logits, labels[:, None], -np.inf, 1)
    np.testing.assert_allclose(chunk.scores.numpy(), own - np.logaddexp.reduce(logits, axis=1), atol=3e-4, rtol=1e-4)
    u = np.array([uniform_at(i, 0, ACCEPT, np.uint64(SEED)) for i in range(chunk.draws)])
    wrong = checked = 0
    for position, k in enumerate(order):
        mine = chunk.labels == k
        if not np.isfinite(bounds[k]):
            assert not mine.any()
            continue
        _, low, high = interval_of(space.weight, head.bias, k, draws_of(position))
        weight = (stats.norm.sf(low) - stats.norm.sf(high)).clip(0)
        wanted = np.floor(weight / bounds[k] + (u + float(stream._phases[position])) % 1.0).clip(0, 4)
        at = chunk.items[mine, 0] // head.classes
        wrong += int((np.bincount(at.numpy(), minlength=chunk.draws) != wanted).sum())
        checked += chunk.draws
        place = chunk.items[mine, 1].contiguous().view(torch.float64)
        assert bool((place > low[at] - 1e-4).all())
        assert bool((place < high[at] + 1e-4).all())
        assert int(chunk.counts[k]) == len(place)
        assert chunk.ranks[mine].tolist() == list(range(len(place)))
    assert wrong <= 2e-4 * checked  # float32 at the edges
