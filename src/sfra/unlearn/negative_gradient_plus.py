"""Gradient ascent on what is forgotten, descent on what is retained, in one step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from torch import Tensor
from torch.nn.functional import cross_entropy

from sfra.models.training.train import logits
from sfra.unlearn.base import Loss, StepMethod
from sfra.unlearn.registry import register
from sfra.unlearn.task import Task


@register("negative-gradient-plus")
@dataclass(frozen=True, kw_only=True)
class NegativeGradientPlus(StepMethod):
    """Descend ``α·CE(R) - (1-α)·CE(F)``: one pass over R an epoch, with F repeated alongside."""

    epochs: int = 5
    batch_size: int = 128
    learning_rate: float = 0.01
    alpha: float = 0.95
    """Weight of the retain data, in [0, 1]; published values run from 0.95 to 0.9999."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require(0 <= self.alpha <= 1, "alpha", "0 to 1")

    def plan(self, task: Task) -> Callable[[int], Iterator[Loss]]:
        """Pair every batch of R with the next one of F."""

        def epoch_losses(epoch: int) -> Iterator[Loss]:
            for kept, gone in zip(task.batches(task.retain), _endless(task), strict=False):
                keep, drop = (cross_entropy(logits(task.student, x), y) for x, y in (kept, gone))
                yield self.alpha * keep - (1 - self.alpha) * drop

        return epoch_losses


def _endless(task: Task) -> Iterator[tuple[Tensor, Tensor]]:
    """Pass over F again and again, shuffled anew each time."""
    while True:
        yield from task.batches(task.forget)
