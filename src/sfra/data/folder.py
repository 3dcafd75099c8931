"""Image folders: one sub-folder per class, decoded when asked for.

The class index is the place of the sub-folder's name in sorted order ("10" before "2"), as is usual. Where the
folder holds splits (``train``, ``val`` or ``validation``, ``test``), the classes are those of all splits
together, so that a class missing from one split does not move the others.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import os
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sfra.core.errors import InputError
from sfra.data.decode import GREY, Mode, Source, common_size, decode, decode_stack, head_of, threads
from sfra.data.decoded import MappedPixels, decode_once
from sfra.data.registry import Split
from sfra.data.sets import ImageSet, Pixels

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".webp", ".ppm")
"""Files that count as images, in upper or lower case."""

LIMIT = 8 * 2**30
"""Bytes of pixels beyond which a set is decoded batch by batch, again each time."""

PIECE = 2**28
"""Bytes of pixels that are decoded before they are handed on."""

AHEAD = 32
"""Most images that threads decode before they are asked for."""

FOLDERS: dict[Split, tuple[str, ...]] = {
    "train": ("train",),
    "validation": ("validation", "val"),
    "test": ("test",),
}
"""Names of the sub-folder that holds a split."""


@dataclass(frozen=True, eq=False, repr=False)
class FilePixels(Pixels):
    """Encoded images, decoded in threads, one batch at a time."""

    sources: tuple[Source, ...]
    """Files, or the bytes of such."""
    mode: Mode
    """Grey or colour."""

    def __len__(self) -> int:
        return len(self.sources)

    def blocks(self, start: int, stop: int) -> list[Tensor]:
        """Decode some files; neighbours of equal size share a stack."""
        return list(self.pieces(start, stop))

    def pieces(self, start: int, stop: int) -> Iterator[Tensor]:
        """Decode some files, no more at a time than fit into memory."""
        held: list[NDArray[np.uint8]] = []
        size = 0
        for image in self._decoded(start, stop):
            held.append(image)
            size += image.nbytes
            if size > PIECE:
                yield from _stacks(held)
                held, size = [], 0
        yield from _stacks(held)

    def _decoded(self, start: int, stop: int) -> Iterator[NDArray[np.uint8]]:
        waiting: deque[Future[NDArray[np.uint8]]] = deque()
        with threads() as pool:
            for source in self.sources[start:stop]:
                waiting.append(pool.submit(decode, source, self.mode))
                if len(waiting) == AHEAD:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()

    def take(self, rows: Sequence[int]) -> FilePixels:
        """Keep these files; nothing is decoded."""
        return FilePixels(tuple(self.sources[row] for row in rows), self.mode)

    def fingerprint(self) -> str:
        """Hash the bytes of all files, streamed."""
        with threads() as pool:
            return hashlib.sha256(self.mode.encode() + b"".join(pool.map(_digest, self.sources))).hexdigest()


def load_folder(folder: Path, split: Split = "test") -> ImageSet:
    """List the images of a folder of classes, or of one split of a folder of splits.

    The set is grey if the first image of every class is, else colour. The orientation noted in a photograph's
    EXIF data is not applied, as in the usual training pipelines. Images of one size are decoded once and kept.
    """
    chosen, names = _classes(folder, split)
    files = [images_in(chosen / name) for name in names]
    if not any(files):
        raise InputError(
            f"the class folders of {chosen} hold no images",
            expected=f"files ending in {', '.join(SUFFIXES)}",
            got=f"{len(names)} folders without one",
        )
    listed = tuple(itertools.chain(*files))

    def make() -> ImageSet:
        firsts = [Path(paths[0]) for paths in files if paths]
        labels = [label for label, paths in enumerate(files) for _ in paths]
        return ImageSet(
            pixels=FilePixels(tuple(map(Path, listed)), mode_of(firsts)),
            labels=torch.tensor(labels),
            class_names=names,
            source=str(chosen),
        )

    what = f"folder {os.path.abspath(chosen)} {names}"
    decoded = decode_once(what, listed, lambda: {"images": make()}, dense=dense)["images"]
    return dataclasses.replace(decoded, source=str(chosen))


def mode_of(firsts: Sequence[Source]) -> Mode:
    """Return grey if the first image of every class is, else colour."""
    return "L" if all(head_of(source).mode in GREY for source in firsts) else "RGB"


def dense(images: ImageSet) -> ImageSet:
    """Decode a set whose images have one size; return it as it is where they do not, or one cannot be decoded."""
    pixels = images.pixels
    assert isinstance(pixels, FilePixels)
    size = common_size(pixels.sources)
    if size is None or 3 * size[0] * size[1] * len(pixels) > LIMIT:
        return images
    try:
        stack = decode_stack(pixels.sources, pixels.mode, size)
    except InputError:
        return images
    return dataclasses.replace(images, pixels=MappedPixels(stack))


def images_in(folder: Path) -> list[str]:
    """List the image files of a folder and its sub-folders, sorted; none where there is no such folder.

    Strings, not paths: there may be a hundred thousand, and most loads only compare their dates.
    """
    return list(_names_in(str(folder))) if folder.is_dir() else []


def has_splits(folder: Path) -> bool:
    """Say whether a folder holds splits, each with its classes, rather than classes."""
    return bool(_split_folders(folder))


def has_split(folder: Path, split: Split) -> bool:
    """Say whether a folder holds this split."""
    return any(folder / name in _split_folders(folder) for name in FOLDERS[split])


def _stacks(images: Sequence[NDArray[np.uint8]]) -> Iterator[Tensor]:
    for _, run in itertools.groupby(images, key=lambda image: image.shape):
        yield torch.from_numpy(np.stack(list(run)))


def _classes(folder: Path, split: Split) -> tuple[Path, tuple[str, ...]]:
    """Return the folder that holds the classes asked for, and the names of all classes."""
    splits = _split_folders(folder)
    if not splits:
        names = tuple(path.name for path in _folders(folder))
        if not names:
            raise InputError(
                f"{folder} is not an image folder",
                expected="one sub-folder per class (or train, validation and test folders of such)",
                got="no sub-folders",
            )
        return folder, names
    wanted = FOLDERS[split]
    chosen = next((folder / name for name in wanted if folder / name in splits), None)
    if chosen is None:
        raise InputError(
            f"{folder} has no {split} split",
            expected=f"a sub-folder {' or '.join(wanted)}",
            got=", ".join(path.name for path in splits),
            do=f"to use another split as it is, name it: {splits[-1]}",
        )
    return chosen, tuple(sorted({path.name for part in splits for path in _folders(part)}))


def _split_folders(folder: Path) -> list[Path]:
    known = set(itertools.chain(*FOLDERS.values()))
    return [path for path in _folders(folder) if path.name in known and _folders(path)]


def _folders(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))


def _names_in(folder: str) -> Iterator[str]:
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            if entry.is_dir(follow_symlinks=False):
                yield from _names_in(entry.path)
            elif entry.name.lower().endswith(SUFFIXES) and not entry.name.startswith(".") and entry.is_file():
                yield entry.path


def _digest(source: Source) -> bytes:
    if not isinstance(source, Path):
        return hashlib.sha256(source.content).digest()
    with source.open("rb") as file:
        return hashlib.file_digest(file, "sha256").digest()
