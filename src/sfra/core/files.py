"""Files in and out: plain arrays only, read without running anything, written whole or not at all."""

from __future__ import annotations

import contextlib
import io
import os
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load as parse_safetensors
from torch import Tensor

from sfra.core.errors import InputError, UnsafeFileError

SUSPICIOUS_BYTES, SUSPICIOUS_RATIO = 2**28, 200
"""Bytes, and growth over the file's size, above which a file cannot hold features or weights."""

EMPTY = "an empty file"

KINDS = ("biuf", "biufUS")
"""What is read as one value, and in an array: numbers, and texts."""


def read_arrays(source: Path) -> dict[str, Tensor]:
    """Read every array of numbers in a ``.safetensors`` or ``.npz`` file without unpickling anything."""
    return {name: array for name, array in read_columns(source).items() if isinstance(array, Tensor)}


def read_columns(source: Path) -> dict[str, Tensor | list[Any]]:
    """Read arrays as :func:`read_arrays` does, and those of an ``.npz`` file that hold text, as lists."""
    if not source.is_file():
        raise InputError("the file does not exist", got=source, do="check the path")
    if source.suffix not in (".safetensors", ".npz"):
        raise InputError("this is not a file of arrays", expected="a .safetensors or .npz file", got=source.name)
    if source.stat().st_size == 0:
        raise _unreadable(source, EMPTY)
    try:
        if source.suffix == ".safetensors":
            return {**parse_safetensors(source.read_bytes())}
        with zipfile.ZipFile(source) as members:
            refuse_growth(source, sum(member.file_size for member in members.infolist()))
        with source.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            arrays = {name: np.asarray(archive[name]) for name in archive.files}
        return {name: _column(array) for name, array in arrays.items() if array.dtype.kind in KINDS[array.ndim > 0]}
    except UnsafeFileError:
        raise
    except Exception as problem:  # bytes of a stranger: the parsers raise whatever they run into
        pickled = "allow_pickle" in str(problem)  # numpy's own words tell how to open it all the same
        why = "pickled objects, which could run code" if pickled else f"{type(problem).__name__}: {problem}"
        raise _unreadable(source, why) from None


def _column(array: NDArray[Any]) -> Tensor | list[Any]:
    return array.astype(str).tolist() if array.dtype.kind in "US" else torch.from_numpy(array)


def _unreadable(source: Path, why: str) -> InputError:
    return InputError(
        f"{source.name} cannot be read",
        expected=f"a complete {source.suffix} file of plain arrays",
        got=why,
        do="it may be truncated or hold pickled objects: save or download it again, text as array.astype(str)",
    )


def refuse_growth(source: Path, size: int) -> None:
    """Refuse what a file holds if it takes very many times more room in memory than on the disk."""
    if size > SUSPICIOUS_BYTES and size > SUSPICIOUS_RATIO * source.stat().st_size:
        raise UnsafeFileError(
            f"{source.name} would grow to {size / 2**30:.1f} GiB, and was not opened",
            expected=f"arrays at most {SUSPICIOUS_RATIO} times as large as the file",
            got=f"{size / source.stat().st_size:.0f} times as large",
            do="if it is from someone you trust, save it again without compression",
        )


def write_npz(target: Path, **arrays: NDArray[Any]) -> None:
    """Write arrays to an ``.npz`` file, whole or not at all."""
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays)
    write_atomically(target, buffer.getvalue())


def write_text(target: Path, text: str) -> None:
    """Write text, whole or not at all; what cannot be written as UTF-8, as in names of files, becomes a ``?``."""
    write_atomically(target, to_bytes(text))


def to_bytes(text: str) -> bytes:
    """Encode text; half a character, which names of files can hold, becomes a ``?``.

    >>> to_bytes("cat" + chr(0xDCFF))
    b'cat?'
    """
    return text.encode("utf-8", "replace")


def write_atomically(target: Path, content: bytes) -> None:
    """Write to a temporary neighbour, then rename: a reader sees the old file or the new, never a part."""
    write_together({target: content})


def write_together(contents: Mapping[Path, bytes]) -> None:
    """Write files that belong together: none takes its name before all are on the disk in full.

    Of two processes that write the same files at once, one puts all of its files in place after the other.
    """
    drafts: dict[Path, str] = {}
    try:
        for target, content in contents.items():
            target.parent.mkdir(parents=True, exist_ok=True)
            handle, drafts[target] = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
            with os.fdopen(handle, "wb") as file:
                file.write(content)
            os.chmod(drafts[target], 0o666 & ~_umask())
        with alone(next(iter(contents)).parent if len(contents) > 1 else None):
            for target in contents:
                os.replace(drafts[target], target)
                del drafts[target]
    except BaseException:
        for draft in drafts.values():
            os.unlink(draft)
        raise


@contextlib.contextmanager
def alone(folder: Path | None) -> Iterator[None]:
    """Have others wait that read or write files which belong together; go on where a folder cannot be locked."""
    with contextlib.ExitStack() as stack:
        if folder is not None:
            with contextlib.suppress(ImportError, OSError):
                import fcntl

                opened = os.open(folder, os.O_RDONLY)
                stack.callback(os.close, opened)
                fcntl.flock(opened, fcntl.LOCK_EX)
        yield


def _umask() -> int:
    """Return the permissions that new files are denied; there is no way to ask without setting."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
