"""The folder of a store: made where there is none, and told from other folders."""

from __future__ import annotations

import re
from pathlib import Path

from sfra.bench.engine.folders import read_json, write_json
from sfra.bench.engine.locks import StoreError, leads_elsewhere

LAYOUT = 1
"""Version of the layout, which ``store.json`` tells."""

FOLDERS = ("cells", "failures", "locks", "tmp", "scratch", "quarantine", "log")
_DRAFT = re.compile(r"store-[0-9a-f]{32}\.json")


def make_layout(root: Path) -> None:
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


def check_layout(root: Path) -> None:
    """Refuse a folder that is no store, one of another layout, or one with parts that lie outside of it."""
    for path in (root / "store.json", *(root / name for name in FOLDERS), *(root / "cells").glob("*")):
        if path.is_symlink():
            raise leads_elsewhere(path)
    mark = read_json(root / "store.json")
    if mark is None:
        raise _foreign(root, "no store.json" if root.is_dir() else "no such folder")
    layout = mark.get("layout")
    if mark.get("sfra") == "benchmark store" and isinstance(layout, int) and layout > LAYOUT:
        raise StoreError(
            f"{root} was written by a newer sfra",
            expected=f"layout {LAYOUT}",
            got=layout,
            do="update sfra, or name another folder",
        )
    if mark.get("sfra") != "benchmark store" or layout != LAYOUT:
        raise _foreign(root, f"store.json of layout {layout}")


def _foreign(folder: Path, got: str) -> StoreError:
    return StoreError(
        f"{folder} is not a benchmark store",
        expected=f"an empty or new folder, or one with a store.json of layout {LAYOUT}",
        got=got,
        do="name another folder",
    )
