"""A linear probe: a fresh linear classifier on frozen features, trained on real labels of every class.

Softmax regression by SGD with early stopping, at a few small products a step; on CUDA an epoch is one graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import torch
from jaxtyping import Float, Int64
from torch import Tensor
from torch.nn.functional import cross_entropy

from sfra.auditing.evaluate import check_evaluation, evaluate
from sfra.auditing.trace import Trace
from sfra.core.cpu import one_thread
from sfra.core.errors import InputError
from sfra.core.head import MIN_CLASSES, Head
from sfra.data.sets import FeatureSet
from sfra.models.training.stepper import Capture, Loss

Rows = Int64[Tensor, "_"]
"""Positions in a data set."""


class ProbeEpoch(NamedTuple):
    """Losses of one epoch: mean over the batches as they were met, and of the validation part after it."""

    loss: float
    validation_loss: float


@dataclass(frozen=True, kw_only=True, eq=False)
class Probed:
    """What a linear classifier can read off the features. Accuracies are on the test split, in [0, 1]."""

    head: Head
    """The classifier of the best epoch."""
    forget_accuracy: float
    """Over all samples of the forget classes."""
    per_class: dict[int, float]
    """Accuracy on each forget class; a class without test samples is left out."""
    retain_accuracy: float
    """Over all samples of the other classes."""
    epoch: int
    """The epoch of lowest validation loss, from 1."""
    history: tuple[ProbeEpoch, ...]
    """One entry per epoch that was run."""


def linear_probe(
    train: FeatureSet,
    test: FeatureSet,
    forget: Sequence[int],
    *,
    classes: int,
    learning_rate: float = 0.01,
    momentum: float = 0.9,
    batch_size: int = 128,
    validation: float = 0.1,
    patience: int = 5,
    epochs: int = 100,
    seed: int = 0,
    device: str | torch.device = "cpu",
) -> Probed:
    """Train a linear classifier on real features and report what it recognises on the test split.

    SGD on the mean cross-entropy of ``softmax(W z + b)``, no weight decay, from rows initialised as those of
    ``torch.nn.Linear``. A share of the training samples of every class is held out; training ends when its
    cross-entropy has not fallen for ``patience`` epochs, or after ``epochs``, and the classifier of its lowest value
    is the result. The same data, settings and seed give the same classifier on the same kind of device.

    Args:
        train: Features of the training split, with the forget classes and their true labels.
        test: Features to report on.
        forget: Forget classes.
        classes: Number of outputs; every label is below it.
        learning_rate: Of SGD, constant.
        momentum: Of SGD.
        batch_size: Samples per step; the last batch of an epoch holds what is left.
        validation: Share of each class to hold out, rounded, but at least one sample of a class of two or more.
        patience: Epochs without a lower validation loss before training ends.
        epochs: The most epochs.
        seed: First weights, held-out part and order of the samples.
        device: Where to train.

    >>> data = FeatureSet(features=torch.eye(3).repeat(20, 1), labels=torch.arange(3).repeat(20))
    >>> probed = linear_probe(data, data, [2], classes=3)
    >>> probed.forget_accuracy, probed.retain_accuracy
    (1.0, 1.0)
    """
    limits = {
        "learning_rate": (learning_rate > 0, "a number above 0", learning_rate),
        "momentum": (0 <= momentum < 1, "from 0 to below 1", momentum),
        "batch_size": (batch_size >= 1, "1 or more", batch_size),
        "validation": (0 < validation < 1, "a share between 0 and 1", validation),
        "patience": (patience >= 1, "1 or more", patience),
        "epochs": (epochs >= 1, "1 or more", epochs),
        "classes": (classes >= MIN_CLASSES, f"{MIN_CLASSES} or more", classes),
    }
    for name, (fine, expected, got) in limits.items():
        if not fine:
            raise InputError(f"{name} of the linear probe is out of range", expected=expected, got=got)
    _check_data(train, test, forget, classes)
    generator = torch.Generator().manual_seed(seed)
    fit, held_out = _split(train.labels.cpu(), validation, generator)
    start = Head(torch.zeros(classes, train.features.shape[1])).reset_rows(range(classes), seed=seed)
    features, labels = train.features.to(device, torch.float32), train.labels.to(device)
    classifier = SoftmaxRegression(start, features, labels, learning_rate=learning_rate, momentum=momentum)
    capture = Capture(features.device) if features.is_cuda else None
    with one_thread():  # the products are small, and the sums then do not depend on the number of threads
        head, history = train_until_flat(
            classifier, fit, held_out.to(device), generator, batch_size, patience, epochs, capture
        )
    trace = measure_heads([head], test, forget)
    losses = [entry.validation_loss for entry in history]
    return Probed(
        head=head,
        forget_accuracy=float(trace.forget[0]),
        per_class={c: float(trace.per_class[0, c]) for c in sorted(forget) if trace.counts[c]},
        retain_accuracy=float(trace.retain[0]),
        epoch=1 + losses.index(min(losses)),
        history=tuple(history),
    )


def _check_data(train: FeatureSet, test: FeatureSet, forget: Sequence[int], classes: int) -> None:
    width = train.features.shape[1]
    check_evaluation(test.features, test.labels, forget, classes=classes, width=width)
    for c in sorted(forget):
        if not bool((train.labels == c).any()):
            raise InputError(
                f"the linear probe has no training sample of forget class {c}",
                expected="the training split with its forget samples",
                got=f"{len(train)} samples of other classes",
            )
    check_evaluation(train.features, train.labels, forget, classes=classes, width=width)


def _split(labels: Int64[Tensor, " n"], share: float, generator: torch.Generator) -> tuple[Rows, Rows]:
    """Hold out a share of each class at random; return the positions to train on and those held out, ascending."""
    order = torch.randperm(len(labels), generator=generator)
    by_class = order[torch.sort(labels[order], stable=True).indices]
    chosen = []
    for part in by_class.split(torch.bincount(labels).tolist()):  # type: ignore[no-untyped-call]
        held_out = round(share * len(part))
        chosen.append(part[: min(max(held_out, 1), len(part) - 1)] if len(part) else part)
    mask = torch.zeros(len(labels), dtype=torch.bool)
    mask[torch.cat(chosen)] = True
    if not mask.any():
        raise InputError(
            "nothing can be held out to validate the linear probe on",
            expected="a class with two or more training samples",
            got="one sample per class",
        )
    return torch.nonzero(~mask).flatten(), torch.nonzero(mask).flatten()


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
    validation: Rows,
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
        history.append(ProbeEpoch(float(next(losses)), classifier.loss(validation)))
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


class Heads(NamedTuple):
    """Heads of one shape, stacked, so that they are measured in one pass over the data."""

    weights: Float[Tensor, "heads C d"]
    biases: Float[Tensor, "heads C"]


def measure_heads(heads: Sequence[Head], data: FeatureSet, forget: Sequence[int]) -> Trace:
    """Count what each head gets right; the "epochs" of the result are the heads, in order."""
    weights, biases = zip(*((head.weight, head.bias) for head in heads), strict=True)
    return evaluate(Heads(torch.stack(weights), torch.stack(biases)), data.features, data.labels, forget)
