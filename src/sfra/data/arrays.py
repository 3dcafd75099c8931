"""Data that lies in arrays: ``.npz`` and ``.safetensors`` files, and pairs handed over in Python."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from sfra.core.errors import InputError
from sfra.core.files import read_arrays
from sfra.data.sets import FeatureSet, ImageSet, Pixels, hash_arrays

CHANNELS = (1, 3)
"""Grey and colour: what tells the channel axis of uint8 images from height and width."""


@dataclass(frozen=True, eq=False, repr=False)
class MemoryPixels(Pixels):
    """Images ``[n, c, h, w]`` in memory: uint8, or floats."""

    images: Tensor

    def __len__(self) -> int:
        return len(self.images)

    @property
    def shape(self) -> tuple[int, ...]:
        """Channels, height and width."""
        return tuple(self.images.shape[1:])

    def blocks(self, start: int, stop: int) -> list[Tensor]:
        """Return one stack: all images have one shape."""
        return [self.images[start:stop].contiguous()]

    def take(self, rows: Sequence[int]) -> MemoryPixels:
        """Copy these images."""
        return MemoryPixels(self.images[list(rows)])

    def fingerprint(self) -> str:
        """Hash type, shape and pixels."""
        return hash_arrays(self.images)


def load_file(path: Path) -> FeatureSet | ImageSet:
    """Read ``features`` and ``labels``, or ``images`` and ``labels``, from a file of arrays."""
    arrays = read_arrays(path)
    found = [name for name in ("features", "images") if name in arrays]
    if "labels" not in arrays or len(found) != 1:
        raise InputError(
            f"{path.name} is not a data file",
            expected="the arrays 'features' and 'labels', or 'images' and 'labels'",
            got=", ".join(sorted(arrays)[:8]) or "no arrays",
            do="it holds a head: pass it as the model" if "weight" in arrays else None,
        )
    if found == ["features"]:
        return feature_set(arrays["features"], arrays["labels"], source=path.name)
    return image_set(arrays["images"], arrays["labels"], source=path.name)


def from_pair(samples: ArrayLike | Tensor, labels: ArrayLike | Tensor) -> FeatureSet | ImageSet:
    """Take two-dimensional samples as features, three- and four-dimensional ones as images."""
    tensor = _tensor(samples, "samples")
    if tensor.ndim == 2:
        return feature_set(tensor, labels, source="the given features")
    return image_set(tensor, labels, source="the given images")


def feature_set(features: ArrayLike | Tensor, labels: ArrayLike | Tensor, *, source: str) -> FeatureSet:
    """Check features ``[n, d]`` of any float type and bring them to float32."""
    tensor = _tensor(features, "features")
    if tensor.ndim != 2 or tensor.shape[1] == 0 or not tensor.is_floating_point():
        raise InputError(
            f"the features of {source} are not a table of numbers",
            expected="floats of shape [n, d]",
            got=f"{_kind(tensor)} of shape {list(tensor.shape)}",
        )
    return FeatureSet(features=tensor.float(), labels=label_tensor(labels, source), source=source)


def image_set(images: ArrayLike | Tensor, labels: ArrayLike | Tensor, *, source: str) -> ImageSet:
    """Check images and bring them to ``[n, c, h, w]``; see :func:`channels_first` for the layout."""
    pixels = MemoryPixels(channels_first(_tensor(images, "images"), source))
    return ImageSet(pixels=pixels, labels=label_tensor(labels, source), source=source)


def channels_first(images: Tensor, source: str) -> Tensor:
    """Decide the layout of images and return them as ``[n, c, h, w]``.

    - Three dimensions are grey images ``[n, h, w]``.
    - Floats of four dimensions are ``[n, c, h, w]``, with any number of channels, and are not scaled.
    - uint8 of four dimensions has its channels where the size is 1 or 3: axis 1, or the last. Both or
      neither is an error, not a guess.
    """
    floats = images.is_floating_point()
    if images.ndim not in (3, 4) or not (floats or images.dtype == torch.uint8) or 0 in images.shape[1:]:
        raise InputError(
            f"the images of {source} are not images",
            expected="uint8 or floats of shape [n, h, w], [n, c, h, w] or (uint8) [n, h, w, c]",
            got=f"{_kind(images)} of shape {list(images.shape)}",
        )
    if images.ndim == 3:
        images = images.unsqueeze(1)
    elif not floats:
        images = _uint8_channels_first(images, source)
    return _finite_floats(images, source) if floats else images


def label_tensor(labels: ArrayLike | Tensor, source: str) -> Tensor:
    """Bring class indices of any number type to int64, refusing what is not a whole number."""
    tensor = _tensor(labels, "labels")
    if tensor.ndim != 1 or tensor.dtype == torch.bool or tensor.is_complex():
        one_hot = tensor.ndim == 2 and tensor.shape[1] > 1
        raise InputError(
            f"the labels of {source} are not class indices",
            expected="whole numbers of shape [n]",
            got=f"{_kind(tensor)} of shape {list(tensor.shape)}{' (one-hot?)' if one_hot else ''}",
            do="pass labels.argmax(axis=1)" if one_hot else None,
        )
    whole = tensor.to(torch.int64)
    if tensor.is_floating_point() and not torch.equal(whole.to(tensor.dtype), tensor):
        example = tensor[whole.to(tensor.dtype) != tensor][0].item()
        raise InputError(f"the labels of {source} are not class indices", expected="whole numbers", got=example)
    return whole


def _finite_floats(images: Tensor, source: str) -> Tensor:
    """Keep float16 for its size, bring all other floats to float32."""
    if not torch.isfinite(images).all():
        raise InputError(f"the images of {source} are not finite", expected="finite numbers", got="NaN or infinity")
    return images if images.dtype == torch.float16 else images.float()


def _uint8_channels_first(images: Tensor, source: str) -> Tensor:
    first, last = (images.shape[axis] in CHANNELS for axis in (1, 3))
    if first == last:
        raise InputError(
            f"the layout of the images of {source} is not clear",
            expected="1 or 3 channels in axis 1 ([n, c, h, w]) or in the last ([n, h, w, c]), not in both",
            got=list(images.shape),
        )
    return images if first else images.permute(0, 3, 1, 2)


def _tensor(values: ArrayLike | Tensor, name: str) -> Tensor:
    """View numbers as a tensor on the CPU, without a copy where possible."""
    if isinstance(values, Tensor):
        return values.detach().cpu()
    try:
        array = np.asarray(values, order="C")
        return torch.from_numpy(array if array.flags.writeable else array.copy())
    except (TypeError, ValueError) as problem:
        raise InputError(f"the {name} are not numbers", expected="an array or a tensor", got=problem) from None


def _kind(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")
