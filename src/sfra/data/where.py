"""Where copies of the named data sets are looked for, and what is known of such a data set."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sfra.core.errors import InputError
from sfra.data.cache import cache_folder

Part = Literal["train", "test"]
"""The two parts in which the data sets are published."""

Arrays = tuple[NDArray[np.uint8], NDArray[np.int64]]
"""Images ``[n, 3, h, w]`` and their class indices."""


@dataclass(frozen=True, kw_only=True)
class Official:
    """A published data set: what a complete copy of it holds."""

    name: str
    """What the user calls it."""
    title: str
    """What its authors call it."""
    pattern: str
    """Names of folders and files that may be copies, as a regular expression, in upper or lower case."""
    size: int
    """Height and width of the images."""
    classes: int
    """How many there are."""
    class_names: tuple[str, ...] | None
    """Names in the order of the class index; None where they are identifiers that every copy brings along."""
    per_class: dict[Part, int]
    """Images of each class in each part."""
    label_columns: tuple[str, ...]
    """Names of the column of labels in Parquet copies."""
    download: str
    """What to fetch, and where."""


@dataclass(frozen=True, kw_only=True)
class Copy:
    """A copy of a data set in a layout that was recognised."""

    path: Path
    """Where it is."""
    layout: str
    """What it is, for messages."""
    files: Callable[[Part], Sequence[str | Path]]
    """All files of a part."""
    read: Callable[[Part], Arrays]
    """Decodes a part, in any order."""
    class_names: tuple[str, ...]
    """Names in the order of the class index."""


Recognise = Callable[[Official, Path], Copy | None]
"""From a folder or file to the copy that it is, or None."""


def data_folders() -> list[Path]:
    """Return the folders of ``$SFRA_DATA``, then ``./data``, then ``data`` in the cache folder."""
    named = [Path(name) for name in os.environ.get("SFRA_DATA", "").split(os.pathsep) if name]
    features = cache_folder()
    return [*named, Path("data"), *([] if features is None else [features.parent / "data"])]


def find_copy(official: Official, layouts: Sequence[Recognise]) -> Copy:
    """Find the first copy: in the data folders, or one level down, in that order."""
    unknown = []
    for path in _candidates(official):
        for recognise in layouts:
            copy = recognise(official, path)
            if copy is not None:
                return copy
        unknown.append(str(path))
    folders = [str(folder.absolute()) for folder in data_folders()]
    raise InputError(
        f"there is no copy of {official.name} on this machine",
        expected=f"{official.download}, as it is or unpacked; or folders train and test with one sub-folder of images "
        "per class; or Parquet files",
        got=f"nothing in {', '.join(folders)}"
        + (f"; these have another layout: {', '.join(unknown[:4])}" if unknown else ""),
        do=f"put it into {folders[-1]}, or set SFRA_DATA to the folder that holds it",
    )


def refuse_other_classes(official: Official, path: Path, found: Sequence[str]) -> None:
    """Raise an error if these are not the classes of the data set."""
    strange = sorted(set(found) - set(official.class_names or found))
    if len(set(found)) != official.classes or strange:
        raise InputError(
            f"{path} is not {official.title}",
            expected=f"its {official.classes} classes",
            got=f"{len(set(found))} classes" + (f", among them {', '.join(strange[:4])}" if strange else ""),
        )


def _candidates(official: Official) -> Iterator[Path]:
    known = re.compile(official.pattern, re.IGNORECASE)
    for folder in data_folders():
        if not folder.is_dir():
            continue
        if known.match(folder.resolve().name):
            yield folder
        inside = _visible(folder)
        yield from (path for path in inside if known.match(path.name))
        for middle in inside:
            if middle.is_dir():
                yield from (path for path in _visible(middle) if known.match(path.name))


def _visible(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    except OSError:
        return []
