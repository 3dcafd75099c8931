"""Image sets from tables: Parquet folders, folders of ``save_to_disk``, and data sets of the Hugging Face hub."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl

import torch
from torch import Tensor

from sfra.core.errors import InputError, MissingPackageError
from sfra.data.decode import Encoded
from sfra.data.decoded import decode_once
from sfra.data.folder import FilePixels, dense, mode_of
from sfra.data.registry import Split
from sfra.data.sets import ImageSet
from sfra.data.tables import Columns, Files, find_columns, read_column, table_files

OPTIONS = ("image", "label", "folder")
"""What may follow a path or an id, as in ``owner/name?image=img&label=fine_label``."""

LARGEST_INDEX = 2**63 - 1
"""What 64 bits hold; whether a model has so many classes is asked later."""

HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")


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
        raise InputError(
            "the options after the data set cannot be read",
            expected=f"?{'=…&'.join(OPTIONS)}=…, each if needed",
            got=f"?{text}",
        )
    return Address(place=place, **options)


def find_tables(address: Address) -> Files:
    """List the tables at an address on this machine; nothing if there are none."""
    path = Path(address.place)
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
        raise InputError(
            f"{address.place} has no {split} split",
            expected=f"files called {split}-….parquet",
            got=there,
        )
    columns = find_columns(chosen[0], image=address.image, label=address.label)
    labels_of = sorted(file for part in files.values() for file in part)
    what = f"table {os.path.abspath(address.place)} {columns}"

    def make() -> ImageSet:
        labels, names = read_labels(chosen, columns, others=labels_of)
        pixels = encoded_pixels(chosen, columns, labels)
        return ImageSet(pixels=pixels, labels=labels, class_names=names, source=_source(address, split))

    decoded = decode_once(f"{what} {chosen}", labels_of, lambda: {"images": make()}, dense=dense)["images"]
    return dataclasses.replace(decoded, source=_source(address, split))


def read_labels(
    files: Sequence[Path], columns: Columns, *, others: Sequence[Path]
) -> tuple[Tensor, tuple[str, ...] | None]:
    """Read class indices and class names; names of classes are sorted over all tables of the data set."""
    values = [value for file in files for value in read_column(file, columns.label)]
    if all(isinstance(value, int) for value in values):
        if values and max(values) > LARGEST_INDEX:
            raise _no_class(files[0], columns, max(values), "class indices from 0")
        return torch.tensor(values, dtype=torch.int64), columns.names
    if not all(isinstance(value, str) for value in values):
        raise InputError(
            f"the column {columns.label} of {files[0]} does not hold labels",
            expected="a class index or a class name in every row",
            got=", ".join(sorted({type(value).__name__ for value in values})),
        )
    every = {value for file in others for value in read_column(file, columns.label) if isinstance(value, str)}
    known = columns.names or tuple(sorted(every))
    index = {name: label for label, name in enumerate(known)}
    strange = next((value for value in values if value not in index), None)
    if strange is not None:
        raise _no_class(files[0], columns, strange, f"the declared classes: {', '.join(known[:8])}")
    return torch.tensor([index[value] for value in values], dtype=torch.int64), known


def _no_class(file: Path, columns: Columns, label: object, expected: str) -> InputError:
    return InputError(
        f"a label in the column {columns.label} of {file} is no class",
        expected=expected,
        got=label,
        do="correct the table, or name another column: PATH?label=COLUMN",
    )


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


def is_hub_id(place: str) -> bool:
    """Say whether this could be ``owner/name``, rather than the path of a file."""
    return HUB_ID.fullmatch(place) is not None and not place.endswith((".npz", ".safetensors", ".parquet"))


def download(address: Address) -> Address:
    """Fetch the Parquet files of a data set on the hub, and nothing else; return where they are."""
    try:
        from huggingface_hub import snapshot_download
    except ImportError as problem:
        raise MissingPackageError(
            f"there is no folder {address.place}, and data sets of the hub need huggingface_hub",
            got=problem,
            do="pip install 'sfra[huggingface,parquet]'",
        ) from None
    try:
        folder = snapshot_download(address.place, repo_type="dataset", allow_patterns=["*.parquet"])
    except Exception as problem:  # no network, no such id, no access: the errors have no common type
        raise InputError(
            f"there is no folder {address.place}, and no data set of that name came from the Hugging Face hub",
            expected="a folder, or the id of a public data set",
            got=f"{type(problem).__name__}: {next(iter(str(problem).splitlines()), '')}",
            do="check the name; without a network, download the data set elsewhere and name its folder",
        ) from None
    if not any(Path(folder).rglob("*.parquet")):
        raise InputError(
            f"{address.place} has no Parquet files on the hub",
            expected="files such as data/train-00000-of-00001.parquet",
            got="none",
            do="download it, write its images to folders of classes or to Parquet files, and name that folder",
        )
    return dataclasses.replace(address, place=str(folder))


def _source(address: Address, split: Split) -> str:
    return f"{address.place} ({split})"
