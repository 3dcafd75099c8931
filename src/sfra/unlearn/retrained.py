"""Retraining without the forget classes: the reference that never saw them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from sfra.models.training.train import Epoch, Training, train
from sfra.unlearn.base import Checkpoint, UnlearningMethod
from sfra.unlearn.registry import register
from sfra.unlearn.task import Task


@register("retrained")
@dataclass(frozen=True, kw_only=True)
class Retrained(Training, UnlearningMethod):
    """Train from a new initialisation on the retain data only, with all outputs kept.

    Exact unlearning: the original's weights play no part, and no epoch is chosen. Its settings are those of
    :class:`sfra.models.training.train.Training`: give it the ones that the original was trained with.
    """

    needs: ClassVar[tuple[str, ...]] = ("retain",)

    epochs: int = 55
    batch_size: int = 256
    learning_rate: float = 0.2

    def run(self, task: Task) -> Iterator[Checkpoint]:
        """Train once; the only checkpoint is the end."""
        losses: list[float] = []

        def note(done: Epoch) -> None:
            losses.append(done.loss)
            if task.progress is not None:
                task.progress(done)

        model = train(task.untrained(), task.retain, training=self, seed=task.seed, progress=note)
        yield Checkpoint(self.epochs, losses[-1], model)
