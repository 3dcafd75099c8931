"""Images to train on: all of them in one tensor on the device, augmented and prepared batch by batch."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from sfra.core.batches import label_span
from sfra.core.errors import InputError, counted
from sfra.core.types import Labels
from sfra.data.augment import Augment
from sfra.data.sets import ImageSet, Transform

CHUNK = 4096
"""Images that are read, and sent to the device, at once."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ImageTensors:
    """Labelled images in one tensor, as ``Samples`` of training: raw pixels in, what the network takes out.

    A batch is augmented as raw pixels, brought to [0, 1], then prepared (resized, normalised). The augmentation
    draws from ``generator``, so its state together with the order of reading determines every batch.

    >>> images = torch.full((3, 1, 8, 8), 255, dtype=torch.uint8)
    >>> data = ImageTensors(images=images, labels=torch.tensor([0, 1, 2]), generator=torch.Generator())
    >>> data.take(torch.tensor([2, 0])).unique()
    tensor([1.])
    """

    images: Tensor
    """Pixels ``[n, c, h, w]`` on the device where batches are wanted: uint8, or floats as they are."""
    labels: Labels
    """Class of each image, int64 on the CPU."""
    generator: torch.Generator
    """Source of the augmentation, on the device of the images."""
    prepare: Transform | None = None
    """From images in [0, 1] to what the network takes; a :class:`sfra.release.Preprocess`, say."""
    augment: Augment | None = None
    """Applied anew whenever an image is read."""

    def __post_init__(self) -> None:
        if len(self.images) != len(self.labels):
            raise InputError("images and labels disagree", expected=f"{len(self.images)} labels", got=len(self.labels))
        if self.labels.device.type != "cpu":
            raise InputError("the labels are not on the CPU", got=self.labels.device, do="pass labels.cpu()")

    def __repr__(self) -> str:
        """Say how many and how large they are, without their pixels."""
        size = f"{counted(len(self.images), 'image', 'images')} of {list(self.images.shape[1:])}"
        return f"ImageTensors({size} on {self.images.device}{label_span(self.labels)})"

    def take(self, index: Int[Tensor, " k"]) -> Float[Tensor, "k ..."]:
        """Read the images at these positions, augmented and prepared, as float32 on the device of the images."""
        batch = self.images[index.to(self.images.device, non_blocking=True)]
        if self.augment is not None:
            batch = self.augment(batch, self.generator)
        batch = batch.float() if batch.is_floating_point() else batch.float() / 255
        return batch if self.prepare is None else self.prepare(batch)


def open_samples(
    images: ImageSet,
    *,
    prepare: Transform | None = None,
    augment: Augment | None = None,
    seed: int = 0,
    device: str | torch.device = "cpu",
) -> ImageTensors:
    """Read all images to the device, once.

    Images of several sizes do not fit into one tensor: they are prepared as they are read, if ``prepare`` brings
    them to one size, and cannot be augmented.

    Args:
        images: What to train on.
        prepare: Applied to batches in [0, 1], after the augmentation.
        augment: Applied to the raw pixels whenever an image is read.
        seed: Determines the augmentation.
        device: Where the images are kept, augmented and prepared.
    """
    where = torch.device(device)
    generator = torch.Generator(where).manual_seed(seed)
    pixels = _one_tensor(images, where)
    if pixels is None:
        pixels, prepare = _prepared(images, prepare, augment, where), None
    elif prepare is not None and pixels.is_floating_point():
        _refuse_normalised(images)
    return ImageTensors(images=pixels, labels=images.labels, prepare=prepare, augment=augment, generator=generator)


def _one_tensor(images: ImageSet, device: torch.device) -> Tensor | None:
    """Read images of one size into one tensor; None if there are several sizes."""
    whole: Tensor | None = None
    row = 0
    for start in range(0, len(images), CHUNK):
        for block in images.pixels.pieces(start, start + CHUNK):
            whole = _room(images, block, device) if whole is None else whole
            if block.shape[1:] != whole.shape[1:]:
                return None
            whole[row : row + len(block)] = block.to(device)
            row += len(block)
    return whole


def _room(images: ImageSet, first: Tensor, device: torch.device) -> Tensor:
    """Make room for images like the first ones."""
    shape = (len(images), *first.shape[1:])
    size = math.prod(shape) * first.itemsize / 2**30
    try:
        return torch.empty(shape, dtype=first.dtype, device=device)
    except RuntimeError:
        raise InputError(
            f"the images of {images.source} do not fit into the memory of {device}",
            expected="images that can be kept there while the model is trained",
            got=f"{len(images):,} images of shape {list(shape[1:])}: {size:.1f} GiB",
            do="resize the files, or train on fewer of them",
        ) from None


def _prepared(images: ImageSet, prepare: Transform | None, augment: Augment | None, device: torch.device) -> Tensor:
    if augment is not None:
        raise InputError(
            f"the images of {images.source} differ in size and cannot be augmented",
            expected="images of one size: random crops come before the resizing",
            got="several sizes",
            do="resize the files to one size, or train without augment",
        )
    return torch.cat(list(images.batches(CHUNK, prepare, device=device)))


def _refuse_normalised(images: ImageSet) -> None:
    """Have the set check its values, which it does for any preprocess."""
    for _ in images.batches(CHUNK, lambda batch: batch):
        pass
