"""The weighted stream on a torch device: the law of the CPU's, a tile of draws for all groups and classes at once.

What a draw costs, for ``C`` classes in 32 groups, rank ``r`` and a spread ``s`` of the weights (:mod:`weighted`):

    normals and logits      r numbers, 2 C r operations
    mixing                  32 C logits, each written once and read by the leaders
    sieve                   16 C products: 16 leading logits of a mixture rule out nearly every pair that fails
    ends and log-odds       2 C²/s, or a little more: what is left is looked at in full, for its weight and its log-odds

A head of 1,000 classes and N = 50,000 takes 570,000 draws (s = 11). Without the sieve the ends alone would be 5.7e14
ratios, half a minute at the 1.7e13 maxima a second that an H200 makes; behind it there are 1.1e11 ratios and
exponentials, which read 8 bytes each from the caches. The logits are 1.1e12 operations, the mixed ones 73 GB.
21,841 classes, N = 5,000: 80,000 draws, 2.6e12 products, 220 GB of mixed logits, and 5e12 ratios and exponentials,
whose rows come from the second cache at some 4 bytes each: several seconds.

A tile has the same width whatever is asked, every sum a fixed order, and nothing is appended in the order of arrival.
So a run on the same device with the same versions gives the same bits.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Shaped
from numpy import ndarray
from torch import Tensor

from sfra.attack.probes import torch_loops
from sfra.attack.probes.device_lines import DeviceLines
from sfra.attack.probes.mixing import SIZE
from sfra.attack.probes.pools import Chunk
from sfra.attack.probes.stream import Limits
from sfra.attack.probes.weighing import ACCEPT, CLOSED, COPIES, INTERVAL, PILOT, PLACE
from sfra.attack.probes.weighted import PILOT_DRAWS, PILOT_WEIGHTS, ROUNDING, SPREADS, Pilot, latest_starts

_GOLDEN = 0.6180339887498949
_ALMOST_ONE = 1.0 - 2.0**-53
_MOVED, _LONGEST = 4096, 4


@runtime_checkable
class Loops(Protocol):
    """What takes nearly all of the time: :mod:`torch_loops` says what each does."""

    def normals(self, indices: Tensor, stream: int, width: int, seed: int) -> Tensor:
        """Return the draws of the given indices."""

    def uniforms(self, index: Tensor, word: Tensor | int, stream: Tensor | int, seed: int) -> Tensor:
        """Return the uniform numbers of counters."""

    def sieve(
        self, z: Tensor, gram: Tensor, share: Tensor, slots: Tensor, phases: Tensor, taus: Tensor, lengths: Tensor,
        bias: Tensor, slack: float,
    ) -> Tensor:  # fmt: skip
        """Tell which pairs the largest logits of a few sets do not rule out."""

    def mix(self, plain: Tensor, mixing: Tensor, offset: Tensor) -> Tensor:
        """Return the logits of every group's mixtures of draws."""

    def ends(self, z: Tensor, gram: Tensor, row: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        """Return where each pair's class begins and ends to win."""

    def losers(self, z: Tensor, gram: Tensor, row: Tensor, k: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Return the largest of the other logits, and the logarithm of the sum of their exponentials."""


def loops_on(device: torch.device) -> Loops:
    """Return the fastest loops for a device: Triton's on CUDA where it is installed, otherwise plain torch."""
    if device.type == "cuda" and find_spec("triton"):
        from sfra.attack.probes import triton_loops

        return triton_loops
    return torch_loops


def pilot_on_device(lines: DeviceLines, seed: int, loops: Loops = torch_loops) -> Pilot:
    """Weigh the draws of a stream of their own, as :meth:`Pilot.of` does."""
    classes, device = len(lines.order), lines.rows.device
    draws = max(16, min(PILOT_DRAWS, PILOT_WEIGHTS // classes))
    u = loops.normals(torch.arange(draws, device=device), PILOT, lines.rows.shape[1], seed)
    z = torch.addmm(lines.offset, u, lines.rows.T)
    weights = torch.empty(draws, classes, device=device)
    step = max(1, PILOT_WEIGHTS // 4 // classes)
    for start in range(0, draws, step):
        part = torch.arange(start, min(start + step, draws), device=device)
        row = part.repeat_interleave(classes)
        k = torch.arange(classes, device=device).repeat(len(part))
        weights[part] = _Spans(lines, loops, z, row, k).weight.view(-1, classes).float()
    weights *= lines.kinds != CLOSED
    mean = weights.mean(0, dtype=torch.float64)
    weights /= mean.where(mean > 0, 1.0)
    over = torch.stack([(weights - float(s)).clamp_min_(0.0).mean(0) for s in SPREADS]).where(mean > 0, torch.inf)
    back = lines.order.argsort()
    return Pilot(probability=mean[back].cpu().numpy(), repeats=over[:, back].cpu().numpy())


class _Spans:
    """Where the classes of some pairs win, in float64: ``begin < t < end``; and with what probability."""

    def __init__(self, lines: DeviceLines, loops: Loops, z: Tensor, row: Tensor, k: Tensor) -> None:
        self.length = lines.lengths[k].double()
        self.t0 = (z[row, k] - lines.bias[k]).double() / self.length
        self.begin, self.end = (self.t0 + e.double() * self.length for e in loops.ends(z, lines.gram, row, k))
        above, below = _upper(self.begin) - _upper(self.end), _upper(-self.end) - _upper(-self.begin)
        self.weight = torch.where(self.begin > 0, above, below).clamp_min(0.0)

    def places(self, which: Int[Tensor, " n"], u: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
        """Draw ``t`` of some pairs from the normal cut to their span, the ``1 - u``-quantile."""
        begin, end, weight = self.begin[which], self.end[which], self.weight[which]
        right = -torch.special.ndtri(_upper(end) + u * weight)
        left = torch.special.ndtri((_upper(-begin) + (1.0 - u) * weight).clamp_max(_ALMOST_ONE))
        places: Tensor = torch.where(begin > 0, right, left).clamp(begin, end)
        return places


def _upper(t: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
    tail: Tensor = 0.5 * torch.special.erfc(t * 0.5**0.5)
    return tail


class DeviceWeightedStream:
    """The weighted stream on a torch device. Items are those of the CPU's: a draw and a class, and a place."""

    def __init__(
        self, lines: DeviceLines, bounds: Float[ndarray, " C"], *, seed: int, loops: Loops = torch_loops
    ) -> None:
        self._lines, self._seed, self._loops = lines, seed, loops
        self.name = "weighted, " + ("torch" if loops is torch_loops else "triton")
        device = lines.rows.device
        self._bounds = torch.from_numpy(bounds).to(device)[lines.order]
        self._kinds = torch.where(self._bounds.isfinite(), lines.kinds, CLOSED)
        self._phases = torch.from_numpy(np.arange(len(bounds)) * _GOLDEN % 1.0).to(device)
        self._taus = torch.from_numpy(latest_starts(bounds)).to(device)[lines.order]
        length, bias = float(lines.lengths.max()), float(lines.bias.abs().max())
        self._slack = 2.0**-16 * (6 * length + bias)
        self._rounding = ROUNDING * (length * (lines.rows.shape[1] ** 0.5 + 8) + bias)
        self._stored: list[Tensor] = []

    def chunks(self, limits: Limits) -> Iterator[Chunk]:
        """Yield the stream in order, a few tiles at a time."""
        first, tiles = 0, 1
        while True:
            yield self._chunk(first, tiles, *limits())
            first, tiles = first + tiles * self._lines.tile, min(2 * tiles, _LONGEST)

    def _chunk(self, first: int, tiles: int, high: Tensor, low: Tensor) -> Chunk:
        lines, classes = self._lines, len(self._bounds)
        counts = torch.zeros(2, classes, dtype=torch.int64, device=high.device)
        width, limits = lines.tile, (high[lines.order], low[lines.order])
        parts = [self._tile(first + i * width, *limits, counts) for i in range(tiles)]
        draw, label, place, score, rank = (torch.cat(column) for column in zip(*parts, strict=True))
        back = lines.order.argsort()
        return Chunk(
            draws=tiles * width,
            counts=counts[0, back],
            repeats=counts[1, back],
            labels=lines.order[label],
            scores=score,
            ranks=rank,
            items=torch.stack([draw * classes + label, place.view(torch.int64)], dim=1),
        )

    def _tile(self, first: int, high: Tensor, low: Tensor, counts: Int[Tensor, "2 C"]) -> list[Tensor]:
        """Return the candidates of a tile that may be extreme, as columns, class by class."""
        lines, loops = self._lines, self._loops
        draws = torch.arange(first, first + lines.tile, device=high.device)
        plain = loops.normals(draws, 0, lines.rows.shape[1], self._seed) @ lines.rows.T
        z = loops.mix(plain, lines.mixing, lines.offset)
        share = loops.uniforms(draws, 0, ACCEPT, self._seed)
        kinds = torch.where((high == torch.inf) & (low == -torch.inf), CLOSED, self._kinds)
        row, draw, k = self._pairs(self._alive(z, share, kinds))
        spans = _Spans(lines, loops, z, row, k)
        copies = (spans.weight / self._bounds[k] + (share[draw] + self._phases[k]).frac()).long().clamp_max(COPIES)
        which = torch.arange(len(k), device=k.device).repeat_interleave(copies)
        row, draw, k = row[which], draw[which] + first, k[which]
        copy = torch.arange(len(which), device=k.device) - (copies.cumsum(0) - copies)[which]
        place = spans.places(which, loops.uniforms(draw, k, PLACE + copy, self._seed))
        mine = (spans.length[which] * place + lines.bias[k]).float()
        y = ((place - spans.t0[which]) / spans.length[which]).float()
        top, total = loops.losers(z, lines.gram, row, k, y)
        won = torch.nonzero(mine - top > self._rounding).flatten()
        k, copy, score = k[won], copy[won], (mine - total)[won]
        rank = _ordinals(k) + counts[0, k]
        counts[0] += torch.bincount(k, minlength=len(self._bounds))
        counts[1] += torch.bincount(k[copy > 0], minlength=len(self._bounds))
        near = torch.nonzero((score >= high[k]) | (score <= low[k])).flatten()
        return [draw[won][near], k[near], place[won][near], score[near], rank[near]]

    def _alive(
        self, z: Float[Tensor, "R P"], share: Float[Tensor, " B"], kinds: Int[Tensor, " C"]
    ) -> Bool[Tensor, "N G 16 K"]:
        """Tell which pairs are to be looked at in full."""
        lines = self._lines
        common = lines.slots, self._phases, self._taus, lines.lengths, lines.bias, self._slack
        passes = self._loops.sieve(z, lines.gram, share, *common)
        kind = kinds[lines.slots][:, None]
        alive: Tensor = ((kind == INTERVAL) | (passes & (kind != CLOSED))) & lines.real[:, None]
        return alive

    def _pairs(self, alive: Bool[Tensor, "N G 16 K"]) -> tuple[Tensor, Tensor, Tensor]:
        """Return row, draw and class of the pairs that are left, class by class in the order of draws."""
        group, slot, block, x = alive.permute(1, 3, 0, 2).nonzero().unbind(1)
        return (block * alive.shape[1] + group) * SIZE + x, block * SIZE + x, self._lines.slots[group, slot]

    def rows(self, items: Shaped[Tensor, "n ..."]) -> Float[Tensor, "n r"]:
        """Make the draws again and move each along its class's row to its place."""
        return torch.cat([self._moved(items[i : i + _MOVED]) for i in range(0, max(len(items), 1), _MOVED)])

    def _moved(self, items: Int[Tensor, "n 2"]) -> Float[Tensor, "n r"]:
        lines, foreign = self._lines, items[:, 0] < 0
        number = items[:, 0].clamp_min(0)
        draws, at = number // len(lines.order), number % len(lines.order)
        group = torch.searchsorted(lines.slots[:, 0].contiguous(), at, right=True) - 1
        first = draws // SIZE * SIZE
        near = (first[:, None] + torch.arange(SIZE, device=at.device)).flatten()
        made = self._loops.normals(near, 0, lines.rows.shape[1], self._seed).view(len(items), SIZE, -1)
        u = (lines.mixing[group * SIZE + draws - first][:, None] @ made)[:, 0].double()
        e = torch.nn.functional.normalize(lines.rows[at].double(), dim=1)
        place = items[:, 1].contiguous().view(torch.float64)
        moved = (u + (place - (u * e).sum(1))[:, None] * e).float()
        if bool(foreign.any()):
            moved[foreign] = torch.cat(self._stored)[-1 - items[foreign, 0]]
        return moved

    def store(self, rows: Float[Tensor, "n r"]) -> Shaped[Tensor, "n ..."]:
        """Number the rows -1, -2, … in order of arrival."""
        first = sum(len(part) for part in self._stored)
        self._stored.append(rows.to(self._lines.rows.device))
        numbers = -1 - torch.arange(first, first + len(rows), device=self._lines.rows.device)
        return torch.stack([numbers, torch.zeros_like(numbers)], dim=1)

    def noise(self, count: int, width: int) -> Float[Tensor, "n d"]:
        """Return normals from a stream of their own."""
        return self._loops.normals(torch.arange(count, device=self._lines.rows.device), 1, width, self._seed)


def _ordinals(k: Int[Tensor, " n"]) -> Int[Tensor, " n"]:
    """Number the members of each class in ascending classes from 0."""
    return torch.arange(len(k), device=k.device) - torch.searchsorted(k, k)
