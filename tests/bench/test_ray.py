"""The Ray executor keeps the same promises as the local one, on a real Ray."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from builders.bench import make_grid, make_trouble
from sfra.bench.engine.executor import ExecutorError, Order
from sfra.bench.engine.ray_executor import RayExecutor
from sfra.bench.engine.run import run
from sfra.bench.engine.store import Store
from sfra.bench.engine.summary import Summary
from sfra.bench.engine.verify import violations
from sfra.core.errors import MissingPackageError

ray = pytest.importorskip("ray")


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RayExecutor]:
    """Start Ray once; runs that find it started use it and leave it."""
    executor = RayExecutor(Store(tmp_path_factory.mktemp("first")), modules=["builders.bench"], workers=2)
    yield executor
    executor.close()
    assert not ray.is_initialized()


@pytest.fixture(scope="module")
def troubled(started: RayExecutor, tmp_path_factory: pytest.TempPathFactory) -> tuple[Store, Summary]:
    store = Store(tmp_path_factory.mktemp("troubled"))
    troubles = ("raise", "diverge", "hang", "suicide", "crash twice", "return nan")
    goals = [*map(make_trouble, troubles), *make_grid(4, 0.0)]
    return store, run(goals, store, executor="ray", workers=2, time_limit={"trouble": 2})


def test_the_grid_is_done_and_nothing_is_half_written(troubled: tuple[Store, Summary]) -> None:
    store, summary = troubled
    grid = make_grid(4, 0.0)
    assert [store.result(goal)["value"] for goal in grid] == [3, 6, 5, 4, 9, 9]
    assert summary.left == ()
    assert violations(store) == []


@pytest.mark.parametrize(
    ("how", "reason", "words", "attempts"),
    [
        ("raise", "raised", "ValueError: seven is not a prime", 1),
        ("diverge", "not-finite", "the weights are not finite", 1),
        ("hang", "time-limit", "took longer than 2 s and was killed", 1),
        ("suicide", "crashed", "its process died: WorkerCrashedError", 3),
        ("return nan", "not-json", "result.scores[1] is not finite", 1),
    ],
)
def test_a_failure_says_why_and_keeps_what_was_printed(
    troubled: tuple[Store, Summary], how: str, reason: str, words: str, attempts: int
) -> None:
    failure = troubled[0].failure(make_trouble(how))
    assert failure is not None
    assert (failure.reason, failure.attempts) == (reason, attempts)
    assert failure.message.startswith(words)
    assert f"about to {how}" in failure.output


def test_a_cell_that_crashes_twice_is_done_the_third_time(troubled: tuple[Store, Summary]) -> None:
    assert troubled[0].result(make_trouble("crash twice")) == {"tries": 3}


def test_a_run_leaves_a_ray_that_it_has_not_started(troubled: tuple[Store, Summary]) -> None:
    assert ray.is_initialized()


def test_resources_that_no_machine_has_are_refused_instead_of_waited_for(started: RayExecutor) -> None:
    started._resources = {"trouble": {"num_gpus": 64}}
    with pytest.raises(ExecutorError, match=r"no machine here can run a cell of kind trouble(.|\n)*num_gpus"):
        started.submit(Order(cell=make_trouble("raise"), tag="t"))
    started._resources = {}
    assert started.room == 2


def test_works_that_a_task_cannot_import_end_the_run(started: RayExecutor, tmp_path: Path) -> None:
    with pytest.raises(ExecutorError, match=r"cannot be imported(.|\n)*no_such_module"):
        run(make_grid(2, 0.0), Store(tmp_path), executor="ray", modules=["no_such_module"])


def test_without_ray_the_message_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingPackageError, match=r"needs the ray package(.|\n)*sfra\[ray\]"):
        run(make_grid(2, 0.0), Store(tmp_path), executor="ray")
