"""Image folders: one sub-folder per class, decoded when asked for.

The class index is the place of the sub-folder's name in sorted order ("10" before "2"), as is usual. Where the
folder holds splits (``train``, ``val`` or ``validation``, ``test``), the classes are those of all splits
together, so that a class missing from one split does not move the others.
"""

from __future__ import annotations

import dataclasses
import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import torch

from sfra.core.errors import InputError
from sfra.data.cache import decode_once
from sfra.data.decode import FilePixels, mode_of
from sfra.data.sets import ImageSet, Split

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".webp", ".ppm")
"""Files that count as images, in upper or lower case."""

FOLDERS: dict[str, Split] = {"test": "test", "train": "train", "val": "validation", "validation": "validation"}
"""Names of sub-folders that hold a split."""


def load_folder(folder: Path, split: Split = "test") -> ImageSet:
    """List the images of a folder of classes, or of one split of a folder of splits.

    The set is grey if the first image of every class is, else colour. The orientation noted in a photograph's
    EXIF data is not applied, as in the usual training pipelines. Images of one size are decoded once and kept.
    """
    chosen, names = _classes(folder, split)
    files = [list(images_in(str(chosen / name))) for name in names]
    if not any(files):
        raise InputError(
            f"the class folders of {chosen} hold no images",
            expected=f"files ending in {', '.join(SUFFIXES)}",
            got=f"{len(names)} folders without one",
        )
    listed = tuple(itertools.chain(*files))

    def make() -> dict[str, ImageSet]:
        mode = mode_of([Path(paths[0]) for paths in files if paths])
        labels = torch.tensor([label for label, paths in enumerate(files) for _ in paths])
        pixels = FilePixels(tuple(map(Path, listed)), mode)
        return {"images": ImageSet(pixels=pixels, labels=labels, class_names=names, source=str(chosen))}

    found = decode_once(f"folder {os.path.abspath(chosen)} {names}", listed, make)["images"]
    return dataclasses.replace(found, source=str(chosen))


def images_in(folder: str) -> Iterator[str]:
    """List the image files of a folder and its sub-folders, sorted; none where there is no such folder.

    Strings, not paths: there may be a hundred thousand, and most loads only compare their dates.
    """
    if not os.path.isdir(folder):
        return
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            if entry.is_dir(follow_symlinks=False):
                yield from images_in(entry.path)
            elif entry.name.lower().endswith(SUFFIXES) and not entry.name.startswith(".") and entry.is_file():
                yield entry.path


def split_folders(folder: Path) -> list[Path]:
    """List the sub-folders that hold splits, each with its classes; none in a folder of classes."""
    return [path for path in _folders(folder) if path.name in FOLDERS and _folders(path)]


def _classes(folder: Path, split: Split) -> tuple[Path, tuple[str, ...]]:
    """Return the folder that holds the classes asked for, and the names of all classes."""
    splits = split_folders(folder)
    if not splits:
        names = tuple(path.name for path in _folders(folder))
        if not names:
            raise InputError(
                f"{folder} is not an image folder",
                expected="one sub-folder per class (or train, validation and test folders of such)",
                got="no sub-folders",
            )
        return folder, names
    chosen = [path for path in splits if FOLDERS[path.name] == split]
    if not chosen:
        raise InputError(
            f"{folder} has no {split} split",
            expected=f"a sub-folder {' or '.join(name for name, known in FOLDERS.items() if known == split)}",
            got=", ".join(path.name for path in splits),
            do=f"to use another split as it is, name it: {splits[-1]}",
        )
    return chosen[-1], tuple(sorted({path.name for part in splits for path in _folders(part)}))


def _folders(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
