"""Accuracies of every epoch of a trajectory on real features: the only step of an audit that sees real data."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from sfra.auditing.trace import Trace
from sfra.core.cpu import share_out
from sfra.core.errors import InputError
from sfra.core.head import Head, is_finite
from sfra.core.refusals import other_width
from sfra.core.types import Features, Labels

CHUNK_BYTES = 16 * 2**20
"""Memory for the logits of one block; larger ones are no faster, and smaller ones slower."""

ROWS = 4096
"""Rows of the heads that go into one product, those of one epoch at least."""

ON_GPU = 16
"""How many times larger blocks are on a GPU, where each one waits for a dozen launches."""

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
    threads: int | None = None,
) -> Trace:
    """Count what the head of every epoch gets right, arg-max over all classes.

    The heads of several epochs are one tall matrix, so each block of epochs and samples is one product; the blocks
    share out the threads. A tie for the largest logit goes to the class with the smallest index, as in ``argmax``.

    Args:
        trajectory: weights ``[epochs, C, d]`` and biases ``[epochs, C]``; the work is done on their device.
        features: inputs of the head, any float type, on any device.
        labels: class of each row of features.
        forget: forget classes.
        chunk_bytes: memory for the logits of one block, the largest allocation by far; on a GPU 16 times as much.
        threads: on the CPU; as many as torch has by default.

    >>> from types import SimpleNamespace
    >>> path = SimpleNamespace(weights=torch.eye(3)[None], biases=torch.zeros(1, 3))
    >>> evaluate(path, torch.eye(3), torch.tensor([0, 1, 0]), [1]).per_class[0].tolist()
    [0.5, 1.0, nan]
    """
    W, b = trajectory.weights, trajectory.biases
    epochs, classes, width = W.shape
    _check_data(features, labels, classes=classes, width=width)
    forget_classes = _check_forget(forget, classes)
    if not (is_finite(W) and is_finite(b)):
        raise InputError("the relearned heads are not finite", do="relearn with a smaller learning rate")

    truth, order = torch.sort(labels.long().cpu(), stable=True)
    right = torch.empty(epochs, len(truth), dtype=torch.bool, device=W.device)
    larger = ON_GPU if W.is_cuda else 1
    heads = max(1, larger * ROWS // classes)
    step = max(1, larger * chunk_bytes // (min(heads, epochs) * classes * W.element_size()))
    workers = 1 if W.is_cuda else threads or torch.get_num_threads()
    step = min(step, math.ceil(len(truth) / (4 * workers)))  # no thread waits long for the last block

    def mark(start: int) -> None:
        part = slice(start, start + step)
        chunk = features[order[part].to(features.device)].to(W.device, W.dtype)
        for some in (slice(epoch, epoch + heads) for epoch in range(0, epochs, heads)):
            right[some, part] = _recognised(W[some], b[some], chunk, truth[part])

    share_out(mark, range(0, len(truth), step), workers)
    counts = torch.bincount(truth, minlength=classes)
    return Trace(right=right.cpu(), counts=counts, forget_classes=forget_classes)


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
    Trace(right=torch.ones(0, len(labels)).bool(), counts=counts, forget_classes=_check_forget(forget, classes))


def _recognised(
    weights: Float[Tensor, "epochs C d"], biases: Float[Tensor, "epochs C"], samples: Features, truth: Labels
) -> Bool[Tensor, "epochs n"]:
    """Tell which samples each head assigns to their class; these are sorted by class."""
    epochs, classes, width = weights.shape
    W, b = weights.reshape(-1, width), biases.reshape(-1)
    if W.device.type != "cpu" or W.dtype != torch.float32:
        # Samples come last: reductions over classes then run along contiguous memory.
        return torch.addmm(b[:, None], W, samples.T).view(epochs, classes, -1).argmax(1) == truth.to(W.device)
    from sfra.attack.adam_kernels import logits, wins  # numba is slow to import

    z = torch.empty(len(W) + 1, len(truth) + 3)
    arrays = (W.contiguous().numpy(), b.contiguous().numpy(), samples.contiguous().numpy(), np.arange(len(truth)))
    right = torch.empty(epochs, len(truth), dtype=torch.bool)
    logits(*arrays, z.numpy(), 0, len(W))
    wins(z.numpy(), truth.numpy(), classes, right.numpy())
    return right


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
        raise other_width(width, features.shape[1])
    stray = torch.unique(labels[(labels < 0) | (labels >= classes)]).tolist()
    if stray:
        raise InputError(
            "there are labels outside the head's classes",
            expected=f"0 to {classes - 1}",
            got=", ".join(map(str, stray[:8])) + (" …" if len(stray) > 8 else ""),
            do=do,
        )
    if not is_finite(features):
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
