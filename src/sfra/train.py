"""Train a classifier: labelled samples, shuffled batches, and one recipe (SGD with a one-cycle rate)."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.optim.lr_scheduler import OneCycleLR

from sfra.errors import InputError
from sfra.types import Labels, Logits

Images = Float[Tensor, "n ..."]
"""Inputs of a classifier, one per sample."""


class Progress(NamedTuple):
    """What a progress callback is told after each epoch: the first epoch is number 1."""

    epoch: int
    epochs: int
    loss: float


@runtime_checkable
class Samples(Protocol):
    """Labelled samples that are read by index, so that a data set knows exactly what was read."""

    @property
    def labels(self) -> Labels:
        """Class of each sample; may be read at any time."""

    def take(self, index: Int[Tensor, " k"]) -> Float[Tensor, "k ..."]:
        """Read the images at these positions."""


@dataclass(frozen=True, eq=False)
class TensorData:
    """Labelled samples held in two tensors, checked on creation.

    >>> data = TensorData(torch.zeros(3, 1, 8, 8), torch.tensor([0, 1, 2]))
    >>> data.take(torch.tensor([2, 0])).shape
    torch.Size([2, 1, 8, 8])
    """

    images: Tensor
    """Floating point, one entry per sample along the first axis, on any device."""
    labels: Tensor
    """Class indices from 0, integers of shape ``[n]``, on the CPU."""

    def __post_init__(self) -> None:
        if self.labels.device.type != "cpu":
            raise InputError("the labels are not on the CPU", got=self.labels.device, do="pass labels.cpu()")
        integers = not (self.labels.is_floating_point() or self.labels.dtype == torch.bool)
        if self.labels.ndim != 1 or not integers or (len(self.labels) and int(self.labels.min()) < 0):
            got = f"{self.labels.dtype} of shape {list(self.labels.shape)}"
            raise InputError("the labels are not class indices", expected="integers from 0, shape [n]", got=got)
        if len(self.images) != len(self.labels):
            raise InputError("images and labels disagree", expected=f"{len(self.images)} labels", got=len(self.labels))

    def take(self, index: Int[Tensor, " k"]) -> Float[Tensor, "k ..."]:
        """Read the images at these positions."""
        return self.images[index]


def logits(model: nn.Module, images: Images) -> Logits:
    """Return the model's logits, given as a tensor or as the ``logits`` of an output object."""
    output = model(images)
    found = output if isinstance(output, Tensor) else getattr(output, "logits", None)
    if not isinstance(found, Tensor) or found.ndim != 2:
        raise InputError(
            "the model does not answer with logits",
            expected="a tensor [n, C], or an object whose .logits is one",
            got=f"{type(output).__name__} {list(found.shape) if isinstance(found, Tensor) else ''}".rstrip(),
        )
    return found


def shuffled(
    samples: Samples, size: int, *, generator: torch.Generator, device: torch.device | str = "cpu"
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield every sample once, in random batches of ``size``, as ``(images, labels)`` on the device.

    A last batch of one sample joins the batch before it: batch normalisation cannot train on one.
    """
    order = torch.randperm(len(samples.labels), generator=generator)
    for index in torch.split(order, _batch_sizes(len(order), size)):
        yield samples.take(index).to(device), samples.labels[index].to(device)


@contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[torch.Generator]:
    """Seed what draws from the global generators (dropout, initialisation) and restore them afterwards.

    Yields a generator of its own, seeded alike, for everything that takes one.
    """
    gpus = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=gpus):
        torch.default_generator.manual_seed(seed)
        for gpu in gpus:
            with torch.cuda.device(gpu):
                torch.cuda.manual_seed(seed)
        yield torch.Generator().manual_seed(seed)


def device_of(model: nn.Module) -> torch.device:
    """Return where the model's first parameter lives."""
    first = next(model.parameters(), None)
    if first is None:
        raise InputError("the model has no parameters", expected="a classifier that can be trained")
    return first.device


def train(
    model: nn.Module,
    data: Samples,
    *,
    epochs: int,
    learning_rate: float,
    batch_size: int = 256,
    momentum: float = 0.9,
    weight_decay: float = 5e-4,
    seed: int = 0,
    device: torch.device | str | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> nn.Module:
    """Train a copy of the model from its present weights and return it in eval mode.

    SGD on the cross-entropy; the learning rate rises to ``learning_rate`` over the first 30 % of the steps
    and anneals to almost zero (one cycle, cosine). The same model, data, settings and seed give the same
    weights on the same kind of device; the caller's model and the global random state stay as they are.

    Args:
        model: Any classifier; see :func:`logits` for what it may answer.
        data: Training samples.
        epochs: Passes over the data.
        learning_rate: The highest rate of the cycle.
        batch_size: Samples per step.
        momentum: Momentum of SGD.
        weight_decay: L2 penalty, in the gradient.
        seed: Order of the samples, and whatever the model draws itself (dropout).
        device: Where to compute; by default where the model is, and the result returns there.
        progress: Called after each epoch.
    """
    home = device_of(model)
    place = torch.device(device) if device is not None else home
    if len(data.labels) == 0 or epochs < 1 or batch_size < 1:
        got = f"{len(data.labels)} samples, {epochs} epochs, batches of {batch_size}"
        raise InputError("there is nothing to train on", expected="at least 1 of each", got=got)
    student = copy.deepcopy(model).to(place).train()
    optimizer = torch.optim.SGD(student.parameters(), lr=learning_rate, momentum=momentum, weight_decay=weight_decay)
    with seeded(seed, place) as generator:
        cycle = OneCycleLR(
            optimizer,
            max_lr=learning_rate,
            total_steps=epochs * len(_batch_sizes(len(data.labels), batch_size)),
            cycle_momentum=False,
        )
        for epoch in range(1, epochs + 1):
            losses = []
            for images, labels in shuffled(data, batch_size, generator=generator, device=place):
                losses.append(step(optimizer, cross_entropy(logits(student, images), labels)))
                cycle.step()
            done = Progress(epoch, epochs, mean_loss(losses, epoch))
            if progress is not None:
                progress(done)
    return student.to(home).eval()


def step(optimizer: torch.optim.Optimizer, loss: Float[Tensor, ""]) -> Float[Tensor, ""]:
    """Take one descent step on a loss and return its value, detached."""
    optimizer.zero_grad(set_to_none=True)
    loss.backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    return loss.detach()


def mean_loss(losses: list[Tensor], epoch: int) -> float:
    """Average an epoch's losses, refusing a run that diverged."""
    mean = float(torch.stack(losses).mean())
    if not torch.isfinite(torch.tensor(mean)):
        raise InputError(
            "the training diverged",
            expected="a finite loss",
            got=f"{mean} in epoch {epoch}",
            do="lower the learning rate or the number of epochs",
        )
    return mean


def _batch_sizes(samples: int, size: int) -> list[int]:
    """Divide samples into batches; a lone last one joins its neighbour."""
    whole, rest = divmod(samples, size)
    if rest == 1 and whole:
        return [size] * (whole - 1) + [size + 1]
    return [size] * whole + [rest] * (rest > 0)
