"""The plain stream on a torch device from counters: nothing but what may be extreme ever leaves the registers.

With Triton's loops one kernel draws, multiplies, finds arg-max and log-odds and compares them with the limits. A chunk
needs no room for draws or logits, so it can be long, and the host waits for the device once per chunk, for the
number of draws that may be extreme. They are written at their own places (13 bytes a draw at most, a few µs per
million draws) and picked out in order: an append by atomics would have to be sorted to be repeatable.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from sfra.attack.probes import torch_loops
from sfra.attack.probes.pools import Chunk
from sfra.attack.probes.stream import Limits, Routed

LONGEST, PRODUCTS = 2**23, 2**38
"""Draws of a chunk, and products of a draw's coordinates with rows."""

_FIRST, _SHORTEST = 2**20, 2**10


@runtime_checkable
class Scan(Protocol):
    """What the stream is made of."""

    def prepare(self, weight: Tensor, bias: Tensor) -> tuple[Tensor, ...]:
        """Return a head as ``scan`` takes it."""

    def scan(self, start: int, length: int, head: tuple[Tensor, ...], seed: int, high: Tensor, low: Tensor) -> Routed:
        """Route the draws from ``start`` on to their classes."""

    def normals(self, indices: Tensor, stream: int, width: int, seed: int) -> Tensor:
        """Return the draws of the given indices."""


class CounterStream:
    """Gaussian draws ranked by log-odds. An item is the index of a draw, which is made again when it is needed."""

    def __init__(
        self,
        weight: Float[Tensor, "C r"],
        bias: Float[Tensor, " C"],
        *,
        seed: int,
        device: torch.device,
        loops: Scan = torch_loops,
    ) -> None:
        self._head, self._rank = loops.prepare(weight.to(device), bias.to(device)), weight.shape[1]
        self._device, self._seed, self._loops = device, seed, loops
        self.name = "counters, torch" if loops is torch_loops else "triton"
        fits = 1 << (PRODUCTS // weight.numel()).bit_length() - 1
        self._longest = max(_SHORTEST, min(LONGEST, fits))
        self._stored: list[Tensor] = []

    def chunks(self, limits: Limits) -> Iterator[Chunk]:
        """Yield the stream in order; the first chunks are short, for every draw is near until there are limits."""
        start, length = 0, min(_FIRST, self._longest)
        while True:
            found = self._loops.scan(start, length, self._head, self._seed, *limits())
            yield found.chunk(length, found.near + start)
            start, length = start + length, min(8 * length, self._longest)

    def rows(self, items: Shaped[Tensor, "n ..."]) -> Float[Tensor, "n r"]:
        """Make the draws again from their indices; a negative item is a stored row."""
        out = self._loops.normals(items.clamp_min(0), 0, self._rank, self._seed)
        if self._stored:
            foreign = items < 0
            out[foreign] = torch.cat(self._stored)[-1 - items[foreign]]
        return out

    def store(self, rows: Float[Tensor, "n r"]) -> Shaped[Tensor, "n ..."]:
        """Number the rows -1, -2, … in order of arrival."""
        first = sum(len(part) for part in self._stored)
        self._stored.append(rows.to(self._device))
        return -1 - torch.arange(first, first + len(rows), device=self._device)

    def noise(self, count: int, width: int) -> Float[Tensor, "n d"]:
        """Return normals from a stream of their own."""
        return self._loops.normals(torch.arange(count, device=self._device), 1, width, self._seed)
