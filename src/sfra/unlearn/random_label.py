"""Random labels for what is forgotten."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

from torch.nn.functional import cross_entropy

from sfra.models.training.train import logits
from sfra.unlearn.base import Loss, StepMethod
from sfra.unlearn.registry import register
from sfra.unlearn.task import Task


@register("random-label")
@dataclass(frozen=True, kw_only=True)
class RandomLabel(StepMethod):
    """Train on the forget data under random retain labels, drawn once for each sample."""

    needs: ClassVar[tuple[str, ...]] = ("forget",)

    epochs: int = 3
    batch_size: int = 128
    learning_rate: float = 1e-4
    optimizer: Literal["sgd", "adam"] = "adam"

    def plan(self, task: Task) -> Callable[[int], Iterator[Loss]]:
        """Relabel F, then pass over it."""
        relabelled = task.forget.relabelled(task.random_retain_labels(len(task.forget)))

        def epoch_losses(epoch: int) -> Iterator[Loss]:
            for images, labels in task.batches(relabelled):
                yield cross_entropy(logits(task.student, images), labels)

        return epoch_losses
