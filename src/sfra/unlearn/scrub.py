"""SCRUB: away from the teacher on the forget data, towards it on the rest, in turns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch.nn.functional import cross_entropy

from sfra.models.training.train import Images, logits
from sfra.unlearn.base import Loss, StepMethod, kl
from sfra.unlearn.registry import register
from sfra.unlearn.task import Task


@register("scrub")
@dataclass(frozen=True, kw_only=True)
class Scrub(StepMethod):
    """Alternate a pass over F away from the original with a pass over R towards it.

    With ``D(x) = T²·KL(softmax(θ0(x)/T) ‖ softmax(θ(x)/T))``: in each of the first ``max_epochs`` epochs
    descend ``-D`` on F; then, in every epoch, descend ``γ·CE + α·D`` on R.
    """

    epochs: int = 3
    batch_size: int = 128
    learning_rate: float = 5e-4
    alpha: float = 0.001
    """Weight of the divergence on R; published values run from 0.001 to 0.5."""
    gamma: float = 0.99
    """Weight of the cross-entropy on R."""
    temperature: float = 4.0
    """``T``, above 0."""
    max_epochs: int = 2
    """Number of epochs that begin with a pass over F (``msteps`` in the published code)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require(self.alpha >= 0, "alpha", "at least 0")
        self._require(self.gamma >= 0, "gamma", "at least 0")
        self._require(self.temperature > 0, "temperature", "above 0")
        self._require(self.max_epochs >= 0, "max_epochs", "at least 0")

    def plan(self, task: Task) -> Callable[[int], Iterator[Loss]]:
        """Maximise over F, then minimise over R."""

        def epoch_losses(epoch: int) -> Iterator[Loss]:
            if epoch <= self.max_epochs:
                for images, _ in task.batches(task.forget):
                    yield -self._divergence(task, images, logits(task.student, images))
            for images, labels in task.batches(task.retain):
                answer = logits(task.student, images)
                distance = self._divergence(task, images, answer)
                yield self.gamma * cross_entropy(answer, labels) + self.alpha * distance

        return epoch_losses

    def _divergence(self, task: Task, images: Images, answer: torch.Tensor) -> Loss:
        with torch.no_grad():
            teacher = logits(task.original, images)
        return kl(teacher, answer, temperature=self.temperature)
