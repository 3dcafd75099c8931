"""The store: one folder that holds every finished cell, whole or not at all, and the reason of every failed one.

store.json               layout version
cells/<kind>/<key>/      result.json and the files of the task; appears by one rename
failures/<key>.json      why a cell failed; <key>.log says the same for people
locks/<key>              locked by the process that computes the cell
tmp/<key>-…              being written; rubbish as soon as the lock is free
scratch/<key>/           what a long computation keeps for its own continuation
quarantine/<key>-…       cells found damaged
log/*.jsonl              the journal, one file per process
"""

from __future__ import annotations

import errno
import os
import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from filelock import FileLock, Timeout

from sfra.bench.engine.cell import KEY, Cell, Order, check_key
from sfra.bench.engine.disk import StoreError, disk_errors, force_out, remove, write_json, write_whole
from sfra.bench.engine.journal import Journal
from sfra.core.errors import InputError
from sfra.core.text import written_out

LAYOUT = 1
"""Version of the layout, which ``store.json`` tells."""

FOLDERS = ("cells", "failures", "locks", "tmp", "scratch", "quarantine", "log")
_DRAFT = re.compile(r"store-[0-9a-f]{32}\.json")

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Record:
    """What ``result.json`` says."""

    key: str
    kind: str
    version: int
    label: str
    settings: dict[str, Any]
    needs: dict[str, str]
    """Keys of the needed cells by role."""
    result: dict[str, Any]
    """What the task returned."""
    seconds: float
    host: str
    pid: int
    device: str
    versions: dict[str, str]
    """Of Python, of this package and of the libraries that the task had loaded."""
    finished: float
    """Seconds since 1970."""
    files: dict[str, int]
    """The task's files and their sizes."""


@dataclass(frozen=True, kw_only=True)
class Failure:
    """Why a cell failed."""

    key: str
    kind: str
    label: str
    reason: str
    """``raised``, ``not-finite``, ``not-json``, ``out-of-memory``, ``time-limit`` or ``crashed``."""
    message: str
    """One line or a few, for people."""
    where: str = ""
    """File and line that raised."""
    traceback: str = ""
    output: str = ""
    """The end of what it printed."""
    attempts: int = 1
    when: float = 0.0
    host: str = ""
    settings: dict[str, Any] = field(default_factory=dict)


Named = Cell | Order | str
"""A cell, or its key."""


class Store:
    """A benchmark's folder; made when it is absent or empty, refused when it is something else."""

    def __init__(self, folder: Path | str, *, read_only: bool = False) -> None:
        self.root = written_out(folder).absolute()
        self.read_only = read_only
        if not read_only:
            with disk_errors(self.root):
                _make_layout(self.root)
        _check_layout(self.root)
        self.journal = Journal(self.root / "log")

    def is_done(self, cell: Named) -> bool:
        """Tell whether a cell is there and whole."""
        return self.record(cell) is not None

    def record(self, cell: Named) -> Record | None:
        """Read what is known of a finished cell; None when it is absent or damaged."""
        return parse_cell(self.folder(cell))

    def result(self, cell: Named) -> dict[str, Any]:
        """Read what the task returned; an error when the cell is not done."""
        record = self.record(cell)
        if record is None:
            raise InputError("this cell is not done", got=getattr(cell, "label", cell), do="run the benchmark first")
        return record.result

    def folder(self, cell: Named) -> Path:
        """Say where a cell's files are, or would be."""
        if not isinstance(cell, str):
            return self.root / "cells" / cell.kind / cell.key
        key = check_key(cell)
        kinds = [kind.name for kind in (self.root / "cells").glob("*") if (kind / key).is_dir()]
        return self.root / "cells" / (kinds[0] if kinds else "unknown") / key

    def records(self, kind: str = "*") -> Iterator[Record]:
        """Read every finished cell of a kind, or of all."""
        found = (parse_cell(folder) for folder in sorted((self.root / "cells").glob(f"{kind}/*")))
        return (record for record in found if record is not None)

    def failure(self, cell: Named) -> Failure | None:
        """Read why a cell failed; None when it did not."""
        return _parse(self.root / "failures" / f"{_key(cell)}.json", Failure)

    def failures(self) -> dict[str, Failure]:
        """Read every failure, by key."""
        keys = sorted(path.stem for path in (self.root / "failures").glob("*.json"))
        return {key: failure for key in keys if (failure := self.failure(key)) is not None}

    def is_claimed(self, cell: Named) -> bool:
        """Tell whether some process is computing a cell; works where nothing may be written."""
        import fcntl

        try:
            with (self.root / "locks" / _key(cell)).open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False
        except OSError:
            return True
        return False

    @contextmanager
    def claim(self, cell: Named, *, wait: float = 0.0) -> Iterator[bool]:
        """Take a cell for this process alone; yields False if another one has it for longer than some seconds.

        The kernel gives the lock back when the process dies, however it dies; children made by ``fork`` do not keep
        it. The file stays for good: removing it could let two processes lock two files of the same name.
        """
        self._may_write()
        path = self.root / "locks" / _key(cell)
        lock = FileLock(path, thread_local=False, fallback_to_soft=False)
        try:
            lock.acquire(timeout=wait, blocking=wait > 0)
        except Timeout:
            yield False
            return
        except OSError as problem:
            if problem.errno == errno.ELOOP:
                raise leads_elsewhere(path) from None
            if problem.errno in (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP):
                raise StoreError(
                    "the store's file system has no working locks",
                    expected="flock, as on local disks, NFSv4 and Lustre (mounted with -o flock)",
                    got=f"{path.parent}: {problem.strerror}",
                    do="put the store on another file system",
                ) from None
            raise
        try:
            yield True
        finally:
            lock.release()

    def draft(self, cell: Named) -> Path:
        """Make the temporary folder of a cell that is being computed."""
        self._may_write()
        folder = self.root / "tmp" / f"{_key(cell)}-{uuid.uuid4().hex}"
        folder.mkdir()
        return folder

    def log(self, order: Order) -> Path:
        """Say where the output of an attempt goes; it can be read there after a crash."""
        return self.root / "tmp" / f"{order.key}-{order.tag}.log"

    def publish(self, cell: Cell | Order, draft: Path, facts: dict[str, Any]) -> bool:
        """Make a computed cell appear, whole, by one rename; False when it was there already, and ours is dropped."""
        files = [path for path in sorted(draft.rglob("*")) if path.is_file()]
        content = {
            **{name: getattr(cell, name) for name in ("key", "kind", "version", "label", "settings")},
            "needs": {role: need.key if isinstance(need, Cell) else need[1] for role, need in cell.needs.items()},
            "files": {path.relative_to(draft).as_posix(): path.stat().st_size for path in files},
            **facts,
        }
        write_json(draft / "result.json", content, by_way_of=draft)
        force_out(draft)
        target = self.folder(cell)
        target.parent.mkdir(exist_ok=True)
        try:
            os.rename(draft, target)
        except OSError as problem:
            if problem.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            remove(draft)
            return False
        self.clear_failure(cell)
        remove(self.scratch(cell))
        return True

    def adopt(self, folder: Path, record: Record) -> bool:
        """Take in a finished cell from elsewhere, by one rename; False when it was there already."""
        target = self.root / "cells" / record.kind / record.key
        with self.claim(record.key) as mine:
            if not mine or self.is_done(record.key):
                return False
            self._set_aside(target)
            force_out(folder)
            target.parent.mkdir(exist_ok=True)
            os.rename(folder, target)
            self.clear_failure(record.key)
            self.journal.write("adopted", key=record.key, label=record.label)
        return True

    def scratch(self, cell: Named) -> Path:
        """Say where a cell's computation may keep its own checkpoints."""
        path = self.root / "scratch" / _key(cell)
        if path.is_symlink():
            raise leads_elsewhere(path)
        return path

    def write_failure(self, failure: Failure) -> None:
        """Keep the reason of a failure."""
        self._may_write()
        target = self.failure_log(failure.key)
        parts = (failure.label, f"{failure.reason}: {failure.message}", failure.traceback, failure.output)
        text = "\n\n".join(part.strip() for part in parts if part.strip())
        write_whole(target, f"{text}\n", by_way_of=self.root / "tmp")
        write_json(target.with_suffix(".json"), asdict(failure), by_way_of=self.root / "tmp")

    def failure_log(self, cell: Named) -> Path:
        """Say where message, traceback and output of a failed cell can be read."""
        return self.root / "failures" / f"{_key(cell)}.log"

    def clear_failure(self, cell: Named) -> None:
        """Forget a failure, so that the cell may be computed again."""
        self._may_write()
        for path in (self.failure_log(cell).with_suffix(".json"), self.failure_log(cell)):
            path.unlink(missing_ok=True)

    def discard(self, cell: Named) -> None:
        """Remove a finished cell, so that it is computed again; one that a process is at is refused."""
        with self.claim(cell) as mine:
            if not mine:
                raise InputError("this cell is being computed", got=_key(cell), do="wait until the other run has ended")
            aside = self.draft(cell)
            if (folder := self.folder(cell)).is_dir():
                os.rename(folder, aside)
            remove(aside)
            self.clear_failure(cell)
            self.journal.write("discarded", key=_key(cell))

    def clean(self, cell: Named) -> None:
        """Remove the drafts of a cell and set a damaged one aside; the caller has claimed it."""
        for path in (self.root / "tmp").glob(f"{_key(cell)}-*"):
            remove(path)
        if not self.is_done(cell):
            self._set_aside(self.folder(cell))

    def sweep(self) -> None:
        """Remove what dead processes left behind: drafts of cells that nobody computes, scratch of finished ones."""
        self._may_write()
        drafts = {path.name[:64] for path in (self.root / "tmp").iterdir()}
        scratch = {path.name for path in (self.root / "scratch").iterdir()}
        for key in sorted(filter(KEY.fullmatch, drafts | scratch)):
            if key not in drafts and not self.is_done(key):
                continue
            with self.claim(key) as mine:
                if mine:
                    for path in (self.root / "tmp").glob(f"{key}-*"):
                        remove(path)
                    if self.is_done(key):
                        remove(self.scratch(key))

    def _set_aside(self, folder: Path) -> None:
        """Move a damaged cell, or whatever is in its place, to the quarantine."""
        if folder.exists() or folder.is_symlink():
            os.rename(folder, self.root / "quarantine" / f"{folder.name}-{uuid.uuid4().hex[:8]}")
            self.journal.write("quarantined", key=folder.name)

    def _may_write(self) -> None:
        assert not self.read_only, "a store opened for reading must never be written"


def parse_cell(folder: Path) -> Record | None:
    """Read the folder of a cell; None when it is not whole, or a link to one elsewhere."""
    record = _parse(folder / "result.json", Record)
    if record is None or record.key != folder.name or folder.is_symlink():
        return None
    try:
        whole = all((folder / name).stat().st_size == size for name, size in record.files.items())
    except (OSError, ValueError):
        return None
    return record if whole else None


def leads_elsewhere(path: Path) -> StoreError:
    """Say that a part of a store is a link: whoever made it would have us write wherever it points."""
    return StoreError(
        "a part of the store leads elsewhere, and was not followed",
        expected="folders and files of its own (the folder of the whole store may be a link)",
        got=f"a symbolic link: {path}",
        do="do not use this store, or put what the link points to in its place",
    )


def _parse(file: Path, shape: type[T]) -> T | None:
    """Read a JSON file; None when it is absent, cut off or something else."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=shape)
    except (OSError, ValueError, RecursionError, msgspec.MsgspecError):
        return None


def _key(cell: Named) -> str:
    return check_key(cell) if isinstance(cell, str) else cell.key


def _make_layout(root: Path) -> None:
    """Make the folder of a store where there is none; refuse one that holds something else."""
    root.mkdir(parents=True, exist_ok=True)
    mark = root / "store.json"
    if not mark.exists():
        strangers = [path.name for path in root.iterdir() if _DRAFT.fullmatch(path.name) is None]
        if strangers and not mark.exists():
            raise _foreign(root, f"it holds {', '.join(sorted(strangers)[:3])}")
        write_json(mark, {"sfra": "benchmark store", "layout": LAYOUT}, by_way_of=root)
    for name in FOLDERS:
        (root / name).mkdir(exist_ok=True)


def _check_layout(root: Path) -> None:
    """Refuse a folder that is no store, one of another layout, or one with parts that lie outside of it."""
    for path in (root / "store.json", *(root / name for name in FOLDERS), *(root / "cells").glob("*")):
        if path.is_symlink():
            raise leads_elsewhere(path)
    mark: dict[str, Any] | None = _parse(root / "store.json", dict)
    if mark is None:
        raise _foreign(root, "no store.json" if root.is_dir() else "no such folder")
    layout, ours = mark.get("layout"), mark.get("sfra") == "benchmark store"
    if ours and isinstance(layout, int) and layout > LAYOUT:
        raise StoreError(f"{root} was written by a newer sfra", expected=LAYOUT, got=layout, do="update sfra")
    if not ours or layout != LAYOUT:
        raise _foreign(root, f"store.json of layout {layout}")


def _foreign(folder: Path, got: str) -> StoreError:
    return StoreError(
        f"{folder} is not a benchmark store",
        expected=f"an empty or new folder, or one with a store.json of layout {LAYOUT}",
        got=got,
        do="name another folder",
    )
