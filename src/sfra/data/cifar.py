"""CIFAR-10 and CIFAR-100 as their authors publish them: pickled batches, in a folder or still in the archive.

Nothing is unpickled freely. The batches need four names; each is answered with something inert of our own, and
any other name is refused before it is looked up. The pixels are then read from the bytes that were noted.
"""

from __future__ import annotations

import io
import pickle
import tarfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfra.core.errors import InputError, UnsafeFileError
from sfra.data.where import Arrays, Copy, Official, Part

CIFAR10_CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")

_FINE = """
    apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly camel can castle
    caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile cup dinosaur dolphin elephant
    flatfish forest fox girl hamster house kangaroo keyboard lamp lawn_mower leopard lion lizard lobster man
    maple_tree motorcycle mountain mouse mushroom oak_tree orange orchid otter palm_tree pear pickup_truck pine_tree
    plain plate poppy porcupine possum rabbit raccoon ray road rocket rose sea seal shark shrew skunk skyscraper snail
    snake spider squirrel streetcar sunflower sweet_pepper table tank telephone television tiger tractor train trout
    tulip turtle wardrobe whale willow_tree wolf woman worm
"""
CIFAR100_CLASSES = tuple(_FINE.split())

LAYOUTS: dict[str, tuple[bytes, dict[Part, tuple[str, ...]]]] = {
    "cifar10": (b"labels", {"train": tuple(f"data_batch_{i}" for i in range(1, 6)), "test": ("test_batch",)}),
    "cifar100": (b"fine_labels", {"train": ("train",), "test": ("test",)}),
}
"""Per data set: the key of the labels, and the files of each part."""

LARGEST = 2**29
"""Bytes of the largest file that is read; the largest official one has 155 million."""


def recognise_batches(official: Official, path: Path) -> Copy | None:
    """Recognise the published folder, or the published ``.tar.gz``, of CIFAR-10 or CIFAR-100."""
    if official.name not in LAYOUTS or official.class_names is None:
        return None
    key, names = LAYOUTS[official.name]
    batches = path.is_dir() and any((path / name).is_file() for name in names["train"] + names["test"])
    archive = path.is_file() and path.name.endswith((".tar.gz", ".tgz", ".tar"))
    if not batches and not archive:
        return None

    def files(part: Part) -> list[Path]:
        return [path] if archive else [path / name for name in names[part] if (path / name).is_file()]

    def read(part: Part) -> Arrays:
        found = _members(path, names[part]) if archive else [_file(file) for file in files(part)]
        return _join([_batch(content, key, path, official) for content in found], official.size)

    layout = "archive of pickled batches" if archive else "pickled batches"
    return Copy(path=path, layout=layout, files=files, read=read, class_names=official.class_names)


def read_batch(content: bytes, name: str) -> dict[bytes, Any]:
    """Read the dictionary of a pickled batch, refusing all names but those of plain byte arrays."""
    try:
        found = _Batches(io.BytesIO(content), encoding="bytes").load()
    except UnsafeFileError:
        raise
    except Exception as problem:  # bytes of a stranger: the parser raises whatever it runs into
        raise InputError(
            f"{name} cannot be read",
            expected="a complete pickled batch",
            got=f"{type(problem).__name__}: {problem}",
            do="it may be truncated: download it again",
        ) from None
    if not isinstance(found, dict):
        raise InputError(f"{name} is not a batch", expected="a dictionary", got=type(found).__name__)
    return {key.encode() if isinstance(key, str) else key: value for key, value in found.items()}


class _Array:
    """Stands for an array: notes its state, ``(version, shape, type, order, bytes)``."""

    state: object = None

    def __init__(self, *_: object) -> None: ...

    def __setstate__(self, state: object) -> None:
        self.state = state


class _Type:
    """Stands for a number type: notes its name."""

    def __init__(self, name: object = None, *_: object) -> None:
        self.name = name.encode() if isinstance(name, str) else name

    def __setstate__(self, state: object) -> None: ...


def _encode(text: object, *_: object) -> bytes:
    """Do what Python 3 asks for when it writes bytes in an old protocol."""
    return text.encode("latin1") if isinstance(text, str) else b""


_ALLOWED: dict[tuple[str, str], object] = {
    ("numpy.core.multiarray", "_reconstruct"): _Array,
    ("numpy._core.multiarray", "_reconstruct"): _Array,
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Type,
    ("_codecs", "encode"): _encode,
}


class _Batches(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ALLOWED:
            raise UnsafeFileError(
                "a batch of images asks for code to be run, and was not opened",
                expected="nothing but arrays of bytes, lists and names",
                got=f"{module}.{name}",
                do="do not use this file; download the archive from its authors",
            )
        return _ALLOWED[module, name]


def _batch(content: bytes, key: bytes, path: Path, official: Official) -> Arrays:
    batch, size = read_batch(content, str(path)), official.size
    labels = batch.get(key, batch.get(b"labels"))
    pixels = _pixels(batch.get(b"data"), 3 * size * size)
    if not isinstance(labels, list) or pixels is None or len(pixels) != len(labels):
        raise InputError(
            f"{path} does not hold the batches of this data set",
            expected=f"'data', rows of {3 * size * size} bytes, and '{key.decode()}', one for each row",
            got=", ".join(sorted(str(name, "latin1") for name in batch if isinstance(name, bytes))) or "nothing",
        )
    for label in labels:
        if type(label) is not int or not 0 <= label < official.classes:
            raise InputError(
                f"a label in {path} is no class index",
                expected=f"0 to {official.classes - 1}",
                got=repr(label)[:80],
                do=f"download it again: {official.download}",
            )
    return pixels.reshape(-1, 3, size, size), np.array(labels, dtype=np.int64)


def _pixels(array: object, width: int) -> NDArray[np.uint8] | None:
    """Read rows of bytes from the noted state of an array; None if it is anything else."""
    match array.state if isinstance(array, _Array) else None:
        case (_, (int(rows), int(columns)), _Type(name=b"u1" | b"uint8" | b"|u1"), columns_first, bytes(raw)):
            if columns == width and len(raw) == rows * columns:
                return np.frombuffer(raw, dtype=np.uint8).reshape((rows, columns), order="F" if columns_first else "C")
    return None


def _join(batches: list[Arrays], size: int) -> Arrays:
    images = [images for images, _ in batches] or [np.empty((0, 3, size, size), dtype=np.uint8)]
    return np.concatenate(images), np.concatenate([labels for _, labels in batches] or [np.empty(0, dtype=np.int64)])


def _file(path: Path) -> bytes:
    _refuse_large(path.stat().st_size, path)
    return path.read_bytes()


def _members(path: Path, names: tuple[str, ...]) -> list[bytes]:
    """Read files of an archive, wherever in it they are, into memory only."""
    found: dict[str, bytes] = {}
    try:
        with tarfile.open(path) as archive:
            for member in archive:
                name = member.name.rpartition("/")[2]
                if member.isfile() and name in names and len(found) < len(names):
                    _refuse_large(member.size, path)
                    content = archive.extractfile(member)
                    found[name] = content.read() if content is not None else b""
                if len(found) == len(names):
                    break
    except (tarfile.TarError, EOFError, OSError, zlib.error) as problem:
        raise InputError(
            f"{path} cannot be read",
            expected="a complete archive",
            got=f"{type(problem).__name__}: {problem}",
            do="it may be truncated: download it again",
        ) from None
    return list(found.values())


def _refuse_large(size: int, path: Path) -> None:
    if size > LARGEST:
        raise InputError(f"a batch in {path} is too large", expected=f"at most {LARGEST:,} bytes", got=f"{size:,}")
