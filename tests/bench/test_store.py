"""The store keeps cells whole or not at all, refuses what is not its own, and says what is wrong with the disk."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from builders.bench import make_trouble, put
from builders.kills import violations
from sfra.bench.engine.cell import Cell
from sfra.bench.engine.disk import StoreError
from sfra.bench.engine.journal import read_journals, seconds_per_kind
from sfra.bench.engine.packing import pack, unpack
from sfra.bench.engine.store import FOLDERS, Failure, Store
from sfra.core.errors import InputError

ONE = Cell(kind="number", settings={"value": 1})
TWO = Cell(kind="number", settings={"value": 2})
SUM = Cell(kind="sum", needs={"a": ONE, "b": TWO})


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def tree(folder: Path) -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in folder.rglob("*")}


def test_a_computed_cell_can_be_read_with_all_that_led_to_it(store: Store) -> None:
    assert put(store, ONE, TWO, SUM, ONE) == ["written"] * 3 + ["already"]
    record = store.record(SUM)
    assert record is not None
    assert record.result == {"value": 3, "parts": {"a": 1, "b": 2}} == store.result(SUM.key)
    assert record.needs == {"a": ONE.key, "b": TWO.key}
    assert record.files == {"value.txt": 1}
    assert (store.folder(SUM.key) / "value.txt").read_text() == "3"
    assert record.versions["python"] == sys.version.split()[0]
    assert {each.key for each in store.records("number")} == {ONE.key, TWO.key}
    assert violations(store) == []


def test_the_second_of_two_publications_is_dropped(store: Store) -> None:
    put(store, ONE)
    draft = store.draft(ONE)
    (draft / "value.txt").write_text("another")
    assert store.publish(ONE, draft, {}) is False
    assert (store.folder(ONE) / "value.txt").read_text() == "1"
    assert list((store.root / "tmp").iterdir()) == []


def test_a_folder_that_is_something_else_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("")
    before = tree(tmp_path)
    with pytest.raises(StoreError, match=r"is not a benchmark store(.|\n)*holds thesis.tex(.|\n)*another folder"):
        Store(tmp_path)
    assert tree(tmp_path) == before


@pytest.mark.parametrize(
    ("mark", "message"),
    [
        ('{"sfra": "benchmark store", "layout": 99}', "written by a newer sfra"),
        ('{"layout": 1}', "is not a benchmark store"),
        ("{", "is not a benchmark store"),
    ],
)
def test_a_store_of_another_layout_is_refused(tmp_path: Path, mark: str, message: str) -> None:
    (tmp_path / "store.json").write_text(mark)
    with pytest.raises(StoreError, match=message):
        Store(tmp_path)


def test_a_store_opened_for_reading_must_exist_and_is_never_written(store: Store, tmp_path: Path) -> None:
    for nowhere in (tmp_path / "nowhere", "~nobody-knows/store"):
        with pytest.raises(StoreError, match="no such folder"):
            Store(nowhere, read_only=True)
    assert not (tmp_path / "nowhere").exists()
    put(store, ONE)
    before = tree(store.root)
    reading = Store(store.root, read_only=True)
    assert reading.result(ONE) == {"value": 1}
    assert (reading.failures(), reading.is_claimed(ONE), violations(reading)) == ({}, False, [])
    with pytest.raises(AssertionError), reading.claim(TWO):
        pass
    assert tree(store.root) == before


def test_a_key_that_is_none_never_becomes_a_path(store: Store) -> None:
    uses = (store.folder, store.is_done, store.failure, store.clear_failure, store.scratch, store.draft)
    for use in (*uses, lambda key: store.claim(key).__enter__()):
        with pytest.raises(InputError, match="not the key of a cell"):
            use("../../../etc")


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-5])


@pytest.mark.parametrize(
    "damage",
    [
        lambda folder: _cut(folder / "result.json"),
        lambda folder: (folder / "value.txt").write_text(""),
        lambda folder: (folder / "result.json").write_text(json.dumps({"key": folder.name})),
    ],
)
def test_a_damaged_cell_is_set_aside_and_computed_again(store: Store, damage: Callable[[Path], Any]) -> None:
    put(store, ONE, TWO)
    damage(store.folder(ONE))
    assert not store.is_done(ONE)
    assert violations(store) == [f"damaged: {ONE.key}"]
    assert put(store, SUM) == ["missing"], "nothing reads it"
    assert put(store, ONE, SUM) == ["written", "written"]
    assert [path.name[:64] for path in (store.root / "quarantine").iterdir()] == [ONE.key]
    assert violations(store) == []


def test_only_one_process_computes_a_cell(store: Store) -> None:
    with store.claim(ONE) as mine:
        assert mine
        assert put(store, ONE) == ["locked"]
        assert Store(store.root, read_only=True).is_claimed(ONE)
    assert put(store, ONE) == ["written"]


def test_a_claim_ends_with_its_process_although_its_forked_child_lives(store: Store) -> None:
    program = (
        "import os, sys, time; from sfra.bench.engine.store import Store\n"
        "with Store(sys.argv[1]).claim(sys.argv[2]):\n"
        "    child = os.fork()\n"
        "    os.write(1, b'%d\\n' % child); time.sleep(60)"  # in one piece: both write to this pipe
    )
    arguments = [sys.executable, "-c", program, str(store.root), ONE.key]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        _, child = sorted(int(process.stdout.readline()) for _ in range(2))  # both are up
        with store.claim(ONE) as mine:
            assert not mine
        process.kill()
        process.wait()
        try:
            os.kill(child, 0)
            with store.claim(ONE) as mine:
                assert mine
        finally:
            os.kill(child, 9)


def test_a_file_system_without_locks_is_named(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(handle: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(StoreError, match="no working locks"), store.claim(ONE):
        pass


def test_what_dead_processes_left_is_swept_but_not_what_is_being_written(store: Store) -> None:
    put(store, TWO)
    dead, alive = store.draft(ONE), store.draft(SUM)
    (dead / "weights").write_text("half")
    for cell in (ONE, TWO):
        (store.scratch(cell) / "deep").mkdir(parents=True)
    with store.claim(SUM):
        store.sweep()
        assert (dead.exists(), alive.exists()) == (False, True)
    store.sweep()
    assert not alive.exists()
    assert store.scratch(ONE).exists(), "an unfinished cell may still continue from it"
    assert not store.scratch(TWO).exists()


@pytest.mark.parametrize(
    ("number", "words", "call"),
    [
        (errno.ENOSPC, "the disk is full", "fsync"),
        (errno.EDQUOT, "quota", "rename"),
        (errno.EROFS, "read-only", "replace"),
        (errno.EACCES, "permission denied", "mkdir"),
    ],
)
def test_trouble_with_the_disk_leaves_nothing_half_written_and_is_not_the_cells_fault(
    store: Store, monkeypatch: pytest.MonkeyPatch, number: int, words: str, call: str
) -> None:
    from sfra.bench.engine.cell import order
    from sfra.bench.engine.compute import compute

    def refuse(*arguments: object, **settings: object) -> None:
        raise OSError(number, os.strerror(number), str(store.root / "tmp"))

    with monkeypatch.context() as patch:
        patch.setattr(os, call, refuse)
        outcome = compute(order(ONE), store)
    assert outcome.what == "stop"
    assert words in outcome.message
    assert "finished cells are kept" in outcome.message
    assert list((store.root / "tmp").iterdir()) == []
    assert (store.is_done(ONE), store.failure(ONE)) == (False, None)
    assert put(store, ONE) == ["written"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_store_in_a_folder_without_permission_is_one_message(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(StoreError, match="permission denied"):
        Store(tmp_path / "store")


def test_a_permission_that_a_task_lacks_elsewhere_is_the_tasks_failure(store: Store, tmp_path: Path) -> None:
    cell = make_trouble("be refused", place=str(tmp_path / "elsewhere"))
    assert put(store, cell) == ["failed"]
    failure = store.failure(cell)
    assert failure is not None
    assert "PermissionError" in failure.message


def test_a_failure_is_kept_until_it_is_cleared_and_gone_once_the_cell_is_done(store: Store) -> None:
    failure = Failure(key=ONE.key, kind="number", label="one", reason="raised", message="why", attempts=2, when=1.5)
    store.write_failure(failure)
    assert store.failures() == {ONE.key: failure}
    assert put(store, ONE) == ["failed"], "a failed cell is not tried again"
    store.clear_failure(ONE)
    assert put(store, ONE) == ["written"]
    assert store.failures() == {}


@pytest.mark.parametrize("line", [b'{"time": 1, "eve', b'{"time": "x", "event": "written"}', b"[" * 100_000, b"\xff"])
def test_a_journal_line_that_is_cut_off_or_something_else_counts_for_nothing(store: Store, line: bytes) -> None:
    put(store, ONE)
    known = read_journals(store.root / "log")
    (store.root / "log" / "x.jsonl").write_bytes(line + b'\n{"time": 1, "event": "written", "kind": 5}\n')
    assert read_journals(store.root / "log")[1:] == known
    assert list(seconds_per_kind(read_journals(store.root / "log"))) == ["number"]


def test_importing_the_engine_loads_no_heavy_package() -> None:
    program = (
        "import sys, sfra.bench.engine.run, sfra.bench.engine.pool, sfra.bench.engine.ray_pool;"
        "print([name for name in ('torch', 'numpy', 'ray', 'pyarrow', 'numba') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def move_out(path: Path, outside: Path) -> None:
    """Put what is at a path outside, and a link to it in its place."""
    shutil.move(path, outside)
    path.symlink_to(outside)


@pytest.mark.parametrize("part", [*FOLDERS, "store.json", "cells/number"])
def test_a_store_with_a_part_outside_is_refused(store: Store, tmp_path: Path, part: str) -> None:
    put(store, ONE)
    move_out(store.root / part, tmp_path / "outside")
    before = sorted(tmp_path.rglob("*"))
    for read_only in (True, False):
        with pytest.raises(StoreError, match=r"leads elsewhere[\s\S]*a symbolic link"):
            Store(store.root, read_only=read_only)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_lock_and_a_scratch_folder_that_are_links_are_not_written_through(store: Store, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("mine")
    (store.root / "locks" / ONE.key).symlink_to(outside)
    (store.root / "scratch" / ONE.key).symlink_to(tmp_path)
    with pytest.raises(StoreError, match="leads elsewhere"), store.claim(ONE):
        pass
    with pytest.raises(StoreError, match="leads elsewhere"):
        store.scratch(ONE)
    assert outside.read_text() == "mine"


def test_a_cell_that_is_a_link_is_not_there_and_its_place_is_not_written_through(store: Store, tmp_path: Path) -> None:
    put(store, ONE)
    pack([ONE], store, tmp_path / "r.tar")
    outside = tmp_path / "outside"
    move_out(store.folder(ONE), outside)
    assert not store.is_done(ONE)
    kept = {path: path.read_bytes() for path in outside.rglob("*") if path.is_file()}
    assert unpack(tmp_path / "r.tar", store) == 1
    assert {path: path.read_bytes() for path in outside.rglob("*") if path.is_file()} == kept
    assert store.is_done(ONE)


def test_the_whole_store_may_be_a_link(store: Store, tmp_path: Path) -> None:
    put(store, ONE)
    (tmp_path / "link").symlink_to(store.root)
    assert Store(tmp_path / "link").is_done(ONE)


@pytest.mark.parametrize("text", ["[" * 100_000, "[]", '{"key": 1}', '{"reason": []}', "\xff"])
def test_files_of_a_store_that_are_something_else_are_passed_over(store: Store, text: str) -> None:
    put(store, ONE)
    for path in (store.root / "failures" / f"{ONE.key}.json", store.folder(ONE) / "result.json"):
        path.write_bytes(text.encode("latin-1"))
    assert store.failures() == {}
    assert list(store.records()) == []
