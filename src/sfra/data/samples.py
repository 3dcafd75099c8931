"""Images to train on: all of them in one tensor on the device, augmented and prepared batch by batch."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor
from torch.nn.functional import pad

from sfra.core.batches import label_span
from sfra.core.errors import InputError, counted
from sfra.core.types import Labels
from sfra.data.sets import ImageSet, Transform, unit_range

CHUNK = 4096
"""Images that are read, and sent to the device, at once."""

FARTHEST = 512
"""Largest shift in pixels: images are padded by it on every side."""

Images = Shaped[Tensor, "n c h w"]
"""Images of any number type, on any device."""


@dataclass(frozen=True)
class Augment:
    """Shift every image by up to ``crop`` pixels either way, and mirror half of them.

    An image is padded with ``crop`` zeros on each side and cut back to its size at a place drawn uniformly from
    the ``(2 crop + 1)²`` possible ones; then, with probability 1/2, it is mirrored left to right. Every image of a
    batch gets draws of its own.

    >>> images = torch.arange(32, dtype=torch.uint8).reshape(2, 1, 4, 4)
    >>> Augment(crop=1)(images, torch.Generator().manual_seed(0)).shape
    torch.Size([2, 1, 4, 4])
    """

    crop: int = 4
    """Farthest shift in pixels, in both directions; 0 leaves images where they are."""
    flip: bool = True
    """Whether to mirror half of the images."""

    def __post_init__(self) -> None:
        if not 0 <= self.crop <= FARTHEST:
            expected = "0 pixels or more" if self.crop < 0 else f"at most {FARTHEST} pixels"
            raise InputError("images cannot be shifted by that", expected=expected, got=self.crop)

    def __call__(self, images: Images, generator: torch.Generator) -> Images:
        """Augment each image by itself, on the device of the images, which must be the generator's too.

        All row offsets are drawn first, then all column offsets, then all mirrorings.
        """
        if generator.device.type != images.device.type:
            raise InputError(
                "images and random numbers are on different devices",
                expected=f"a torch.Generator on {images.device.type}",
                got=f"one on {generator.device.type}",
            )
        n, _, h, w = images.shape
        rows = self._shifted(n, h, images.device, generator)
        columns = self._shifted(n, w, images.device, generator)
        if self.flip:
            mirrored = torch.randint(2, (n, 1), generator=generator, device=images.device).bool()
            columns = torch.where(mirrored, columns.flip(1), columns)
        padded = pad(images, (self.crop,) * 4)
        place = (rows[:, :, None] * padded.shape[3] + columns[:, None, :]).reshape(n, 1, h * w)
        return padded.flatten(2).gather(2, place.expand(-1, images.shape[1], -1)).reshape(images.shape)

    def _shifted(self, n: int, length: int, device: torch.device, generator: torch.Generator) -> Tensor:
        """Return, per image, the ``length`` neighbouring positions in the padded image that are kept."""
        positions = torch.arange(length, device=device).expand(n, length)
        if self.crop == 0:
            return positions
        return positions + torch.randint(2 * self.crop + 1, (n, 1), generator=generator, device=device)


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
        batch = unit_range(batch)
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
        if augment is not None:
            raise InputError(
                f"the images of {images.source} differ in size and cannot be augmented",
                expected="images of one size: random crops come before the resizing",
                got="several sizes",
                do="resize the files to one size, or train without augment",
            )
        pixels, prepare = torch.cat(list(images.batches(CHUNK, prepare, device=where))), None
    elif prepare is not None and pixels.is_floating_point():
        for _ in images.batches(CHUNK, lambda batch: batch):  # with any preprocess, the set checks its values
            pass
    return ImageTensors(images=pixels, labels=images.labels, prepare=prepare, augment=augment, generator=generator)


def _one_tensor(images: ImageSet, device: torch.device) -> Tensor | None:
    """Read images of one size into one tensor; None if there are several sizes."""
    whole: Tensor | None = None
    row = 0
    for start in range(0, len(images), CHUNK):
        for block in images.pixels.pieces(start, start + CHUNK):
            if whole is None:
                shape = (len(images), *block.shape[1:])
                try:
                    whole = torch.empty(shape, dtype=block.dtype, device=device)
                except RuntimeError:
                    raise InputError(
                        f"the images of {images.source} do not fit into the memory of {device}",
                        expected="images that can be kept there while the model is trained",
                        got=f"{images.described()}: {math.prod(shape) * block.itemsize / 2**30:.1f} GiB",
                        do="resize the files, or train on fewer of them",
                    ) from None
            if block.shape[1:] != whole.shape[1:]:
                return None
            whole[row : row + len(block)] = block.to(device)
            row += len(block)
    return whole
