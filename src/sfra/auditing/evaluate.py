"""Accuracies of every epoch of a trajectory on real features: the only step of an audit that sees real data."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from sfra.auditing.trace import Trace
from sfra.core.errors import InputError
from sfra.core.head import Head

CHUNK_BYTES = 64 * 2**20
"""Memory for the logits of one chunk of samples; larger chunks are no faster."""

NUMBERING = "number the classes as the model does, from 0"
"""What to do about labels that have no output."""


@runtime_checkable
class Heads(Protocol):
    """The heads of a relearning run, epoch 0 being the released one."""

    @property
    def weights(self) -> Float[Tensor, "epochs C d"]:
        """Weight of the head after each epoch."""

    @property
    def biases(self) -> Float[Tensor, "epochs C"]:
        """Bias of the head after each epoch."""


def evaluate(
    trajectory: Heads,
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

    truth, order = torch.sort(labels.long().cpu(), stable=True)
    hits = torch.zeros(epochs, classes, dtype=torch.long, device=W.device)
    right = torch.empty(epochs, len(truth), dtype=torch.bool, device=W.device)
    rows, offsets = W.reshape(-1, width), b.reshape(-1, 1)
    step = max(1, chunk_bytes // (rows.shape[0] * rows.element_size()))
    for start in range(0, len(truth), step):
        part = slice(start, start + step)
        chunk = features[order[part].to(features.device)].to(W.device, W.dtype)
        # Samples come last: reductions over classes then run along contiguous memory.
        logits = torch.addmm(offsets, rows, chunk.T).view(epochs, classes, -1)
        for label, run in _runs(truth[part]):
            won = _wins(logits[:, :, run], label)
            hits[:, label] += won.sum(1)
            right[:, start + run.start : start + run.stop] = won
    counts = torch.bincount(truth, minlength=classes)
    return Trace(hits=hits.cpu(), counts=counts, forget_classes=forget_classes, right=right.cpu())


def confusion(head: Head, features: Float[Tensor, "rows width"], labels: Int[Tensor, " samples"]) -> Int[Tensor, "C C"]:
    """Count the samples of each true class (row) that the head assigns to each class (column).

    >>> confusion(Head(torch.eye(3)), torch.eye(3), torch.tensor([0, 1, 1])).tolist()
    [[1, 0, 0], [0, 1, 1], [0, 0, 0]]
    """
    C = head.classes
    _check_data(features, labels, classes=C, width=head.width)
    predicted = torch.cat([head(chunk.float()).argmax(1).cpu() for chunk in torch.split(features, 2**14)])
    return torch.bincount(labels.long().cpu() * C + predicted, minlength=C * C).view(C, C)


def check_evaluation(
    features: Float[Tensor, "rows width"],
    labels: Int[Tensor, " samples"],
    forget: Sequence[int],
    *,
    classes: int,
    width: int,
    do: str = NUMBERING,
) -> None:
    """Refuse, before any work, data that do not fit the classes and the width of a head."""
    _check_data(features, labels, classes=classes, width=width, do=do)
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


def _check_data(features: Tensor, labels: Tensor, *, classes: int, width: int, do: str = NUMBERING) -> None:
    """Refuse features and labels that do not belong to each other or to the head."""
    for name, values in (("features", features), ("labels", labels)):
        if not isinstance(values, Tensor):
            got = type(values).__name__
            raise InputError(f"the {name} are not a tensor", expected="torch tensors", got=got, do="torch.as_tensor(…)")
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
            do=do,
        )
    if not _is_finite(features):
        raise InputError("the features are not finite", expected="finite numbers", do="check how they were extracted")


def _check_forget(forget: Sequence[int], classes: int) -> tuple[int, ...]:
    """Return the forget classes in order, or refuse them."""
    try:
        distinct = sorted({operator.index(label) for label in forget})
    except TypeError:
        raise InputError("wrong forget classes", expected="indices, as in [7]", got=repr(forget)) from None
    in_range = all(0 <= c < classes for c in distinct)
    if len(distinct) != len(forget) or not in_range or not 0 < len(distinct) < classes:
        raise InputError(
            "wrong forget classes",
            expected=f"one or more distinct indices from 0 to {classes - 1}, but not all of them",
            got=list(forget),
        )
    return tuple(distinct)
