"""Scores put together: intervals of ΔRS, twins of the reference, the sweep, and what stands in a row."""

from __future__ import annotations

import hashlib
import math
from typing import Any

import msgspec
import numpy as np
import pytest
import torch

from builders.audits import FORGET, C, compare, hidden, knowing, never_seen, scored
from sfra.attack.scale import SWEEP
from sfra.auditing.result import AuditReport, BeforeAfter, DataFacts, Score
from sfra.auditing.score import against, rs_interval
from sfra.auditing.verdict import verdict

QUICK: dict[str, Any] = {"n": 400, "m": 40, "epochs": 12}


@pytest.fixture(scope="module")
def swept() -> AuditReport:
    return compare(hidden(bias=-1.0), never_seen(), scale="sweep", **QUICK)


@pytest.fixture(scope="module")
def plain() -> AuditReport:
    return compare(hidden(bias=-1.0), never_seen(), seeds=2, **QUICK)


def with_interval(after: float, count: int) -> Score:
    score = scored(after, count)
    return msgspec.structs.replace(score, rs_interval=rs_interval(score))


def newcombe(hits: int, count: int, other_hits: int, other_count: int) -> tuple[float, float]:
    """Newcombe's hybrid interval of a difference of two scores, from bisected Wilson limits."""

    def limits(k: int, n: int) -> tuple[float, float]:
        p, z = k / n, 1.959963984540054

        def root(low: float, high: float) -> float:
            """Find where |p - x| is z standard errors at x, between a point within and one beyond."""
            for _ in range(200):
                x = (low + high) / 2
                within = (p - x) ** 2 <= z * z * x * (1 - x) / n
                low, high = (x, high) if within else (low, x)
            return low

        ends = root(p, 0.0) if k else 0.0, root(p, 1.0) if k < n else 1.0
        scores = [2 * x / (1 + x) for x in ends]  # RS of a relearning that cost no retain accuracy
        return scores[0], scores[1]

    a, b = (2 * x / (1 + x) for x in (hits / count, other_hits / other_count))
    (low, high), (other_low, other_high) = limits(hits, count), limits(other_hits, other_count)
    return (
        a - b - math.sqrt((a - low) ** 2 + (other_high - b) ** 2),
        a - b + math.sqrt((high - a) ** 2 + (b - other_low) ** 2),
    )


@pytest.mark.parametrize(
    "counts",
    [(90, 100, 2, 50), (50, 100, 50, 100), (0, 100, 0, 50), (100, 100, 0, 50), (3, 60, 60, 100), (7, 7, 9, 9)],
)
def test_the_interval_of_delta_rs_is_newcombes(counts: tuple[int, int, int, int]) -> None:
    hits, samples, other_hits, other_samples = counts
    compared = against(with_interval(hits / samples, samples), with_interval(other_hits / other_samples, other_samples))
    assert compared.delta_rs_interval == pytest.approx(newcombe(*counts), abs=1e-6)


def test_the_interval_of_delta_rs_holds_what_repeated_sampling_gives() -> None:
    rng = np.random.default_rng(0)
    p, q, n = 0.6, 0.2, 60
    true = 2 * p / (1 + p) - 2 * q / (1 + q)
    inside = 0
    for a, b in zip(rng.binomial(n, p, 400), rng.binomial(n, q, 400), strict=True):
        interval = against(with_interval(a / n, n), with_interval(b / n, n)).delta_rs_interval
        assert interval is not None
        inside += interval[0] <= true <= interval[1]
    assert 0.92 <= inside / 400 <= 0.985


def test_without_a_reference_there_is_no_delta_and_no_interval() -> None:
    alone = compare(hidden(bias=-1.0), **QUICK).results[0]
    names = [name for name in Score.__struct_fields__ if name.startswith(("reference_", "delta_rs"))]
    assert [getattr(alone, name) for name in names] == [None] * 7
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
    assert plain.retain == BeforeAfter(before=row.retain_before, after=row.retain_after)
    assert plain.forget == BeforeAfter(before=row.forget_before, after=row.forget_after)
    assert plain.rs_interval is not None
    assert plain.rs_interval[0] <= row.rs <= plain.rs_interval[1]


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
    labels = hidden().data.labels.numpy()
    assert plain.data == DataFacts(
        kind="features",
        source="features in memory",
        samples=360,
        labels=hashlib.sha256(b"(360,) torch.int64;" + labels.tobytes()).hexdigest(),
        validation="every second sample of the evaluation data",
    )
    toy = hidden(bias=-1.0)
    held = compare(toy, validation=never_seen().data, **QUICK)
    assert held.data is not None
    assert held.data.validation == "360 samples"
    few = compare(hidden(bias=-1.0, samples=1), **QUICK)
    assert few.data is not None
    assert few.data.validation == "none: too few samples"
    assert {row.rule for row in few.results} == {"source-free", "worst-case"}
