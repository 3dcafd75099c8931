"""Copies of published data sets: where they are looked for, and the layouts in which they are recognised.

Folders of classes, packed or not, and tables are common for any data set; :mod:`sfra.data.cifar` reads the pickled
batches of CIFAR. TinyImageNet is a folder of classes but for its published validation images, whose labels are in a
list; they serve as the test part, since the published ``test`` has no labels.
"""

from __future__ import annotations

import os
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sfra.core.errors import InputError
from sfra.core.files import refuse_growth
from sfra.data.arrow import find_columns
from sfra.data.cache import cache_folder
from sfra.data.decode import Encoded, Source, decode_stack
from sfra.data.folder import SUFFIXES, images_in
from sfra.data.sets import Split
from sfra.data.tables import encoded_pixels, read_labels, table_files

Part = Literal["train", "test"]
"""The two parts in which the data sets are published."""

Arrays = tuple[NDArray[np.uint8], NDArray[np.int64]]
"""Images ``[n, 3, h, w]`` and their class indices."""

FOLDERS: dict[Part, tuple[str, ...]] = {"train": ("train",), "test": ("val", "validation", "valid", "test")}
"""Folders of a part. A labelled ``val`` comes first: where there is one besides ``test``, the latter has no labels."""

NOTES = "val/val_annotations.txt"
"""Labels of the images in ``val/images``."""

LARGEST = 2**24
"""Bytes of the largest member of an archive that is read."""


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
    """Number of classes."""
    per_class: dict[Part, int]
    """Images of each class in each part."""
    class_names: tuple[str, ...] = ()
    """Names in the order of the class index; none where they are WordNet identifiers that every copy brings along."""
    label_columns: tuple[str, ...] = ("label", "labels")
    """Names of the labels in tables and batches, best first."""
    batches: dict[Part, tuple[str, ...]] = field(default_factory=dict)
    """Files of pickled batches, where it is published so."""
    download: str
    """What to fetch, and where."""

    @property
    def description(self) -> str:
        """One line about its size and where it is read from."""
        images, size = self.classes * sum(self.per_class.values()), f"3x{self.size}x{self.size}"
        place = "a copy in $SFRA_DATA or ./data (docs/data.md)"
        return f"{images:,} photographs, {size}, {self.classes} classes; {place}"


@dataclass(frozen=True, kw_only=True)
class Copy:
    """A copy of a data set in a layout that was recognised."""

    path: Path
    """Where it is."""
    files: Callable[[Part], Sequence[str | Path]]
    """All files of a part."""
    read: Callable[[Part], Arrays]
    """Decodes a part, in any order."""
    class_names: tuple[str, ...]
    """Names in the order of the class index."""


Recognise = Callable[[Official, Path], Copy | None]
"""From a folder or file to the copy that it is, or None."""


def find_copy(official: Official, layouts: Sequence[Recognise]) -> Copy:
    """Find the first copy: in the data folders, or one level down, in that order."""
    unknown: list[str] = []
    for path in _candidates(official):
        copy = next(filter(None, (recognise(official, path) for recognise in layouts)), None)
        if copy is not None:
            return copy
        unknown.append(str(path))
    folders = [str(folder.absolute()) for folder in _data_folders()]
    others = f"; these have another layout: {', '.join(unknown[:4])}" if unknown else ""
    raise InputError(
        f"there is no copy of {official.name} on this machine",
        expected=f"{official.download}, as it is or unpacked; or folders train and test with one sub-folder of images "
        "per class; or Parquet files",
        got=f"nothing in {', '.join(folders)}{others}",
        do=f"put it into {folders[-1]}, or set SFRA_DATA to the folder that holds it",
    )


def recognise_folders(official: Official, path: Path) -> Copy | None:
    """Recognise ``train`` and ``test`` (or ``val``) with a sub-folder of images per class, unpacked or as ``.zip``."""
    if not path.is_dir() and path.suffix.lower() != ".zip":
        return None
    tree = _Folder(path) if path.is_dir() else _Archive(path)
    pattern = r"[^.].*" if official.class_names else r"n\d+"
    folders = {part: tree.class_folders(places, pattern) for part, places in FOLDERS.items()}
    if not any(folders.values()):
        return None
    rows = [] if folders["test"] else [line.split("\t") for line in tree.text(NOTES).splitlines()]
    notes = {row[0]: row[1] for row in rows if len(row) > 1 and not re.search(r"[/\\]", row[0])}  # none leads elsewhere
    named = {_plain(Path(folder).name) for part in folders.values() for folder in part} | set(notes.values())
    _refuse_other_classes(official, path, named)
    known = official.class_names or tuple(sorted(named))
    index = {name: label for label, name in enumerate(known)}

    def labelled(part: Part) -> dict[str, int]:
        if part == "test" and notes:
            listed = {image: os.path.basename(image) for image in tree.images("val/images")}
            return {image: index[notes[name]] for image, name in listed.items() if name in notes}
        return {image: index[_plain(Path(folder).name)] for folder in folders[part] for image in tree.images(folder)}

    def files(part: Part) -> list[str | Path]:
        lists = [path / NOTES] if part == "test" and notes else []
        return [path] if path.is_file() else [*lists, *labelled(part)]

    def read(part: Part) -> Arrays:
        found = labelled(part)
        return _decode(official, tree.sources(found), list(found.values()))

    names = official.class_names or class_names(known, tree.text("words.txt"))
    return Copy(path=path, files=files, read=read, class_names=names)


def recognise_tables(official: Official, path: Path) -> Copy | None:
    """Recognise a folder of Parquet files, or one that ``save_to_disk`` wrote, with a train and a test split."""
    tables = table_files(path) if path.is_dir() else {}
    if "train" not in tables and "test" not in tables:
        return None
    held: Split = "validation" if not official.class_names and "validation" in tables else "test"
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
    return Copy(path=path, files=lambda part: parts[part], read=read, class_names=known)


def class_names(identifiers: Sequence[str], words: str) -> tuple[str, ...]:
    r"""Name classes by the first word of ``words.txt``, with the identifier where that is not unique.

    >>> class_names(["n1", "n2", "n3"], "n1\tcrane\nn2\tcrane, bird\nn3\torgan, pipe organ")
    ('crane (n1)', 'crane (n2)', 'organ')
    """
    lines = (line.partition("\t") for line in words.splitlines())
    first = {key: text.split(",")[0].strip() for key, _, text in lines}
    names = [first.get(identifier) or identifier for identifier in identifiers]
    shared = Counter(names)
    return tuple(f"{name} ({key})" if shared[name] > 1 else name for name, key in zip(names, identifiers, strict=True))


class _Folder:
    """Images in sub-folders of a folder."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def class_folders(self, places: Sequence[str], pattern: str) -> list[str]:
        """List the folders of classes in the first place that has some."""
        found = ([name for name in self.folders(place) if re.fullmatch(pattern, Path(name).name)] for place in places)
        return next(filter(None, found), [])

    def folders(self, place: str) -> list[str]:
        return sorted(f"{place}/{folder.name}" for folder in (self.path / place).glob("*") if folder.is_dir())

    def images(self, folder: str) -> list[str]:
        return list(images_in(str(self.path / folder)))

    def sources(self, images: Iterable[str]) -> list[Source]:
        return [Path(image) for image in images]

    def content(self, name: str) -> bytes:
        """Read a file; empty if there is none."""
        return (self.path / name).read_bytes() if (self.path / name).is_file() else b""

    def text(self, name: str) -> str:
        """Read a list; empty if there is none."""
        try:
            return self.content(name).decode()
        except UnicodeDecodeError as problem:
            what = f"a list of words or labels in {self.path} cannot be read"
            raise InputError(what, expected="text in UTF-8", got=problem, do="replace it") from None


class _Archive(_Folder):
    """Images in sub-folders of the one folder in a ``.zip``, which is never unpacked to the disk."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        with self._opened() as archive:
            refuse_growth(path, sum(member.file_size for member in archive.infolist()))
            self.members = {name.partition("/")[2]: name for name in archive.namelist()}
        self.listed: dict[str, list[str]] = {}
        for inside, name in self.members.items():
            folder, deeper = "/".join(inside.split("/")[:2]), inside.count("/") > 1
            if deeper and name.lower().endswith(SUFFIXES) and not os.path.basename(name).startswith("."):
                self.listed.setdefault(folder, []).append(name)

    def folders(self, place: str) -> list[str]:
        return sorted(folder for folder in self.listed if folder.startswith(f"{place}/"))

    def images(self, folder: str) -> list[str]:
        return self.listed.get(folder, [])

    def sources(self, images: Iterable[str]) -> list[Source]:
        with self._opened() as archive:
            return [Encoded(f"{self.path}: {name}", self._read(archive, name)) for name in images]

    def content(self, name: str) -> bytes:
        with self._opened() as archive:
            return self._read(archive, self.members[name]) if name in self.members else b""

    def _opened(self) -> zipfile.ZipFile:
        try:
            return zipfile.ZipFile(self.path)
        except (zipfile.BadZipFile, OSError) as problem:
            raise unreadable(self.path, problem) from None

    def _read(self, archive: zipfile.ZipFile, name: str) -> bytes:
        if archive.getinfo(name).file_size > LARGEST:
            raise InputError(f"{name} in {self.path} is too large", expected=f"at most {LARGEST:,} bytes")
        try:
            return archive.read(name)
        except (zipfile.BadZipFile, OSError, zlib.error, EOFError, NotImplementedError, RuntimeError) as problem:
            raise unreadable(self.path, problem) from None


def unreadable(name: object, problem: Exception, *, expected: str = "a complete archive") -> InputError:
    """Return the error of a file that is damaged."""
    return InputError(
        f"{name} cannot be read",
        expected=expected,
        got=f"{type(problem).__name__}: {problem}",
        do="it may be truncated: download it again",
    )


def _plain(name: str) -> str:
    """Write a class name as the authors do: ``Aquarium fish`` is ``aquarium_fish``."""
    return re.sub(r"[ -]+", "_", name.strip().lower())


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
        _refuse_other_classes(official, path, plain)
    return {}


def _refuse_other_classes(official: Official, path: Path, found: Iterable[str]) -> None:
    strange = sorted(set(found) - set(official.class_names or found))
    if len(set(found)) != official.classes or strange:
        raise InputError(
            f"{path} is not {official.title}",
            expected=f"its {official.classes} classes",
            got=f"{len(set(found))} classes" + (f", among them {', '.join(strange[:4])}" if strange else ""),
        )


def _decode(official: Official, sources: Sequence[Source], labels: Sequence[int]) -> Arrays:
    return decode_stack(sources, "RGB", (official.size, official.size)), np.array(labels, dtype=np.int64)


def _data_folders() -> list[Path]:
    """Return the folders of ``$SFRA_DATA``, then ``./data``, then ``data`` in the cache folder."""
    named = [Path(name) for name in os.environ.get("SFRA_DATA", "").split(os.pathsep) if name]
    cache = cache_folder()
    return [*named, Path("data"), *([] if cache is None else [cache / "data"])]


def _candidates(official: Official) -> Iterator[Path]:
    known = re.compile(official.pattern, re.IGNORECASE)
    for folder in _data_folders():
        if folder.is_dir() and known.match(folder.resolve().name):
            yield folder
        inside = _visible(folder)
        yield from (path for path in inside if known.match(path.name))
        for middle in inside:
            yield from (path for path in _visible(middle) if known.match(path.name))


def _visible(folder: Path) -> list[Path]:
    """List what is in a folder; nothing if it is not a folder, or may not be read."""
    try:
        return sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    except OSError:
        return []
