"""The store: one folder that holds every finished cell, whole or not at all, and the reason of every failed one.

store.json               layout version
cells/<kind>/<key>/      result.json and the files of the work; appears by one rename
failures/<key>.json      why a cell failed
locks/<key>              locked by the process that computes the cell; shared by those who read it
tmp/<key>-…              being written; rubbish as soon as the lock is free
scratch/<key>/           what a long computation keeps for its own continuation
quarantine/<key>-…       cells found damaged
log/*.jsonl              the journal, one file per process
"""

from __future__ import annotations

import errno
import os
import uuid
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

from sfra.bench.engine.cell import Cell, check_key
from sfra.bench.engine.folders import disk_errors, force_out, remove, sizes, write_json
from sfra.bench.engine.journal import Journal
from sfra.bench.engine.layout import check_layout, make_layout
from sfra.bench.engine.locks import Lock, StoreError, acquire, is_held, leads_elsewhere, read_owner
from sfra.bench.engine.records import Failure, Record, parse_cell, parse_failure
from sfra.core.errors import InputError
from sfra.core.text import written_out

__all__ = ["Failure", "Record", "Store", "StoreError"]


class Store:
    """A benchmark's folder; made when it is absent or empty, refused when it is something else."""

    def __init__(self, folder: Path | str, *, read_only: bool = False) -> None:
        self.root = written_out(folder).absolute()
        self.read_only = read_only
        if not read_only:
            with disk_errors(self.root):
                make_layout(self.root)
        check_layout(self.root)
        self.journal = Journal(self.root / "log")

    # reading

    def is_done(self, cell: Cell | str) -> bool:
        """Tell whether a cell is there and whole."""
        return self.record(cell) is not None

    def record(self, cell: Cell | str) -> Record | None:
        """Read what is known of a finished cell; None when it is absent or damaged."""
        return parse_cell(self.folder(cell))

    def result(self, cell: Cell | str) -> dict[str, Any]:
        """Read what the work returned; an error when the cell is not done."""
        record = self.record(cell)
        if record is None:
            raise InputError("this cell is not done", got=getattr(cell, "label", cell), do="run the benchmark first")
        return record.result

    def folder(self, cell: Cell | str) -> Path:
        """Say where a cell's files are, or would be."""
        if isinstance(cell, Cell):
            return self.root / "cells" / cell.kind / cell.key
        key = check_key(cell)
        kinds = [kind.name for kind in (self.root / "cells").glob("*") if (kind / key).is_dir()]
        return self.root / "cells" / (kinds[0] if kinds else "unknown") / key

    def records(self, kind: str = "*") -> Iterator[Record]:
        """Read every finished cell of a kind, or of all."""
        for folder in sorted((self.root / "cells").glob(f"{kind}/*")):
            record = parse_cell(folder)
            if record is not None:
                yield record

    def failure(self, cell: Cell | str) -> Failure | None:
        """Read why a cell failed; None when it did not, or when it is done."""
        return parse_failure(self.root / "failures" / f"{_key(cell)}.json")

    def failures(self) -> dict[str, Failure]:
        """Read every failure, by key."""
        keys = sorted(path.stem for path in (self.root / "failures").glob("*.json"))
        return {key: failure for key in keys if (failure := self.failure(key)) is not None}

    def is_locked(self, cell: Cell | str) -> bool:
        """Tell whether some process is computing a cell."""
        return is_held(self.root / "locks" / _key(cell))

    def owner(self, cell: Cell | str) -> dict[str, Any]:
        """Read who computed a cell last, or does now: ``host``, ``pid``, ``since`` and the attempt's ``tag``."""
        return read_owner(self.root / "locks" / _key(cell))

    # writing

    def lock(self, cell: Cell | str, *, shared: bool = False) -> Lock | None:
        """Take a cell's lock without waiting: alone to compute or remove it, shared to read its files."""
        self._may_write()
        return acquire(self.root / "locks" / _key(cell), shared=shared)

    def draft(self, cell: Cell) -> Path:
        """Make the temporary folder of a cell that is being computed."""
        self._may_write()
        folder = self.root / "tmp" / f"{cell.key}-{uuid.uuid4().hex}"
        folder.mkdir()
        return folder

    def publish(self, cell: Cell, draft: Path, facts: dict[str, Any]) -> bool:
        """Make a computed cell appear, whole, by one rename; False when it was there already, and ours is dropped."""
        content = {
            "key": cell.key,
            "kind": cell.kind,
            "version": cell.version,
            "label": cell.label,
            "settings": cell.settings,
            "needs": {role: need.key for role, need in cell.needs.items()},
            "files": sizes(draft),
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
        self._may_write()
        target = self.root / "cells" / record.kind / record.key
        if self.is_done(record.key):
            return False
        lock = self.lock(record.key)
        if lock is None:
            return False
        with lock:
            if target.exists():
                os.rename(target, self.root / "quarantine" / f"{record.key}-{uuid.uuid4().hex[:8]}")
            force_out(folder)
            target.parent.mkdir(exist_ok=True)
            os.rename(folder, target)
            self.clear_failure(record.key)
            self.journal.write("adopted", key=record.key, label=record.label)
        return True

    def scratch(self, cell: Cell | str) -> Path:
        """Say where a cell's computation may keep its own checkpoints."""
        path = self.root / "scratch" / _key(cell)
        if path.is_symlink():
            raise leads_elsewhere(path)
        return path

    def write_failure(self, failure: Failure) -> None:
        """Keep the reason of a failure."""
        self._may_write()
        facts = {each.name: getattr(failure, each.name) for each in fields(Failure)}
        write_json(self.root / "failures" / f"{check_key(failure.key)}.json", facts, by_way_of=self.root / "tmp")

    def clear_failure(self, cell: Cell | str) -> None:
        """Forget a failure, so that the cell may be computed again."""
        self._may_write()
        (self.root / "failures" / f"{_key(cell)}.json").unlink(missing_ok=True)

    def set_aside(self, cell: Cell) -> bool:
        """Move a damaged cell to the quarantine; the caller holds its lock."""
        folder = self.folder(cell)
        if not folder.exists() or parse_cell(folder) is not None:
            return False
        os.rename(folder, self.root / "quarantine" / f"{cell.key}-{uuid.uuid4().hex[:8]}")
        self.journal.write("quarantined", key=cell.key, label=cell.label)
        return True

    def discard(self, cell: Cell) -> bool:
        """Remove a finished cell that nobody reads; False when it is locked or absent."""
        lock = self.lock(cell)
        if lock is None:
            return False
        with lock, disk_errors(self.root):
            if not self.folder(cell).exists():
                return False
            rubbish = self.root / "tmp" / f"{cell.key}-{uuid.uuid4().hex}"
            os.rename(self.folder(cell), rubbish)
            self.journal.write("pruned", key=cell.key, label=cell.label)
            remove(rubbish)
        return True

    def sweep(self, key: str | None = None) -> None:
        """Remove what dead processes left behind: drafts whose lock is free, scratch of finished cells.

        With a key: only that cell's drafts, and the caller holds its lock.
        """
        self._may_write()
        if key is not None:
            for path in (self.root / "tmp").glob(f"{check_key(key)}-*"):
                remove(path)
            return
        keys = {path.name[:64] for path in (self.root / "tmp").iterdir()}
        keys |= {path.name for path in (self.root / "scratch").iterdir() if self.is_done(path.name)}
        for each in sorted(keys):
            lock = self.lock(each)
            if lock is not None:
                with lock:
                    self.sweep(each)
                    if self.is_done(each):
                        remove(self.scratch(each))

    def _may_write(self) -> None:
        assert not self.read_only, "a store opened for reading must never be written"


def _key(cell: Cell | str) -> str:
    return cell.key if isinstance(cell, Cell) else check_key(cell)
