"""Softmax regression by SGD with early stopping, at a few small products a step."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float, Int64
from torch import Tensor
from torch.nn.functional import cross_entropy

from sfra.errors import InputError
from sfra.head import Head

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

    def step(self, rows: Rows) -> Float[Tensor, ""]:
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

    def loss(self, rows: Rows) -> float:
        """Return the mean cross-entropy on these samples."""
        parts = rows.split(2**14)  # type: ignore[no-untyped-call]
        sums = [
            cross_entropy(torch.addmm(self.b, self.features[i], self.W.T), self.labels[i], reduction="sum")
            for i in parts
        ]
        return float(torch.stack(sums).sum()) / len(rows)


def train_until_flat(
    classifier: SoftmaxRegression,
    fit: Rows,
    held_out: Rows,
    generator: torch.Generator,
    batch_size: int,
    patience: int,
    epochs: int,
) -> tuple[Head, list[ProbeEpoch]]:
    """Run epochs until the validation loss stops falling; return the best head and all losses."""
    history: list[ProbeEpoch] = []
    best, best_epoch, head = float("inf"), 0, None
    for epoch in range(1, epochs + 1):
        order = fit[torch.randperm(len(fit), generator=generator)].to(classifier.features.device)
        batches = order.split(batch_size)  # type: ignore[no-untyped-call]
        losses = torch.stack([classifier.step(rows) for rows in batches])
        history.append(ProbeEpoch(float(losses.mean()), classifier.loss(held_out)))
        if history[-1].validation_loss < best:
            best, best_epoch = history[-1].validation_loss, epoch
            head = Head(classifier.W, classifier.b)
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
