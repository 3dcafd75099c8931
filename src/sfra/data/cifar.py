"""CIFAR-10 and CIFAR-100 as their authors publish them: pickled batches, in a folder or still in the archive.

Nothing is unpickled freely. The batches need a few names; each is answered with something inert of our own, and
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
from sfra.data.copies import Arrays, Copy, Official, Part, unreadable

LARGEST = 2**29
"""Bytes of a batch in an archive that are read; the largest official one has 155 million."""


def recognise_batches(official: Official, path: Path) -> Copy | None:
    """Recognise the published folder, or the published ``.tar.gz``, of pickled batches."""
    archive = path.is_file() and path.name.endswith((".tar.gz", ".tgz", ".tar"))
    names = [name for part in official.batches.values() for name in part]
    if not names or not (archive or any((path / name).is_file() for name in names)):
        return None

    def files(part: Part) -> list[Path]:
        return [path] if archive else [path / name for name in official.batches[part] if (path / name).is_file()]

    def read(part: Part) -> Arrays:
        found = _members(path, official.batches[part]) if archive else [file.read_bytes() for file in files(part)]
        batches = [_batch(content, path, official) for content in found]
        nothing = np.empty((0, 3, official.size, official.size), dtype=np.uint8), np.empty(0, dtype=np.int64)
        images, labels = zip(nothing, *batches, strict=True)
        return np.concatenate(images), np.concatenate(labels)

    return Copy(path=path, files=files, read=read, class_names=official.class_names)


def read_batch(content: bytes, name: str) -> dict[bytes, Any]:
    """Read the dictionary of a pickled batch, refusing all names but those of plain byte arrays."""
    try:
        found = _Batches(io.BytesIO(content), encoding="bytes").load()
    except UnsafeFileError:
        raise
    except Exception as problem:  # bytes of a stranger: the parser raises whatever it runs into
        raise unreadable(name, problem, expected="a complete pickled batch") from None
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


def _batch(content: bytes, path: Path, official: Official) -> Arrays:
    batch, width = read_batch(content, str(path)), 3 * official.size**2
    labels: Any = next((batch[key] for key in map(str.encode, official.label_columns) if key in batch), [])
    pixels = _pixels(batch.get(b"data"), width)
    whole = isinstance(labels, list) and all(type(label) is int and 0 <= label < official.classes for label in labels)
    if not whole or pixels is None or len(pixels) != len(labels):
        raise InputError(
            f"{path} does not hold the batches of {official.title}",
            expected=f"'data', rows of {width} bytes, and '{official.label_columns[-1]}', 0 to {official.classes - 1}",
            got=", ".join(sorted(str(name, "latin1") for name in batch if isinstance(name, bytes))) or "nothing",
            do=f"download it again: {official.download}",
        )
    return pixels.reshape(-1, 3, official.size, official.size), np.array(labels, dtype=np.int64)


def _pixels(array: object, width: int) -> NDArray[np.uint8] | None:
    """Read rows of bytes from the noted state of an array; None if it is anything else."""
    match array.state if isinstance(array, _Array) else None:
        case (_, (int(rows), int(columns)), _Type(name=b"u1" | b"uint8" | b"|u1"), columns_first, bytes(raw)):
            if columns == width and len(raw) == rows * columns:
                return np.frombuffer(raw, dtype=np.uint8).reshape((rows, columns), order="F" if columns_first else "C")
    return None


def _members(path: Path, names: tuple[str, ...]) -> list[bytes]:
    """Read files of an archive, wherever in it they are, into memory only; links are passed over."""
    found: dict[str, bytes] = {}
    try:
        with tarfile.open(path) as archive:
            for member in archive:
                name = member.name.rpartition("/")[2]
                if member.isfile() and name in names:
                    content = archive.extractfile(member)
                    found[name] = content.read(LARGEST) if content is not None else b""
                if len(found) == len(names):
                    break
    except (tarfile.TarError, EOFError, OSError, zlib.error) as problem:
        raise unreadable(path, problem) from None
    return list(found.values())
