"""Boundary shrink: give the forget class's region to its nearest neighbours."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from sfra.core.types import Labels
from sfra.models.training.train import Images, logits
from sfra.unlearn.base import Loss, StepMethod
from sfra.unlearn.registry import register
from sfra.unlearn.task import Task


@register("boundary-shrink")
@dataclass(frozen=True, kw_only=True)
class BoundaryShrink(StepMethod):
    """Train on the forget data labelled with the nearest class that is not forgotten.

    The nearest class of x is what θ0 answers one sign step away from the true class y,
    ``arg-max_k θ0(x + ε·sign ∇_x CE(θ0(x), y))_k``, over the retain classes: never y, nor another forget
    class.
    """

    needs: ClassVar[tuple[str, ...]] = ("forget",)

    epochs: int = 10
    batch_size: int = 64
    learning_rate: float = 1e-5
    bound: float = 0.1
    """``ε``, the size of the step in every coordinate of the input."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require(self.bound >= 0, "bound", "at least 0")

    def plan(self, task: Task) -> Callable[[int], Iterator[Loss]]:
        """Pass over F, looking up each batch's nearest classes."""

        def epoch_losses(epoch: int) -> Iterator[Loss]:
            for images, labels in task.batches(task.forget):
                targets = nearest_retained(task, images, labels, self.bound)
                yield cross_entropy(logits(task.student, images), targets)

        return epoch_losses


def nearest_retained(task: Task, images: Images, labels: Labels, bound: float) -> Labels:
    """Find the retain class that θ0 answers after a sign step away from the labels."""
    start = images.detach().clone().requires_grad_(True)
    loss = cross_entropy(logits(task.original, start), labels, reduction="sum")
    (slope,) = torch.autograd.grad(loss, start)
    with torch.no_grad():
        answer: Tensor = logits(task.original, images + bound * slope.sign()).clone()
    answer[:, list(task.forget_classes)] = -torch.inf
    return answer.argmax(1)
