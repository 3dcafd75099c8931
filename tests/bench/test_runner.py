"""The runner computes what unfinished goals need, once, and goes on around whatever fails."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from builders.bench import make_grid, make_trouble
from sfra.bench.engine.cell import Cell
from sfra.bench.engine.compute import Outcome, compute
from sfra.bench.engine.executor import Executor, Order
from sfra.bench.engine.journal import read_journals
from sfra.bench.engine.locks import Lock
from sfra.bench.engine.run import prune, retry, run, status
from sfra.bench.engine.store import Failure, Store, StoreError
from sfra.bench.engine.summary import Progress, Summary, estimate
from sfra.bench.engine.verify import violations
from sfra.bench.engine.work import Context
from sfra.core.errors import InputError


class Here:
    """Computes in this process, one order after the other; some attempts end as the test says."""

    ends: dict[str, list[str]] = {}  # noqa: RUF012 - the test's script, set on a subclass
    width = 1

    def __init__(self, store: Store, **settings: object) -> None:
        self.store, self.orders, self.closed = store, list[Order](), False

    @property
    def room(self) -> int:
        return self.width - len(self.orders)

    def submit(self, order: Order) -> None:
        self.orders.append(order)

    def wait(self, seconds: float) -> list[Outcome]:
        ended, self.orders = self.orders, []
        return [self.work(order) for order in ended]

    def work(self, order: Order) -> Outcome:
        script = self.ends.get(order.cell.key)
        if script:
            return Outcome(key=order.cell.key, what=script.pop(0), message="as the test says")
        context = Context(keep=self.store.scratch(order.cell))
        return compute(order.cell, self.store, tag=order.tag, context=context)

    def close(self) -> None:
        self.closed = True


def scripted(ends: dict[Cell, list[str]]) -> type[Here]:
    return type("Scripted", (Here,), {"ends": {cell.key: list(each) for cell, each in ends.items()}})


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def number(value: int, label: str = "") -> Cell:
    return Cell(kind="number", settings={"value": value}, label=label)


def add(label: str = "", **needs: Cell) -> Cell:
    return Cell(kind="sum", needs=needs, label=label)


def labels(cells: Sequence[Cell]) -> list[str]:
    return [cell.label for cell in cells]


def test_shared_cells_are_computed_once_and_sums_are_right(store: Store) -> None:
    goals = make_grid(6, 0.0)
    summary = run([*goals, *goals], store, executor=Here)
    assert summary.complete
    assert (summary.goals, len(summary.done), len(summary.computed)) == (9, 9, 15)
    assert [store.result(goal)["value"] for goal in goals[:6]] == [3, 6, 9, 12, 9, 6]
    assert violations(store) == []
    assert str(summary) == "9 of 9 goals done"


def test_a_second_run_computes_nothing_and_starts_no_executor(store: Store) -> None:
    run(make_grid(4, 0.0), store, executor=Here)
    summary = run(make_grid(4, 0.0), store, executor="there is no such executor")
    assert summary.complete
    assert summary.computed == ()


def test_the_longest_chain_comes_first(store: Store) -> None:
    short, deep = number(1, "short"), number(2, "deep")
    summary = run([short, add("top", a=add("middle", a=deep))], store, executor=Here)
    assert labels(summary.computed) == ["deep", "middle", "short", "top"]


def test_a_failed_cell_blocks_what_needs_it_and_nothing_else(store: Store) -> None:
    bad = make_trouble("raise")
    only_for_blocked, shared = number(1, "only for blocked"), number(2, "shared")
    middle = add("middle", a=bad, b=shared)
    top, fine = add("top", a=middle, b=only_for_blocked), add("fine", a=shared)
    summary = run([top, fine], store, executor=Here)
    assert labels(summary.done) == ["fine"]
    assert [failure.label for failure in summary.failed] == ["trouble how=raise"]
    assert [str(each) for each in summary.blocked] == [
        "top: blocked by trouble how=raise",
        "middle: blocked by trouble how=raise",
    ]
    assert summary.left == ()
    assert not store.is_done(only_for_blocked), "it would serve only a goal that cannot be reached"
    assert str(summary) == "1 of 2 goals done, 1 failed, 2 blocked"


def test_a_failed_cell_is_tried_again_only_after_retry(store: Store) -> None:
    bad, worse = make_trouble("raise"), make_trouble("diverge")
    goals = [add("top", a=bad), worse]
    run(goals, store, executor=Here)
    before = len(read_journals(store.root / "log"))
    assert run(goals, store, executor=Here).computed == ()
    assert len(read_journals(store.root / "log")) == before
    cleared = retry(goals, store, only=lambda failure: failure.reason == "not-finite")
    assert [failure.key for failure in cleared] == [worse.key]
    assert labels(status(goals, store).left) == [worse.label]
    assert {failure.key for failure in run(goals, store, executor=Here).failed} == {bad.key, worse.key}
    assert len(retry(goals, store)) == 2


def test_a_crashed_cell_gets_three_attempts(store: Store) -> None:
    lucky, doomed = number(1), number(2)
    seen: list[tuple[str, str]] = []
    summary = run(
        [lucky, doomed],
        store,
        executor=scripted({lucky: ["crashed"] * 2, doomed: ["crashed"] * 9}),
        progress=lambda each: seen.append((each.event, each.cell.label if each.cell else "")),
    )
    assert summary.done == (lucky,)
    (failure,) = summary.failed
    assert (failure.key, failure.reason, failure.attempts) == (doomed.key, "crashed", 3)
    assert failure.message == "its process died: as the test says"
    assert seen.count(("again", lucky.label)) == 2


def test_a_cell_past_its_limit_has_failed_at_once(store: Store) -> None:
    cell = number(1)
    (failure,) = run([cell], store, executor=scripted({cell: ["time-limit"]})).failed
    assert (failure.reason, failure.attempts) == ("time-limit", 1)
    assert failure.message == "took longer than as the test says and was killed"


def test_limits_are_given_by_kind_or_for_all(store: Store) -> None:
    seen: dict[str, float | None] = {}

    class Watching(Here):
        def submit(self, order: Order) -> None:
            seen[order.cell.kind] = order.time_limit
            super().submit(order)

    run([add(a=number(1))], store, executor=Watching, time_limit={"sum": 5})
    assert seen == {"number": None, "sum": 5.0}
    run([add(a=number(2))], store, executor=Watching, time_limit=7)
    assert seen == {"number": 7.0, "sum": 7.0}


def _elsewhere(store: Store, cell: Cell, end: Callable[[], object]) -> type[Here]:
    """Let another runner hold a cell's lock during the first two attempts at it, and then end it somehow."""

    class Contended(Here):
        tries = 0
        lock: Lock | None = None

        def work(self, order: Order) -> Outcome:
            if order.cell == cell:
                Contended.tries += 1
                if Contended.tries == 1:
                    Contended.lock = store.lock(cell)
                if Contended.tries == 3:
                    assert Contended.lock is not None
                    Contended.lock.release()
                    end()
            return super().work(order)

    return Contended


def test_a_cell_that_another_runner_finishes_is_waited_for_and_taken_over(store: Store) -> None:
    cell = number(1)
    events: list[str] = []
    executor = _elsewhere(store, cell, lambda: compute(cell, store, tag="other"))
    summary = run([add("top", a=cell)], store, executor=executor, progress=lambda each: events.append(each.event))
    assert (labels(summary.elsewhere), labels(summary.computed)) == ([cell.label], ["top"])
    assert events.count("waiting") == 2
    assert violations(store) == []


def test_a_cell_that_another_runner_gave_up_is_computed_here(store: Store) -> None:
    cell = number(1)
    summary = run([cell], store, executor=_elsewhere(store, cell, lambda: None))
    assert labels(summary.computed) == [cell.label]


def test_a_cell_that_failed_in_another_runner_has_failed_here(store: Store) -> None:
    cell = number(1)
    failure = Failure(key=cell.key, kind="number", label="x", reason="raised", message="there")
    summary = run([cell], store, executor=_elsewhere(store, cell, lambda: store.write_failure(failure)))
    assert summary.failed == (failure,)


def test_an_input_that_vanishes_under_way_is_computed_again(store: Store) -> None:
    a, b = number(1, "a"), number(2, "b")
    top = add("top", a=a, b=b)

    class Pruning(Here):
        done = False

        def work(self, order: Order) -> Outcome:
            if order.cell == top and not Pruning.done:
                Pruning.done = store.discard(a)
            return super().work(order)

    summary = run([top], store, executor=Pruning)
    assert labels(summary.computed) == ["a", "b", "a", "top"]
    assert store.result(top)["value"] == 3
    assert violations(store) == []


def test_a_pruned_intermediate_comes_back_only_for_an_unfinished_goal(store: Store) -> None:
    leaf = number(1, "leaf")
    middle = add("middle", a=leaf)
    one, two = add("one", a=middle), add("two", a=middle, b=leaf)
    run([one], store, executor=Here)
    assert labels(prune([one, two], store, kinds=["sum"])) == [], "the other goal still needs it"
    assert labels(prune([one], store, kinds=["sum"])) == ["middle"]
    assert run([one], store, executor=Here).computed == ()
    assert labels(run([one, two], store, executor=Here).computed) == ["middle", "two"]
    assert store.result(two)["value"] == 2
    assert labels(prune([one, two], store, kinds=["sum", "number"])) == ["middle", "leaf"]
    assert status([one, two], Store(store.root, read_only=True)).complete
    assert violations(store) == []


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
    bad = make_trouble("raise")
    goals = [number(1, "one"), bad, add("held up", a=bad), add("later", a=number(3, "three"))]
    run([goals[0], bad], store, executor=Here)
    before = sorted(store.root.rglob("*"))
    lock = store.lock(goals[3].needs["a"])
    assert lock is not None
    with lock:
        store.journal.write("start", key=goals[3].needs["a"].key, kind="number", label="three", tag="")
        found = status(goals, Store(store.root, read_only=True))
    assert labels(found.done) == ["one"]
    assert [each.reason for each in found.failed] == ["raised"]
    assert [str(each) for each in found.blocked] == ["held up: blocked by trouble how=raise"]
    assert labels(found.left) == ["later", "three"]
    assert labels(found.running) == ["three"]
    assert found.eta is not None
    assert str(found) == "1 of 4 goals done, 1 failed, 1 blocked, 1 running, 2 cells to compute"
    assert {path.name for path in store.root.rglob("*")} - {path.name for path in before} == {goals[3].needs["a"].key}


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


def test_an_unknown_executor_is_refused(store: Store) -> None:
    with pytest.raises(InputError, match=r"no such executor(.|\n)*local or ray(.|\n)*slurm"):
        run([number(1)], store, executor="slurm")


def test_the_test_executor_is_an_executor(store: Store) -> None:
    assert isinstance(Here(store), Executor)
    empty = Summary(goals=0, done=(), failed=(), blocked=(), left=())
    assert empty.complete


def test_goals_in_turn_are_finished_one_after_the_other_and_by_default_the_long_chains_go_first(tmp_path: Path) -> None:
    starts = [Cell(kind="number", settings={"value": value}) for value in (1, 2, 3)]
    goals = [Cell(kind="sum", needs={"a": start}) for start in starts]
    order = dict[bool, list[Cell]]()
    for in_turn in (True, False):
        computed = run(goals, Store(tmp_path / str(in_turn)), workers=1, in_turn=in_turn).computed
        order[in_turn] = list(computed)
    assert order[True] == [cell for pair in zip(starts, goals, strict=True) for cell in pair]
    assert order[False] == [*starts, *goals]
