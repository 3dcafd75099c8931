"""The audit as a whole: hidden classes are found, classes that were never seen are not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from builders.audits import FORGET, QUICK, SMALL, C, Toy, codes, compare, hidden, knowing, never_seen
from sfra.auditing.audit import audit
from sfra.data import FeatureSet

STRONG: dict[str, Any] = {"scale": 4.0, "epochs": 40, "m": 200}
"""A scale at which the toys give back nearly all that they hide."""


def test_a_hidden_class_comes_back_and_one_that_was_never_seen_does_not() -> None:
    positive = compare(hidden(bias=-1.0), never_seen(), **STRONG)
    negative = compare(never_seen(seed=9), never_seen(), **STRONG)
    assert positive.rs is not None
    assert negative.rs is not None
    assert positive.delta_rs is not None
    assert negative.delta_rs is not None
    assert positive.rs > 0.8
    assert positive.delta_rs > 0.6
    assert positive.verdict == "recovered"
    assert positive.relearned is True
    assert negative.rs < 0.2
    assert abs(negative.delta_rs) < 0.1
    assert negative.verdict in ("not-recovered", "generic")
    assert positive.reference_rs == negative.reference_rs


def test_at_canonical_scale_the_verdicts_are_the_same() -> None:
    assert compare(hidden(bias=-1.0), never_seen(), m=200).verdict == "recovered"
    assert compare(never_seen(seed=9), never_seen(), m=200).verdict == "not-recovered"


@pytest.mark.parametrize("epochs", [5, 20])
def test_a_bias_of_minus_fifteen_does_not_hide_a_class_from_a_short_audit(epochs: int) -> None:
    masked = compare(hidden(bias=-15.0), never_seen(), epochs=epochs, m=200)
    assert masked.verdict in ("recovered", "recovered-after-reset")
    assert "forget-row-outlier" in codes(masked)
    innocent = compare(never_seen(seed=9).with_row(0.0, -15.0), never_seen(), epochs=epochs, m=200)
    assert innocent.verdict in (
        "not-recovered",
        "generic",
        "blind",
    )  # control: the same row over features without the class
    assert "forget-row-outlier" in codes(innocent)


def test_it_is_the_reset_row_that_finds_the_hidden_class() -> None:
    with_reset, without = (
        compare(hidden(bias=-15.0), never_seen(), epochs=8, m=200, reset_row=reset_row) for reset_row in (True, False)
    )
    assert (with_reset.verdict, without.verdict) == ("recovered-after-reset", "blind")
    assert with_reset.rs == without.rs


def test_an_odd_row_does_not_make_a_class_look_gone_without_a_reference_either() -> None:
    assert compare(hidden(bias=-15.0), epochs=8, m=200).verdict == "no-reference"
    assert compare(never_seen().with_row(0.0, -15.0), epochs=8, m=200).verdict == "blind"


def test_several_forget_classes_are_audited_together() -> None:
    toy, reference = hidden(bias=-1.0), never_seen()
    both = toy.with_row(0.0, -1.0, label=4)
    report = compare(both, reference.with_row(0.0, -1.0, label=4), (4, FORGET), **STRONG)
    assert report.forget_classes == (FORGET, 4)
    assert report.confusion is not None
    assert [sum(counts) for counts in report.confusion.after] == [60, 60]
    hits = sum(report.confusion.after[i][k] for i, k in enumerate((FORGET, 4)))
    assert report.forget.after == pytest.approx(hits / 120)
    assert report.forget.after is not None
    assert report.forget.after > 0.3
    assert report.probes[0].forget == 2 * report.probes[0].retain


def test_each_seed_is_an_audit_of_its_own() -> None:
    settings = {**QUICK, **STRONG, "m": 30, "n": 100}
    three = compare(hidden(bias=-1.0), never_seen(), seeds=3, seed=4, **settings)
    single = [compare(hidden(bias=-1.0), never_seen(), seed=seed, **settings) for seed in (4, 5, 6)]
    scores = [one.rs for one in single]
    assert three.results[0].rs_seeds == tuple(scores)
    assert len(set(scores)) == 3
    assert three.rs == pytest.approx(np.mean(scores))  # type: ignore[arg-type]
    assert three.rs_std == pytest.approx(np.std(scores, ddof=1))  # type: ignore[arg-type]
    assert [one.rs_std for one in single] == [None] * 3
    assert three.relearned_head.fingerprint == single[0].relearned_head.fingerprint


@pytest.mark.parametrize(("model", "reference"), [(True, True), (True, False), (False, True)])
def test_rows_may_be_missing_in_model_or_reference_or_both(model: bool, reference: bool) -> None:
    one, other = hidden(bias=-1.0), never_seen()
    report = compare(
        one.without_row() if model else one, other.without_row() if reference else other, missing_row=model, **QUICK
    )
    [beside] = report.references
    assert (report.model.outputs, beside.outputs) == (C - model, C - reference)
    rows = [{True: "missing", False: "present"}[lost] for lost in (model, reference)]
    assert [report.model.forget_row, beside.forget_row] == rows
    assert ("forget-row-missing" in codes(report)) == model
    assert report.delta_rs is not None
    assert report.relearned_head.classes == C


@pytest.mark.parametrize("lost", [0, C - 1])
def test_a_missing_first_or_last_row_is_put_in_its_place(lost: int) -> None:
    toy = knowing()
    report = compare(toy.without_row(lost), None, lost, missing_row=True, **QUICK)
    labels, features = toy.data.labels, toy.data.features
    right = (report.relearned_head(features).argmax(1) == labels)[labels != lost]
    assert float(right.float().mean()) > 0.9
    assert report.retain.after == pytest.approx(float(right.float().mean()))


def named(toy: Toy) -> FeatureSet:
    return FeatureSet(features=toy.data.features, labels=toy.data.labels, class_names=tuple("abcdef"))


def test_a_class_may_be_given_by_name() -> None:
    toy = hidden()
    by_name = audit(toy.head, "c", data=named(toy), **QUICK)
    assert by_name.forget_classes == (FORGET,)
    assert by_name.class_names == tuple("abcdef")
    assert by_name.rs == compare(toy, **QUICK).rs


def test_without_data_the_head_is_relearned_and_nothing_is_concluded() -> None:
    toy = hidden(bias=-1.0)
    report = audit(toy.head, FORGET, **{**SMALL, **STRONG})
    measured = compare(toy, **STRONG)
    assert report.verdict == "not-measured"
    assert codes(report) >= {"nothing-measured"}
    assert (report.rs, report.delta_rs, report.results, report.confusion, report.data) == (None, None, (), None, None)
    assert report.relearned_head.fingerprint == measured.relearned_head.fingerprint  # data had no say in it
    assert len(report.traces[0].loss) == STRONG["epochs"] + 1
