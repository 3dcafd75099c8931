"""Workers that crash, hang or misbehave end as failures with their reason, never as a stuck run; locally and by Ray."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from builders.bench import make_grid, make_trouble
from builders.kills import descendants, toy_command, violations, wait_until_gone
from sfra.bench.engine.cell import Cell, order
from sfra.bench.engine.disk import StoreError
from sfra.bench.engine.journal import read_journals
from sfra.bench.engine.pool import LocalPool, PoolError
from sfra.bench.engine.ray_pool import RayPool
from sfra.bench.engine.run import run
from sfra.bench.engine.store import Store
from sfra.bench.engine.summary import Progress, Summary
from sfra.core.cpu import cores
from sfra.core.errors import InputError, MissingPackageError

FAILURES = {
    "raise": ("raised", "ValueError: seven is not a prime", 1),
    "diverge": ("not-finite", "the weights are not finite\n  got:      nan after epoch 3", 1),
    "hang": ("time-limit", "took longer than 2 s and was killed", 1),
    "suicide": ("crashed", "its process died: ", 3),
    "segfault": ("crashed", "its process died: ", 3),
    "return nan": ("not-json", "result.scores[1] is not finite", 1),
    "return a set": ("not-json", "result.value is not plain JSON", 1),
    "return a list": ("not-json", "the result of trouble is not a dict", 1),
    "leave": ("crashed", "its process died: ", 3),
    "exit": ("raised", "SystemExit: 3", 1),
}
ON_RAY = ("raise", "hang", "suicide")
Troubled = tuple[Store, Summary, list[Progress]]


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RayPool]:
    """Start Ray once; runs that find it started use it and leave it."""
    ray = pytest.importorskip("ray")
    pool = RayPool(Store(tmp_path_factory.mktemp("first")), modules=["builders.bench"], workers=2)
    yield pool
    assert ray.is_initialized(), "a run leaves a Ray that it has not started"
    pool.close()
    assert not ray.is_initialized()


@pytest.fixture(scope="module", params=["local", "ray"])
def troubled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Troubled:
    """Run every kind of trouble, and sums that have nothing to do with it, on two workers."""
    if request.param == "ray":
        request.getfixturevalue("started")
    store = Store(tmp_path_factory.mktemp("troubled"))
    troubles = ON_RAY if request.param == "ray" else FAILURES
    goals = [*map(make_trouble, troubles), make_trouble("crash twice"), *make_grid(4, 0.0)]
    seen: list[Progress] = []
    summary = run(goals, store, executor=request.param, workers=2, time_limit={"trouble": 2}, progress=seen.append)
    return store, summary, seen


def test_failures_say_why_and_keep_what_was_printed(troubled: Troubled) -> None:
    _, summary, _ = troubled
    assert len(summary.failed) in (len(FAILURES), len(ON_RAY))
    for failure in summary.failed:
        how = failure.settings["how"]
        reason, words, attempts = FAILURES[how]
        assert (how, failure.reason, failure.attempts) == (how, reason, attempts)
        assert failure.message.startswith(words)
        assert f"about to {how}" in failure.output
    assert "builders/bench.py" in {each.settings["how"]: each for each in summary.failed}["raise"].traceback


def test_the_rest_of_the_grid_is_done_and_nothing_is_half_written(troubled: Troubled) -> None:
    store, summary, _ = troubled
    assert [store.result(goal)["value"] for goal in make_grid(4, 0.0)] == [3, 6, 5, 4, 9, 9]
    assert summary.left == ()
    assert violations(store) == []


def test_a_cell_that_crashes_twice_is_done_the_third_time_and_its_scratch_is_gone(troubled: Troubled) -> None:
    store, _, seen = troubled
    again = [each.message for each in seen if each.event == "again" and each.cell == make_trouble("crash twice")]
    assert again in (["killed by SIGKILL"] * 2, []), "Ray tries again by itself"
    assert store.result(make_trouble("crash twice")) == {"tries": 3}
    assert not store.scratch(make_trouble("crash twice")).exists()


def test_tasks_that_cannot_be_imported_end_the_run_with_the_reason(started: RayPool, tmp_path: Path) -> None:
    for executor in ("local", "ray"):
        with pytest.raises(PoolError, match=r"cannot be imported(.|\n)*no_such_module"):
            run(make_grid(2, 0.0), Store(tmp_path), executor=executor, workers=1, modules=["no_such_module"])


def test_a_store_that_a_worker_cannot_use_ends_the_run(started: RayPool, tmp_path: Path) -> None:
    store, (cell, _, _) = Store(tmp_path / "store"), make_grid(2, 0.0)
    (store.root / "locks" / cell.key).symlink_to(tmp_path / "outside")
    for executor in ("local", "ray"):
        with pytest.raises(StoreError, match="leads elsewhere"):
            run([cell], store, executor=executor, workers=1)
    assert not (tmp_path / "outside").exists()


def test_a_time_limit_kills_the_processes_that_a_task_has_started(tmp_path: Path) -> None:
    cell = make_trouble("start a child", tell=str(tmp_path / "pid"))
    run([cell], Store(tmp_path / "store"), workers=1, time_limit=0.7)
    assert wait_until_gone([int((tmp_path / "pid").read_text())], 10) == []


def test_an_orphan_of_a_crashed_task_does_not_keep_its_cell(tmp_path: Path) -> None:
    cell, store = make_trouble("leave a child", seconds=20), Store(tmp_path)
    (failure,) = run([cell], store, workers=1).failed
    assert (failure.reason, failure.attempts) == ("crashed", 3)


def test_a_worker_that_is_killed_between_two_cells_is_replaced(tmp_path: Path) -> None:
    store, cells = Store(tmp_path), make_grid(2, 0.0)
    killed: list[int] = []

    def kill(progress: Progress) -> None:
        if progress.event == "written" and progress.cell is not None and len(killed) < 2:
            record = store.record(progress.cell)
            assert record is not None
            killed.append(record.pid)
            os.kill(record.pid, signal.SIGKILL)
            time.sleep(0.5 * len(killed))

    assert run(cells, store, workers=1, progress=kill).complete
    assert len(set(killed)) == 2
    assert violations(store) == []


def test_workers_share_the_cores_and_devices_and_print_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for name in ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MKL_NUM_THREADS", "1")
    cells = [Cell(kind="surroundings", settings={"place": place}) for place in range(2)]
    store = Store(tmp_path)
    run([*cells, make_trouble("raise")], store, workers=2, devices=["one", "two"])
    assert capfd.readouterr() == ("", "")
    found = [store.result(cell) for cell in cells]
    assert sorted(each["device"] for each in found) == ["one", "two"]
    assert {each["threads"] for each in found} == {str(max(1, cores() // 2))}
    assert {each["mkl"] for each in found} == {"1"}, "a lower limit of the user stays"
    assert all(each["stdin"] == "" and each["pid"] != os.getpid() for each in found)
    assert "OMP_NUM_THREADS" not in os.environ


def test_there_must_be_a_worker_and_a_device(tmp_path: Path) -> None:
    for given in ({"workers": 0}, {"devices": ()}):
        with pytest.raises(InputError, match="a worker and a device"):
            LocalPool(Store(tmp_path), modules=(), **given)


def test_a_script_that_is_not_guarded_is_not_run_again_by_its_workers(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "from pathlib import Path\n"
        "from builders.bench import make_grid\n"
        "from sfra.bench.engine.run import run\n"
        "from sfra.bench.engine.store import Store\n"
        f"print(run(make_grid(2, 0.0), Store({str(tmp_path / 'store')!r}), workers=1))\n"
    )
    paths = os.pathsep.join(path for path in sys.path if path)
    environment = {**os.environ, "PYTHONPATH": paths}
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout == "3 of 3 goals done\n"


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
    assert wait_until_gone(below, 5) == []
    assert b"KeyboardInterrupt" in errors
    assert run(make_grid(10, 0.2)[:1], store, workers=2).complete
    assert violations(store) == []


def test_resources_that_no_machine_has_are_refused_instead_of_waited_for(started: RayPool) -> None:
    started._resources = {"trouble": {"num_gpus": 64}}
    with pytest.raises(PoolError, match=r"no machine here can run a cell of kind trouble(.|\n)*num_gpus"):
        started.submit(order(make_trouble("raise")))
    started._resources = {}


def test_without_ray_the_message_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingPackageError, match=r"needs the ray package(.|\n)*sfra\[ray\]"):
        run(make_grid(2, 0.0), Store(tmp_path), executor="ray")
