"""Scores put together: intervals of ΔRS, twins of the reference, the sweep, and what stands in a row."""

from __future__ import annotations

import hashlib
import math
from typing import Any

import numpy as np
import pytest
import torch

from builders.audits import FORGET, C, compare, hidden, knowing, never_seen, scored
from sfra.attack.scale import SWEEP
from sfra.auditing.result import AuditReport, BeforeAfter, DataFacts, Score
from sfra.auditing.score import against
from sfra.auditing.verdict import verdict

QUICK: dict[str, Any] = {"n": 400, "m": 40, "epochs": 12}


@pytest.fixture(scope="module")
def swept() -> AuditReport:
    return compare(hidden(bias=-1.0), never_seen(), scale="sweep", **QUICK)


@pytest.fixture(scope="module")
def plain() -> AuditReport:
    return compare(hidden(bias=-1.0), never_seen(), seeds=2, **QUICK)


def test_the_interval_of_delta_rs_comes_from_those_of_model_and_reference() -> None:
    model, reference = scored(0.6, rs_interval=(0.65, 0.8)), scored(0.2, rs_interval=(0.2, 0.5))
    compared = against(model, [reference])
    below, above = math.hypot(model.rs - 0.65, 0.5 - reference.rs), math.hypot(0.8 - model.rs, reference.rs - 0.2)
    delta = model.rs - reference.rs
    assert compared.delta_rs_interval == pytest.approx((delta - below, delta + above))
    assert against(model, [scored(0.2)]).delta_rs_interval is None  # an audit of an old version, without intervals


def test_without_a_reference_there_is_no_delta_and_no_interval() -> None:
    alone = compare(hidden(bias=-1.0), **QUICK).results[0]
    names = [name for name in Score.__struct_fields__ if name.startswith(("reference_", "delta_rs", "margin"))]
    assert {getattr(alone, name) for name in names} == {None, ()}
    assert alone.verdict == "no-reference"


def test_every_row_stands_beside_the_same_setting_and_rule_of_the_reference(swept: AuditReport) -> None:
    model, reference = hidden(bias=-1.0), never_seen()
    alone = compare(reference, scale="sweep", **QUICK)
    theirs = {(row.scale, row.variant, row.rule): row for row in alone.results}
    assert len(swept.results) == 3 * (len(SWEEP) + 2)
    for row in swept.results:
        twin = theirs[row.scale, row.variant, row.rule]
        assert row.reference_rs == twin.rs
        assert row.reference_forget_after == twin.forget_after
        assert row.delta_rs == row.rs - twin.rs
    mine = compare(model, scale="sweep", **QUICK)
    assert [row.rs for row in swept.results] == [row.rs for row in mine.results]


@pytest.mark.parametrize("reset_row", [True, False])
def test_a_restored_row_of_the_model_stands_beside_a_fresh_row_of_the_reference(reset_row: bool) -> None:
    reference = knowing(seed=5)  # relearns, and better with a fresh row than with this one
    reference = reference.with_row(0.0, -6.0)
    report = compare(hidden().without_row(), reference, missing_row=True, reset_row=reset_row, **QUICK)
    fresh = compare(reference.without_row(), missing_row=True, **QUICK)
    released = compare(reference, **QUICK)
    assert [row.variant for row in report.results] == ["restored-row"] * 6
    assert [row.reference_rs for row in report.results] == [row.rs for row in fresh.results]
    assert fresh.rs is not None
    assert released.rs is not None
    assert fresh.rs > released.rs + 0.2  # control: the other comparison would have been unfair


def test_a_reference_without_the_row_is_compared_by_scale_and_rule() -> None:
    report = compare(hidden(bias=-1.0), never_seen().without_row(), **QUICK)
    alone = compare(never_seen().without_row(), missing_row=True, **QUICK)
    theirs = {(row.scale, row.rule): row.rs for row in alone.results}
    assert {row.variant for row in report.results} == {"released", "reset-row"}
    assert all(row.reference_rs == theirs[row.scale, row.rule] for row in report.results)


def test_the_headline_is_the_first_row(plain: AuditReport) -> None:
    row = plain.results[0]
    assert (row.scale, row.variant, row.rule) == (plain.scale, plain.variant, plain.rule)
    assert (plain.scale, plain.variant, plain.rule) == ("canonical", "released", "source-free")
    for name in ("rs", "rs_std", "delta_rs", "reference_rs", "floor"):
        assert getattr(plain, name) == getattr(row, name)
    for name, pair in (("retain", plain.retain), ("forget", plain.forget)):
        assert pair == BeforeAfter(
            **{
                field: getattr(row, f"{name}_{field}")
                for field in ("before", "after", "before_interval", "after_interval")
            }
        )
    assert (plain.rs_interval, plain.interval_covers) == (row.rs_interval, "test samples and audit seeds")


def test_every_number_lies_in_its_interval(swept: AuditReport, plain: AuditReport) -> None:
    for row in (*swept.results, *plain.results):
        for name in ("rs", "delta_rs", "retain_before", "retain_after", "forget_before", "forget_after"):
            low, high = getattr(row, f"{name}_interval")
            assert low <= getattr(row, name) <= high
            assert low < high
    assert {row.interval_covers for row in swept.results} == {"test samples"}


def test_trajectories_hold_every_epoch_of_model_and_reference(plain: AuditReport) -> None:
    assert len(plain.traces) == 2 * 2 * 3
    assert {curve.subject for curve in plain.traces} == {"model", "reference"}
    for curve in plain.traces:
        assert {len(getattr(curve, name)) for name in ("retain", "forget", "rs", "loss")} == {QUICK["epochs"] + 1}
        assert curve.rs is not None
        assert curve.rs[0] == 0.0


def test_the_confusion_counts_what_forget_samples_are_taken_for(plain: AuditReport) -> None:
    toy = hidden(bias=-1.0)
    mine = toy.data.features[toy.data.labels == FORGET]
    assert plain.confusion is not None
    assert plain.confusion.classes == (FORGET,)
    for when, head in (("before", toy.head), ("after", plain.relearned_head)):
        counts = torch.bincount(head(mine).argmax(1), minlength=C)
        assert getattr(plain.confusion, when) == (tuple(counts.tolist()),)
    assert plain.confusion.before != plain.confusion.after


def test_the_sweep_has_every_scale_in_order_and_the_summary_of_its_curve(swept: AuditReport) -> None:
    assert swept.sweep is not None
    points = swept.sweep.points
    assert [point.kappa for point in points] == [scale.kappa for scale in SWEEP]
    rows = {row.kappa: row for row in swept.results if (row.rule, row.variant) == ("source-free", "released")}
    assert all(point.rs == rows[point.kappa].rs for point in points)
    assert swept.sweep.best_rs == max(point.rs for point in points)
    order = sorted((point.reference_rs or 0.0, point.rs) for point in points)
    x = np.array([0.0, *(pair[0] for pair in order), 1.0])
    y = np.array([0.0, *(pair[1] for pair in order), 1.0])
    assert swept.sweep.area == pytest.approx(float(np.trapezoid(y - x, x)), abs=1e-9)
    assert (swept.sweep.rs_at_reference or 0.0) >= max(p.rs for p in points if (p.reference_rs or 0.0) <= 0.05)


def test_a_sweep_without_a_reference_has_points_but_no_area(plain: AuditReport) -> None:
    report = compare(hidden(bias=-1.0), scale="sweep", **{**QUICK, "epochs": 2})
    assert report.sweep is not None
    assert len(report.sweep.points) == len(SWEEP)
    assert (report.sweep.area, report.sweep.rs_at_reference) == (None, None)
    assert plain.sweep is None


def test_relearned_and_rs_within_a_budget_follow_the_settings() -> None:
    strict = compare(hidden(bias=-1.0), delta_f=0.99, budgets=(0.0, 0.5), **QUICK)
    loose = compare(hidden(bias=-1.0), delta_f=0.1, epsilon_r=0.5, budgets=(), **QUICK)
    assert (strict.relearned, loose.relearned) == (False, True)
    assert loose.rs_at == {}
    assert list(strict.rs_at) == ["0", "0.5"]
    worst = next(row for row in strict.results if row.rule == "worst-case")
    assert strict.rs_at["0.5"] >= worst.rs >= strict.rs_at["0"]


def test_every_row_has_the_verdict_of_its_own_numbers(swept: AuditReport) -> None:
    assert all(score.verdict == verdict(score) for score in swept.results)
    assert len({score.verdict for score in swept.results}) > 1


def test_facts_say_what_was_measured_on(plain: AuditReport) -> None:
    toy = hidden(bias=-1.0)
    labels = toy.data.labels.numpy()
    sure = toy.head(toy.data.features[toy.data.labels != FORGET]).softmax(1).amax(1).mean()
    assert plain.data is not None
    assert plain.data.confidence == pytest.approx(float(sure), abs=1e-5)
    assert plain.data == DataFacts(
        kind="features",
        source="features in memory",
        samples=360,
        labels=hashlib.sha256(b"(360,) torch.int64;" + labels.tobytes()).hexdigest(),
        validation="every second sample of the evaluation data",
        confidence=plain.data.confidence,
    )
    held = compare(toy, validation=never_seen().data, **QUICK)
    assert held.data is not None
    assert held.data.validation == "360 samples"
    few = compare(hidden(bias=-1.0, samples=1), **QUICK)
    assert few.data is not None
    assert few.data.validation == "none: too few samples"
    assert {row.rule for row in few.results} == {"source-free", "worst-case"}
