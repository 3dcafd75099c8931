"""How a model wants its images: size, crop, channels and normalisation, as one frozen callable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import pad

from sfra.core.errors import InputError, meant
from sfra.core.pixels import foreign_range
from sfra.release.resample import FILTERS, resize

MAX_SIDE = 4096
"""Longest image side in pixels that may be asked for."""

CHANNELS = {"rgb": "as RGB", "bgr": "as BGR (red and blue exchanged)", "grey": "as grey"}
"""Which channels a network takes, in which order."""

GREY = (19595, 38470, 7471)
"""Red, green and blue in a grey value, in units of 2^-16: Pillow's."""


@dataclass(frozen=True, kw_only=True)
class Preprocess:
    """Convert, resize, crop and normalise images, in this order: ``(x - mean) / std`` with ``x`` in [0, 1].

    >>> prepare = Preprocess(size=(2, 2), mean=(0.5,), std=(0.5,))
    >>> prepare(torch.full((1, 1, 4, 4), 255, dtype=torch.uint8)).flatten().tolist()
    [1.0, 1.0, 1.0, 1.0]
    >>> print(prepare)
    resized to 2 x 2 (bilinear), mean 0.5, std 0.5
    """

    size: tuple[int, int] | None = None
    """Height and width to which images are resized, whatever their shape."""
    resize: int | None = None
    """Length to which the shorter side is resized, in place of ``size``: the shape stays."""
    longest: int | None = None
    """With ``resize``: length that the longer side does not exceed, even if the shorter one then falls short."""
    crop: tuple[int, int] | None = None
    """Height and width of the centre that is cut out after that; what an image lacks of it is black."""
    resample: str = "bilinear"
    """How pixels are interpolated, as Pillow does: one of ``FILTERS``."""
    mean: tuple[float, ...] = (0.0,)
    """Subtracted from each channel (one entry serves them all), in the order in which the network takes them."""
    std: tuple[float, ...] = (1.0,)
    """Divides each channel after that."""
    channels: str | None = None
    """What channels are converted to, one of ``CHANNELS``; None leaves them as they are."""

    def __post_init__(self) -> None:
        sides = [*(self.size or ()), *(self.crop or ()), *(x for x in (self.resize, self.longest) if x is not None)]
        both = self.size is not None and self.resize is not None
        alone = self.longest is not None and (self.resize is None or self.longest < self.resize)
        if both or alone or not all(1 <= side <= MAX_SIDE for side in sides):
            raise InputError(
                "the image size makes no sense",
                expected=f"sides of 1 to {MAX_SIDE} pixels; a size, or the shorter side (resize), not both",
                got=f"size {self.size}, resize {self.resize}, longest {self.longest}, crop {self.crop}",
            )
        for name, value, known in (("resample", self.resample, FILTERS), ("channels", self.channels, CHANNELS)):
            if value is not None and value not in known:
                do = meant(value, known)
                raise InputError(f"there is no {name} {value!r}", expected=", ".join(known), got=value, do=do)
        mean, std = torch.tensor(self.mean), torch.tensor(self.std)
        fit = len(mean) == len(std) or 1 in (len(mean), len(std))
        if not (torch.isfinite(mean).all() and torch.isfinite(std).all() and (std > 0).all() and len(mean) and fit):
            raise InputError(
                "the normalisation makes no sense",
                expected="finite means and positive deviations, one for all channels or one for each",
                got=f"mean {self.mean}, std {self.std}",
                do="leave out the one that changes nothing",
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
        x = self._convert(x)
        target = self._target(x.shape[2], x.shape[3])
        x = x if target == tuple(x.shape[2:]) else resize(x, target, self.resample)
        x = x if self.crop is None else _centre(x, self.crop)
        mean, std = (torch.tensor(v, device=x.device).reshape(1, -1, 1, 1) for v in (self.mean, self.std))
        if self.normalises and (found := foreign_range(x)):
            raise InputError(
                "the images are to be normalised, but are not in 0 to 1",
                expected="bytes in 0 to 255, or floats in 0 to 1",
                got=found,
                do="if they are prepared already, call them 'inputs'",
            )
        wanted = max(mean.shape[1], std.shape[1])
        if x.shape[1] not in (1, wanted) and wanted != 1:
            expected = f"{wanted} channels, or 1 that is repeated"
            raise InputError("the images have the wrong channels", expected=expected, got=x.shape[1])
        return (x - mean) / std

    @property
    def normalises(self) -> bool:
        """Tell whether mean and deviation change anything."""
        return set(self.mean) != {0.0} or set(self.std) != {1.0}

    def __str__(self) -> str:
        """Say what is done, in words."""
        said = []
        if self.channels is not None:
            said.append(CHANNELS[self.channels])
        if self.size is not None:
            said.append(f"resized to {self.size[0]} x {self.size[1]} ({self.resample})")
        if self.resize is not None:
            most = "" if self.longest is None else f", the longer to at most {self.longest}"
            said.append(f"shorter side resized to {self.resize}{most} ({self.resample})")
        if self.crop is not None:
            said.append(f"centre of {self.crop[0]} x {self.crop[1]} cut out")
        if self.normalises:
            said.append(f"mean {_numbers(self.mean)}, std {_numbers(self.std)}")
        return ", ".join(said) or "as they are, bytes divided by 255"

    def options(self) -> dict[str, str]:
        """Write it as options of the command line, by name; what is as usual is left out.

        >>> Preprocess(size=(8, 8), mean=(0.5, 0.25)).options()
        {'size': '8x8', 'mean': '0.5,0.25'}
        """
        usual, said = Preprocess(), {}
        for name in ("size", "resize", "crop", "mean", "std", "resample", "channels"):
            value = getattr(self, name)
            if value != getattr(usual, name):
                parts = value if isinstance(value, tuple) else (value,)
                said[name] = ("x" if name in ("size", "crop") else ",").join(map(str, parts))
        return said

    def _convert(self, x: Tensor) -> Tensor:
        """Bring images to the channels that are wanted: grey is repeated, or made of red, green and blue."""
        if self.channels is None or (self.channels == "grey" and x.shape[1] == 1):
            return x
        if x.shape[1] not in (1, 3):
            what = f"images cannot be converted to {self.channels}"
            raise InputError(what, expected="1 or 3 channels", got=f"{x.shape[1]} channels")
        if self.channels == "grey":
            shares = torch.tensor(GREY, dtype=torch.float64, device=x.device).reshape(1, 3, 1, 1) / 2**16
            return (((255 * x).round() * shares).sum(1, keepdim=True) + 0.5).floor().float() / 255
        colour = x.expand(-1, 3, -1, -1)
        return colour if self.channels == "rgb" else colour.flip(1)

    def _target(self, height: int, width: int) -> tuple[int, int]:
        """Return height and width after resizing; the longer side is rounded down."""
        if self.resize is None:
            return self.size or (height, width)
        short, long = sorted((height, width))
        edge: float = self.resize
        if self.longest is not None and long / short * edge > self.longest:
            edge = self.longest * short / long
        if round(edge) == short:
            return height, width
        new = round(edge), int(edge * long / short)
        return new if height <= width else new[::-1]


def _centre(x: Tensor, size: tuple[int, int]) -> Tensor:
    """Cut out the centre, or surround with zeros what is smaller; an odd row or column is left at the far side."""
    (height, width), (h, w) = size, x.shape[2:]
    top, left = (h - height) // 2, (w - width) // 2
    return pad(x, (-left, left + width - w, -top, top + height - h))


def _numbers(values: Sequence[float]) -> str:
    return ", ".join(f"{value:.4g}" for value in (values if len({*values}) > 1 else values[:1]))
