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


class Extremes:
    """Keep the ``top`` highest and the ``bottom`` lowest scores of every class of a stream.

    Memory is O(C · (top + bottom)) however long the stream is, and any split of the stream into updates gives the
    same result. Of equal scores the earlier counts as the lower, so that the two sides never share a candidate as
    long as a class has ``top + bottom`` of them. Candidates are sorted in only when they pile up, so an update costs
    little more than its append.

    >>> extremes = Extremes(2, top=1, bottom=1)
    >>> labels, scores = torch.tensor([0, 0, 0, 1]), torch.tensor([0.2, 0.9, 0.5, 0.1])
    >>> extremes.update(labels, scores, torch.arange(4)).top.items.tolist()
    [1, 3]
    """

    def __init__(self, classes: int, *, top: int, bottom: int, device: torch.device | None = None) -> None:
        self._most, self._least = top, bottom
        self._classes = torch.arange(classes, device=device)
        self.high: Float[Tensor, " C"] = torch.full((classes,), -torch.inf, device=device)
        """Per class, the score below which a candidate cannot be among the highest."""
        self.low: Float[Tensor, " C"] = torch.full((classes,), torch.inf, device=device)
        """Per class, the score above which a candidate cannot be among the lowest."""
        self._parts: list[tuple[Tensor, Tensor, Tensor]] = []
        self._kept = self._waiting = 0

    def update(
        self, labels: Int[Tensor, " n"], scores: Float[Tensor, " n"], items: Shaped[Tensor, "n ..."]
    ) -> Extremes:
        """Take in candidates that come after all earlier ones in the stream."""
        self._parts.append((labels, scores, items))
        self._waiting += labels.numel()
        if self._waiting > max(4096, self._kept // 2):
            self._settle()
        return self

    def _settle(self) -> None:
        """Sort what waits in with what was kept, class by class in ascending order, and tighten the limits."""
        if not self._waiting:
            return
        labels, scores, items = (torch.cat(column) for column in zip(*self._parts, strict=True))
        order = scores.argsort(stable=True)  # of equal scores the kept ones, which came earlier, stay in front
        order = order[labels[order].argsort(stable=True)]
        labels, scores = labels[order], scores[order]
        starts, ends = self._segments(labels)
        first, last = starts + self._least - 1, ends - self._most
        self.low = torch.where(first < ends, scores[first.clamp_max(labels.numel() - 1)], torch.inf)
        self.high = torch.where(last >= starts, scores[last.clamp_min(0)], -torch.inf)
        place = torch.arange(labels.numel(), device=labels.device)
        near = torch.nonzero((place <= first[labels]) | (place >= last[labels])).flatten()
        self._parts = [(labels[near], scores[near], items[order[near]])]
        self._kept, self._waiting = near.numel(), 0

    def _segments(self, labels: Int[Tensor, " n"]) -> tuple[Int[Tensor, " C"], Int[Tensor, " C"]]:
        """Return where each class starts and ends among sorted labels."""
        ends = torch.searchsorted(labels, self._classes, right=True)
        return torch.searchsorted(labels, self._classes), ends

    def shortlist(self, scores: Float[Tensor, " n"]) -> Int[Tensor, " kept"]:
        """Return which candidates of one class can be extreme among themselves, in order of arrival."""
        order = scores.argsort(stable=True)
        kept: Tensor = torch.unique(torch.cat([order[: self._least], order[-self._most :]]))
        return kept

    @property
    def top(self) -> Selected:
        """The highest scores of each class, highest first."""
        return self._side(self._most, backwards=True)

    @property
    def bottom(self) -> Selected:
        """The lowest scores of each class, lowest first."""
        return self._side(self._least, backwards=False)

    def _side(self, count: int, *, backwards: bool) -> Selected:
        """Return up to ``count`` candidates of each class from one end."""
        self._settle()
        labels, scores, items = self._parts[0]
        starts, ends = self._segments(labels)
        place = torch.arange(labels.numel(), device=labels.device)
        chosen = torch.nonzero(place < (starts + count)[labels]).flatten()
        if backwards:
            chosen = (starts + ends - 1)[labels[chosen]] - chosen
        return Selected(labels=labels[chosen], scores=scores[chosen], items=items[chosen])
