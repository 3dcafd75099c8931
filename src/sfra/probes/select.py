"""Keep the extremes of a stream: the surest and the least sure candidates of every class, never the pool."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class Selected:
    """The candidates that one side of a selection kept, class by class, best first."""

    labels: Int[Tensor, " kept"]
    """Class of each candidate, ascending."""

    scores: Float[Tensor, " kept"]
    """Score of each candidate."""

    items: Shaped[Tensor, "kept ..."]
    """What stands for the candidate: an index into the stream, or the draw itself."""


class Best:
    """Keep the ``keep`` smallest keys of every class; a tie goes to the earlier candidate, or to the later.

    Candidates are sorted in only when they pile up, so an update costs little more than its append. ``limit[k]`` is
    the key that a candidate of class ``k`` must not exceed to be of any interest.
    """

    def __init__(self, classes: int, keep: int, *, later: bool = False, device: torch.device | None = None) -> None:
        self.classes, self.keep, self._later = classes, keep, later
        self.limit: Float[Tensor, " C"] = torch.full((classes,), torch.inf, device=device)
        self._parts: list[tuple[Tensor, ...]] = []
        self._kept = self._waiting = self._seen = 0

    def update(self, labels: Int[Tensor, " n"], keys: Float[Tensor, " n"], items: Shaped[Tensor, "n ..."]) -> Best:
        """Take in candidates that come after all earlier ones in the stream."""
        near = torch.nonzero(keys <= self.limit[labels]).flatten()
        if near.numel():
            self._parts.append((labels[near], keys[near], items[near], near + self._seen))
            self._seen += keys.numel()
            self._waiting += self._parts[-1][0].numel()
            if self._waiting > max(4096, self._kept // 2):
                self._settle()
        return self

    def _settle(self) -> None:
        """Sort what waits in with what was kept, and tighten the limits."""
        if not self._waiting:
            return
        labels, keys, items, arrival = (torch.cat(column) for column in zip(*self._parts, strict=True))
        order = arrival.argsort(descending=self._later)
        for column in (keys, labels):
            order = order[column[order].argsort(stable=True)]
        labels, keys, items, arrival = labels[order], keys[order], items[order], arrival[order]
        sizes = torch.bincount(labels, minlength=self.classes)
        starts = sizes.cumsum(0) - sizes
        rank = torch.arange(labels.numel(), device=labels.device) - starts[labels]
        full = sizes >= self.keep
        self.limit[full] = keys[starts[full] + self.keep - 1]
        good = rank < self.keep
        self._parts = [(labels[good], keys[good], items[good], arrival[good])]
        self._kept, self._waiting = int(good.sum()), 0

    @property
    def result(self) -> tuple[Tensor, Tensor, Tensor]:
        """Labels, keys and items of the kept candidates, by class, smallest key first."""
        self._settle()
        labels, keys, items, _ = self._parts[0]
        return labels, keys, items


class Extremes:
    """Keep the ``top`` highest and the ``bottom`` lowest scores of every class of a stream.

    Memory is O(C · (top + bottom)) however long the stream is, and any split of the stream into updates gives the
    same result. Of equal scores the earlier counts as the lower, so that the two sides never share a candidate as
    long as a class has ``top + bottom`` of them.

    >>> extremes = Extremes(2, top=1, bottom=1)
    >>> labels, scores = torch.tensor([0, 0, 0, 1]), torch.tensor([0.2, 0.9, 0.5, 0.1])
    >>> extremes.update(labels, scores, torch.arange(4)).top.items.tolist()
    [1, 3]
    """

    def __init__(self, classes: int, *, top: int, bottom: int, device: torch.device | None = None) -> None:
        self._top = Best(classes, top, later=True, device=device)
        self._bottom = Best(classes, bottom, device=device)

    def update(
        self, labels: Int[Tensor, " n"], scores: Float[Tensor, " n"], items: Shaped[Tensor, "n ..."]
    ) -> Extremes:
        """Take in candidates that come after all earlier ones in the stream."""
        self._top.update(labels, -scores, items)
        self._bottom.update(labels, scores, items)
        return self

    def shortlist(self, scores: Float[Tensor, " n"]) -> Int[Tensor, " kept"]:
        """Return which candidates of one class can be extreme among themselves, in order of arrival."""
        order = scores.argsort(stable=True)
        kept: Tensor = torch.unique(torch.cat([order[: self._bottom.keep], order[-self._top.keep :]]))
        return kept

    @property
    def high(self) -> Float[Tensor, " C"]:
        """Per class, the score below which a candidate cannot be among the highest."""
        return -self._top.limit

    @property
    def low(self) -> Float[Tensor, " C"]:
        """Per class, the score above which a candidate cannot be among the lowest."""
        return self._bottom.limit

    @property
    def top(self) -> Selected:
        """The highest scores of each class, highest first."""
        labels, keys, items = self._top.result
        return Selected(labels=labels, scores=-keys, items=items)

    @property
    def bottom(self) -> Selected:
        """The lowest scores of each class, lowest first."""
        labels, keys, items = self._bottom.result
        return Selected(labels=labels, scores=keys, items=items)
