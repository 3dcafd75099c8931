"""Locks that the kernel gives back when their process dies, however it dies."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

from sfra.core.errors import SfraError

try:
    import fcntl
except ImportError:  # pragma: no cover - only where there is no flock at all
    fcntl = None  # type: ignore[assignment]

_HELD: set[int] = set()


class StoreError(SfraError):
    """The store's folder cannot be used: no space, no permission, no locks, or not a store."""


def leads_elsewhere(path: Path) -> StoreError:
    """Say that a part of a store is a link: whoever made it would have us write wherever it points."""
    return StoreError(
        "a part of the store leads elsewhere, and was not followed",
        expected="folders and files of its own (the folder of the whole store may be a link)",
        got=f"a symbolic link: {path}",
        do="do not use this store, or put what the link points to in its place",
    )


class Lock:
    """A held lock; released by :meth:`release`, by leaving the block, or by the death of this process alone.

    Children made by ``fork`` get a copy of the descriptor, which would keep the lock past our death: they close it.
    """

    def __init__(self, handle: int) -> None:
        self._handle = handle
        _HELD.add(handle)

    def __enter__(self) -> Lock:
        return self

    def __exit__(self, *problem: object) -> None:
        self.release()

    def write(self, owner: dict[str, Any]) -> None:
        """Say in the lock's file who holds it."""
        os.ftruncate(self._handle, 0)
        os.pwrite(self._handle, json.dumps(owner).encode(), 0)

    def release(self) -> None:
        """Give the lock back; a second time does nothing."""
        if self._handle in _HELD:
            _HELD.discard(self._handle)
            os.close(self._handle)


def acquire(path: Path, *, shared: bool = False) -> Lock | None:
    """Take a lock without waiting; return None when another holds it.

    The file stays for good: removing it could let two processes lock two files of the same name.
    """
    if fcntl is None:
        raise StoreError("this system has no file locks", expected="flock, as on Linux and macOS", got=os.name)
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
    except OSError as problem:
        if problem.errno == errno.ELOOP:
            raise leads_elsewhere(path) from None
        raise
    try:
        fcntl.flock(handle, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except OSError as problem:
        os.close(handle)
        if problem.errno in (errno.EWOULDBLOCK, errno.EACCES):
            return None
        raise StoreError(
            "the store's file system has no working locks",
            expected="flock, as on local disks, NFSv4 and Lustre (mounted with -o flock)",
            got=f"{path.parent}: {problem.strerror}",
            do="put the store on another file system",
        ) from None
    return Lock(handle)


def is_held(path: Path) -> bool:
    """Tell whether a process holds a lock alone; touches nothing, so it works where nothing may be written."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(handle)
    return False


def read_owner(path: Path) -> dict[str, Any]:
    """Read who wrote last into a lock's file; empty when nobody did."""
    try:
        owner = json.loads(path.read_bytes())
    except (OSError, ValueError):  # absent, or in the middle of being written
        return {}
    return owner if isinstance(owner, dict) else {}


def _forget_held() -> None:
    for handle in _HELD:
        os.close(handle)
    _HELD.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_held)
