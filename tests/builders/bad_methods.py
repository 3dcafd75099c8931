"""Unlearning methods that misbehave, as an outside package would bring them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

from sfra.unlearn import StepMethod, Task
from sfra.unlearn.base import Loss


@dataclass(frozen=True, kw_only=True)
class _Short(StepMethod):
    epochs: int = 1
    batch_size: int = 64
    learning_rate: float = 0.1


@dataclass(frozen=True, kw_only=True)
class Raises(_Short):
    """Raise an error in the first epoch."""

    def plan(self, task: Task) -> Callable[[int], Iterator[Loss]]:
        raise RuntimeError("it went wrong")


@dataclass(frozen=True, kw_only=True)
class Poisoned(_Short):
    """Return weights that are not numbers, after a step that looked harmless."""

    def plan(self, task: Task) -> Callable[[int], Iterator[Loss]]:
        def epoch_losses(epoch: int) -> Iterator[Loss]:
            first = next(task.student.parameters())
            yield first.sum() * 0.0
            with torch.no_grad():
                first.fill_(float("nan"))

        return epoch_losses


@dataclass(frozen=True, kw_only=True)
class Endless(_Short):
    """Never end."""

    def plan(self, task: Task) -> Callable[[int], Iterator[Loss]]:
        while True:
            time.sleep(0.05)
