"""Controls: what an audit sees of classes that are hidden by construction."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
import torch

from builders.audits import FORGET, KEPT, QUICK, SMALL, C, compare, hidden, knowing, never_seen
from sfra.attack.scale import Canonical, place
from sfra.auditing.audit import audit
from sfra.auditing.control import choose_groups, without_forgotten
from sfra.auditing.result import AuditReport
from sfra.auditing.subject import Subject
from sfra.core.errors import InputError
from sfra.core.head import Head
from sfra.data import FeatureSet
from sfra.release import load


def subject(head: Head, data: FeatureSet, forget: tuple[int, ...] = (FORGET,), *, missing: bool = False) -> Subject:
    return Subject(release=load(head), forget=forget, missing=missing, test=data, validation=None)


def controlled(report: AuditReport, kind: str) -> dict[tuple[int, ...], float]:
    return {one.classes: one.score.rs for control in report.controls if control.kind == kind for one in control.hidden}


@pytest.mark.parametrize("missing", [False, True])
def test_really_forgotten_classes_are_left_out_of_the_self_control(missing: bool) -> None:
    toy = never_seen()
    head = toy.without_row().head if missing else toy.head
    known = without_forgotten(subject(head, toy.data, missing=missing))
    assert known is not None
    assert known.test is not None
    assert torch.equal(known.release.head.weight, toy.head.weight[KEPT])
    kept = toy.data.labels != FORGET
    assert torch.equal(known.test.features, toy.data.features[kept])
    assert [KEPT[label] for label in known.test.labels.tolist()] == toy.data.labels[kept].tolist()


def test_a_self_control_is_the_audit_of_the_smaller_head_with_a_fresh_row() -> None:
    toy = never_seen()
    report = compare(toy, self_controls=5, **QUICK)
    known = without_forgotten(subject(toy.head, toy.data))
    assert known is not None
    assert known.test is not None
    for i, label in enumerate(KEPT):
        alone = audit(known.release.head, i, data=known.test, self_controls=0, **QUICK)
        fresh = next(one for one in alone.results if (one.variant, one.rule) == ("reset-row", "source-free"))
        [found] = [one.score for one in report.controls[0].hidden if one.classes == (label,)]
        assert found == fresh  # of all epochs the control keeps the first and the last


def test_the_control_is_the_original_with_a_fresh_row() -> None:
    original, model = knowing(), never_seen()
    report = compare(model, never_seen(seed=7), control=original.head, control_data=original.data, self_controls=0)
    fresh = next(one for one in compare(original).results if (one.variant, one.rule) == ("reset-row", "source-free"))
    assert controlled(report, "original") == {(FORGET,): fresh.rs}
    assert place(original.head, [FORGET], scale=Canonical(), variant="reset-row").head.classes == C


def test_classes_that_the_model_does_not_know_are_not_hidden() -> None:
    toy = never_seen()
    known = without_forgotten(subject(toy.with_row(0.0, -9.0, label=4).head, toy.data))
    assert known is not None
    assert choose_groups(known, 1, 9) == [(label,) for label, name in enumerate(KEPT) if name != 4]
    assert choose_groups(known, 1, 2) == [(0,), (2,)]
    assert choose_groups(known, 2, 9) == [(0, 1), (2, 4)]


def test_a_model_is_cleared_only_where_hidden_classes_come_back() -> None:
    model, reference = never_seen(), never_seen(seed=7)
    assert compare(model, reference, m=200, epochs=60).verdict in ("not-recovered", "generic")
    assert compare(model, reference, self_controls=0).verdict == "blind"
    assert compare(model, reference, epochs=1).verdict == "blind"  # too short to see anything
    assert compare(hidden(bias=-1.0), reference, self_controls=0).verdict == "recovered"  # nothing more is needed


def test_the_control_of_the_original_counts_more_than_the_self_control() -> None:
    given: dict[str, Any] = {"control": knowing().head, "control_data": knowing().data}
    assert compare(never_seen(), never_seen(seed=7), self_controls=0, **given).verdict in ("not-recovered", "generic")
    assert compare(never_seen(), never_seen(seed=7), epochs=1, **given).verdict == "blind"


def test_an_original_that_does_not_know_the_class_is_refused() -> None:
    with pytest.raises(InputError, match="the control does not know the forgotten class"):
        compare(hidden(), control=never_seen().head, control_data=never_seen().data, **QUICK)


def test_a_control_needs_features_of_its_own() -> None:
    with pytest.raises(InputError, match=r"pass control_data \(--control-data\)"):
        compare(hidden(), control=knowing().head, **QUICK)
    with pytest.raises(InputError, match="needs data"):
        audit(hidden().head, FORGET, control=knowing().head, **QUICK)


def test_a_head_with_three_classes_has_no_self_control() -> None:
    toy = knowing()
    few = toy.data.labels < 3
    data = FeatureSet(features=toy.data.features[few], labels=toy.data.labels[few])
    report = audit(Head(toy.head.weight[:3], toy.head.bias[:3]), 2, data=data, **QUICK)
    assert report.controls == ()


def test_as_many_classes_are_hidden_together_as_were_forgotten() -> None:
    report = compare(hidden(), forget=[FORGET, 4], **QUICK)
    assert [len(classes) for classes in controlled(report, "self")] == [2, 2]


def two_forgotten(**settings: Any) -> AuditReport:
    """Class 2 was never seen; class 4 is only hidden."""
    model, reference = never_seen().with_row(0.0, -1.0, label=4), never_seen(seed=7)
    features = reference.data.features.clone()
    mine = reference.data.labels == 4
    features[mine] = reference.data.features[reference.data.labels == 5] + 0.0
    other = FeatureSet(features=features, labels=reference.data.labels)
    head = reference.with_row(0.0, -1.0, label=4).head
    given = {"reference": head, "reference_data": other, **SMALL, **settings}
    return audit(model.head, [FORGET, 4], data=model.data, **given)


def test_each_of_several_classes_gets_a_verdict_and_the_worst_is_the_headline() -> None:
    report = two_forgotten()
    found = {one.label: one for one in report.classes}
    assert found[4].verdict in ("recovered", "recovered-after-reset")
    assert found[FORGET].verdict not in ("recovered", "recovered-after-reset")
    assert report.verdict == found[4].verdict
    assert report.statement.startswith("Class 4: ")
    before = {label: one.scores[0].forget_after for label, one in found.items()}
    assert report.forget.after == pytest.approx(sum(before.values()) / 2)


def test_a_class_that_was_never_unlearned_is_not_hidden_by_another() -> None:
    report = compare(hidden(), forget=[FORGET, 4], **QUICK)
    assert {one.label: one.verdict for one in report.classes}[4] == "not-unlearned"
    assert report.verdict == "not-unlearned"
    assert report.statement.startswith("Class 4: The released model still recognises the class")


def test_one_forgotten_class_needs_no_table_of_classes() -> None:
    assert compare(hidden(), **QUICK).classes == ()


def test_a_forget_class_without_samples_leaves_no_verdict() -> None:
    toy = hidden()
    kept = toy.data.labels != 4
    data = FeatureSet(features=toy.data.features[kept], labels=toy.data.labels[kept])
    report = audit(toy.with_row(0.0, -1.0, label=4).head, [FORGET, 4], data=data, **QUICK)
    assert report.verdict == "unusable"
    assert "few-eval-samples" in {finding.code for finding in report.findings}


def test_of_many_classes_two_are_hidden() -> None:
    data = (4 * torch.eye(200).repeat(20, 1), torch.arange(200).repeat(20))
    told: list[str] = []
    settings: dict[str, Any] = {"n": 50, "m": 2, "epochs": 1, "threads": 1}
    report = audit(Head(torch.eye(200)), 7, data=data, progress=lambda stage, *_: told.append(stage), **settings)
    [control] = report.controls
    assert len(control.hidden) == 2
    assert told[0].endswith("3 of the model, 2 of hidden classes)")


@pytest.mark.parametrize(
    ("seen", "rs", "verdict", "said"),
    [
        (True, 0.9, "recovered", "yes"),
        (False, 0.9, "generic", "no: the reference is near"),
        (False, 0.9, "inconclusive", "no: the reference is near"),
        (False, 0.2, "inconclusive", "no"),
        (False, 0.9, "degenerate", "no"),
    ],
)
def test_a_class_that_comes_back_like_the_reference_is_told_apart(
    seen: bool, rs: float, verdict: str, said: str
) -> None:
    one = compare(never_seen(), self_controls=1, **QUICK).controls[0].hidden[0]
    score = msgspec.structs.replace(one.score, rs=rs, verdict=verdict)
    assert msgspec.structs.replace(one, seen=seen, score=score).seen_words == said
