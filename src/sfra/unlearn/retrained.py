"""Retraining without the forget classes: the reference that never saw them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from sfra.train import Progress, train
from sfra.unlearn.base import Checkpoint, UnlearningMethod
from sfra.unlearn.registry import register
from sfra.unlearn.task import Task


@register("retrained")
@dataclass(frozen=True, kw_only=True)
class Retrained(UnlearningMethod):
    """Train from a new initialisation on the retain data only, with all outputs kept.

    Exact unlearning: the original's weights play no part, and no epoch is chosen. Use the recipe that the
    original was trained with (:func:`sfra.train.train`).
    """

    needs: ClassVar[tuple[str, ...]] = ("retain",)

    epochs: int = 55
    batch_size: int = 256
    learning_rate: float = 0.2
    momentum: float = 0.9
    """Momentum of SGD."""
    weight_decay: float = 5e-4
    """L2 penalty, in the gradient."""

    def run(self, task: Task) -> Iterator[Checkpoint]:
        """Train once; the only checkpoint is the end."""
        losses: list[float] = []

        def note(done: Progress) -> None:
            losses.append(done.loss)
            if task.progress is not None:
                task.progress(done)

        model = train(
            task.untrained(),
            task.retain,
            epochs=self.epochs,
            learning_rate=self.learning_rate,
            batch_size=self.batch_size,
            momentum=self.momentum,
            weight_decay=self.weight_decay,
            seed=task.seed,
            progress=note,
        )
        yield Checkpoint(self.epochs, losses[-1], model)
