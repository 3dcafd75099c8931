"""Random crops and mirror images: the usual augmentation of small photographs, for a whole batch at once."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Shaped
from torch import Tensor
from torch.nn.functional import pad

from sfra.core.errors import InputError

Images = Shaped[Tensor, "n c h w"]
"""Images of any number type, on any device."""


FARTHEST = 512
"""Largest shift in pixels: images are padded by it on every side."""


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
