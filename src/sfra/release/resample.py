"""Resize images exactly as Pillow does, for any number of them, on any device: what networks were trained behind."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from importlib.util import find_spec
from itertools import accumulate

import numpy as np
import torch
from jaxtyping import Float, UInt8
from numpy.typing import NDArray
from torch import Tensor

FILTERS = ("nearest", "lanczos", "bilinear", "bicubic", "box", "hamming")
"""The filters of Pillow, in the order of its numbers."""

ONE = 2**22
"""What stands for a weight of 1 in the whole numbers that Pillow computes with."""

WHOLE = 1e-3
"""How far a value times 255 may lie from a whole number and still be a byte."""

AT_ONCE = 2**24
"""Numbers that are resized at once."""

Values = NDArray[np.float64]
Kernel = Callable[[Values], Values]


def resize(images: Float[Tensor, "n c h w"], size: tuple[int, int], how: str) -> Float[Tensor, "n c height width"]:
    """Resize images in [0, 1] to a height and width.

    Images that are bytes / 255 become what Pillow makes of the bytes: Pillow does it where it is installed and the
    images are on the CPU. Otherwise rows, then columns, are multiplied with a matrix (:func:`weights`) and rounded to
    bytes as Pillow does, though Pillow itself, from version 13, begins with the columns where these shrink far more.
    Images that are no bytes are not rounded.
    """
    rows = max(1, AT_ONCE // (images[:1].numel() or 1))
    return torch.cat([_resize(part, size, how) for part in images.split(rows)])  # type: ignore[no-untyped-call]


def _resize(images: Tensor, size: tuple[int, int], how: str) -> Tensor:
    device = torch.device("cpu") if images.device.type == "mps" else images.device  # which has no doubles
    x = 255 * images.to(device, torch.float64)
    whole = x.round()
    is_bytes = bool(((x - whole).abs() < WHOLE).all())
    if is_bytes and device.type == "cpu" and find_spec("PIL") is not None:
        resized = by_pillow(whole.to(torch.uint8), size, how).double()
    else:
        resized = by_matrices(whole if is_bytes else x, size, how, is_bytes=is_bytes)
    return (resized * (1 / 255)).to(images.device, torch.float32)


def by_pillow(images: UInt8[Tensor, "n c h w"], size: tuple[int, int], how: str) -> UInt8[Tensor, "n c height width"]:
    """Let Pillow resize each channel of each image."""
    from PIL import Image

    planes = images.flatten(0, 1).numpy()
    done = [np.asarray(Image.fromarray(plane).resize(size[::-1], FILTERS.index(how))) for plane in planes]
    return torch.from_numpy(np.stack(done)).reshape(*images.shape[:2], *size)


def by_matrices(
    images: Float[Tensor, "n c h w"], size: tuple[int, int], how: str, *, is_bytes: bool
) -> Float[Tensor, "n c height width"]:
    """Resize images in 0 to 255, rows first; in double precision all sums are exact."""
    x = images
    for axis, length in ((3, size[1]), (2, size[0])):
        if x.shape[axis] != length:
            matrix = torch.from_numpy(weights(x.shape[axis], length, how)).to(x)
            x = (x @ matrix.T if axis == 3 else matrix @ x) / ONE
            x = ((x + 0.5).floor() if is_bytes else x).clamp(0, 255)
    return x


@lru_cache(maxsize=64)
def weights(length: int, size: int, how: str) -> Values:
    """Return the weight of each of ``length`` samples in each of ``size`` new ones, in units of 1/``ONE``.

    New sample ``i`` lies at ``c = (i + 1/2) s`` with ``s = length/size``; sample ``j`` has the weight
    ``f((j + 1/2 - c) / max(s, 1))``, and the weights of one new sample sum to 1, up to rounding.
    """
    step = length / size
    if how == "nearest":  # summed up as Pillow does, which decides ties
        places = [int(place) for place in accumulate([step] * (size - 1), initial=0.5 * step)]
        return ONE * np.eye(length)[np.minimum(places, length - 1)]
    support, kernel = KERNELS[how]
    stretch = max(step, 1.0)
    centre = ((np.arange(size) + 0.5) * step)[:, None]
    sample = np.arange(length)[None]
    first = np.maximum((centre - support * stretch + 0.5).astype(np.int64), 0)
    last = np.minimum((centre + support * stretch + 0.5).astype(np.int64), length)
    inside = (first <= sample) & (sample < last)
    weight = np.where(inside, kernel((sample - centre + 0.5) / stretch), 0.0)
    share = weight / weight.sum(1, keepdims=True)
    whole: Values = np.trunc(share * ONE + np.copysign(0.5, share))
    return whole


def _box(x: Values) -> Values:
    return ((x > -0.5) & (x <= 0.5)).astype(np.float64)


def _bilinear(x: Values) -> Values:
    return np.maximum(1.0 - np.abs(x), 0.0)


def _hamming(x: Values) -> Values:
    return np.where(np.abs(x) < 1, np.sinc(x) * (0.54 + 0.46 * np.cos(math.pi * x)), 0.0)


def _bicubic(x: Values) -> Values:
    x, a = np.abs(x), -0.5
    near, far = ((a + 2) * x - (a + 3)) * x * x + 1, (((x - 5) * x + 8) * x - 4) * a
    return np.where(x < 1, near, np.where(x < 2, far, 0.0))


def _lanczos(x: Values) -> Values:
    return np.where((x >= -3) & (x < 3), np.sinc(x) * np.sinc(x / 3), 0.0)


KERNELS: dict[str, tuple[float, Kernel]] = {
    "box": (0.5, _box),
    "bilinear": (1.0, _bilinear),
    "hamming": (1.0, _hamming),
    "bicubic": (2.0, _bicubic),
    "lanczos": (3.0, _lanczos),
}
"""How far a filter reaches to either side, and its shape."""
