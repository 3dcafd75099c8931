"""A store from elsewhere cannot lead writes out of itself."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from builders.bench import number as number
from sfra.bench.engine.cell import Cell
from sfra.bench.engine.compute import compute
from sfra.bench.engine.journal import read_journals
from sfra.bench.engine.layout import FOLDERS
from sfra.bench.engine.packing import pack, unpack
from sfra.bench.engine.store import Store, StoreError
from sfra.bench.engine.work import Context

ONE = Cell(kind="number", settings={"value": 1})


def made(folder: Path) -> Store:
    store = Store(folder)
    compute(ONE, store, tag="t", context=Context(keep=store.scratch(ONE)))
    return store


def move_out(path: Path, outside: Path) -> None:
    """Put what is at a path outside, and a link to it in its place."""
    shutil.move(path, outside)
    path.symlink_to(outside)


def test_a_lock_that_is_a_link_is_not_written_through(tmp_path: Path) -> None:
    store, outside = Store(tmp_path / "store"), tmp_path / "outside"
    outside.write_text("mine")
    (store.root / "locks" / ONE.key).symlink_to(outside)
    with pytest.raises(StoreError, match="leads elsewhere"):
        store.lock(ONE.key)
    assert outside.read_text() == "mine"
    assert store.lock("0" * 64) is not None


@pytest.mark.parametrize("part", [*FOLDERS, "store.json", "cells/number"])
@pytest.mark.parametrize("read_only", [True, False])
def test_a_store_with_a_part_outside_is_refused(tmp_path: Path, part: str, read_only: bool) -> None:
    store = made(tmp_path / "store")
    move_out(store.root / part, tmp_path / "outside")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(StoreError, match=r"leads elsewhere[\s\S]*a symbolic link"):
        Store(store.root, read_only=read_only)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_cell_that_is_a_link_is_not_there_and_its_place_is_not_written_through(tmp_path: Path) -> None:
    store = made(tmp_path / "store")
    pack([ONE], store, tmp_path / "r.tar")
    outside = tmp_path / "outside"
    move_out(store.folder(ONE), outside)
    assert not store.is_done(ONE)
    assert list(store.records()) == []
    kept = {path: path.read_bytes() for path in outside.rglob("*") if path.is_file()}
    assert unpack(tmp_path / "r.tar", store) == 1
    assert {path: path.read_bytes() for path in outside.rglob("*") if path.is_file()} == kept
    assert store.is_done(ONE)
    assert not store.folder(ONE).is_symlink()


def test_checkpoints_are_not_written_through_a_link(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    (tmp_path / "outside").mkdir()
    store.scratch(ONE).symlink_to(tmp_path / "outside")
    with pytest.raises(StoreError, match="leads elsewhere"):
        store.scratch(ONE)


def test_the_whole_store_may_be_a_link(tmp_path: Path) -> None:
    made(tmp_path / "store")
    (tmp_path / "link").symlink_to(tmp_path / "store")
    assert Store(tmp_path / "link").is_done(ONE)


@pytest.mark.parametrize("text", ["[" * 100_000, "[]", '{"key": 1}', '{"reason": []}', "\xff"])
def test_files_of_a_store_that_are_something_else_are_passed_over(tmp_path: Path, text: str) -> None:
    store = made(tmp_path / "store")
    for path in (store.root / "failures" / f"{ONE.key}.json", store.folder(ONE) / "result.json"):
        path.write_bytes(text.encode("latin-1"))
    (store.root / "log" / "other.jsonl").write_bytes(text.encode("latin-1") + b'\n{"time": [], "event": "written"}\n')
    assert store.failures() == {}
    assert list(store.records()) == []
    assert {event["event"] for event in read_journals(store.root / "log")} == {"start", "written"}
