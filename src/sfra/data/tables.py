"""Image sets from tables: Parquet folders, folders of ``save_to_disk``, and data sets of the Hugging Face hub.

Nothing that such a folder may hold besides is opened or run.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl

import torch
from torch import Tensor

from sfra.core.errors import InputError, MissingPackageError
from sfra.data.arrow import Columns, find_columns, read_column
from sfra.data.cache import decode_once
from sfra.data.decode import Encoded, FilePixels, mode_of
from sfra.data.sets import ImageSet, Split

WORDS: dict[str, Split] = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("validation", "valid", "val", "dev"), "validation"),
    **dict.fromkeys(("test", "testing"), "test"),
}
"""First words of file names, or names of folders, that tell a split."""

OPTIONS = ("image", "label", "folder")
"""What may follow a path or an id, as in ``owner/name?image=img&label=fine_label``."""

DEEPEST = 2
"""Levels of sub-folders in which Parquet files are looked for."""

Files = dict[Split | None, list[Path]]
"""The files of each split; under None where the files tell none."""


@dataclass(frozen=True, kw_only=True)
class Address:
    """Where a table is, and which of its columns are meant."""

    place: str
    """A path, or the id of a data set on the hub."""
    image: str | None = None
    """The column of images, if the user says."""
    label: str | None = None
    """The column of labels, if the user says."""
    folder: str | None = None
    """The sub-folder of one of several data sets."""


def parse_address(spec: str) -> Address:
    """Take the options off a path or an id.

    >>> parse_address("owner/name?label=fine_label").label
    'fine_label'
    """
    place, mark, text = spec.partition("?")
    if not mark or Path(spec).exists():
        return Address(place=spec)
    options = dict(parse_qsl(text, keep_blank_values=True))
    if not options or set(options) - set(OPTIONS):
        expected = f"?{'=…&'.join(OPTIONS)}=…, each if needed"
        raise InputError("the options after the data set cannot be read", expected=expected, got=f"?{text}")
    return Address(place=place, **options)


def find_tables(address: Address, *, ask: bool) -> Files:
    """List the tables at an address by split, empty if there are none; ``ask`` the hub for what is not here."""
    path = Path(address.place)
    if not path.exists():
        known = re.fullmatch(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", address.place)
        if not ask or not known or address.place.endswith((".npz", ".safetensors", ".parquet")):
            return {}
        path = _download(address.place)
    if address.folder is not None:
        inside = path / address.folder
        if not inside.resolve().is_relative_to(path.resolve()) or not inside.is_dir():
            raise InputError(f"{path} has no folder {address.folder}", expected="a folder in it", got=address.folder)
        path = inside
    return table_files(path)


def load_tables(address: Address, files: Files, split: Split) -> ImageSet:
    """Load one split of the tables at an address; tables without splits are a test set."""
    chosen = files.get(split, files.get(None) if split == "test" else None)
    if not chosen:
        there = ", ".join(name for name in files if name is not None) or "a single set"
        expected = f"files called {split}-….parquet"
        raise InputError(f"{address.place} has no {split} split", expected=expected, got=there)
    columns = find_columns(chosen[0], image=address.image, label=address.label)
    every = sorted(file for part in files.values() for file in part)
    source = f"{address.place} ({split})"

    def make() -> dict[str, ImageSet]:
        labels, names = read_labels(chosen, columns, others=every)
        pixels = encoded_pixels(chosen, columns, labels)
        return {"images": ImageSet(pixels=pixels, labels=labels, class_names=names, source=source)}

    what = f"table {os.path.abspath(address.place)} {columns} {chosen}"
    return dataclasses.replace(decode_once(what, every, make)["images"], source=source)


def table_files(path: Path) -> Files:
    """List the tables of a file or folder by split; none if it holds none.

    A folder is one that ``save_to_disk`` wrote, or holds Parquet files, up to two levels down, whose names begin with
    the split (``train-00000-of-00002.parquet``) or whose folder is called so.
    """
    if path.is_file():
        return {None: [path]} if path.suffix == ".parquet" else {}
    if (path / "state.json").is_file():
        return {None: _saved_files(path)}
    if (path / "dataset_dict.json").is_file():
        parts = sorted(part for part in path.iterdir() if part.name in WORDS and (part / "state.json").is_file())
        return {WORDS[part.name]: _saved_files(part) for part in parts}
    found: Files = {}
    for file in _parquet_files(path):
        word = re.match("[a-z]*", file.name.lower())
        telling = [*file.relative_to(path).parts[:-1], word[0] if word else ""]
        split = next((WORDS[part] for part in reversed(telling) if part in WORDS), None)
        found.setdefault(split, []).append(file)
    if len(found) > 1:
        found.pop(None, None)
    for split, files in found.items():
        folders = sorted({file.parent.relative_to(path) for file in files})
        if len(folders) > 1:
            raise InputError(
                f"{path} holds more than one data set",
                expected=f"the {split or 'table'} files in one folder",
                got=", ".join(map(str, folders[:8])),
                do=f"name one of them after the path: PATH?folder={folders[0]}",
            )
    return found


def read_labels(
    files: Sequence[Path], columns: Columns, *, others: Sequence[Path]
) -> tuple[Tensor, tuple[str, ...] | None]:
    """Read class indices and class names; names of classes are sorted over all tables of the data set."""
    values = [value for file in files for value in read_column(file, columns.label)]
    known, expected = columns.names, "class indices from 0"
    if all(isinstance(value, int) for value in values):
        found, strange = values, [value for value in values if value >= 2**63]
    elif all(isinstance(value, str) for value in values):
        every = {value for file in others for value in read_column(file, columns.label) if isinstance(value, str)}
        known = known or tuple(sorted(every))
        index = {name: label for label, name in enumerate(known)}
        found, strange = [index.get(value) for value in values], [value for value in values if value not in index]
        expected = f"the declared classes: {', '.join(known[:8])}"
    else:
        raise InputError(
            f"the column {columns.label} of {files[0]} does not hold labels",
            expected="a class index or a class name in every row",
            got=", ".join(sorted({type(value).__name__ for value in values})),
        )
    if strange:
        raise InputError(
            f"a label in the column {columns.label} of {files[0]} is no class",
            expected=expected,
            got=strange[0],
            do="correct the table, or name another column: PATH?label=COLUMN",
        )
    return torch.tensor(found, dtype=torch.int64), known


def encoded_pixels(files: Sequence[Path], columns: Columns, labels: Tensor) -> FilePixels:
    """Read the encoded images of some tables; grey if the first image of every class is."""
    sources = []
    for file in files:
        for row, content in enumerate(read_column(file, columns.image)):
            if not isinstance(content, bytes):
                raise InputError(
                    f"row {row} of {file} has no image",
                    expected=f"the bytes of an image in the column {columns.image}",
                    got="nothing, or only a path",
                    do="save the data set with its images embedded",
                )
            sources.append(Encoded(f"row {row} of {file}", content))
    firsts = {label: row for row, label in reversed(list(enumerate(labels.tolist())))}
    return FilePixels(tuple(sources), mode_of([sources[row] for row in firsts.values()]))


def _saved_files(folder: Path) -> list[Path]:
    """Return the files that a folder of ``save_to_disk`` lists, which must lie in it."""
    try:
        names = [entry["filename"] for entry in json.loads((folder / "state.json").read_bytes())["_data_files"]]
        files = [folder / name for name in names if Path(name).name == name and (folder / name).is_file()]
    except (ValueError, TypeError, KeyError, RecursionError):
        names, files = [], []
    if not files or len(files) != len(names):
        raise InputError(
            f"{folder} is not a complete saved data set",
            expected="the .arrow files that its state.json lists",
            got=f"{len(files)} of {len(names)}",
        )
    return files


def _parquet_files(path: Path) -> list[Path]:
    found = []
    for place, folders, names in os.walk(path):
        level = len(Path(place).relative_to(path).parts)
        folders[:] = [name for name in folders if not name.startswith(".") and level < DEEPEST]
        found += [Path(place, name) for name in names if name.endswith(".parquet") and not name.startswith(".")]
    return sorted(found)


def _download(name: str) -> Path:
    """Fetch the Parquet files of a data set on the hub, and nothing else; return where they are."""
    try:
        from huggingface_hub import snapshot_download
    except ImportError as problem:
        raise MissingPackageError(
            f"there is no folder {name}, and data sets of the hub need huggingface_hub",
            got=problem,
            do="pip install 'sfra[huggingface,parquet]'",
        ) from None
    try:
        folder = Path(snapshot_download(name, repo_type="dataset", allow_patterns=["*.parquet"]))
    except Exception as problem:  # no network, no such id, no access: the errors have no common type
        raise InputError(
            f"there is no folder {name}, and no data set of that name came from the Hugging Face hub",
            expected="a folder, or the id of a public data set",
            got=f"{type(problem).__name__}: {next(iter(str(problem).splitlines()), '')}",
            do="check the name; without a network, download the data set elsewhere and name its folder",
        ) from None
    if not any(folder.rglob("*.parquet")):
        raise InputError(
            f"{name} has no Parquet files on the hub",
            expected="files such as data/train-00000-of-00001.parquet",
            got="none",
            do="write its images to folders of classes or to Parquet files, and name that folder",
        )
    return folder
