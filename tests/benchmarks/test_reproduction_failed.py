"""Goals that cannot be computed are kept with their reason, apart from those that only were not computed yet."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from reproduction.build import COMPARED
from reproduction.failed import failed_rows, told_failures
from reproduction.sentences_paper import coverage
from reproduction.stored import WHAT, Kept
from sfra.bench.engine.cell import Cell, reachable
from sfra.bench.engine.store import Failure, Store
from sfra.bench.plan import Goal, plan
from sfra.bench.protocol import load_protocol


@pytest.fixture
def goals() -> list[Goal]:
    return [goal for goal in plan(load_protocol("digits-tiny")) if goal.identity["method"] == "delete"]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def unlearned(goal: Goal) -> Cell:
    """The unlearned model that a goal is about."""
    (cell,) = (one for one in reachable([goal.cell]).values() if one.kind == "unlearn")
    return cell


def fail(store: Store, cell: Cell, reason: str, message: str) -> None:
    store.write_failure(Failure(key=cell.key, kind=cell.kind, label=cell.label, reason=reason, message=message))


def test_goals_that_wait_for_a_failed_model_cannot_be_computed(goals: list[Goal], store: Store) -> None:
    model = unlearned(goals[0])
    fail(
        store,
        model,
        "not-finite",
        "the training diverged\n  expected: a finite loss\n  got:      nan in epoch 3\n  do:  less",
    )
    rows = list(failed_rows(goals, store))
    waiting = [goal for goal in goals if model.key in reachable([goal.cell])]
    assert [(row["what"], row["forget"]) for row in rows] == [(one.what, one.identity["forget"]) for one in waiting]
    assert len(rows) > 1
    assert {(row["method"], row["failed"], row["reason"]) for row in rows} == {
        ("delete", "unlearn", "the training diverged: nan in epoch 3")
    }


def test_a_failed_audit_holds_nothing_else_up(goals: list[Goal], store: Store) -> None:
    (audit, *_) = (goal for goal in goals if goal.what == "audit")
    fail(store, audit.cell, "raised", "no draws")
    (row,) = failed_rows(goals, store)
    assert (row["what"], row["failed"], row["reason"]) == ("audit", "audit", "no draws")


@pytest.mark.parametrize("reason", ["out-of-memory", "time-limit", "crashed"])
def test_what_the_machine_could_not_do_another_can(goals: list[Goal], store: Store, reason: str) -> None:
    fail(store, unlearned(goals[0]), reason, "killed")
    assert list(failed_rows(goals, store)) == []


def test_each_reason_names_what_it_stopped() -> None:
    row = {
        "protocol": "varied",
        "seed": 0,
        "what": "audit",
        "audit": "support",
        "failed": "audit",
        "reason": "no draws",
    }
    support = [
        row | {"method": "scrub", "forget": "7", "varied": "proposal=abs-gaussian"},
        row | {"method": "delete", "forget": "7", "varied": {"proposal": "abs-gaussian"}},
    ]
    model = {
        "protocol": "steps",
        "method": "negative-gradient-plus",
        "varied": None,
        "failed": "unlearn",
        "reason": "nan",
    }
    models = [
        model | {"what": what, "audit": "main", "forget": forget} for forget in ("0", "3") for what in ("audit", "pra")
    ]
    assert told_failures([]) == ""
    assert told_failures([*support, *models]) == (
        "Cannot be computed with these settings: 2 audits of SCRUB (class 7) and DELETE (class 7) "
        "with proposal=abs-gaussian in `varied` (no draws); "
        "2 audits and 2 PRA of Negative Gradient+ (classes 0, 3) in `steps` (nan)."
    )


def test_what_cannot_be_computed_is_not_called_missing(other: Kept) -> None:
    bare = replace(other, failures=[])
    (row,) = (one for one in bare.coverage if (one["protocol"], one["what"]) == (f"{COMPARED}-multi", "audit"))
    lacking = [{**one, "done": one["goals"] - 2 * (one is row)} for one in bare.coverage if one["what"] in WHAT]
    unfinished = replace(bare, coverage=lacking)
    failed = {"protocol": row["protocol"], "seed": 0, "what": "audit", "audit": "main", "varied": None}
    one = failed | {"method": "scrub", "forget": "1+6", "failed": "unlearn", "reason": "nan"}
    two = one | {"method": "delete"}
    assert coverage(unfinished).endswith("Not computed yet: 2 audits.")
    told = f"these settings: 1 audit of SCRUB (classes 1+6) in `{COMPARED}-multi` (nan). Not computed yet: 1 audit."
    assert coverage(replace(unfinished, failures=[one])).endswith(told)
    assert coverage(replace(unfinished, failures=[one, two])).endswith("(nan). Nothing else is missing.")
