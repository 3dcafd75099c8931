"""The store keeps cells whole or not at all, refuses what is not its own, and says what is wrong with the disk."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from builders.bench import make_trouble
from sfra.bench.engine.cell import Cell
from sfra.bench.engine.compute import compute
from sfra.bench.engine.journal import read_journals, seconds_per_kind
from sfra.bench.engine.store import Failure, Store, StoreError
from sfra.bench.engine.verify import violations
from sfra.bench.engine.work import Context
from sfra.core.errors import InputError, SfraError

ONE = Cell(kind="number", settings={"value": 1})
TWO = Cell(kind="number", settings={"value": 2})
SUM = Cell(kind="sum", needs={"a": ONE, "b": TWO})


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def put(store: Store, *cells: Cell) -> list[str]:
    return [compute(cell, store, tag="t", context=Context(keep=store.scratch(cell))).what for cell in cells]


def tree(folder: Path) -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in folder.rglob("*")}


def test_a_computed_cell_can_be_read_with_all_that_led_to_it(store: Store) -> None:
    assert put(store, ONE, TWO, SUM) == ["written"] * 3
    record = store.record(SUM)
    assert record is not None
    assert record.result == {"value": 3, "parts": {"a": 1, "b": 2}} == store.result(SUM.key)
    assert record.needs == {"a": ONE.key, "b": TWO.key}
    assert record.files == {"value.txt": 1}
    assert (store.folder(SUM.key) / "value.txt").read_text() == "3"
    assert record.versions["python"] == sys.version.split()[0]
    assert {each.key for each in store.records("number")} == {ONE.key, TWO.key}
    assert violations(store) == []


def test_a_finished_cell_is_not_computed_again(store: Store) -> None:
    assert put(store, ONE, ONE) == ["written", "already"]
    assert [event["event"] for event in read_journals(store.root / "log")] == ["start", "written"]


def test_the_second_of_two_publications_is_dropped(store: Store) -> None:
    put(store, ONE)
    draft = store.draft(ONE)
    (draft / "value.txt").write_text("another")
    facts = {"result": {}, "seconds": 0, "host": "", "pid": 0, "device": "", "versions": {}, "finished": 0}
    assert store.publish(ONE, draft, facts) is False
    assert (store.folder(ONE) / "value.txt").read_text() == "1"
    assert list((store.root / "tmp").iterdir()) == []


def test_a_folder_that_is_something_else_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("")
    before = tree(tmp_path)
    with pytest.raises(StoreError, match=r"is not a benchmark store(.|\n)*holds thesis.tex(.|\n)*another folder"):
        Store(tmp_path)
    assert tree(tmp_path) == before


def test_a_store_of_a_newer_version_says_so(tmp_path: Path) -> None:
    (tmp_path / "store.json").write_text('{"sfra": "benchmark store", "layout": 99}')
    with pytest.raises(StoreError, match="written by a newer sfra"):
        Store(tmp_path)


@pytest.mark.parametrize("mark", ['{"sfra": "benchmark store", "layout": 0}', '{"layout": 1}', "{", "[]"])
def test_a_store_of_another_layout_is_refused(tmp_path: Path, mark: str) -> None:
    (tmp_path / "store.json").write_text(mark)
    with pytest.raises(StoreError, match="is not a benchmark store"):
        Store(tmp_path)


def test_a_store_opened_for_reading_must_exist_and_is_never_written(store: Store, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no such folder"):
        Store(tmp_path / "nowhere", read_only=True)
    assert not (tmp_path / "nowhere").exists()
    put(store, ONE)
    before = tree(store.root)
    reading = Store(store.root, read_only=True)
    assert reading.result(ONE) == {"value": 1}
    assert (reading.failures(), reading.is_locked(ONE), violations(reading)) == ({}, False, [])
    with pytest.raises(AssertionError):
        reading.lock(TWO)
    assert tree(store.root) == before


@pytest.mark.parametrize("key", ["../../../etc", "x", ONE.key.upper()])
def test_a_key_that_is_none_never_becomes_a_path(store: Store, key: str) -> None:
    for use in (store.folder, store.is_done, store.failure, store.lock, store.clear_failure, store.scratch):
        with pytest.raises(InputError, match="not the key of a cell"):
            use(key)


def test_asking_for_the_result_of_an_unfinished_cell_says_what_to_do(store: Store) -> None:
    with pytest.raises(InputError, match=r"not done(.|\n)*sum(.|\n)*run the benchmark"):
        store.result(SUM)


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-5])


@pytest.mark.parametrize(
    "damage",
    [
        lambda folder: _cut(folder / "result.json"),
        lambda folder: (folder / "result.json").write_bytes(b""),
        lambda folder: (folder / "result.json").unlink(),
        lambda folder: (folder / "value.txt").write_text(""),
        lambda folder: (folder / "value.txt").unlink(),
        lambda folder: (folder / "result.json").write_text(json.dumps({"key": folder.name})),
    ],
)
def test_a_damaged_cell_is_set_aside_and_computed_again(store: Store, damage: Callable[[Path], Any]) -> None:
    put(store, ONE)
    damage(store.folder(ONE))
    assert not store.is_done(ONE)
    assert violations(store) == [f"damaged: {ONE.key}"]
    assert put(store, ONE) == ["written"]
    assert store.result(ONE) == {"value": 1}
    assert [path.name[:64] for path in (store.root / "quarantine").iterdir()] == [ONE.key]
    assert violations(store) == []


def test_a_cell_does_not_read_damaged_inputs(store: Store) -> None:
    put(store, ONE, TWO)
    _cut(store.folder(ONE) / "result.json")
    assert put(store, SUM) == ["missing"]


def test_only_one_process_computes_and_nobody_prunes_what_is_read(store: Store) -> None:
    put(store, ONE, TWO)
    lock = store.lock(SUM)
    assert lock is not None
    with lock:
        assert put(store, SUM) == ["locked"]
        assert Store(store.root, read_only=True).is_locked(SUM)
    reading = store.lock(ONE, shared=True)
    assert reading is not None
    with reading:
        assert store.discard(ONE) is False
        assert put(store, SUM) == ["written"], "two may read at the same time"
    assert store.discard(ONE) is True
    assert not store.is_done(ONE)
    assert store.discard(ONE) is False
    assert violations(store) == []


def test_a_lock_is_free_again_when_its_process_is_killed_although_its_forked_child_lives(store: Store) -> None:
    program = (
        "import os, sys, time; from sfra.bench.engine.store import Store; lock = Store(sys.argv[1]).lock(sys.argv[2])\n"
        "child = os.fork()\n"
        "os.write(1, b'%d\\n' % child); time.sleep(60)"  # in one piece: both write to this pipe
    )
    arguments = [sys.executable, "-c", program, str(store.root), ONE.key]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        _, child = sorted(int(process.stdout.readline()) for _ in range(2))  # both are up
        assert store.lock(ONE) is None
        process.kill()
        process.wait()
        try:
            os.kill(child, 0)
            lock = store.lock(ONE)
            assert lock is not None
            lock.release()
        finally:
            os.kill(child, 9)


def test_a_file_system_without_locks_is_named(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(handle: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(StoreError, match=r"no working locks(.|\n)*No locks available(.|\n)*another file system"):
        store.lock(ONE)


def test_what_dead_processes_left_is_swept_but_not_what_is_being_written(store: Store) -> None:
    put(store, TWO)
    dead, alive = store.draft(ONE), store.draft(SUM)
    (dead / "weights").write_text("half")
    for cell in (ONE, TWO):
        (store.scratch(cell) / "deep").mkdir(parents=True)
    lock = store.lock(SUM)
    assert lock is not None
    with lock:
        store.sweep()
        assert (dead.exists(), alive.exists()) == (False, True)
    store.sweep()
    assert not alive.exists()
    assert store.scratch(ONE).exists(), "an unfinished cell may still continue from it"
    assert not store.scratch(TWO).exists()


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.ENOSPC, "the disk is full"),
        (errno.EDQUOT, "quota"),
        (errno.EROFS, "read-only"),
        (errno.EACCES, "permission denied"),
    ],
)
@pytest.mark.parametrize("call", ["fsync", "rename", "replace", "mkdir"])
def test_trouble_with_the_disk_leaves_nothing_half_written_and_is_not_the_cells_fault(
    store: Store, monkeypatch: pytest.MonkeyPatch, number: int, words: str, call: str
) -> None:
    def refuse(*arguments: object, **settings: object) -> None:
        raise OSError(number, os.strerror(number), str(store.root / "tmp"))

    with monkeypatch.context() as patch:
        patch.setattr(os, call, refuse)
        outcome = compute(ONE, store, tag="t")
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


def test_a_permission_that_a_work_lacks_elsewhere_is_the_works_failure(store: Store, tmp_path: Path) -> None:
    cell = make_trouble("be refused", place=str(tmp_path / "elsewhere"))
    assert put(store, cell) == ["failed"]
    failure = store.failure(cell)
    assert failure is not None
    assert "PermissionError" in failure.message


def test_a_failure_is_kept_until_it_is_cleared_and_gone_once_the_cell_is_done(store: Store) -> None:
    failure = Failure(key=ONE.key, kind="number", label="one", reason="raised", message="why", attempts=2, when=1.5)
    store.write_failure(failure)
    assert store.failure(ONE) == failure
    assert store.failures() == {ONE.key: failure}
    assert put(store, ONE) == ["failed"], "a failed cell is not tried again"
    store.clear_failure(ONE)
    assert put(store, ONE) == ["written"]
    assert store.failures() == {}


def test_a_journal_line_cut_off_by_a_power_failure_is_left_out(store: Store) -> None:
    put(store, ONE)
    log = next((store.root / "log").iterdir())
    log.write_bytes(log.read_bytes() + b'{"time": 1, "eve')
    assert len(read_journals(store.root / "log")) == 2


def test_a_store_in_the_home_of_nobody_is_not_there() -> None:
    with pytest.raises(SfraError, match="nobody-knows"):
        Store("~nobody-knows/store", read_only=True)


@pytest.mark.parametrize("change", [{"kind": None}, {"seconds": "x"}, {"time": "x"}, {"event": []}])
def test_a_journal_line_of_other_types_counts_for_nothing(store: Store, change: dict[str, object]) -> None:
    put(store, ONE)
    known = seconds_per_kind(read_journals(store.root / "log"))
    line = {"time": 1, "event": "written", "kind": "number", "seconds": 5} | change
    (store.root / "log" / "x.jsonl").write_text(json.dumps(line) + "\n")
    assert seconds_per_kind(read_journals(store.root / "log")) == known


def test_a_journal_line_of_any_time_has_its_place(store: Store) -> None:
    put(store, ONE)
    (store.root / "log" / "x.jsonl").write_text(json.dumps({"time": 10**400, "event": "late"}) + "\n")
    assert read_journals(store.root / "log")[-1]["event"] == "late"


@pytest.mark.parametrize("change", [{"message": 7}, {"attempts": "x"}, {"settings": []}, {"label": None}])
def test_a_failure_of_other_types_counts_for_nothing(store: Store, change: dict[str, object]) -> None:
    store.write_failure(Failure(key=ONE.key, kind="number", label="one", reason="raised", message="why"))
    file = store.root / "failures" / f"{ONE.key}.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    assert store.failures() == {}


def test_broken_promises_are_found(store: Store) -> None:
    put(store, ONE)
    store.journal.write("start", key=ONE.key, kind="number", label="", tag="")
    store.journal.write("written", key=ONE.key, kind="number", seconds=1)
    store.draft(TWO)
    found = "\n".join(violations(store))
    assert f"written twice: {ONE.key}" in found
    assert f"started after it was written: {ONE.key}" in found
    assert f"left behind: tmp/{TWO.key}" in found


def test_importing_the_engine_loads_no_heavy_package() -> None:
    program = (
        "import sys, sfra.bench.engine.run, sfra.bench.engine.worker, sfra.bench.engine.ray_executor;"
        "print([name for name in ('torch', 'numpy', 'ray', 'pyarrow', 'numba') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
