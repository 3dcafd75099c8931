"""TinyImageNet as its authors publish it: one folder per class to train, one list of labels to validate.

The class index is the place of the WordNet identifier in sorted order. The published ``test`` folder has no labels
and is never used: the published ``val`` serves as the test part.
"""

from __future__ import annotations

import os
import zipfile
import zlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

import numpy as np

from sfra.core.errors import InputError
from sfra.data.decode import Encoded, Source, decode_stack
from sfra.data.folder import images_in
from sfra.data.where import Arrays, Copy, Official, Part, refuse_other_classes

NAME = "tiny-imagenet"

LARGEST = 2**24
"""Bytes of the largest member of an archive that is read."""


def recognise_tiny_imagenet(official: Official, path: Path) -> Copy | None:
    """Recognise the published folder (``train``, ``val/val_annotations.txt``) or the published ``.zip``."""
    if official.name != NAME:
        return None
    if path.is_dir() and (path / "val" / "val_annotations.txt").is_file():
        return _folder_copy(official, path)
    if path.is_file() and path.suffix.lower() == ".zip":
        return _zip_copy(official, path)
    return None


def class_names(identifiers: Sequence[str], words: str | None) -> tuple[str, ...]:
    r"""Name classes by the first word of ``words.txt``, with the identifier where that is not unique.

    >>> class_names(["n1", "n2", "n3"], "n1\tcrane\nn2\tcrane, bird\nn3\torgan, pipe organ")
    ('crane (n1)', 'crane (n2)', 'organ')
    """
    if words is None:
        return tuple(identifiers)
    lines = (line.partition("\t") for line in words.splitlines())
    first = {key: text.split(",")[0].strip() for key, _, text in lines}
    names = [first.get(identifier) or identifier for identifier in identifiers]
    shared = Counter(names)
    return tuple(f"{name} ({key})" if shared[name] > 1 else name for name, key in zip(names, identifiers, strict=True))


def _folder_copy(official: Official, path: Path) -> Copy:
    identifiers = sorted(folder.name for folder in (path / "train").glob("*") if folder.is_dir())
    refuse_other_classes(official, path, identifiers)
    words = path / "words.txt"

    def labelled(part: Part) -> list[tuple[str, str]]:
        if part == "test":
            notes = _annotations(_text((path / "val" / "val_annotations.txt").read_bytes(), path))
            return [
                (file, notes[os.path.basename(file)])
                for file in images_in(path / "val" / "images")
                if os.path.basename(file) in notes
            ]
        return [(file, name) for name in identifiers for file in images_in(path / "train" / name / "images")]

    def files(part: Part) -> list[str | Path]:
        listing = [path / "val" / "val_annotations.txt"] if part == "test" else []
        return [*listing, *(file for file, _ in labelled(part))]

    def read(part: Part) -> Arrays:
        found = labelled(part)
        return _decode(official, path, [Path(file) for file, _ in found], [label for _, label in found], identifiers)

    names = class_names(identifiers, _text(words.read_bytes(), path) if words.is_file() else None)
    return Copy(path=path, layout="published folder", files=files, read=read, class_names=names)


def _zip_copy(official: Official, path: Path) -> Copy:
    with _archive(path) as archive:
        members = {str(PurePosixPath(*PurePosixPath(name).parts[1:])): name for name in archive.namelist()}
        train = [PurePosixPath(name).parts for name in members if name.startswith("train/")]
        identifiers = sorted({parts[1] for parts in train if len(parts) > 2})
        refuse_other_classes(official, path, identifiers)
        words = _text(_member(archive, members["words.txt"]), path) if "words.txt" in members else None

    def labelled(archive: zipfile.ZipFile, part: Part) -> dict[str, str]:
        if part == "test":
            listing = _text(_member(archive, members.get("val/val_annotations.txt", "")), path)
            notes = {f"val/images/{name}": label for name, label in _annotations(listing).items()}
            return {name: label for name, label in notes.items() if name in members}
        images = [name for name in members if name.startswith("train/") and name.endswith(".JPEG")]
        return {name: PurePosixPath(name).parts[1] for name in sorted(images)}

    def read(part: Part) -> Arrays:
        with _archive(path) as archive:
            found = labelled(archive, part)
            encoded = [Encoded(f"{path}: {name}", _member(archive, members[name])) for name in found]
        return _decode(official, path, encoded, list(found.values()), identifiers)

    names = class_names(identifiers, words)
    return Copy(path=path, layout="published archive", files=lambda part: [path], read=read, class_names=names)


def _decode(
    official: Official, path: Path, sources: Sequence[Source], labels: Sequence[str], identifiers: Sequence[str]
) -> Arrays:
    index = {name: label for label, name in enumerate(identifiers)}
    strange = sorted(set(labels) - set(identifiers))
    if strange:
        raise InputError(f"{path} has labels of no class", expected="identifiers of folders in train", got=strange[:4])
    images = decode_stack(sources, "RGB", (official.size, official.size))
    return images, np.array([index[name] for name in labels], dtype=np.int64)


def _annotations(text: str) -> dict[str, str]:
    """Read file name and class, the first two columns; names that lead elsewhere do not count."""
    rows = (line.split("\t") for line in text.splitlines())
    return {row[0]: row[1] for row in rows if len(row) > 1 and "/" not in row[0] and "\\" not in row[0]}


def _text(content: bytes, path: Path) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as problem:
        raise InputError(
            f"a list of words or labels in {path} cannot be read",
            expected="text in UTF-8",
            got=problem,
            do="replace it by the published one",
        ) from None


def _archive(path: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(path)
    except (zipfile.BadZipFile, OSError) as problem:
        raise InputError(
            f"{path} cannot be read",
            expected="a complete archive",
            got=f"{type(problem).__name__}: {problem}",
            do="it may be truncated: download it again",
        ) from None


def _member(archive: zipfile.ZipFile, name: str) -> bytes:
    try:
        if archive.getinfo(name).file_size > LARGEST:
            raise InputError(f"{name} is too large", expected=f"at most {LARGEST:,} bytes")
        return archive.read(name)
    except (KeyError, zipfile.BadZipFile, OSError, zlib.error, NotImplementedError, RuntimeError) as problem:
        raise InputError(f"{archive.filename} is damaged", expected=f"a readable {name}", got=problem) from None
