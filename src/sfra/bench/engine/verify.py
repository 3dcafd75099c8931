"""Check a store against its journal: every cell computed once, none after it was written, nothing half there."""

from __future__ import annotations

from typing import Any

from sfra.bench.engine.journal import read_journals
from sfra.bench.engine.store import Store


def violations(store: Store) -> list[str]:
    """List what contradicts the promises of the store; empty when all is well, while nothing is running.

    A cell that was killed while it was computed may start again; a cell that was written may not, unless it was pruned
    or set aside as damaged in between.
    """
    return [*_drafts(store), *_damaged(store), *_written_twice(store), *_late_starts(store)]


def _drafts(store: Store) -> list[str]:
    left = [path.name for path in (store.root / "tmp").iterdir() if not store.is_locked(path.name[:64])]
    return [f"left behind: tmp/{name}" for name in left]


def _damaged(store: Store) -> list[str]:
    return [f"damaged: {path.name}" for path in (store.root / "cells").glob("*/*") if not store.is_done(path.name)]


def _written_twice(store: Store) -> list[str]:
    there: set[str] = set()
    found: list[str] = []
    for event in read_journals(store.root / "log"):
        if event["event"] == "written":
            found += [f"written twice: {event['key']}"] if event["key"] in there else []
            there.add(event["key"])
        elif event["event"] in ("pruned", "quarantined"):
            there.discard(event["key"])
    return found


def _late_starts(store: Store) -> list[str]:
    """Compare starts with the time that the published result itself bears, which no kill can separate from it."""
    finished = {record.key: record.finished for record in store.records()}
    events = read_journals(store.root / "log")
    return [f"started after it was written: {event['key']}" for event in events if _is_late(event, finished)]


def _is_late(event: dict[str, Any], finished: dict[str, float]) -> bool:
    return event["event"] == "start" and float(event["time"]) > finished.get(event["key"], float("inf"))
