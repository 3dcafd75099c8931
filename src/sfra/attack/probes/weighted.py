"""The weighted stream: every draw is a candidate for every class at once, along the class's own row.

With centred rows, ``e_k = a_k / |a_k|`` and ``u = t e_k + v``, the point ``u`` lies in the region of class ``k`` just
for ``t`` in an interval that depends on ``v`` alone (:func:`sfra.attack.probes.lines.interval_of`). So a draw ``v`` has
the weight ``w_k(v) = P(lo < Z < hi)``, and ``t`` given ``v`` is a normal cut to the interval.

A draw gives class ``k`` the whole part of ``w_k / bound_k + U`` candidates, ``U`` uniform. Their mean number is
``w_k / bound_k`` whatever the bound, so every candidate has exactly the law of a plain draw given its class. A bound of
1 is plain rejection; while the weights stay below a smaller bound, candidates are as independent as plain ones. Where
a weight exceeds it, the draw gives several: a share ``E max(w - bound, 0) / E w`` of the candidates repeats the ``v``
of another, with a ``t`` of its own. That is the whole error inside a class. The bounds are ``spread π_k`` with one
``spread`` for all classes, so that all pools fill at the same pace, after ``n spread`` draws; a pilot of independent
draws finds ``π_k``, and the share of repeats for every spread.

Between classes: each of 32 groups has draws of its own (:mod:`sfra.attack.probes.mixing`); inside a group a draw may
serve several classes. One ``U`` per draw serves all classes, shifted by a fixed amount for each: uniform for each of
them, and spread evenly over them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float, Int, Shaped
from numpy import ndarray
from torch import Tensor

from sfra.attack.probes import codes
from sfra.attack.probes.lines import TILE, Lines
from sfra.attack.probes.pools import Chunk, Pools
from sfra.attack.probes.stream import Limits
from sfra.attack.probes.tiles import in_order
from sfra.core.cpu import cores

SPREADS = np.geomspace(2.0, 256.0, 29)
"""The spreads of weights that are looked at."""

PILOT_DRAWS, PILOT_WEIGHTS = 4096, 2**25
"""Draws that find the probabilities and the spread of weights; fewer where there would be more weights than this."""

ROUNDING = 4.0 * float(np.finfo(np.float32).eps)
"""A candidate wins by more than this, relative to the size of a logit, so that whoever looks finds the same arg-max."""

MORE_LEADERS, MANY = 64, 4096
"""Leaders for more classes than this; chunks are one tile long there, so that limits are never far behind."""

_MOVED = 512
_GOLDEN = 0.6180339887498949


@dataclass(frozen=True, eq=False, kw_only=True)
class Pilot:
    """What independent draws told about the classes."""

    probability: Float[ndarray, " C"]
    """``π_k``: the share of plain draws that would fall to the class; 0 for a class that is not asked."""
    repeats: Float[ndarray, "spreads C"]
    """Share of a class's candidates that would repeat a draw, for each of ``SPREADS``."""

    @classmethod
    def of(cls, lines: Lines, seed: int, threads: int = 1) -> Pilot:
        """Weigh the draws of a stream of their own."""
        from sfra.attack.probes import weighing

        draws = min(PILOT_DRAWS, PILOT_WEIGHTS // len(lines.bias) // TILE * TILE)
        weights = np.empty((draws, len(lines.bias)), np.float32)

        def weigh(first: int) -> None:
            z = lines.logits(first, weighing.PILOT, np.uint64(seed))
            z += lines.offset
            weighing.weigh_pilot(z, lines.compiled, lines.kinds, weights[first : first + TILE])

        for _ in in_order(weigh, range(0, draws, TILE), threads):
            pass
        back = lines.order.argsort()
        mean = weights.mean(axis=0, dtype=np.float64)
        weights /= np.where(mean > 0, mean, 1.0).astype(np.float32)
        over = np.zeros((len(SPREADS), len(mean)), np.float32)
        for part in np.split(weights, draws // TILE):
            over += np.stack([np.maximum(part - np.float32(s), 0).sum(axis=0) for s in SPREADS])
        over /= draws
        return cls(probability=mean[back], repeats=np.where(mean > 0, over, np.inf)[:, back])


class WeightedStream:
    """The weighted stream on the CPU. An item is a draw and a class, and the place of the candidate on their line."""

    name = "weighted"

    def __init__(
        self, lines: Lines, bounds: Float[ndarray, " C"], *, seed: int, threads: int | None = None, tiles: int = 8
    ) -> None:
        from sfra.attack.probes.sieving import tau_table

        self._lines, self._seed, self._threads = lines, np.uint64(seed), threads or cores()
        self._longest = tiles if len(bounds) <= MANY else 1
        self._bounds = bounds[lines.order]
        self._kinds = np.where(np.isfinite(self._bounds), lines.kinds, 0)
        self._phases = np.arange(len(bounds)) * _GOLDEN % 1.0
        self._compiled = lines.compiled
        rest = np.zeros(len(lines.gram) - len(bounds))
        asked = np.where(self._kinds > 0, self._bounds, 1.0)
        per_class = (np.append(values, rest).astype(np.float32) for values in (self._phases, asked))
        self._sieved = (*per_class, tau_table())
        length, bias = float(lines.lengths.max()), float(np.abs(lines.bias).max())
        self._slack = np.float32(2.0**-16 * (6 * length + bias))
        self._rounding = ROUNDING * (length * (lines.rows.shape[1] ** 0.5 + 8) + bias)
        self._stored: list[Tensor] = []

    def chunks(self, limits: Limits) -> Iterator[Chunk]:
        """Yield the stream in order; a few chunks are computed ahead with the limits known by then."""
        ahead: deque[Future[Chunk]] = deque()
        start, tiles = 0, 1
        with ThreadPoolExecutor(self._threads, thread_name_prefix="sfra-weighs") as pool:
            try:
                while True:
                    while len(ahead) <= self._threads:
                        ahead.append(pool.submit(self._chunk, start, tiles, *limits()))
                        start, tiles = start + tiles * TILE, min(2 * tiles, self._longest)
                    yield ahead.popleft().result()
            finally:
                for future in ahead:
                    future.cancel()

    def _chunk(self, start: int, tiles: int, high: Tensor, low: Tensor) -> Chunk:
        order, width, classes = self._lines.order, TILE, len(self._bounds)
        counts, repeats = np.zeros((2, classes), np.int64)
        limits = high.numpy()[order], low.numpy()[order]
        parts = [self._tile(start + i * width, *limits, counts, repeats) for i in range(tiles)]
        draw, label, place, score, rank = (np.concatenate(column) for column in zip(*parts, strict=True))
        back = order.argsort()
        return Chunk(
            draws=tiles * width,
            counts=torch.from_numpy(counts[back]),
            repeats=torch.from_numpy(repeats[back]),
            labels=torch.from_numpy(order[label]),
            scores=torch.from_numpy(score),
            ranks=torch.from_numpy(rank),
            items=torch.from_numpy(np.stack([draw * classes + label, place.view(np.int64)], axis=1)),
        )

    def _tile(
        self,
        first: int,
        high: Float[ndarray, " C"],
        low: Float[ndarray, " C"],
        counts: Int[ndarray, " C"],
        repeats: Int[ndarray, " C"],
    ) -> list[ndarray]:
        """Return the candidates of a tile that may be extreme, as columns."""
        from sfra.attack.probes import weighing

        lines, classes = self._lines, len(high)
        plain = lines.logits(first, 0, self._seed)
        kinds = np.where((high == np.inf) & (low == -np.inf), weighing.CLOSED, self._kinds)
        columns = (np.int64, np.int64, np.float64, np.float32, np.int64)
        out = [np.empty(weighing.COPIES * plain.size, kind) for kind in columns]
        found = weighing.weigh_tile(
            plain,
            first,
            self._seed,
            self._compiled,
            (lines.edges, lines.signs, lines.offset),
            kinds,
            self._phases,
            self._bounds,
            self._sieved,
            lines.narrowest,
            (self._slack, self._rounding),
            (high, low),
            weighing.LEADERS if classes <= MANY else MORE_LEADERS,
            (counts, repeats, *out),
        )
        return [column[:found].copy() for column in out]

    def rows(self, items: Shaped[Tensor, "n ..."]) -> Float[Tensor, "n r"]:
        """Make the draws again and move each along its class's row to its place."""
        rows = torch.empty(len(items), self._lines.rows.shape[1])
        for start in range(0, len(items), _MOVED):
            rows[start : start + _MOVED] = self._moved(items[start : start + _MOVED])
        return rows

    def _moved(self, items: Int[Tensor, "n 2"]) -> Float[Tensor, "n r"]:
        """Mix the plain draws of a few items as their group does, and set their component along the row."""
        from sfra.attack.probes import kernels
        from sfra.attack.probes.mixing import SIZE, matrix

        lines, foreign = self._lines, items[:, 0] < 0
        draws, at = np.divmod(items[:, 0].clamp_min(0).numpy(), len(self._bounds))
        group = np.searchsorted(lines.edges, at, side="right") - 1
        first = draws // SIZE * SIZE
        made = np.empty((len(draws) * SIZE, lines.rows.shape[1]), np.float32)
        kernels.make_draws((first[:, None] + np.arange(SIZE)).ravel(), 0, self._seed, codes.GAUSSIAN, made)
        shares = torch.from_numpy(np.stack([matrix(sign) for sign in lines.signs])[group, draws - first])
        u = (shares[:, None, :] @ torch.from_numpy(made).view(len(draws), SIZE, -1))[:, 0].double()
        e = torch.from_numpy(lines.rows[at]).double()
        e /= e.norm(dim=1, keepdim=True)
        place = items[:, 1].contiguous().view(torch.float64)
        moved = (u + (place - (u * e).sum(1))[:, None] * e).float()
        if bool(foreign.any()):
            moved[foreign] = torch.cat(self._stored)[-1 - items[foreign, 0]]
        return moved

    def store(self, rows: Float[Tensor, "n r"]) -> Shaped[Tensor, "n ..."]:
        """Number the rows -1, -2, … in order of arrival."""
        first = sum(part.shape[0] for part in self._stored)
        self._stored.append(rows)
        numbers = -1 - torch.arange(first, first + rows.shape[0])
        return torch.stack([numbers, torch.zeros_like(numbers)], dim=1)

    def noise(self, count: int, width: int) -> Float[Tensor, "n d"]:
        """Return normals from a stream of their own."""
        from sfra.attack.probes import kernels

        out = np.empty((count, width), np.float32)
        kernels.make_draws(np.arange(count), 1, self._seed, codes.GAUSSIAN, out)
        return torch.from_numpy(out)


def latest_starts(bounds: Float[ndarray, " C"]) -> Float[ndarray, "C bins"]:
    """Return the largest ``lo`` with ``P(Z > lo) >= bound (1 - U)`` for the ``U`` of each bin, rounded up."""
    from scipy.special import ndtri

    from sfra.attack.probes.weighing import BINS

    least = np.where(np.isfinite(bounds), bounds, 1.0)[:, None] * (1.0 - np.arange(1, BINS + 1) / BINS)
    with np.errstate(divide="ignore"):
        taus = -ndtri(np.minimum(least, 1.0))
    return np.asarray(np.clip(taus, -40.0, 40.0) + 1e-5, np.float32)


class WeightedPools(Pools):
    """Pools of a weighted stream: a class stands still once it is full, so that its acceptance is known by then."""

    def __init__(
        self,
        bounds: Float[ndarray, " C"],
        forget: Sequence[int],
        *,
        n: int,
        top: int,
        bottom: int,
        device: torch.device | None = None,
    ) -> None:
        super().__init__(len(bounds), forget, n=n, top=top, bottom=bottom, device=device)
        self._bounds = torch.from_numpy(np.where(np.isfinite(bounds), bounds, 0.0))
        self._asked = torch.zeros_like(self.landed)

    def absorb(self, chunk: Chunk) -> Pools:
        """Take in the next chunk of the stream."""
        takes = self._takes
        self._asked += torch.where(takes, chunk.draws, 0)
        self.repeats += torch.where(takes, chunk.repeats, 0)
        chunk = replace(chunk, counts=torch.where(takes, chunk.counts, 0))
        return super().absorb(chunk)

    @property
    def acceptance(self) -> Float[Tensor, " C"]:
        """Mean weight of the draws: the bound times the candidates per draw."""
        return self._bounds * (self.landed / self._asked.clamp_min(1).double()).cpu()
