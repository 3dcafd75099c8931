"""A run computes what unfinished goals need, once, and goes on around whatever fails."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from builders.bench import Here, make_grid, make_trouble, put
from builders.kills import violations
from sfra.bench.engine.cell import Cell, Order
from sfra.bench.engine.compute import Outcome
from sfra.bench.engine.disk import StoreError, remove
from sfra.bench.engine.journal import read_journals
from sfra.bench.engine.run import retry, run, status
from sfra.bench.engine.store import Failure, Store
from sfra.bench.engine.summary import Progress, estimate


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def number(value: int, label: str = "") -> Cell:
    return Cell(kind="number", settings={"value": value}, label=label)


def add(label: str = "", **needs: Cell) -> Cell:
    return Cell(kind="sum", needs=needs, label=label)


def labels(cells: Sequence[Cell]) -> list[str]:
    return [cell.label for cell in cells]


def test_shared_cells_are_computed_once_and_a_second_run_computes_nothing(store: Store) -> None:
    goals = make_grid(6, 0.0)
    summary = run([*goals, *goals], store, executor=Here)
    assert summary.complete
    assert (summary.goals, len(summary.done), len(summary.computed)) == (9, 9, 15)
    assert [store.result(goal)["value"] for goal in goals[:6]] == [3, 6, 9, 12, 9, 6]
    assert violations(store) == []
    assert str(summary) == "9 of 9 goals done"
    assert run(goals, store, executor="unknown executor").computed == ()


def test_the_longest_chain_comes_first_or_goals_go_in_turn(tmp_path: Path) -> None:
    short, deep = number(1, "short"), number(2, "deep")
    goals = [add("first", a=short), add("top", a=add("middle", a=deep))]
    runs = [run(goals, Store(tmp_path / str(turn)), executor=Here, in_turn=turn) for turn in (False, True)]
    assert labels(runs[0].computed) == ["deep", "short", "middle", "first", "top"]
    assert labels(runs[1].computed) == ["short", "first", "deep", "middle", "top"]


def test_a_failed_cell_blocks_what_needs_it_and_nothing_else(store: Store) -> None:
    bad = make_trouble("raise")
    only_for_blocked, shared = number(1, "only for blocked"), number(2, "shared")
    middle = add("middle", a=bad, b=shared)
    top, fine = add("top", a=middle, b=only_for_blocked), add("fine", a=shared)
    summary = run([top, fine], store, executor=Here)
    assert labels(summary.done) == ["fine"]
    assert [failure.label for failure in summary.failed] == ["trouble how=raise"]
    blocked = ["top: blocked by trouble how=raise", "middle: blocked by trouble how=raise"]
    assert [str(each) for each in summary.blocked] == blocked
    assert summary.left == ()
    assert not store.is_done(only_for_blocked), "it would serve only a goal that cannot be reached"
    assert str(summary) == "1 of 2 goals done, 1 failed, 2 blocked"


def test_a_failed_cell_is_tried_again_only_after_retry(store: Store) -> None:
    goals = [add("top", a=make_trouble("raise")), make_trouble("diverge")]
    run(goals, store, executor=Here)
    before = len(read_journals(store.root / "log"))
    assert run(goals, store, executor=Here).computed == ()
    assert len(read_journals(store.root / "log")) == before
    assert [failure.reason for failure in retry(goals, store)] == ["raised", "not-finite"]
    assert len(status(goals, store).left) == 3
    assert len(run(goals, store, executor=Here).failed) == 2


def _elsewhere(store: Store, cell: Cell, end: Callable[[], object]) -> type[Here]:
    """Let another runner have a cell during the first two attempts at it, and then end it somehow."""

    class Contended(Here):
        tried = 0
        held = ExitStack()

        def work(self, order: Order) -> Outcome:
            if order.key == cell.key:
                Contended.tried += 1
                if Contended.tried == 1:
                    assert Contended.held.enter_context(store.claim(cell))
                if Contended.tried == 3:
                    Contended.held.close()
                    end()
            return super().work(order)

    return Contended


def test_a_cell_that_another_runner_finishes_is_waited_for_and_taken_over(store: Store) -> None:
    cell = number(1)
    events: list[str] = []
    executor = _elsewhere(store, cell, lambda: put(store, cell))
    summary = run([add("top", a=cell)], store, executor=executor, progress=lambda each: events.append(each.event))
    assert (labels(summary.elsewhere), labels(summary.computed)) == ([cell.label], ["top"])
    assert events.count("waiting") == 2
    assert violations(store) == []


def test_a_cell_that_another_runner_gave_up_is_computed_here_and_one_that_failed_there_has_failed(store: Store) -> None:
    one, two = number(1), number(2)
    assert labels(run([one], store, executor=_elsewhere(store, one, lambda: None)).computed) == [one.label]
    failure = Failure(key=two.key, kind="number", label="x", reason="raised", message="there")
    summary = run([two], store, executor=_elsewhere(store, two, lambda: store.write_failure(failure)))
    assert summary.failed == (failure,)


def test_an_input_that_vanishes_under_way_is_computed_again(store: Store) -> None:
    a, b = number(1, "a"), number(2, "b")
    top = add("top", a=a, b=b)
    gone: list[Cell] = []

    class Losing(Here):
        def work(self, order: Order) -> Outcome:
            if order.key == top.key and not gone:
                gone.append(a)
                remove(store.folder(a))
            return super().work(order)

    summary = run([top], store, executor=Losing)
    assert labels(summary.computed) == ["a", "b", "a", "top"]
    assert store.result(top)["value"] == 3


def test_an_intermediate_cell_that_was_removed_comes_back_only_for_an_unfinished_goal(store: Store) -> None:
    middle = add("middle", a=number(1, "leaf"))
    one, two = add("one", a=middle), add("two", b=middle)
    run([one], store, executor=Here)
    remove(store.folder(middle))
    assert run([one], store, executor=Here).computed == ()
    assert labels(run([one, two], store, executor=Here).computed) == ["middle", "two"]


def test_trouble_with_the_disk_ends_the_run_with_one_message(store: Store) -> None:
    closed: list[bool] = []

    class Closing(Here):
        def close(self) -> None:
            closed.append(True)

    with pytest.raises(StoreError, match=r"the disk is full(.|\n)*finished cells are kept"):
        run([number(1), make_trouble("fill the disk")], store, executor=Closing)
    assert closed == [True]
    assert store.is_done(number(1))
    assert store.failures() == {}


def test_status_tells_what_is_done_failed_running_and_left_without_writing(store: Store) -> None:
    bad, three = make_trouble("raise"), number(3, "three")
    goals = [number(1, "one"), bad, add("held up", a=bad), add("later", a=three)]
    run([goals[0], bad], store, executor=Here)
    before = {path.name for path in store.root.rglob("*")}
    with store.claim(three):
        store.journal.write("start", key=three.key, kind="number", label="three", tag="")
        found = status(goals, Store(store.root, read_only=True))
    assert labels(found.done) == ["one"]
    assert [each.reason for each in found.failed] == ["raised"]
    assert [str(each) for each in found.blocked] == ["held up: blocked by trouble how=raise"]
    assert labels(found.left) == ["later", "three"]
    assert labels(found.running) == ["three"]
    assert found.eta is not None
    assert str(found) == "1 of 4 goals done, 1 failed, 1 blocked, 1 running, 2 cells to compute"
    assert {path.name for path in store.root.rglob("*")} - before == {three.key}


def test_progress_counts_down_and_estimates_from_the_seconds_so_far(store: Store) -> None:
    seen: list[Progress] = []
    run(make_grid(4, 0.0), store, executor=Here, progress=seen.append)
    written = [each for each in seen if each.event == "written"]
    assert [each.done for each in written] == list(range(1, 11))
    assert [each.left for each in written] == list(range(9, -1, -1))
    assert seen[0].eta is None
    assert written[-1].eta == 0.0
    assert all(each.eta is not None for each in written)


def test_the_estimate_adds_up_the_kinds_and_shares_them_out() -> None:
    assert estimate({"a": 3, "b": 2}, {"a": 10.0, "b": 1.0}, 2) == 16.0
    assert estimate({"a": 1, "new": 1}, {"a": 10.0, "b": 2.0}) == 16.0
    assert estimate({"a": 1}, {}) is None
    assert estimate({"a": 0}, {}) == 0.0


def test_a_thousand_cells_in_one_chain_are_planned(store: Store) -> None:
    cell = number(0)
    for step in range(1200):
        cell = add(f"{step}", a=cell)
    found = status([cell], store)
    assert (found.goals, len(found.left)) == (1, 1201)
