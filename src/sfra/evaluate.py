"""Accuracies of every epoch of a trajectory on real features: the only step of an audit that sees real data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from sfra.errors import InputError
from sfra.head import Head
from sfra.metrics import TOLERANCE, relearning_curve
from sfra.types import Curve

RULES = ("source-free", "validation", "worst-case")
"""Which epoch counts: the last one, the best on a validation split, the best on the evaluation data itself."""

RETAIN_FLOOR = 0.9
"""Share of the released retain accuracy that an epoch must keep to be a worst case."""

CHUNK_BYTES = 64 * 2**20
"""Memory for the logits of one chunk of samples; larger chunks are no faster."""


@runtime_checkable
class Trajectory(Protocol):
    """The heads of a relearning run, epoch 0 being the released one."""

    @property
    def weights(self) -> Float[Tensor, "epochs C d"]:
        """Weight of the head after each epoch."""

    @property
    def biases(self) -> Float[Tensor, "epochs C"]:
        """Bias of the head after each epoch."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Trace:
    """What a trajectory recognises, epoch by epoch; epoch 0 is the released head.

    >>> trace = Trace(hits=torch.tensor([[8, 0], [6, 3]]), counts=torch.tensor([8, 4]), forget_classes=(1,))
    >>> trace.retain.tolist(), trace.forget.tolist(), trace.rs.tolist()
    ([1.0, 0.75], [0.0, 0.75], [0.0, 0.75])
    """

    hits: Int[Tensor, "epochs C"]
    """Samples of each class that the head of each epoch classifies correctly."""
    counts: Int[Tensor, " C"]
    """Samples of each class."""
    forget_classes: tuple[int, ...]
    """Indices of the forget classes; all others are retain classes."""

    def __post_init__(self) -> None:
        if self.forget_count == 0:
            raise InputError(
                "there is no sample of the forget class to measure on",
                expected=f"samples of class {', '.join(map(str, self.forget_classes))}",
                got=f"{int(self.counts.sum())} samples, all of other classes",
                do="evaluate on data that holds the forget class; without any, its accuracy is unknown, not 0",
            )
        if self.retain_count == 0:
            raise InputError(
                "there is no sample of the retain classes to measure on",
                expected="samples of the classes that the model was to keep",
                got=f"{self.forget_count} samples, all of forget classes",
                do="evaluate on data that holds retain classes too",
            )

    @property
    def per_class(self) -> Float[Tensor, "epochs C"]:
        """Accuracy of each epoch on each class; NaN for a class without samples."""
        return self.hits.double() / self.counts

    @property
    def retain(self) -> Curve:
        """Accuracy of each epoch over all retain samples."""
        return self._pooled(~self._is_forget)

    @property
    def forget(self) -> Curve:
        """Accuracy of each epoch over all forget samples."""
        return self._pooled(self._is_forget)

    @property
    def rs(self) -> Curve:
        """Relearning score of each epoch against epoch 0."""
        return relearning_curve(self.retain, self.forget)

    @property
    def retain_count(self) -> int:
        """Number of retain samples."""
        return int(self.counts[~self._is_forget].sum())

    @property
    def forget_count(self) -> int:
        """Number of forget samples."""
        return int(self.counts[self._is_forget].sum())

    def to_dict(self) -> dict[str, Any]:
        """Return plain lists for JSON; the accuracy of a class without samples is None."""
        missing = (self.counts == 0).tolist()
        rows = self.per_class.tolist()
        return {
            "retain": self.retain.tolist(),
            "forget": self.forget.tolist(),
            "rs": self.rs.tolist(),
            "per_class": [[None if m else a for a, m in zip(row, missing, strict=True)] for row in rows],
            "counts": self.counts.tolist(),
            "forget_classes": list(self.forget_classes),
        }

    @property
    def _is_forget(self) -> Tensor:
        return torch.isin(torch.arange(len(self.counts)), torch.tensor(self.forget_classes))

    def _pooled(self, classes: Tensor) -> Curve:
        return self.hits[:, classes].sum(1).double() / self.counts[classes].sum()


def evaluate(
    trajectory: Trajectory,
    features: Float[Tensor, "rows width"],
    labels: Int[Tensor, " samples"],
    forget: Sequence[int],
    *,
    chunk_bytes: int = CHUNK_BYTES,
) -> Trace:
    """Count what the head of every epoch gets right, arg-max over all classes.

    The heads of all epochs are one tall matrix, so each chunk of samples is one product. A tie for the
    largest logit goes to the class with the smallest index, as in ``argmax``.

    Args:
        trajectory: weights ``[epochs, C, d]`` and biases ``[epochs, C]``; the work is done on their device.
        features: inputs of the head, any float type, on any device.
        labels: class of each row of features.
        forget: forget classes.
        chunk_bytes: memory for the logits of one chunk, the largest allocation by far.

    >>> from types import SimpleNamespace
    >>> path = SimpleNamespace(weights=torch.eye(3)[None], biases=torch.zeros(1, 3))
    >>> evaluate(path, torch.eye(3), torch.tensor([0, 1, 0]), [1]).per_class[0].tolist()
    [0.5, 1.0, nan]
    """
    W, b = trajectory.weights, trajectory.biases
    epochs, classes, width = W.shape
    _check_data(features, labels, classes=classes, width=width)
    forget_classes = _check_forget(forget, classes)
    if not (_is_finite(W) and _is_finite(b)):
        raise InputError("the relearned heads are not finite", do="relearn with a smaller learning rate")

    truth, order = torch.sort(labels.long().cpu())
    hits = torch.zeros(epochs, classes, dtype=torch.long, device=W.device)
    rows, offsets = W.reshape(-1, width), b.reshape(-1, 1)
    step = max(1, chunk_bytes // (rows.shape[0] * rows.element_size()))
    for start in range(0, len(truth), step):
        part = slice(start, start + step)
        chunk = features[order[part].to(features.device)].to(W.device, W.dtype)
        # Samples come last: reductions over classes then run along contiguous memory.
        logits = torch.addmm(offsets, rows, chunk.T).view(epochs, classes, -1)
        for label, run in _runs(truth[part]):
            hits[:, label] += _wins(logits[:, :, run], label).sum(1)
    counts = torch.bincount(truth, minlength=classes)
    return Trace(hits=hits.cpu(), counts=counts, forget_classes=forget_classes)


def confusion(head: Head, features: Float[Tensor, "rows width"], labels: Int[Tensor, " samples"]) -> Int[Tensor, "C C"]:
    """Count the samples of each true class (row) that the head assigns to each class (column).

    >>> confusion(Head(torch.eye(3)), torch.eye(3), torch.tensor([0, 1, 1])).tolist()
    [[1, 0, 0], [0, 1, 1], [0, 0, 0]]
    """
    C = head.classes
    _check_data(features, labels, classes=C, width=head.width)
    predicted = torch.cat([head(chunk.float()).argmax(1).cpu() for chunk in torch.split(features, 2**14)])
    return torch.bincount(labels.long().cpu() * C + predicted, minlength=C * C).view(C, C)


def select(trace: Trace, rule: str, validation: Trace | None = None) -> int:
    """Return the epoch that counts under a rule; ties go to the earliest.

    Args:
        trace: the trajectory on the evaluation data.
        rule: ``source-free`` is the last epoch, with no look at any data; ``validation`` the best RS on the
            validation split; ``worst-case`` the best RS on the evaluation data itself among epochs that
            keep 90 % of the released retain accuracy, an upper bound.
        validation: the same trajectory on a validation split disjoint from the evaluation data.

    >>> trace = Trace(hits=torch.tensor([[9, 0], [9, 5], [9, 3]]), counts=torch.tensor([9, 9]), forget_classes=(1,))
    >>> select(trace, "source-free"), select(trace, "worst-case")
    (2, 1)
    """
    if rule not in RULES:
        raise InputError("there is no such selection rule", expected=", ".join(RULES), got=rule)
    if rule == "source-free":
        return len(trace.hits) - 1
    if rule == "worst-case":
        allowed = trace.retain >= RETAIN_FLOOR * trace.retain[0] - TOLERANCE
        return int(trace.rs.where(allowed, -1.0).argmax())
    if validation is None:
        raise InputError("the rule validation needs a validation split", do="pass one, or use source-free")
    if len(validation.hits) != len(trace.hits):
        raise InputError(
            "the two splits cover different numbers of epochs", expected=len(trace.hits), got=len(validation.hits)
        )
    return int(validation.rs.argmax())


def check_evaluation(
    features: Float[Tensor, "rows width"],
    labels: Int[Tensor, " samples"],
    forget: Sequence[int],
    *,
    classes: int,
    width: int,
) -> None:
    """Refuse, before any work is done, data that a head of so many classes and such a width cannot be measured on."""
    _check_data(features, labels, classes=classes, width=width)
    counts = torch.bincount(labels.long().cpu(), minlength=classes)
    Trace(hits=counts[None], counts=counts, forget_classes=_check_forget(forget, classes))


def _wins(logits: Float[Tensor, "epochs C run"], label: int) -> Tensor:
    """Mark where ``argmax`` would answer `label`: above every class before it, not below any after it."""
    own = logits[:, label]
    won = torch.ones_like(own, dtype=torch.bool)
    if label > 0:
        won &= own > logits[:, :label].amax(1)
    if label + 1 < logits.shape[1]:
        won &= own >= logits[:, label + 1 :].amax(1)
    return won


def _runs(truth: Tensor) -> Iterator[tuple[int, slice]]:
    """Yield each label of a sorted chunk and the samples that carry it."""
    values, lengths = torch.unique_consecutive(truth, return_counts=True)
    stop = 0
    for label, length in zip(values.tolist(), lengths.tolist(), strict=True):
        start, stop = stop, stop + length
        yield label, slice(start, stop)


def _is_finite(values: Tensor) -> bool:
    """Say whether no entry is NaN or infinite, from the extremes: five times faster than ``isfinite``."""
    return all(bool(torch.isfinite(extreme)) for extreme in torch.aminmax(values))


def _check_data(features: Tensor, labels: Tensor, *, classes: int, width: int) -> None:
    """Refuse features and labels that do not belong to each other or to the head."""
    if len(features) != len(labels):
        raise InputError("features and labels differ in number", got=f"{len(features)} features, {len(labels)} labels")
    if len(labels) == 0:
        raise InputError("the evaluation set is empty", expected="samples of retain and forget classes")
    if features.shape[1] != width:
        raise InputError(
            "the features do not fit the head",
            expected=f"features {width} wide",
            got=features.shape[1],
            do="use features of the same model, taken right before its last layer",
        )
    stray = torch.unique(labels[(labels < 0) | (labels >= classes)]).tolist()
    if stray:
        raise InputError(
            "there are labels outside the head's classes",
            expected=f"0 to {classes - 1}",
            got=", ".join(map(str, stray[:8])) + (" …" if len(stray) > 8 else ""),
            do="number the classes as the model does, from 0",
        )
    if not _is_finite(features):
        raise InputError("the features are not finite", expected="finite numbers", do="check how they were extracted")


def _check_forget(forget: Sequence[int], classes: int) -> tuple[int, ...]:
    """Return the forget classes in order, or say why they cannot be."""
    distinct = sorted(set(forget))
    in_range = all(0 <= c < classes for c in distinct)
    if len(distinct) != len(forget) or not in_range or not 0 < len(distinct) < classes:
        raise InputError(
            "these cannot be the forget classes",
            expected=f"one or more distinct indices from 0 to {classes - 1}, but not all of them",
            got=list(forget),
        )
    return tuple(distinct)
