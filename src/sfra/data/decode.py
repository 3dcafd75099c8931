"""From encoded images, in files or in memory, to pixels: listed decoders only, whatever a name says."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sfra.core.errors import InputError, MissingPackageError

FORMATS = ("PNG", "JPEG", "BMP", "WEBP", "PPM")
"""Decoders that may be used."""

GREY = ("1", "L", "LA")
DEEP = ("I", "I;16", "I;16B", "I;16L", "F")

LARGEST = 2**26
"""Pixels of the largest image that is decoded: 67 million."""

CHUNK = 256
"""Images that a thread decodes at a time."""

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


def head_of(source: Source) -> HeadOf:
    """Read mode and size of an image without decoding it."""
    return _read(source, None)[0]


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


def common_size(sources: Sequence[Source]) -> tuple[int, int] | None:
    """Return height and width if all images share them; None if they do not, or one cannot be read."""
    sizes: set[tuple[int, int]] = set()
    try:
        for start in range(0, len(sources), CHUNK):
            sizes |= {head_of(source)[1:] for source in sources[start : start + CHUNK]}
            if len(sizes) > 1:
                return None
    except InputError:
        return None
    return next(iter(sizes), None)


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

    with threads() as pool:
        for _ in pool.map(fill, range(0, len(sources), CHUNK)):
            pass
    return stack


def threads() -> ThreadPoolExecutor:
    """Open a pool for decoding and hashing."""
    return ThreadPoolExecutor(max_workers=min(16, os.cpu_count() or 1), thread_name_prefix="sfra-decode")


def _read(source: Source, mode: Mode | None) -> tuple[HeadOf, NDArray[Any]]:
    """Return what the head of an image tells and its pixels; no pixels if no mode is asked for."""
    try:
        from PIL import Image
    except ImportError as problem:
        raise MissingPackageError("image files need Pillow", got=problem, do="pip install 'sfra[images]'") from None
    try:
        with Image.open(source if isinstance(source, Path) else io.BytesIO(source.content), formats=FORMATS) as image:
            head = HeadOf(image.mode, image.height, image.width)
            _refuse_large(source, head)
            if mode is None or image.mode in DEEP:
                return head, np.empty(0, dtype=np.uint8)
            opaque = image.convert("RGBA") if "transparency" in image.info else image
            return head, np.array(opaque.convert(mode))
    except InputError:
        raise
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as problem:
        raise _too_large(source, str(problem).partition(", could be")[0]) from None
    except Exception as problem:  # decoders raise errors of many types on damaged files
        raise InputError(
            f"{_name(source)} cannot be decoded",
            expected=f"a complete image file ({', '.join(FORMATS)})",
            got=f"{type(problem).__name__}: {problem}",
            do="repair it or leave it out",
        ) from None


def _refuse_large(source: Source, head: HeadOf) -> None:
    """Refuse an image that a small file may declare, and that would fill the memory."""
    if head.height * head.width > LARGEST:
        raise _too_large(source, f"{head.height:,} x {head.width:,}")


def _too_large(source: Source, got: str) -> InputError:
    return InputError(
        f"{_name(source)} is too large",
        expected=f"at most {LARGEST:,} pixels",
        got=got,
        do="make it smaller or leave it out",
    )


def _name(source: Source) -> str:
    return str(source) if isinstance(source, Path) else source.name
