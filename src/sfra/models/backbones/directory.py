"""A directory that appears whole or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sfra.core.errors import InputError


@contextmanager
def written_whole(target: Path, *, ours: Callable[[Path], bool]) -> Iterator[Path]:
    """Give a temporary neighbour to write into; once that has succeeded, it becomes ``target``.

    An interrupted writer leaves the old directory as it was. While one directory replaces another there is a
    moment without either; the old one then lies beside it under a name that starts with a dot.

    Args:
        target: Where the directory is to be; its parents are made.
        ours: Tells whether an existing directory is one that may be replaced.
    """
    refuse_foreign(target, ours=ours)
    target.parent.mkdir(parents=True, exist_ok=True)
    beside = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}."))
    try:
        new = beside / "new"
        new.mkdir()
        yield new
        _open_to_readers(new)
        refuse_foreign(target, ours=ours)
        _exchange(new, target, aside=beside / "old")
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def refuse_foreign(target: Path, *, ours: Callable[[Path], bool]) -> None:
    """Refuse a place that holds something else: nothing of it is ever deleted."""
    if not target.exists():
        return
    found = sorted(file.name for file in target.iterdir()) if target.is_dir() else [target.name]
    if target.is_dir() and (not found or ours(target)):
        return
    raise InputError(
        f"{target.name} is already there and is not a checkpoint of ours: nothing was written",
        expected="a new or empty directory, or a checkpoint with no other files in it",
        got=", ".join(found[:6]) if target.is_dir() else "a file",
        do="choose another directory, or move this one away",
    )


def _open_to_readers(directory: Path) -> None:
    """Give files the permissions of any new file; safetensors makes them readable to their owner alone."""
    permitted = directory.stat().st_mode & 0o666
    for file in directory.iterdir():
        file.chmod(permitted)


def _exchange(new: Path, target: Path, *, aside: Path) -> None:
    """Put ``new`` in the place of ``target``; if that fails, what was there is put back."""
    if not target.exists():
        os.rename(new, target)
        return
    os.rename(target, aside)
    try:
        os.rename(new, target)
    except BaseException:
        os.rename(aside, target)
        raise
