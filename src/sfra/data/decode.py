"""Encoded images, in files or in memory, decoded by Pillow: listed decoders only, whatever a name says."""

from __future__ import annotations

import hashlib
import io
import itertools
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sfra.core.errors import InputError, MissingPackageError
from sfra.data.sets import ArrayPixels, ImageSet, Pixels

FORMATS = ("PNG", "JPEG", "BMP", "WEBP", "PPM")
"""Decoders that may be used."""

GREY = ("1", "L", "LA")
DEEP = ("I", "I;16", "I;16B", "I;16L", "F")

LARGEST = 2**26
"""Pixels of the largest image that is decoded: 67 million."""

LIMIT = 8 * 2**30
"""Bytes of pixels beyond which a set is decoded batch by batch, again each time."""

PIECE = 2**28
"""Bytes of pixels that are decoded before they are handed on."""

AHEAD, CHUNK = 32, 256
"""Images that all threads decode before they are asked for, and that one thread decodes at a time."""

Mode = Literal["L", "RGB"]
"""Grey or colour, the same for all images of a set."""


class Encoded(NamedTuple):
    """The bytes of an image, with a name for messages."""

    name: str
    content: bytes


Source = Path | Encoded
"""Where the bytes of one image are."""


class HeadOf(NamedTuple):
    """What the first bytes of an image tell."""

    mode: str
    height: int
    width: int


@dataclass(frozen=True, eq=False, repr=False)
class FilePixels(Pixels):
    """Encoded images, decoded in threads, one batch at a time."""

    sources: tuple[Source, ...]
    """Files, or their bytes."""
    mode: Mode
    """Grey or colour."""

    def __len__(self) -> int:
        return len(self.sources)

    def pieces(self, start: int, stop: int) -> Iterator[Tensor]:
        """Decode some files, no more at a time than fit into memory; neighbours of equal size share a stack."""
        held, size = list[NDArray[np.uint8]](), 0
        with _threads() as pool:
            for first in range(start, min(stop, len(self)), AHEAD):
                some = self.sources[first : min(stop, first + AHEAD)]
                for image in pool.map(decode, some, itertools.repeat(self.mode)):
                    held.append(image)
                    size += image.nbytes
                    if size > PIECE:
                        yield from _stacks(held)
                        held, size = [], 0
        yield from _stacks(held)

    def take(self, rows: Sequence[int]) -> FilePixels:
        """Keep these files; nothing is decoded."""
        return FilePixels(tuple(self.sources[row] for row in rows), self.mode)

    def fingerprint(self) -> str:
        """Hash the bytes of all files, streamed."""
        with _threads() as pool:
            return hashlib.sha256(self.mode.encode() + b"".join(pool.map(_digest, self.sources))).hexdigest()


def head_of(source: Source) -> HeadOf:
    """Read mode and size of an image without decoding it."""
    return _read(source, None)[0]


def mode_of(firsts: Sequence[Source]) -> Mode:
    """Return grey if the first image of every class is, else colour."""
    return "L" if all(head_of(source).mode in GREY for source in firsts) else "RGB"


def decode(source: Source, mode: Mode) -> NDArray[np.uint8]:
    """Decode one image to ``[c, h, w]``, refusing what 8 bits, or grey, cannot hold."""
    head, pixels = _read(source, mode)
    if head.mode in DEEP or (mode == "L" and head.mode not in GREY):
        raise InputError(
            f"{_name(source)} cannot be used",
            expected="grey images of 8 bits, like the others" if mode == "L" else "images of 8 bits per channel",
            got=f"an image of mode {head.mode}",
            do="convert it, or leave it out",
        )
    return pixels[None] if mode == "L" else pixels.transpose(2, 0, 1)


def decode_stack(sources: Sequence[Source], mode: Mode, size: tuple[int, int]) -> NDArray[np.uint8]:
    """Decode images of one size to ``[n, c, h, w]``, in threads."""
    stack = np.empty((len(sources), 1 if mode == "L" else 3, *size), dtype=np.uint8)

    def fill(start: int) -> None:
        for row in range(start, min(start + CHUNK, len(sources))):
            pixels = decode(sources[row], mode)
            if pixels.shape != stack.shape[1:]:
                raise InputError(
                    f"{_name(sources[row])} has another size than the rest",
                    expected=f"{size[0]} x {size[1]} pixels",
                    got=f"{pixels.shape[1]} x {pixels.shape[2]}",
                )
            stack[row] = pixels

    with _threads() as pool:
        list(pool.map(fill, range(0, len(sources), CHUNK)))
    return stack


def decode_all(images: ImageSet) -> ImageSet:
    """Decode a set whose images have one size; return it as it is where they do not, or one cannot be decoded."""
    pixels = images.pixels
    if not isinstance(pixels, FilePixels):
        return images
    try:
        size = head_of(pixels.sources[0])[1:]
        if 3 * size[0] * size[1] * len(pixels) > LIMIT or any(head_of(source)[1:] != size for source in pixels.sources):
            return images
        return replace(images, pixels=ArrayPixels(decode_stack(pixels.sources, pixels.mode, size)))
    except InputError:
        return images


def _read(source: Source, mode: Mode | None) -> tuple[HeadOf, NDArray[Any]]:
    """Return what the head of an image tells and its pixels; no pixels if no mode is asked for."""
    try:
        from PIL import Image
    except ImportError as problem:
        raise MissingPackageError("image files need Pillow", got=problem, do="pip install 'sfra[images]'") from None
    try:
        with Image.open(source if isinstance(source, Path) else io.BytesIO(source.content), formats=FORMATS) as image:
            head = HeadOf(image.mode, image.height, image.width)
            if head.height * head.width > LARGEST:  # a small file may declare it, and would fill the memory
                raise Image.DecompressionBombError(f"{head.height:,} x {head.width:,}")  # noqa: TRY301
            if mode is None or image.mode in DEEP:
                return head, np.empty(0, dtype=np.uint8)
            opaque = image.convert("RGBA") if "transparency" in image.info else image
            return head, np.array(opaque.convert(mode))
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as problem:
        raise InputError(
            f"{_name(source)} is too large",
            expected=f"at most {LARGEST:,} pixels",
            got=str(problem).partition(", could be")[0],
            do="make it smaller or leave it out",
        ) from None
    except Exception as problem:  # decoders raise errors of many types on damaged files
        raise InputError(
            f"{_name(source)} cannot be decoded",
            expected=f"a complete image file ({', '.join(FORMATS)})",
            got=f"{type(problem).__name__}: {problem}",
            do="repair it or leave it out",
        ) from None


def _name(source: Source) -> str:
    return str(source) if isinstance(source, Path) else source.name


def _digest(source: Source) -> bytes:
    if not isinstance(source, Path):
        return hashlib.sha256(source.content).digest()
    with source.open("rb") as file:
        return hashlib.file_digest(file, "sha256").digest()


def _stacks(images: Sequence[NDArray[np.uint8]]) -> Iterator[Tensor]:
    for _, run in itertools.groupby(images, key=lambda image: image.shape):
        yield torch.from_numpy(np.stack(list(run)))


def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=min(16, os.cpu_count() or 1), thread_name_prefix="sfra-decode")
