"""The stream of draws, on the CPU (compiled, threaded) and on any torch device."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from sfra.attack.probes import codes
from sfra.attack.probes.pools import Chunk
from sfra.attack.probes.proposals import Proposal
from sfra.attack.probes.scores import MODERATE, Ranking, judge
from sfra.core.cpu import cores

Limits = Callable[[], tuple[Tensor, Tensor]]
"""Gives, per class, the scores beyond which a draw may be extreme (see ``Pools.limits``)."""

STANDARD_DEVIATIONS = 12.0
"""What no Gaussian logit is away from its bias: among 10^12 of them one is, with a probability of 4e-21."""

MOST_IN_REGISTERS = 512
"""Classes up to which a GPU holds all logits of a few draws in registers."""


@runtime_checkable
class Stream(Protocol):
    """Draws of a proposal in a fixed order, already sorted into classes by a head ``(A, b)``."""

    name: str
    """What computed the stream, for the record."""

    def chunks(self, limits: Limits) -> Iterator[Chunk]:
        """Yield the stream from its beginning, without end."""

    def rows(self, items: Shaped[Tensor, "n ..."]) -> Float[Tensor, "n r"]:
        """Return the draws that the items stand for."""

    def store(self, rows: Float[Tensor, "n r"]) -> Shaped[Tensor, "n ..."]:
        """Return items that stand for the given rows, which came from elsewhere."""

    def noise(self, count: int, width: int) -> Float[Tensor, "n d"]:
        """Return standard normals that are independent of the stream."""


class CompiledStream:
    """The stream on the CPU. An item is the index of a draw: the draw itself is made again when it is needed."""

    name = "compiled"

    def __init__(
        self,
        weight: Float[Tensor, "C r"],
        bias: Float[Tensor, " C"],
        *,
        proposal: Proposal,
        score: Ranking,
        seed: int,
        threads: int | None = None,
    ) -> None:
        self._weight, self._bias = weight.contiguous().numpy(), bias.contiguous().numpy()
        self._proposal, self._score, self._seed = proposal, score, np.uint64(seed)
        self._threads = threads or cores()
        self._stored: list[Tensor] = []
        size = sum(self._weight.shape)
        self._tile = 512 if size <= 64 else 256 if size <= 512 else 128
        self._longest = max(2048, 1 << (22 - size.bit_length()))

    def chunks(self, limits: Limits) -> Iterator[Chunk]:
        """Yield the stream in order; a few chunks are computed ahead with the limits known by then."""
        ahead: deque[Future[Chunk]] = deque()
        start, length = 0, min(4096, self._longest)
        with ThreadPoolExecutor(self._threads, thread_name_prefix="sfra-draws") as pool:
            try:
                while True:
                    while len(ahead) <= self._threads:
                        ahead.append(pool.submit(self._chunk, start, start + length, *limits()))
                        start, length = start + length, min(2 * length, self._longest)
                    yield ahead.popleft().result()
            finally:
                for future in ahead:
                    future.cancel()

    def _chunk(self, start: int, stop: int, high: Tensor, low: Tensor) -> Chunk:
        from sfra.attack.probes import kernels

        n = stop - start
        counts = np.zeros(self._bias.size, np.int64)
        offset, label, rank = (np.empty(n, np.int32) for _ in range(3))
        score = np.empty(n, np.float32)
        found = kernels.scan_draws(
            start,
            stop,
            self._weight,
            self._bias,
            self._seed,
            self._proposal.code,
            self._score.code,
            high.numpy(),
            low.numpy(),
            self._tile,
            counts,
            offset,
            label,
            score,
            rank,
        )
        return Chunk(
            draws=n,
            counts=torch.from_numpy(counts),
            labels=torch.from_numpy(label[:found]).long(),
            scores=torch.from_numpy(score[:found]),
            ranks=torch.from_numpy(rank[:found]),
            items=torch.from_numpy(offset[:found]).long() + start,
        )

    def rows(self, items: Shaped[Tensor, "n ..."]) -> Float[Tensor, "n r"]:
        """Make the draws again from their indices; a negative item is a stored row."""
        out = self._make(items.clamp_min(0), 0, self._weight.shape[1], self._proposal.code)
        if self._stored:
            foreign = items < 0
            out[foreign] = torch.cat(self._stored)[-1 - items[foreign]]
        return out

    def store(self, rows: Float[Tensor, "n r"]) -> Shaped[Tensor, "n ..."]:
        """Number the rows -1, -2, … in order of arrival."""
        first = sum(part.shape[0] for part in self._stored)
        self._stored.append(rows)
        return -1 - torch.arange(first, first + rows.shape[0])

    def noise(self, count: int, width: int) -> Float[Tensor, "n d"]:
        """Return normals from a stream of their own."""
        return self._make(torch.arange(count), 1, width, codes.GAUSSIAN)

    def _make(self, indices: Tensor, stream: int, width: int, code: int) -> Tensor:
        from sfra.attack.probes import kernels

        out = torch.empty(indices.numel(), width)  # aligned for vectors, as numpy's memory is not
        kernels.make_draws(indices.numpy(), stream, self._seed, code, out.numpy())
        return out


@dataclass(frozen=True, kw_only=True)
class Routed:
    """Which draws of a chunk may be extreme, and how many fell to each class; the rest is as in :class:`Chunk`."""

    near: Int[Tensor, " n"]
    """Positions in the chunk, ascending."""
    labels: Int[Tensor, " n"]
    scores: Float[Tensor, " n"]
    ranks: Int[Tensor, " n"]
    counts: Int[Tensor, " C"]

    def chunk(self, draws: int, items: Shaped[Tensor, "n ..."]) -> Chunk:
        """Return the chunk of that many draws, with what stands for those that may be extreme."""
        return Chunk(
            draws=draws, counts=self.counts, labels=self.labels, scores=self.scores, ranks=self.ranks, items=items
        )


def route(
    labels: Int[Tensor, " L"], scores: Float[Tensor, " L"], high: Float[Tensor, " C"], low: Float[Tensor, " C"]
) -> Routed:
    """Find the draws of a chunk that are beyond their class's limits, and their ranks, by one sort of the labels."""
    narrow = torch.int16 if len(high) < 2**15 else torch.int32  # a sort takes a pass per byte
    classes = torch.arange(len(high), dtype=narrow, device=labels.device)
    by_class, order = labels.to(narrow).sort(stable=True)
    starts, ends = (torch.searchsorted(by_class, classes, right=right) for right in (False, True))
    place = torch.empty_like(order)
    place[order] = torch.arange(order.numel(), device=labels.device)
    near = torch.nonzero((scores >= high[labels]) | (scores <= low[labels])).flatten()
    labels = labels[near]
    ranks = place[near] - starts[labels]
    return Routed(near=near, labels=labels, scores=scores[near], ranks=ranks, counts=ends - starts)


class TorchStream:
    """The stream on any torch device. An item is the draw itself.

    Logits are kept as ``[C, L]`` for a chunk of ``L`` draws: a reduction over classes then reads neighbouring draws
    side by side, and the passes over the logits are what a GPU spends its time on. Each question to the device that
    the host waits for counts as well, so a chunk asks one: how many draws are near.
    """

    name = "torch"

    def __init__(
        self,
        weight: Float[Tensor, "C r"],
        bias: Float[Tensor, " C"],
        *,
        proposal: Proposal,
        score: Ranking,
        seed: int,
        device: torch.device,
    ) -> None:
        self._weight, self._bias = weight.to(device), bias[:, None].to(device)
        self._biased = int(bias.any())  # a bias of zeros is not worth a pass over the logits
        largest = STANDARD_DEVIATIONS * weight.norm(dim=1) + bias.abs()
        self._moderate = proposal.isotropic and float(largest.max()) < MODERATE
        self._proposal, self._score, self._device = proposal, score, device
        self._draws = torch.Generator(device).manual_seed(seed)
        self._noise = torch.Generator(device).manual_seed(derived_seed(seed, 1))
        budget = 2**28 if device.type == "cuda" else 2**20
        self._longest = min(2**20, 1 << (budget // sum(weight.shape)).bit_length() - 1)

    def chunks(self, limits: Limits) -> Iterator[Chunk]:
        """Yield the stream in order; the first chunks are short, for every draw is near until there are limits."""
        classes, rank = self._weight.shape
        draws = torch.empty(self._longest, rank, device=self._device)
        logits = torch.empty(classes * self._longest, device=self._device)
        length = min(2**16, self._longest)
        while True:
            chunk = self._proposal.fill(draws[:length], self._draws)
            yield self._chunk(chunk, logits[: classes * length].view(classes, length), *limits())
            length = min(8 * length, self._longest)

    def _chunk(self, draws: Tensor, logits: Tensor, high: Tensor, low: Tensor) -> Chunk:
        torch.addmm(self._bias, self._weight, draws.T, beta=self._biased, out=logits)
        labels, scores = judge(logits.T, self._score, moderate=self._moderate)
        found = route(labels, scores, high, low)
        return found.chunk(len(draws), draws[found.near])

    def rows(self, items: Shaped[Tensor, "n ..."]) -> Float[Tensor, "n r"]:
        """Return the items, which are the draws."""
        return items

    def store(self, rows: Float[Tensor, "n r"]) -> Shaped[Tensor, "n ..."]:
        """Return the rows themselves."""
        return rows.to(self._device)

    def noise(self, count: int, width: int) -> Float[Tensor, "n d"]:
        """Return normals from a generator of their own."""
        return torch.empty(count, width, device=self._device).normal_(generator=self._noise)


def open_stream(
    weight: Float[Tensor, "C r"],
    bias: Float[Tensor, " C"],
    *,
    proposal: Proposal,
    score: Ranking,
    seed: int,
    device: torch.device,
    threads: int | None = None,
) -> Stream:
    """Open the fastest stream for a device: compiled loops on the CPU, on CUDA Triton's where they serve, or torch."""
    if device.type == "cpu":
        return CompiledStream(weight, bias, proposal=proposal, score=score, seed=seed, threads=threads)
    usual = proposal.code == codes.GAUSSIAN and score.code == codes.SOFTMAX
    if device.type == "cuda" and usual and len(bias) <= MOST_IN_REGISTERS and find_spec("triton"):
        from sfra.attack.probes import triton_loops
        from sfra.attack.probes.counter_stream import CounterStream

        return CounterStream(weight, bias, seed=seed, device=device, loops=triton_loops)
    return TorchStream(weight, bias, proposal=proposal, score=score, seed=seed, device=device)


def derived_seed(*path: int) -> int:
    """Hash numbers to a seed of 32 bits, all that torch's CPU generator looks at."""
    return int(np.random.SeedSequence(path).generate_state(1)[0])
