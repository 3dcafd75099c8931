"""Fine-tuning on what is retained."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar

from torch.nn.functional import cross_entropy

from sfra.models.training.train import logits
from sfra.unlearn.base import Loss, StepMethod
from sfra.unlearn.registry import register
from sfra.unlearn.task import Task


@register("finetune")
@dataclass(frozen=True, kw_only=True)
class Finetune(StepMethod):
    """Train on with the retain data only, ``CE(R)``, and let the forget classes fade."""

    needs: ClassVar[tuple[str, ...]] = ("retain",)

    epochs: int = 10
    batch_size: int = 128
    learning_rate: float = 0.01

    def plan(self, task: Task) -> Callable[[int], Iterator[Loss]]:
        """Pass over R."""

        def epoch_losses(epoch: int) -> Iterator[Loss]:
            for images, labels in task.batches(task.retain):
                yield cross_entropy(logits(task.student, images), labels)

        return epoch_losses
