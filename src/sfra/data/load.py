"""From what the user names to labelled data."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sfra.core.errors import InputError, meant
from sfra.data.arrays import from_mapping, from_pair, load_file
from sfra.data.folder import FOLDERS, load_folder, split_folders
from sfra.data.named import datasets, loader_of
from sfra.data.sets import SPLITS, FeatureSet, ImageSet, Split
from sfra.data.tables import find_tables, load_tables, parse_address

Data = str | Path | tuple[Any, Any] | Mapping[str, Any] | FeatureSet | ImageSet
"""What :func:`load_data` takes."""


def load_data(spec: Data, *, split: Split = "test") -> FeatureSet | ImageSet:
    """Load labelled data: features for the head, or images for the encoder.

    Args:
        spec: A name from :func:`sfra.data.datasets`; a ``.npz`` or ``.safetensors`` file with ``features``,
            ``images`` or ``inputs``, and ``labels``; an image folder; a folder of Parquet files, or one
            that ``save_to_disk`` wrote; the id of a data set on the Hugging Face hub (``owner/name``); or, in
            Python, a mapping with the same names, a pair of arrays or tensors (two dimensions are features, or
            inputs if the audited network takes such, more are images) or a ready set.
            A name wins over a folder of the same name, and a folder over an id: write ``./digits`` for the
            folder. Columns of a table are named after the path: ``folder?image=img&label=fine_label``.
        split: Which part of a source that has several. A source that is a single set (a file, a folder of
            classes, a pair, a ready set) is a test set and has no others: samples to measure on must not
            turn up as samples to train on.

    >>> load_data(([[0.5, 1.0], [0.1, 2.0]], [0, 1])).features.shape
    torch.Size([2, 2])
    """
    if split not in SPLITS:
        raise InputError("unknown split", expected=", ".join(SPLITS), got=split)
    named = loader_of(spec)
    if named is not None:
        return named(split)
    path = None
    if isinstance(spec, (str, Path)):
        address = parse_address(str(spec))
        tables, path = find_tables(address, ask=isinstance(spec, str)), Path(address.place)
        if tables:
            return load_tables(address, tables, split)
        if path.is_dir() and split_folders(path):
            return load_folder(path, split)
    loaded = _load_single(spec, path)
    if split != "test":
        raise InputError(
            f"{loaded.source} has no {split} split",
            expected="a data set with splits: a named one, or a folder with train, validation and test",
            got="a single set",
            do="put its images into folders called train and validation, each with a sub-folder per class",
        )
    return loaded


def has_split(spec: Data, split: Split) -> bool:
    """Say whether a source has a split of its own besides the test set."""
    if loader_of(spec) is not None:
        return True
    if not isinstance(spec, (str, Path)):
        return False
    address = parse_address(str(spec))
    tables, path = find_tables(address, ask=isinstance(spec, str)), Path(address.place)
    if tables:
        return split in tables
    return path.is_dir() and any(FOLDERS[folder.name] == split for folder in split_folders(path))


def _load_single(spec: Data, path: Path | None) -> FeatureSet | ImageSet:
    if isinstance(spec, (FeatureSet, ImageSet)):
        return spec
    if isinstance(spec, Mapping):
        return from_mapping(spec)
    if isinstance(spec, tuple) and len(spec) == 2:
        return from_pair(*spec)
    if path is not None and path.is_dir():
        return load_folder(path)
    if path is not None and path.suffix in (".npz", ".safetensors"):
        return load_file(path)
    there = path is not None and path.is_file()
    raise InputError(
        f"{path} is not data that can be read" if there else "no data set, file or folder has this name",
        expected=f"one of {', '.join(datasets())}; a .npz or .safetensors file; an image folder; a Parquet folder; "
        "the id of a data set on the Hugging Face hub; in Python also a pair (features, labels) or (images, labels)",
        got=type(spec).__name__ if path is None else f"a file {path.name}" if there else spec,
        do=meant(spec, datasets()) if isinstance(spec, str) else None,
    )
