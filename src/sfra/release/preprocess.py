"""How a model wants its images: size, crop and normalisation, as one frozen callable."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import interpolate

from sfra.core.errors import InputError

MAX_SIDE = 4096
"""Longest image side in pixels that a configuration may ask for."""


@dataclass(frozen=True, kw_only=True)
class Preprocess:
    """Resize, crop and normalise a batch of images: ``(x - mean) / std`` with ``x`` in [0, 1].

    >>> prepare = Preprocess(size=(2, 2), mean=(0.5,), std=(0.5,))
    >>> prepare(torch.full((1, 1, 4, 4), 255, dtype=torch.uint8)).flatten().tolist()
    [1.0, 1.0, 1.0, 1.0]
    """

    size: tuple[int, int]
    """Height and width of the result."""
    mean: tuple[float, ...] = (0.0,)
    """Subtracted from each channel (one entry serves them all)."""
    std: tuple[float, ...] = (1.0,)
    """Divides each channel after that."""
    edge: int | None = None
    """Length to which the shorter side is resized before the centre is cropped; None resizes straight to size."""

    def __post_init__(self) -> None:
        sides = (*self.size, *([] if self.edge is None else [self.edge]))
        if not all(1 <= side <= MAX_SIDE for side in sides) or min(sides[2:], default=MAX_SIDE) < max(self.size):
            raise InputError(
                "the image size makes no sense",
                expected=f"1 to {MAX_SIDE} pixels, the crop no larger than the resized image",
                got=f"size {self.size}, shorter side {self.edge}",
            )
        mean, std = torch.tensor(self.mean), torch.tensor(self.std)
        if not (torch.isfinite(mean).all() and torch.isfinite(std).all() and (std > 0).all() and len(mean)):
            raise InputError(
                "the normalisation makes no sense",
                expected="finite means and positive deviations",
                got=f"mean {self.mean}, std {self.std}",
            )

    def __call__(self, images: Tensor) -> Float[Tensor, "n channels h w"]:
        """Prepare images ``[n, c, h, w]``: uint8 in 0 to 255, or floats already in 0 to 1."""
        if images.ndim != 4 or not (images.dtype == torch.uint8 or images.is_floating_point()):
            raise InputError(
                "these are not images",
                expected="uint8 or float values of shape [n, channels, height, width]",
                got=f"{images.dtype} of shape {list(images.shape)}",
            )
        x = images.float() / 255 if images.dtype == torch.uint8 else images.float()
        x = self._resize(x)
        top, left = ((x.shape[2] - self.size[0]) // 2, (x.shape[3] - self.size[1]) // 2)
        x = x[:, :, top : top + self.size[0], left : left + self.size[1]]
        mean, std = (torch.tensor(v, device=x.device).reshape(1, -1, 1, 1) for v in (self.mean, self.std))
        if x.shape[1] not in (1, mean.shape[1]) and mean.shape[1] != 1:
            raise InputError(
                "the images have the wrong channels",
                expected=f"{mean.shape[1]} channels, or 1 that is repeated",
                got=x.shape[1],
            )
        return (x - mean) / std

    def _resize(self, x: Tensor) -> Tensor:
        target = self.size
        if self.edge is not None:
            factor = self.edge / min(x.shape[2:])
            target = (round(x.shape[2] * factor), round(x.shape[3] * factor))
        if tuple(x.shape[2:]) == target:
            return x
        return interpolate(x, size=target, mode="bilinear", antialias=True)


def preprocess_from(config: Mapping[str, Any]) -> Preprocess | None:
    """Read the settings of a ``preprocessor_config.json``; None when it names no size.

    A rescale factor ``f`` other than 1/255 is folded into mean and deviation:
    ``(f·255·x - mean)/std = (x - mean/(255 f)) / (std/(255 f))``.
    """
    try:
        size, edge = _size(config)
        if size is None:
            return None
        factor = 255 * float(config.get("rescale_factor", 1 / 255)) if config.get("do_rescale", True) else 255.0
        normalise = config.get("do_normalize", True)
        mean = config.get("image_mean", [0.0]) if normalise else [0.0]
        std = config.get("image_std", [1.0]) if normalise else [1.0]
        offset = 1.0 if config.get("rescale_offset") else 0.0
        return Preprocess(
            size=size,
            mean=tuple((float(m) + offset) / factor for m in mean),
            std=tuple(float(s) / factor for s in std),
            edge=edge,
        )
    except (TypeError, ValueError, KeyError, AttributeError, ZeroDivisionError, OverflowError) as problem:
        raise InputError(
            "preprocessor_config.json cannot be used",
            expected="an image size and numbers for image_mean and image_std",
            got=str(problem).splitlines()[0],
            do="correct the file, or remove it and prepare the images yourself",
        ) from None


def _size(config: Mapping[str, Any]) -> tuple[tuple[int, int] | None, int | None]:
    """Return the final height and width, and the shorter side before a centre crop where there is one."""
    size, crop = config.get("size"), config.get("crop_size")
    size = size if isinstance(size, Mapping | None) else {"height": int(size), "width": int(size)}
    crop = crop if isinstance(crop, Mapping | None) else {"height": int(crop), "width": int(crop)}
    if size is None:
        return None, None
    cropped = (int(crop["height"]), int(crop["width"])) if crop and config.get("do_center_crop") else None
    if "shortest_edge" in size:
        edge = int(size["shortest_edge"])
        if cropped is None and "crop_pct" in config and edge < 384:
            cropped, edge = (edge, edge), int(edge / float(config["crop_pct"]))
        return cropped or (edge, edge), edge
    whole = (int(size["height"]), int(size["width"]))
    if cropped is None or cropped == whole:
        return whole, None
    return cropped, (min(whole) if whole[0] == whole[1] else None)
