"""Softmax regression by SGD with early stopping, at a few small products a step; on CUDA an epoch is one graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import torch
from jaxtyping import Int64
from torch import Tensor
from torch.nn.functional import cross_entropy

from sfra.core.errors import InputError
from sfra.core.head import Head
from sfra.models.training.stepper import Capture, Loss

Rows = Int64[Tensor, "_"]
"""Positions in a data set."""


class ProbeEpoch(NamedTuple):
    """Losses of one epoch: mean over the batches as they were met, and of the validation part after it."""

    loss: float
    validation_loss: float


class SoftmaxRegression:
    """A linear classifier and its momentum: the gradient of the cross-entropy is written out, there is no graph."""

    def __init__(self, start: Head, features: Tensor, labels: Tensor, *, learning_rate: float, momentum: float) -> None:
        self.features, self.labels = features, labels
        self.W, self.b = (part.to(features.device, copy=True) for part in (start.weight, start.bias))
        self.speed_W, self.speed_b = torch.zeros_like(self.W), torch.zeros_like(self.b)
        self.learning_rate, self.momentum = learning_rate, momentum

    def step(self, rows: Rows) -> Loss:
        """Take one step on a batch; return its loss before the step."""
        z, y = self.features[rows], self.labels[rows][:, None]
        logp = torch.addmm(self.b, z, self.W.T).log_softmax(1)
        error = logp.exp()
        error.scatter_add_(1, y, error.new_full((len(z), 1), -1.0))
        error /= len(z)
        self.speed_W.mul_(self.momentum).addmm_(error.T, z)
        self.speed_b.mul_(self.momentum).add_(error.sum(0))
        self.W.sub_(self.speed_W, alpha=self.learning_rate)
        self.b.sub_(self.speed_b, alpha=self.learning_rate)
        return -logp.gather(1, y).mean()

    def epoch(self, order: Rows, batch_size: int) -> Loss:
        """Take a step on each batch of this order, without waiting for the device; return their mean loss."""
        batches = order.split(batch_size)  # type: ignore[no-untyped-call]
        return torch.stack([self.step(rows) for rows in batches]).mean()

    def loss(self, rows: Rows) -> float:
        """Return the mean cross-entropy on these samples."""
        parts = rows.split(2**14)  # type: ignore[no-untyped-call]
        sums = [
            cross_entropy(torch.addmm(self.b, self.features[i], self.W.T), self.labels[i], reduction="sum")
            for i in parts
        ]
        return float(torch.stack(sums).sum()) / len(rows)


def repeat(work: Callable[[], Loss], capture: Capture | None) -> Iterator[Loss]:
    """Do the work once per item: plainly, or, from the second on, as a replay of what the capture recorded.

    A replay reads and writes the same memory each time: new inputs replace the old ones in place, and a result holds
    until the next. If the capture fails, the work is done plainly.
    """
    if capture is not None:
        yield capture.warm(work)
        try:
            loss, replay = capture.record(work)
        except RuntimeError:
            capture = None
    while True:
        if capture is None:
            yield work()
        else:
            replay()
            yield loss


def train_until_flat(
    classifier: SoftmaxRegression,
    fit: Rows,
    held_out: Rows,
    generator: torch.Generator,
    batch_size: int,
    patience: int,
    epochs: int,
    capture: Capture | None = None,
) -> tuple[Head, list[ProbeEpoch]]:
    """Run epochs until the validation loss stops falling; return the best head and all losses.

    With a capture an epoch is recorded after the first, and replayed from then on.
    """
    history: list[ProbeEpoch] = []
    best, best_epoch, head = float("inf"), 0, None
    order = torch.empty_like(fit, device=classifier.features.device)
    losses = repeat(partial(classifier.epoch, order, batch_size), capture)
    for epoch in range(1, epochs + 1):
        order.copy_(fit[torch.randperm(len(fit), generator=generator)])
        history.append(ProbeEpoch(float(next(losses)), classifier.loss(held_out)))
        if history[-1].validation_loss < best:
            best, best_epoch = history[-1].validation_loss, epoch
            head = Head(classifier.W, classifier.b)  # a copy: the next epoch overwrites both
        if epoch - best_epoch >= patience:
            break
    if head is None:
        raise InputError(
            "the linear probe diverged",
            expected="a finite validation loss",
            got=history[-1].validation_loss,
            do="lower its learning rate, or check the scale of the features",
        )
    return head, history
