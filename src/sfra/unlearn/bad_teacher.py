"""Bad teacher: an ignorant teacher for the forget data, the original for the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import torch

from sfra.models.training.train import logits
from sfra.unlearn.base import Loss, StepMethod, kl
from sfra.unlearn.registry import register
from sfra.unlearn.task import Task, frozen_copy


@register("bad-teacher")
@dataclass(frozen=True, kw_only=True)
class BadTeacher(StepMethod):
    """Distil a randomly initialised teacher on the forget data and the original on a sample of the rest.

    ``T²·KL(softmax(t(x)/T) ‖ softmax(θ(x)/T))`` with ``t`` the untrained network for x in F and θ0 for x in
    R; both kinds are shuffled into the same batches, and both teachers are frozen and in eval mode.
    """

    epochs: int = 1
    batch_size: int = 256
    learning_rate: float = 1e-4
    optimizer: Literal["sgd", "adam"] = "adam"
    retain_share: float = 0.3
    """Share of R that is used, in (0, 1]; drawn once."""
    temperature: float = 1.0
    """``T``, above 0."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require(0 < self.retain_share <= 1, "retain_share", "above 0, at most 1")
        self._require(self.temperature > 0, "temperature", "above 0")

    def plan(self, task: Task) -> Callable[[int], Iterator[Loss]]:
        """Mix F with a sample of R, then pass over both."""
        ignorant = frozen_copy(task.untrained())
        mixed = task.forget.joined(task.retain.sampled(self.retain_share, task.generator))

        def epoch_losses(epoch: int) -> Iterator[Loss]:
            for images, labels in task.batches(mixed):
                with torch.no_grad():
                    gone = task.is_forget(labels).unsqueeze(1)
                    target = torch.where(gone, logits(ignorant, images), logits(task.original, images))
                yield kl(target, logits(task.student, images), temperature=self.temperature)

        return epoch_losses
