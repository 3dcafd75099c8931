"""Synthetic images that show nothing: noise with the spectrum of photographs."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from sfra.data.sets import ArrayPixels, ImageSet

CONTRAST = 0.25
"""Standard deviation of the grey values within an image, before they are cut off at black and white."""

BRIGHTNESS = (0.25, 0.75)
"""Mean grey value of an image: uniform on this range."""


def noise_images(n: int, shape: Sequence[int], *, seed: int = 0) -> ImageSet:
    """Draw images whose amplitudes fall like ``1/f`` with the spatial frequency ``f``, as those of photographs do.

    Each channel of each image is white noise, filtered, scaled to the same contrast and shifted to a brightness drawn
    for the image. ``shape`` is channels, height and width. The labels are all 0 and mean nothing.

    >>> noise_images(5, (3, 8, 8))
    ImageSet('noise': 5 images of [3, 8, 8], labels 0 to 0)
    """
    channels, height, width = shape
    generator = torch.Generator().manual_seed(seed)
    white = torch.randn(n, channels, height, width, generator=generator)
    frequency = torch.hypot(torch.fft.fftfreq(height)[:, None], torch.fft.rfftfreq(width)[None])
    amplitude = torch.where(frequency > 0, 1 / frequency.clamp(min=1e-9), 0.0)
    filtered = torch.fft.irfft2(torch.fft.rfft2(white) * amplitude, s=(height, width))
    contrast = filtered.std(dim=(2, 3), keepdim=True, correction=0).clamp(min=1e-9)
    low, high = BRIGHTNESS
    brightness = low + (high - low) * torch.rand(n, 1, 1, 1, generator=generator)
    grey = (brightness + CONTRAST * filtered / contrast).clamp(0, 1)
    pixels = ArrayPixels((255 * grey).round().to(torch.uint8).numpy())
    return ImageSet(pixels=pixels, labels=torch.zeros(n, dtype=torch.int64), source="noise")
