"""Image folders: one sub-folder per class, decoded when asked for.

The class index is the place of the sub-folder's name in sorted order ("10" before "2"), as is usual. Where the
folder holds splits (``train``, ``val`` or ``validation``, ``test``), the classes are those of all splits
together, so that a class missing from one split does not move the others.
"""

from __future__ import annotations

import hashlib
import itertools
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sfra.data.registry import Split
from sfra.data.sets import ImageSet, Pixels
from sfra.errors import InputError, MissingPackageError

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".webp", ".ppm")
"""Files that count as images, in upper or lower case."""

FORMATS = ("PNG", "JPEG", "BMP", "WEBP", "PPM")
"""Decoders that may be used, whatever a file's name says."""

FOLDERS: dict[Split, tuple[str, ...]] = {
    "train": ("train",),
    "validation": ("validation", "val"),
    "test": ("test",),
}
"""Names of the sub-folder that holds a split."""

GREY = ("1", "L", "LA")
DEEP = ("I", "I;16", "I;16B", "I;16L", "F")

Mode = Literal["L", "RGB"]
"""Grey or colour, the same for all images of a set."""


@dataclass(frozen=True, eq=False)
class FilePixels(Pixels):
    """Image files, decoded in threads, one batch at a time."""

    paths: tuple[Path, ...]
    mode: Mode

    def __len__(self) -> int:
        return len(self.paths)

    def blocks(self, start: int, stop: int) -> list[Tensor]:
        """Decode some files; neighbours of equal size share a stack."""
        with _threads() as threads:
            images = list(threads.map(partial(_decode, mode=self.mode), self.paths[start:stop]))
        return [torch.stack(list(run)) for _, run in itertools.groupby(images, key=lambda image: image.shape)]

    def take(self, rows: Sequence[int]) -> FilePixels:
        """Keep these files; nothing is decoded."""
        return FilePixels(tuple(self.paths[row] for row in rows), self.mode)

    def fingerprint(self) -> str:
        """Hash the bytes of all files, streamed."""
        with _threads() as threads:
            return hashlib.sha256(self.mode.encode() + b"".join(threads.map(_file_digest, self.paths))).hexdigest()


def load_folder(folder: Path, split: Split = "test") -> ImageSet:
    """List the images of a folder of classes, or of one split of a folder of splits.

    The set is grey if the first image of every class is, else colour. The orientation noted in a photograph's
    EXIF data is not applied, as in the usual training pipelines.
    """
    chosen, names = _classes(folder, split)
    files = [sorted(_images(chosen / name)) if (chosen / name).is_dir() else [] for name in names]
    if not any(files):
        raise InputError(
            f"the class folders of {chosen} hold no images",
            expected=f"files ending in {', '.join(SUFFIXES)}",
            got=f"{len(names)} folders without one",
        )
    grey = all(_mode(paths[0]) in GREY for paths in files if paths)
    labels = [label for label, paths in enumerate(files) for _ in paths]
    return ImageSet(
        pixels=FilePixels(tuple(itertools.chain(*files)), "L" if grey else "RGB"),
        labels=torch.tensor(labels),
        class_names=names,
        source=str(chosen),
    )


def has_splits(folder: Path) -> bool:
    """Say whether a folder holds splits, each with its classes, rather than classes."""
    return bool(_split_folders(folder))


def has_split(folder: Path, split: Split) -> bool:
    """Say whether a folder holds this split."""
    return any(folder / name in _split_folders(folder) for name in FOLDERS[split])


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


def _images(folder: Path) -> list[Path]:
    found = (path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES)
    return [path for path in found if not path.name.startswith(".") and path.is_file()]


def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=min(16, os.cpu_count() or 1), thread_name_prefix="sfra-decode")


def _file_digest(path: Path) -> bytes:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").digest()


def _mode(path: Path) -> str:
    """Read only the head of a file."""
    return _read(path, None)[0]


def _decode(path: Path, *, mode: Mode) -> Tensor:
    found, pixels = _read(path, mode)
    if found in DEEP or (mode == "L" and found not in GREY):
        raise InputError(
            f"{path} cannot be used",
            expected="grey images of 8 bits, like the others" if mode == "L" else "images of 8 bits per channel",
            got=f"an image of mode {found}",
            do="convert it, or leave it out",
        )
    return torch.from_numpy(pixels).unsqueeze(0) if mode == "L" else torch.from_numpy(pixels).permute(2, 0, 1)


def _read(path: Path, mode: Mode | None) -> tuple[str, NDArray[Any]]:
    """Return the mode of an image file and its pixels; no pixels if no mode is asked for."""
    try:
        from PIL import Image
    except ImportError as problem:
        raise MissingPackageError("image files need Pillow", got=problem, do="pip install 'sfra[images]'") from None
    try:
        with Image.open(path, formats=FORMATS) as image:
            if mode is None or image.mode in DEEP:
                return image.mode, np.empty(0)
            opaque = image.convert("RGBA") if "transparency" in image.info else image
            return image.mode, np.array(opaque.convert(mode))
    except Exception as problem:  # decoders raise errors of many types on damaged files
        raise InputError(
            f"{path} cannot be decoded",
            expected=f"a complete image file ({', '.join(FORMATS)})",
            got=f"{type(problem).__name__}: {problem}",
            do="repair it or leave it out",
        ) from None
