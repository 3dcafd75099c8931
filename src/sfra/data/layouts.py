"""Layouts in which copies of any named data set are common: folders of classes, and Parquet files."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from sfra.core.errors import InputError
from sfra.data.decode import Source, decode_stack
from sfra.data.folder import images_in
from sfra.data.parquet import encoded_pixels, read_labels
from sfra.data.registry import Split
from sfra.data.tables import find_columns, table_files
from sfra.data.where import Arrays, Copy, Official, Part, refuse_other_classes

PARTS: dict[Part, tuple[str, ...]] = {"train": ("train",), "test": ("val", "validation", "valid", "test")}
"""Folders of a part. A labelled ``val`` comes first: where there is one besides ``test``, the latter has no labels."""


def recognise_folders(official: Official, path: Path) -> Copy | None:
    """Recognise folders ``train`` and ``test`` (or ``val``) with one sub-folder of images per class."""
    folders = {part: _class_folders(official, path, part) for part in PARTS}
    if not any(folders.values()):
        return None
    named = [_plain(folder.name) for part in folders.values() for folder in part]
    refuse_other_classes(official, path, named)
    names = official.class_names or tuple(sorted(set(named)))

    def labelled(part: Part) -> list[tuple[str, int]]:
        return [(file, names.index(_plain(folder.name))) for folder in folders[part] for file in images_in(folder)]

    def read(part: Part) -> Arrays:
        found = labelled(part)
        return _decode(official, [Path(file) for file, _ in found], [label for _, label in found])

    return Copy(
        path=path,
        layout="folders of classes",
        files=lambda part: [file for file, _ in labelled(part)],
        read=read,
        class_names=names,
    )


def recognise_tables(official: Official, path: Path) -> Copy | None:
    """Recognise a folder of Parquet files, or one that ``save_to_disk`` wrote, with a train and a test split."""
    tables = table_files(path) if path.is_dir() else {}
    if "train" not in tables and "test" not in tables:
        return None
    held: Split = "validation" if official.class_names is None and "validation" in tables else "test"
    parts: dict[Part, list[Path]] = {"train": tables.get("train", []), "test": tables.get(held, [])}
    every = [file for files in parts.values() for file in files]
    columns = find_columns(every[0], prefer=official.label_columns)
    _, names = read_labels(every, columns, others=every)
    order = _order(official, path, names)

    def read(part: Part) -> Arrays:
        if not parts[part]:
            return _decode(official, [], [])
        labels, _ = read_labels(parts[part], columns, others=every)
        pixels = encoded_pixels(parts[part], columns, labels)
        return _decode(official, pixels.sources, [order.get(label, label) for label in labels.tolist()])

    known = official.class_names or tuple(sorted(names or map(str, range(official.classes))))
    return Copy(path=path, layout="tables", files=lambda part: parts[part], read=read, class_names=known)


def _order(official: Official, path: Path, names: Sequence[str] | None) -> dict[int, int]:
    """Return the class index for each index of the table.

    Names decide where they are those of the data set. Copies with misspelt names exist; as long as they declare as
    many as there are classes, their own order is taken, which is the published one.
    """
    if names is None:
        return {}
    plain = [_plain(name) for name in names]
    known = list(official.class_names or sorted(plain))
    if sorted(plain) == sorted(known):
        return {label: known.index(name) for label, name in enumerate(plain)}
    if len(plain) != official.classes:
        refuse_other_classes(official, path, plain)
    return {}


def _class_folders(official: Official, path: Path, part: Part) -> list[Path]:
    """Return the class folders of a part, from the first folder that has some."""
    for name in PARTS[part]:
        if (path / name).is_dir():
            found = sorted(folder for folder in (path / name).iterdir() if folder.is_dir())
            found = [folder for folder in found if _is_class(official, folder.name)]
            if found:
                return found
    return []


def _is_class(official: Official, name: str) -> bool:
    if official.class_names is None:
        return re.fullmatch(r"n\d+", name) is not None
    return not name.startswith(".")


def _plain(name: str) -> str:
    """Write a class name as the authors do: ``Aquarium fish`` is ``aquarium_fish``."""
    return re.sub(r"[ -]+", "_", name.strip().lower())


def _decode(official: Official, sources: Sequence[Source], labels: Sequence[int]) -> Arrays:
    if labels and not 0 <= min(labels) <= max(labels) < official.classes:
        raise InputError(
            f"a label of this copy of {official.title} is no class index",
            expected=f"0 to {official.classes - 1}",
            got=f"{min(labels)} to {max(labels)}",
        )
    return decode_stack(sources, "RGB", (official.size, official.size)), np.array(labels, dtype=np.int64)
