"""What a released head answers for the retain samples, before any relearning: whether it is fed what it knows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float, Int
from torch import Tensor

from sfra.core.head import Head
from sfra.core.metrics import TOLERANCE

NO_BETTER = 0.05
"""Part of the way from chance to 1 that does not make more than chance, however many samples there are."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Answers:
    """Answers to the samples of the retain classes.

    >>> head = Head(torch.eye(3))
    >>> found = Answers.of(head, 4 * torch.eye(3), torch.tensor([0, 1, 2]), (0, 1, 2), forget=[1])
    >>> found.accuracy, found.samples, round(found.confidence, 2)
    (1.0, 2, 0.96)
    """

    counts: Int[Tensor, "C C"]
    """Retain samples of each class (row) that are answered with each class (column)."""
    confidence: float
    """Mean of the largest softmax probability: how often the head itself claims to be right."""

    @classmethod
    def of(
        cls,
        head: Head,
        features: Float[Tensor, "rows width"],
        labels: Int[Tensor, " samples"],
        outputs: Sequence[int],
        *,
        forget: Sequence[int],
    ) -> Answers:
        """Ask a head whose outputs stand for these classes, which may lack those it forgot."""
        kept = ~torch.isin(labels, torch.tensor(list(forget)))
        parts = [head(chunk.float()).softmax(1).max(1) for chunk in torch.split(features[kept], 2**14)]
        answered = torch.tensor(list(outputs))[torch.cat([part.indices.cpu() for part in parts])]
        C = max(*outputs, *forget) + 1
        counts = torch.bincount(labels[kept].long().cpu() * C + answered, minlength=C * C).view(C, C)
        return cls(counts=counts, confidence=float(torch.cat([part.values for part in parts]).double().mean()))

    @property
    def samples(self) -> int:
        """Number of retain samples."""
        return int(self.counts.sum())

    @property
    def accuracy(self) -> float:
        """Share that is answered with its own class."""
        return int(self.counts.diagonal().sum()) / self.samples

    @cached_property
    def chance(self) -> tuple[float, float]:
        """Mean and standard deviation of the accuracy if the same answers were dealt out to the samples at random.

        With ``n_k`` samples of class k and ``m_k`` answers k among n, the hits of all classes have the mean
        ``Σ n_k m_k / n`` and, the counts being hypergeometric, the variance
        ``(Σ n_k m_k (n - n_k)(n - m_k) + Σ_{k≠l} n_k m_k n_l m_l) / (n² (n - 1))``.
        """
        n = self.samples
        n_k, m_k = self.counts.sum(1).double(), self.counts.sum(0).double()
        pairs = n_k * m_k
        own = (pairs * (n - n_k) * (n - m_k)).sum()
        others = pairs.sum() ** 2 - (pairs**2).sum()
        spread = ((own + others) / (n**2 * max(1, n - 1))).clamp(min=0).sqrt()
        return float(pairs.sum()) / n**2, float(spread) / n

    @property
    def limit(self) -> float:
        """Accuracy up to which the head may as well guess: chance and two standard deviations, or hardly better."""
        chance, spread = self.chance
        return chance + max(2.0 * spread, NO_BETTER * (1.0 - chance))

    @property
    def guesses(self) -> bool:
        """Whether the answers have little or nothing to do with the labels."""
        return self.accuracy <= self.limit + TOLERANCE

    @cached_property
    def best_order(self) -> dict[int, int]:
        """Return the class that each label stands for where answers and labels agree most; itself, in a tie."""
        labels = torch.nonzero(self.counts.sum(1)).flatten().tolist()
        if bool((self.counts.diagonal() >= self.counts.amax(1)).all()):  # no order counts more than these
            return {label: label for label in labels}
        from scipy.optimize import linear_sum_assignment  # slow to import

        worth = 2 * self.counts + torch.eye(len(self.counts), dtype=self.counts.dtype)  # a tie leaves a class in place
        rows, columns = linear_sum_assignment(worth[labels].numpy(), maximize=True)
        return {labels[row]: int(column) for row, column in zip(rows, columns, strict=True)}
