"""Files that survive: written whole, forced to the disk, and errors of the disk told as one message."""

from __future__ import annotations

import errno
import json
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sfra.core.errors import SfraError

_NOT_OURS = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EROFS: "the file system is read-only",
    errno.EACCES: "permission denied",
    errno.EPERM: "permission denied",
}


class StoreError(SfraError):
    """The store's folder cannot be used: no space, no permission, no locks, or not a store."""


def disk_trouble(problem: BaseException, folder: Path) -> StoreError | None:
    """Tell trouble with the store's disk, which no other cell would escape, from trouble of one cell."""
    number = problem.errno if isinstance(problem, OSError) else None
    if number is None and "No space left on device" in str(problem):  # libraries that pass the text on only
        number = errno.ENOSPC
    if number not in _NOT_OURS:
        return None
    place = str(getattr(problem, "filename", None) or folder)
    if number in (errno.EACCES, errno.EPERM) and not Path(place).is_relative_to(folder):
        return None
    return StoreError(
        f"the store cannot be written: {_NOT_OURS[number]}",
        got=place,
        do="make room or give permission, then run the same command again: finished cells are kept",
    )


@contextmanager
def disk_errors(folder: Path) -> Iterator[None]:
    """Turn a full disk or a missing permission into one message."""
    try:
        yield
    except OSError as problem:
        trouble = disk_trouble(problem, folder)
        if trouble is None:
            raise
        raise trouble from None


def write_json(target: Path, value: object, *, by_way_of: Path) -> None:
    """Write JSON whole or not at all."""
    write_whole(target, json.dumps(value, indent=1, allow_nan=False), by_way_of=by_way_of)


def write_whole(target: Path, text: str, *, by_way_of: Path) -> None:
    """Write a file whole or not at all: one in another folder of the same disk, forced out, then renamed."""
    draft = by_way_of / f"{target.stem}-{uuid.uuid4().hex}{target.suffix}"
    try:
        with draft.open("w", encoding="utf-8", errors="replace") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, target)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def force_out(folder: Path) -> None:
    """Force every file and directory of a folder to the disk, so that a rename cannot overtake their content."""
    for path in (*folder.rglob("*"), folder):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def remove(path: Path) -> None:
    """Remove a file or a folder; what is gone already is no error."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
