"""The local executor: workers that crash, hang or misbehave end as failures with their reason, never as a stuck run."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest

from builders.bench import make_grid, make_trouble
from builders.kills import descendants, toy_command, wait_until_gone
from sfra.bench.engine.cell import Cell
from sfra.bench.engine.executor import ExecutorError
from sfra.bench.engine.journal import read_journals
from sfra.bench.engine.local import LocalExecutor, cores
from sfra.bench.engine.run import run
from sfra.bench.engine.store import Failure, Store
from sfra.bench.engine.summary import Summary
from sfra.bench.engine.verify import violations
from sfra.core.errors import InputError

TROUBLES = (
    "raise",
    "diverge",
    "hang",
    "segfault",
    "suicide",
    "crash twice",
    "return a set",
    "return nan",
    "return a list",
)


@pytest.fixture(scope="module")
def troubled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Store, Summary]:
    """Run every kind of trouble, and sums that have nothing to do with it, on two workers."""
    store = Store(tmp_path_factory.mktemp("troubled"))
    goals = [*map(make_trouble, TROUBLES), *make_grid(4, 0.0)]
    return store, run(goals, store, workers=2, time_limit={"trouble": 1})


def failure_of(troubled: tuple[Store, Summary], how: str) -> Failure:
    failure = troubled[0].failure(make_trouble(how))
    assert failure is not None
    return failure


def test_the_rest_of_the_grid_is_done_and_nothing_is_half_written(troubled: tuple[Store, Summary]) -> None:
    store, summary = troubled
    assert all(store.is_done(goal) for goal in make_grid(4, 0.0))
    assert len(summary.failed) == 8
    assert summary.left == ()
    assert violations(store) == []


@pytest.mark.parametrize(
    ("how", "reason", "words", "attempts"),
    [
        ("raise", "raised", "ValueError: seven is not a prime", 1),
        ("diverge", "not-finite", "the weights are not finite\n  got:      nan after epoch 3", 1),
        ("hang", "time-limit", "took longer than 1 s and was killed", 1),
        ("segfault", "crashed", "its process died: killed by SIGSEGV", 3),
        ("suicide", "crashed", "its process died: killed by SIGKILL", 3),
        ("return a set", "not-json", "result.value is not plain JSON", 1),
        ("return nan", "not-json", "result.scores[1] is not finite", 1),
        ("return a list", "not-json", "the result of trouble is not a dict", 1),
    ],
)
def test_a_failure_says_why_and_keeps_what_was_printed(
    troubled: tuple[Store, Summary], how: str, reason: str, words: str, attempts: int
) -> None:
    failure = failure_of(troubled, how)
    assert failure.reason == reason
    assert failure.message.startswith(words)
    assert failure.attempts == attempts
    assert f"about to {how}" in failure.output
    assert failure.label == f"trouble how={how}"


def test_a_traceback_names_the_place(troubled: tuple[Store, Summary]) -> None:
    assert "builders/bench.py" in failure_of(troubled, "raise").traceback
    assert "_segfault" in failure_of(troubled, "segfault").output, "the stack of a segmentation fault is kept too"


def test_a_cell_that_crashes_twice_is_done_the_third_time_and_its_scratch_is_gone(
    troubled: tuple[Store, Summary],
) -> None:
    store, _ = troubled
    assert store.result(make_trouble("crash twice")) == {"tries": 3}
    assert not store.scratch(make_trouble("crash twice")).exists()


def test_a_disk_that_is_full_stops_the_run(tmp_path: Path) -> None:
    store = Store(tmp_path)
    with pytest.raises(Exception, match="the disk is full"):
        run([make_trouble("fill the disk")], store, workers=1)
    assert store.failures() == {}
    assert violations(store) == []


def test_works_that_cannot_be_imported_are_told_once_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(ExecutorError, match=r"does not start(.|\n)*no_such_module"):
        run(make_grid(2, 0.0), Store(tmp_path), workers=1, modules=["no_such_module"])


def test_a_time_limit_kills_the_processes_that_a_work_has_started(tmp_path: Path) -> None:
    cell = make_trouble("start a child", tell=str(tmp_path / "pid"))
    run([cell], Store(tmp_path / "store"), workers=1, time_limit=0.7)
    assert wait_until_gone([int((tmp_path / "pid").read_text())], 10) == []


def test_an_orphan_of_a_crashed_work_does_not_keep_its_lock(tmp_path: Path) -> None:
    cell, store = make_trouble("leave a child", seconds=20), Store(tmp_path)
    (failure,) = run([cell], store, workers=1).failed
    assert (failure.reason, failure.attempts) == ("crashed", 3)


def test_workers_share_the_cores_and_devices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MKL_NUM_THREADS", "1")
    cells = [Cell(kind="surroundings", settings={"place": place}) for place in range(2)]
    store = Store(tmp_path)
    run(cells, store, workers=2, devices=["one", "two"])
    found = [store.result(cell) for cell in cells]
    assert sorted(each["device"] for each in found) == ["one", "two"]
    assert {each["threads"] for each in found} == {str(max(1, cores() // 2))}
    assert {each["mkl"] for each in found} == {"1"}, "a lower limit of the user stays"
    assert all(each["stdin"] == "" and each["pid"] != os.getpid() for each in found)


def test_nothing_that_a_work_prints_reaches_the_terminal(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    run([make_trouble("raise"), *make_grid(2, 0.0)], Store(tmp_path), workers=1)
    assert capfd.readouterr() == ("", "")


def test_there_must_be_a_worker_and_a_device(tmp_path: Path) -> None:
    store = Store(tmp_path)
    with pytest.raises(InputError, match="workers >= 1"):
        LocalExecutor(store, modules=(), workers=0)
    with pytest.raises(InputError, match="a device"):
        LocalExecutor(store, modules=(), workers=1, devices=())


@pytest.mark.usefixtures("interruptible")
def test_an_interrupted_run_stops_its_workers_and_goes_on_later(tmp_path: Path) -> None:
    store = Store(tmp_path)
    process = subprocess.Popen(toy_command("--sleep", "0.2")(tmp_path), stderr=subprocess.PIPE, start_new_session=True)
    while not read_journals(tmp_path / "log"):
        time.sleep(0.01)
    below = descendants(process.pid)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=20)
    assert len(below) >= 1
    assert wait_until_gone(below, 0) == []
    assert b"KeyboardInterrupt" in errors
    assert run(make_grid(10, 0.2)[:1], store, workers=2).complete
    assert violations(store) == []


def test_a_run_in_a_thread_that_ends_is_complete(tmp_path: Path) -> None:
    done: list[Summary] = []
    thread = threading.Thread(target=lambda: done.append(run(make_grid(3, 0.0), Store(tmp_path), workers=1)))
    thread.start()
    thread.join()
    assert done[0].complete
