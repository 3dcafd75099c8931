"""The two kinds of labelled data: features for the head, and images for the encoder."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float, Int64
from numpy.typing import NDArray
from torch import Tensor

from sfra.core.batches import label_span
from sfra.core.errors import InputError, counted
from sfra.core.head import is_finite

Split = Literal["train", "validation", "test"]
"""Disjoint parts of a data set."""

SPLITS: tuple[Split, ...] = ("train", "validation", "test")

Transform = Callable[[Tensor], Tensor]
"""From images ``[n, c, h, w]`` in [0, 1] to what the encoder takes, each image by itself."""

ROUNDING = 1e-3
"""How far outside [0, 1] a float image may lie, as after resizing, and still count as not yet normalised."""

LARGEST = 2**28
"""Bytes of a batch of prepared images, at most, unless a single one is larger."""

CHUNK = 1024
"""Images that are hashed at once."""


SORTED = "names in sorted order"
"""How labels that are names became indices, until a model says which output is which."""


class Pixels(ABC):
    """The images of a set: an array, or files that are decoded when asked for."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def pieces(self, start: int, stop: int) -> Iterator[Tensor]:
        """Yield images ``start`` to ``stop``, in order, as stacks ``[k, c, h, w]`` that fit into memory."""

    @abstractmethod
    def take(self, rows: Sequence[int]) -> Pixels:
        """Return the pixels of these images, in this order."""

    @abstractmethod
    def fingerprint(self) -> str:
        """Hash the content of all images."""

    @property
    def shape(self) -> tuple[int, ...] | None:
        """Channels, height and width of every image; None where they differ, or an image would have to be opened."""
        return None

    def __repr__(self) -> str:
        """Say how many and how large they are, without their values."""
        return f"{type(self).__name__}({self.described()})"

    def described(self) -> str:
        """Write the number of images and, where known, their shape."""
        size = "" if self.shape is None else f" of {list(self.shape)}"
        return f"{counted(len(self), 'image', 'images')}{size}"


@dataclass(frozen=True, eq=False, repr=False)
class ArrayPixels(Pixels):
    """Images of one size in one array, in memory or mapped from a file; a selection copies nothing."""

    images: NDArray[Any]
    """Pixels ``[n, c, h, w]``: uint8, or floats."""
    rows: NDArray[np.int64] | None = None
    """Which of them, in which order; None for all."""
    known: str | None = None
    """Their fingerprint, where it was computed before."""

    def __len__(self) -> int:
        return len(self.images) if self.rows is None else len(self.rows)

    @property
    def shape(self) -> tuple[int, ...]:
        """Channels, height and width."""
        return tuple(self.images.shape[1:])

    def pieces(self, start: int, stop: int) -> Iterator[Tensor]:
        """Copy one stack."""
        part = self.images[start:stop] if self.rows is None else self.images[self.rows[start:stop]]
        yield torch.from_numpy(np.array(part, order="C"))

    def take(self, rows: Sequence[int]) -> ArrayPixels:
        """Note these rows."""
        chosen = np.asarray(rows, dtype=np.int64)
        return ArrayPixels(self.images, chosen if self.rows is None else self.rows[chosen])

    def fingerprint(self) -> str:
        """Hash shape, type and pixels, as :func:`hash_arrays` does."""
        if self.known is not None:
            return self.known
        digest = hashlib.sha256(f"{(len(self), *self.shape)} torch.{self.images.dtype};".encode())
        for start in range(0, len(self), CHUNK):
            for piece in self.pieces(start, start + CHUNK):
                digest.update(piece.numpy().data)
        return digest.hexdigest()


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class _Labelled(ABC):
    """Samples with their labels."""

    labels: Int64[Tensor, " labels"]
    """Class indices from 0, one per sample."""
    class_names: tuple[str, ...] | None = None
    """Name of each class index, where known."""
    source: str = "data in memory"
    """What was loaded, for the report."""
    numbering: str | None = None
    """How labels that were names became indices; None for labels that were indices."""

    def __len__(self) -> int:
        return len(self.labels)

    @abstractmethod
    def described(self) -> str:
        """Write the number of samples and their size."""

    def __repr__(self) -> str:
        """Say what it is and how large, without its values; no image is opened for it."""
        named = self.class_names
        classes = label_span(self.labels) if named is None else f", {counted(len(named), 'class', 'classes')}"
        return f"{type(self).__name__}({self.source!r}: {self.described()}{classes})"

    def _check_labels(self, samples: int) -> None:
        if samples == 0:
            raise InputError(f"{self.source} is empty", expected="at least one sample", got="none")
        if len(self) != samples:
            raise InputError(
                f"samples and labels of {self.source} do not belong together",
                expected=f"{samples} labels, one per sample",
                got=len(self),
                do="pass both from the same split, in the same order",
            )
        low, high = map(int, self.labels.aminmax())
        if low < 0:
            raise InputError(f"the labels of {self.source} are not class indices", expected="0, 1, 2, …", got=low)
        if self.class_names is not None and high >= len(self.class_names):
            expected = f"0 to {len(self.class_names) - 1}"
            raise InputError(f"a label of {self.source} has no class name", expected=expected, got=high)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class FeatureSet(_Labelled):
    """Inputs of the head with their labels, checked on creation."""

    features: Float[Tensor, "n d"]
    """One row per sample, float32, finite."""
    anchor: Float[Tensor, "synthetic width"] | None = None
    """The same encoder's features of synthetic images, for the anchored scale; None where there are none."""
    source: str = "features in memory"
    bare: bool = False
    """Nobody called them features: a table of numbers, which may be inputs of a network as well."""

    def __post_init__(self) -> None:
        self._check_labels(len(self.features))
        if not is_finite(self.features):
            bad = int((~torch.isfinite(self.features)).any(dim=1).sum())
            raise InputError(
                f"the features of {self.source} are not finite",
                expected="finite numbers (in float32)",
                got=f"{bad} of {len(self)} rows hold NaN or infinity",
                do="extract the features again; if it is the model that yields them, it is damaged",
            )
        width = self.features.shape[1]
        if self.anchor is not None and not (self.anchor.shape[1] == width and torch.isfinite(self.anchor).all()):
            raise InputError(
                f"the anchor of {self.source} does not belong to its features",
                expected=f"finite numbers, {width} to a row: the same encoder's features of synthetic images",
                got=f"{list(self.anchor.shape)}",
            )

    def described(self) -> str:
        """Write the number of samples and features."""
        width = counted(self.features.shape[1], "feature", "features")
        return f"{counted(len(self), 'sample', 'samples')}, {width}"

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of features and labels."""
        return hash_arrays(self.features, self.labels)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ImageSet(_Labelled):
    """Images with their labels, checked on creation; the pixels come in batches."""

    pixels: Pixels
    """Where the images are."""
    source: str = "images in memory"
    ready: bool = False
    """They are inputs of the network as they are, vectors perhaps, and nothing is prepared."""

    def __post_init__(self) -> None:
        self._check_labels(len(self.pixels))

    def described(self) -> str:
        """Write the number of images and, where known, their shape."""
        if self.ready:
            return f"{counted(len(self), 'input', 'inputs')} of {list(self.pixels.shape or ())}"
        return self.pixels.described()

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the content of all images (for files: of their bytes) and of the labels."""
        return hashlib.sha256((self.pixels.fingerprint() + hash_arrays(self.labels)).encode()).hexdigest()

    def select(self, rows: Int64[Tensor, " k"]) -> ImageSet:
        """Return a set of these images only, in this order: ``images.select(torch.where(labels != 3)[0])``."""
        return replace(self, pixels=self.pixels.take(rows.tolist()), labels=self.labels[rows])

    def batches(
        self, size: int, preprocess: Transform | None = None, *, device: str | torch.device | None = None
    ) -> Iterator[Float[Tensor, "b ..."]]:
        """Yield the images in order, at most ``size`` at once, as float32 in [0, 1], preprocessed if asked.

        Those that are ready are not scaled and not preprocessed.
        Images of different sizes are possible only with a ``preprocess`` that brings them to one size. Large ones come
        fewer at a time.
        """
        if size < 1:
            raise InputError("a batch cannot be empty", expected="a batch size of 1 or more", got=size)
        shape: torch.Size | None = None
        for start in range(0, len(self), size):
            held: list[Tensor] = []
            for piece in self.pixels.pieces(start, start + size):
                left = piece
                while len(left):  # the first image by itself: it shows how large they are once they are prepared
                    most = 1 if shape is None else max(1, LARGEST // (4 * shape.numel()))
                    room = most - sum(map(len, held))
                    if room < 1:
                        yield torch.cat(held)
                        held, room = [], most
                    block = unit_range(left[:room].to(device))
                    block = block if preprocess is None or self.ready else preprocess(self._raw(block))
                    shape = self._same(block.shape[1:], shape)
                    held, left = [*held, block], left[room:]
            yield torch.cat(held) if len(held) > 1 else held[0]

    def _raw(self, block: Tensor) -> Tensor:
        low, high = block.aminmax()
        if low < -ROUNDING or high > 1 + ROUNDING:
            normalised = low < -ROUNDING
            raise InputError(
                f"the images of {self.source} {'would be normalised twice' if normalised else 'are not in 0 to 1'}",
                expected="uint8, or floats in [0, 1]: they are still to be prepared for the model",
                got=f"floats from {low:.4g} to {high:.4g}",
                do="pass the images as they were before normalisation, or call the array 'inputs': it goes in as it is"
                if normalised
                else "pass them as uint8, or divide them by their largest value: 255 for bytes",
            )
        return block

    def _same(self, shape: torch.Size, first: torch.Size | None) -> torch.Size:
        if first is not None and shape != first:
            raise InputError(
                f"the images of {self.source} differ in size",
                expected=f"all like the first, {list(first)} (channels, height, width)",
                got=list(shape),
                do="pass --size, or a preprocess that resizes them: sfra.Preprocess(size=(h, w))",
            )
        return shape


def hash_arrays(*arrays: Tensor) -> str:
    """Hash shapes, types and values."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(f"{tuple(array.shape)} {array.dtype};".encode())
        for rows in array.split(CHUNK):  # type: ignore[no-untyped-call]
            digest.update(rows.contiguous().numpy().data)
    return digest.hexdigest()


def unit_range(block: Tensor) -> Tensor:
    """Bring uint8 to float32 in [0, 1]; floats keep their values."""
    return block.float() if block.is_floating_point() else block.float() / 255
