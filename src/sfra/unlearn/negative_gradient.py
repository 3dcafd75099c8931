"""Gradient ascent on what is forgotten."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar

from torch.nn.functional import cross_entropy

from sfra.models.training.train import logits
from sfra.unlearn.base import Loss, StepMethod
from sfra.unlearn.registry import register
from sfra.unlearn.task import Task


@register("negative-gradient")
@dataclass(frozen=True, kw_only=True)
class NegativeGradient(StepMethod):
    """Ascend the cross-entropy of the forget data: descend ``-CE(F)``.

    The loss has no lower bound: too high a rate destroys the model.
    """

    needs: ClassVar[tuple[str, ...]] = ("forget",)

    epochs: int = 5
    batch_size: int = 128
    learning_rate: float = 1e-4

    def plan(self, task: Task) -> Callable[[int], Iterator[Loss]]:
        """Pass over F."""

        def epoch_losses(epoch: int) -> Iterator[Loss]:
            for images, labels in task.batches(task.forget):
                yield -cross_entropy(logits(task.student, images), labels)

        return epoch_losses
