"""How a classifier is trained: the settings, and the learning rate of every step."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from sfra.core.errors import InputError
from sfra.models.forward import Precision

WARM_UP, FIRST, LAST = 0.3, 25, 1e4
"""One cycle: the share of the steps that rise, and how far below the highest rate it begins, and below that it ends."""


MOST_STEPS = 10_000_000
"""Of one training; their rates are computed before it begins."""


@dataclass(frozen=True, kw_only=True)
class Training:
    """SGD on the cross-entropy, with everything that determines a run besides the data and the seed.

    >>> Training(epochs=150, learning_rate=0.1, schedule="steps", milestones=(40 / 150, 80 / 150)).factor
    0.1
    """

    epochs: int
    """Passes over the data."""
    learning_rate: float
    """Highest rate of the schedule."""
    batch_size: int = 256
    """Samples per step."""
    momentum: float = 0.9
    """Of SGD."""
    weight_decay: float = 5e-4
    """L2 penalty, in the gradient."""
    schedule: Literal["one-cycle", "steps"] = "one-cycle"
    """``one-cycle``: up over the first 30 % of the steps, then down to almost zero, both along a cosine;
    ``steps``: constant between milestones."""
    milestones: tuple[float, ...] = ()
    """Of ``steps``: where the rate falls, as shares of the epochs, rounded to whole epochs."""
    factor: float = 0.1
    """Of ``steps``: what the rate is multiplied by at each milestone."""
    nesterov: bool = False
    """Nesterov's form of the momentum."""
    label_smoothing: float = 0.0
    """Share of the target that is spread evenly over all classes."""
    precision: Precision = "auto"
    """Of the forward and backward pass; weights and their updates stay as they are."""
    channels_last: bool = True
    """On CUDA, keep images and convolutions channels last."""
    compile: bool = False
    """Compile the network with ``torch.compile`` first; pays off for long runs on CUDA."""

    def __post_init__(self) -> None:
        self._expect(self.epochs >= 1, "epochs", "at least 1")
        self._expect(self.batch_size >= 1, "batch_size", "at least 1")
        self._expect(self.learning_rate > 0, "learning_rate", "above 0")
        self._expect(0 <= self.momentum < 1, "momentum", "at least 0, below 1")
        self._expect(self.weight_decay >= 0, "weight_decay", "at least 0")
        self._expect(self.schedule in ("one-cycle", "steps"), "schedule", "one-cycle or steps")
        ordered = list(self.milestones) == sorted(self.milestones) and all(0 < m < 1 for m in self.milestones)
        self._expect(ordered, "milestones", "ascending shares of the epochs, above 0 and below 1")
        self._expect(self.factor > 0, "factor", "above 0")
        self._expect(self.momentum > 0 or not self.nesterov, "nesterov", "false without momentum")
        self._expect(0 <= self.label_smoothing < 1, "label_smoothing", "at least 0, below 1")
        self._expect(self.precision in ("auto", "float32", "bfloat16"), "precision", "auto, float32 or bfloat16")

    def _expect(self, holds: bool, field: str, expected: str) -> None:
        if not holds:
            raise InputError(
                f"{type(self).__name__}: {field} is out of range", expected=expected, got=getattr(self, field)
            )


def rates(training: Training, steps_per_epoch: int) -> list[float]:
    """Compute the learning rate of every step.

    With ``T`` steps in all, ``η`` the highest rate and ``cos(a, b, s) = b + (a - b)(1 + cos πs)/2``, one cycle
    is ``cos(η/25, η, t/u)`` up to ``u = 0.3 T - 1`` and ``cos(η, η/250000, (t - u)/(T - 1 - u))`` after it.

    >>> rates(Training(epochs=2, learning_rate=1.0, schedule="steps", milestones=(0.5,)), 2)
    [1.0, 1.0, 0.1, 0.1]
    """
    if training.epochs * steps_per_epoch > MOST_STEPS:
        raise InputError(
            "the training is too long",
            expected=f"at most {MOST_STEPS:,} steps",
            got=f"{training.epochs:,} epochs of {steps_per_epoch:,} steps",
            do="lower the epochs, or raise the batch size",
        )
    if training.schedule == "steps":
        falls = [round(share * training.epochs) for share in training.milestones]
        passed = [sum(epoch >= fall for fall in falls) for epoch in range(training.epochs)]
        return [training.learning_rate * training.factor**count for count in passed for _ in range(steps_per_epoch)]
    total, peak = training.epochs * steps_per_epoch, training.learning_rate
    top, low = WARM_UP * total - 1, peak / FIRST
    return [
        _cosine(low, peak, t / top) if t <= top else _cosine(peak, low / LAST, (t - top) / (total - 1 - top))
        for t in range(total)
    ]


def _cosine(start: float, end: float, share: float) -> float:
    return end + (start - end) / 2 * (math.cos(math.pi * share) + 1)
