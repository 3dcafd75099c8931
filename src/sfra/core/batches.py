"""Labelled samples, read by index, and the random batches of an epoch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from sfra.core.errors import InputError, counted
from sfra.core.types import Labels

CHUNK_BYTES = 256 * 2**20
"""Batches are read together up to this size: one call gathers and augments many of them at once."""


AT_ONCE = 2**26
"""Bytes of images that a network is given at once: what it computes of them takes many times as much."""


def portions(batch: Tensor) -> tuple[Tensor, ...]:
    """Divide a batch into parts that a network can be given at once."""
    return batch.split(max(1, AT_ONCE // max(1, batch[0].nbytes)))  # type: ignore[no-untyped-call, no-any-return]


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

    def __repr__(self) -> str:
        """Say how many and how large they are, without their values."""
        size = f"{counted(len(self.labels), 'sample', 'samples')} of {list(self.images.shape[1:])}"
        return f"TensorData({size}{label_span(self.labels)})"

    def take(self, index: Int[Tensor, " k"]) -> Float[Tensor, "k ..."]:
        """Read the images at these positions."""
        return self.images[index]


def label_span(labels: Tensor) -> str:
    """Write the range of labels for a representation, after a comma; nothing for none.

    >>> label_span(torch.tensor([4, 0, 2]))
    ', labels 0 to 4'
    """
    return f", labels {int(labels.min())} to {int(labels.max())}" if len(labels) else ""


def shuffled(
    samples: Samples, size: int, *, generator: torch.Generator, device: torch.device | str = "cpu"
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield every sample once, in random batches of ``size``, as ``(images, labels)`` on the device.

    A last batch of one sample joins the batch before it: batch normalisation cannot train on one. The first
    batch is read by itself, the others together as far as :data:`CHUNK_BYTES` allows.
    """
    order = torch.randperm(len(samples.labels), generator=generator)
    sizes, together = batch_sizes(len(order), size), 1
    while sizes:
        now, sizes = sizes[:together], sizes[together:]
        index, order = order[: sum(now)], order[sum(now) :]
        images, labels = samples.take(index).to(device), samples.labels[index].to(device)
        yield from zip(images.split(now), labels.split(now), strict=True)  # type: ignore[no-untyped-call]
        together = max(1, CHUNK_BYTES * len(images) // max(1, images.nbytes * size))


def batch_sizes(samples: int, size: int) -> list[int]:
    """Divide samples into batches; a lone last one joins its neighbour.

    >>> batch_sizes(10, 4), batch_sizes(9, 4)
    ([4, 4, 2], [4, 5])
    """
    whole, rest = divmod(samples, size)
    if rest == 1 and whole:
        return [size] * (whole - 1) + [size + 1]
    return [size] * whole + [rest] * (rest > 0)


def generators_of(samples: object) -> list[torch.Generator]:
    """Find the generator that a data set draws its augmentation from, through any view of it."""
    own = getattr(samples, "generator", None)
    inner = getattr(samples, "samples", None)
    return ([own] if isinstance(own, torch.Generator) else []) + ([] if inner is None else generators_of(inner))
