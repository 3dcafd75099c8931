"""The two kinds of labelled data: features as the head takes them, and images as the encoder takes them."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from sfra.core.batches import label_span
from sfra.core.errors import InputError, counted

Transform = Callable[[Tensor], Tensor]
"""From images ``[n, c, h, w]`` in [0, 1] to what the encoder takes, each image by itself."""

ROUNDING = 1e-3
"""How far outside [0, 1] a float image may lie, as after resizing, and still count as not yet normalised."""


LARGEST = 4 * 2**30
"""Bytes of a batch beyond which it is divided, if its images come in several stacks."""


class Pixels(ABC):
    """Where the pixels of an image set are: in memory, or in files that are decoded when asked for."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def blocks(self, start: int, stop: int) -> list[Tensor]:
        """Return images ``start`` to ``stop``, in order, as stacks ``[k, c, h, w]`` of equal shape."""

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

    def pieces(self, start: int, stop: int) -> Iterator[Tensor]:
        """Yield the same images as :meth:`blocks`; what is decoded for it comes in stacks that fit into memory."""
        yield from self.blocks(start, stop)

    @abstractmethod
    def take(self, rows: Sequence[int]) -> Pixels:
        """Return the pixels of these images, in this order."""

    @abstractmethod
    def fingerprint(self) -> str:
        """Hash the content of all images."""


@dataclass(frozen=True, kw_only=True, eq=False)
class FeatureSet:
    """Inputs of the head with their labels, checked on creation."""

    features: Float[Tensor, "n d"]
    """One row per sample, float32, finite."""
    labels: Int64[Tensor, " labels"]
    """Class indices from 0, one per sample."""
    class_names: tuple[str, ...] | None = None
    """Name of each class index, where known."""
    source: str = "features in memory"
    """What was loaded, for the report."""

    def __post_init__(self) -> None:
        _check_labels(self.labels, len(self.features), self.class_names, self.source)
        bad = int((~torch.isfinite(self.features)).any(dim=1).sum())
        if bad:
            raise InputError(
                f"the features of {self.source} are not finite",
                expected="finite numbers (in float32)",
                got=f"{bad} of {len(self)} rows hold NaN or infinity",
                do="extract the features again; if it is the model that yields them, it is damaged",
            )

    def __repr__(self) -> str:
        """Say what it is and how large, without its values."""
        width = counted(self.features.shape[1], "feature", "features")
        size = f"{counted(len(self), 'sample', 'samples')}, {width}"
        return f"FeatureSet({self.source!r}: {size}{_classes(self)})"

    def __len__(self) -> int:
        return len(self.labels)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of features and labels."""
        return hash_arrays(self.features, self.labels)


@dataclass(frozen=True, kw_only=True, eq=False)
class ImageSet:
    """Images with their labels, checked on creation; the pixels come in batches."""

    pixels: Pixels
    """Where the images are."""
    labels: Int64[Tensor, " labels"]
    """Class indices from 0, one per sample."""
    class_names: tuple[str, ...] | None = None
    """Name of each class index, where known."""
    source: str = "images in memory"
    """What was loaded, for the report."""

    def __post_init__(self) -> None:
        _check_labels(self.labels, len(self.pixels), self.class_names, self.source)

    def __repr__(self) -> str:
        """Say what it is and how large, without its values; no image is opened for it."""
        return f"ImageSet({self.source!r}: {self.pixels.described()}{_classes(self)})"

    def __len__(self) -> int:
        return len(self.labels)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the content of all images (for files: of their bytes) and of the labels."""
        return hashlib.sha256((self.pixels.fingerprint() + hash_arrays(self.labels)).encode()).hexdigest()

    def select(self, rows: Int64[Tensor, " k"]) -> ImageSet:
        """Return a set of these images only, in this order: ``images.select(torch.where(labels != 3)[0])``."""
        return ImageSet(
            pixels=self.pixels.take(rows.tolist()),
            labels=self.labels[rows],
            class_names=self.class_names,
            source=self.source,
        )

    def batches(
        self, size: int, preprocess: Transform | None = None, *, device: str | torch.device | None = None
    ) -> Iterator[Float[Tensor, "b c h w"]]:
        """Yield the images in order, at most ``size`` at once, as float32 in [0, 1], preprocessed if asked.

        Images of different sizes are possible only with a ``preprocess`` that brings them to one size. Very large ones
        come fewer at a time.
        """
        if size < 1:
            raise InputError("a batch cannot be empty", expected="a batch size of 1 or more", got=size)
        shape: torch.Size | None = None
        for start in range(0, len(self), size):
            held: list[Tensor] = []
            for piece in self.pixels.pieces(start, start + size):
                block = _unit(piece.to(device))
                block = block if preprocess is None else preprocess(self._raw(block))
                shape = self._same(block.shape[1:], shape)
                if sum(other.nbytes for other in (*held, block)) > LARGEST and held:
                    yield _join(held)
                    held = []
                held.append(block)
            yield _join(held)

    def _raw(self, block: Tensor) -> Tensor:
        low, high = block.aminmax()
        if low < -ROUNDING or high > 1 + ROUNDING:
            raise InputError(
                f"the images of {self.source} would be normalised twice",
                expected="uint8, or floats in [0, 1]: this model comes with its own preprocessing",
                got=f"floats from {low:.4g} to {high:.4g}",
                do="pass the images as they were before normalisation",
            )
        return block

    def _same(self, shape: torch.Size, first: torch.Size | None) -> torch.Size:
        if first is not None and shape != first:
            raise InputError(
                f"the images of {self.source} differ in size",
                expected=f"all like the first, {list(first)} (channels, height, width)",
                got=list(shape),
                do="resize them, or pass a preprocess that does: sfra.release.Preprocess(size=(h, w))",
            )
        return shape


def hash_arrays(*arrays: Tensor) -> str:
    """Hash shapes, types and values."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(f"{tuple(array.shape)} {array.dtype};".encode())
        for rows in array.split(1024):  # type: ignore[no-untyped-call]
            digest.update(rows.contiguous().numpy().data)
    return digest.hexdigest()


def _classes(data: FeatureSet | ImageSet) -> str:
    """Write how many classes are named, or else which labels there are."""
    named = data.class_names
    return label_span(data.labels) if named is None else f", {counted(len(named), 'class', 'classes')}"


def _join(blocks: list[Tensor]) -> Tensor:
    return blocks[0] if len(blocks) == 1 else torch.cat(blocks)


def _unit(block: Tensor) -> Tensor:
    """Bring uint8 to [0, 1]; floats stay as they are."""
    return block.float() if block.is_floating_point() else block.float() / 255


def _check_labels(labels: Tensor, samples: int, names: tuple[str, ...] | None, source: str) -> None:
    if samples == 0:
        raise InputError(f"{source} is empty", expected="at least one sample", got="none")
    if len(labels) != samples:
        raise InputError(
            f"samples and labels of {source} do not belong together",
            expected=f"{samples} labels, one per sample",
            got=len(labels),
        )
    if int(labels.min()) < 0:
        raise InputError(f"the labels of {source} are not class indices", expected="0, 1, 2, …", got=int(labels.min()))
    if names is not None and int(labels.max()) >= len(names):
        raise InputError(
            f"a label of {source} has no class name",
            expected=f"0 to {len(names) - 1}",
            got=int(labels.max()),
        )
