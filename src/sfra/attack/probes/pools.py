"""The pools of step 1, which never exist: per class a count and the extremes seen so far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Shaped
from numpy import ndarray
from torch import Tensor

from sfra.attack.probes.select import Extremes, Selected


@dataclass(frozen=True, kw_only=True)
class Chunk:
    """What a stretch of the stream brought: how many draws fell to each class, and those that may be extreme."""

    draws: int
    counts: Int[Tensor, " C"]
    labels: Int[Tensor, " n"]
    scores: Float[Tensor, " n"]
    ranks: Int[Tensor, " n"]
    """Rank of the candidate among the chunk's draws of its class, in stream order from 0."""
    items: Shaped[Tensor, "n ..."]
    repeats: Int[Tensor, " C"] | int = 0
    """Of a weighted stream: candidates of each class that are not the first of their draw."""


class Pools:
    """Fill a pool of exactly ``n`` candidates for every retain class from one stream of draws.

    The first ``n`` draws that land in a class are its pool; later ones do not count. Given their labels, draws are
    independent, so each pool is an i.i.d. sample of the proposal conditioned on its class.
    """

    def __init__(
        self,
        classes: int,
        forget: Sequence[int],
        *,
        n: int,
        top: int,
        bottom: int,
        device: torch.device | None = None,
    ) -> None:
        self.n = n
        self.draws = 0
        self.extremes = Extremes(classes, top=top, bottom=bottom, device=device)
        self.landed: Int[Tensor, " C"] = torch.zeros(classes, dtype=torch.int64, device=device)
        """Draws that fell to each class, whether or not its pool still took them."""
        self.repeats: Int[Tensor, " C"] = torch.zeros_like(self.landed)
        """Candidates that share their draw with an earlier one of their class."""
        self._retain: Bool[Tensor, " C"] = torch.ones(classes, dtype=torch.bool, device=device)
        self._retain[list(forget)] = False
        self._retain_here = self._retain.cpu().numpy()
        self._tally: Int[ndarray, " C"] | None = None

    def absorb(self, chunk: Chunk) -> Pools:
        """Take in the next chunk of the stream; draws of a class beyond its ``n``-th are dropped."""
        room = torch.where(self._retain, self.n - self.landed, 0)
        fits = torch.nonzero(chunk.ranks < room[chunk.labels]).flatten()
        self.extremes.update(chunk.labels[fits], chunk.scores[fits], chunk.items[fits])
        self.landed += chunk.counts
        self.draws += chunk.draws
        self._tally = None
        return self

    def top_up(self, label: int, scores: Float[Tensor, " n"], items: Shaped[Tensor, "n ..."]) -> Pools:
        """Fill the rest of one pool with draws conditioned on its class."""
        self.extremes.update(torch.full_like(scores, label, dtype=torch.int64), scores, items)
        return self

    @property
    def tally(self) -> Int[ndarray, " C"]:
        """What landed, on the host, which waits for the device once per chunk."""
        if self._tally is None:
            self._tally = self.landed.cpu().numpy().copy()
        return self._tally

    @property
    def open(self) -> list[int]:
        """Retain classes whose pool is not full."""
        return [int(k) for k in np.flatnonzero(self._retain_here & (self.tally < self.n))]

    @property
    def acceptance(self) -> Float[Tensor, " C"]:
        """Share of the draws that fell to each class."""
        return self.landed.cpu().double() / max(self.draws, 1)

    @property
    def note(self) -> str:
        """How many pools are full, and the range of acceptances."""
        rates = self.acceptance[torch.from_numpy(self._retain_here)]
        full = f"{len(rates) - len(self.open):,} of {len(rates):,} classes full"
        return f"{full}, acceptance {float(rates.min()):.1e} to {float(rates.max()):.1e}"

    def limits(self) -> tuple[Float[Tensor, " C"], Float[Tensor, " C"]]:
        """Return per class the scores above which, and below which, a draw may still be extreme."""
        takes = self._takes
        high = torch.where(takes, self.extremes.high, torch.inf)
        low = torch.where(takes, self.extremes.low, -torch.inf)
        return high, low

    @property
    def _takes(self) -> Bool[Tensor, " C"]:
        return self._retain & (self.landed < self.n)

    @property
    def surest(self) -> Selected:
        """The surest candidates of each retain class, surest first."""
        return self.extremes.top

    @property
    def least_sure(self) -> Selected:
        """The least sure candidates of each retain class, least sure first."""
        return self.extremes.bottom
