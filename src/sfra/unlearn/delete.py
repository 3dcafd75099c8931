"""DELETE: the original's own answers on the forget data, with the forget classes struck out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch

from sfra.models.training.train import logits
from sfra.unlearn.base import Loss, StepMethod, kl
from sfra.unlearn.registry import register
from sfra.unlearn.task import Task


@register("delete")
@dataclass(frozen=True, kw_only=True)
class Delete(StepMethod):
    """Distil the original on the forget data with every forget class masked out of its answer.

    ``KL(softmax(m(θ0(x))) ‖ softmax(θ(x)))`` over F, where ``m`` sets the logit of every forget class, not
    only the sample's own, to ``-∞``. What θ0 thinks of the retain classes is preserved.
    """

    needs: ClassVar[tuple[str, ...]] = ("forget",)

    epochs: int = 20
    batch_size: int = 128
    learning_rate: float = 1e-3

    def plan(self, task: Task) -> Callable[[int], Iterator[Loss]]:
        """Pass over F."""
        gone = list(task.forget_classes)

        def epoch_losses(epoch: int) -> Iterator[Loss]:
            for images, _ in task.batches(task.forget):
                with torch.no_grad():
                    target = logits(task.original, images).clone()
                target[:, gone] = -torch.inf
                yield kl(target, logits(task.student, images))

        return epoch_losses
