"""An unlearning method that misbehaves, as an outside package would bring it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sfra.unlearn import StepMethod, Task
from sfra.unlearn.base import Loss


@dataclass(frozen=True, kw_only=True)
class Endless(StepMethod):
    """Never end."""

    epochs: int = 1
    batch_size: int = 64
    learning_rate: float = 0.1

    def plan(self, task: Task) -> Callable[[int], Iterator[Loss]]:
        while True:
            time.sleep(0.05)
