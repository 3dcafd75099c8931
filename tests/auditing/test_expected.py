"""What the user knows of a model's accuracy counts for more than what is guessed from its confidence."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from builders.audits import FORGET, QUICK, C, Toy, codes, compare, hidden, never_seen
from sfra.auditing.audit import audit
from sfra.core.head import Head
from sfra.data import FeatureSet


def sure_and_wrong() -> Toy:
    """A model that answers half of the samples of each class wrongly, and is as sure of those answers."""
    toy = hidden(bias=-1.0)
    features, labels = toy.data.features.clone(), toy.data.labels
    wrong = torch.nonzero((torch.arange(len(labels)) // C) % 2 == 0).flatten()
    features[wrong] = features[wrong[torch.randperm(len(wrong), generator=torch.Generator().manual_seed(0))]]
    return Toy(Head(4 * toy.head.weight, toy.head.bias), FeatureSet(features=features, labels=labels))


def test_an_accuracy_that_is_known_and_reached_speaks_for_the_input_whatever_the_confidence() -> None:
    toy = sure_and_wrong()
    doubted = compare(toy, **QUICK)
    assert doubted.verdict == "unusable"
    assert "--expect-accuracy" in doubted.statement
    assert doubted.retain.before is not None
    known = compare(toy, expect_accuracy=round(doubted.retain.before, 2), **QUICK)
    assert known.verdict != "unusable"
    assert known.settings["expect_accuracy"] == round(doubted.retain.before, 2)
    missed = compare(toy, expect_accuracy=0.97, **QUICK)
    assert missed.verdict == "unusable"
    assert missed.findings[0].code == "below-expected"


def test_it_is_said_of_the_model_and_not_of_its_reference() -> None:
    weak = sure_and_wrong()
    report = compare(hidden(bias=-1.0), weak, expect_accuracy=0.97, **QUICK)
    assert "below-expected" not in codes(report)
    assert report.verdict == "unusable"
    assert "reference-unusable" in codes(report)


def test_a_reference_that_is_as_good_as_the_model_is_said_to_be_is_not_doubted_either() -> None:
    weak = sure_and_wrong()
    before = compare(weak, **QUICK).retain.before
    assert before is not None
    like = Toy(Head(1.01 * weak.head.weight, weak.head.bias), weak.data)
    assert "reference-unusable" in codes(compare(weak, like, **QUICK))
    assert "reference-unusable" not in codes(compare(weak, like, expect_accuracy=round(before, 2), **QUICK))


def test_that_a_reference_is_unusable_is_said_before_the_work(caplog: pytest.LogCaptureFixture) -> None:
    model, weak, sound = hidden(bias=-1.0), sure_and_wrong(), never_seen()
    earlier = compare(weak, **QUICK)

    def told(**reference: Any) -> str:
        """Return what was said when the work began."""
        caplog.clear()
        said = list[str]()

        def note(stage: str, done: int, total: int) -> None:
            if stage.startswith("auditing"):
                said.append(caplog.text)

        audit(model.head, FORGET, data=model.data, progress=note, **reference, **QUICK)
        return said[0]

    doubted = "this audit will be unusable: The reference is"
    assert doubted in told(reference=earlier)
    assert doubted in told(reference=weak.head, reference_data=weak.data)
    assert not told(reference=sound.head, reference_data=sound.data)


def test_an_earlier_audit_of_a_reference_brings_its_critical_findings_along() -> None:
    sound, weak = compare(never_seen(), **QUICK), compare(sure_and_wrong(), **QUICK)
    model = hidden(bias=-1.0)

    def against(reference: object) -> set[str]:
        return codes(audit(model.head, FORGET, data=model.data, reference=reference, **QUICK))

    assert "reference-unusable" in against(weak)
    assert "reference-unusable" not in against(sound)


def test_too_few_forget_samples_cannot_tell_all_from_nothing() -> None:
    toy = hidden(bias=-1.0)
    rows = torch.cat(
        [torch.nonzero(toy.data.labels != FORGET).flatten(), torch.nonzero(toy.data.labels == FORGET)[:5, 0]]
    )
    few = Toy(toy.head, FeatureSet(features=toy.data.features[rows], labels=toy.data.labels[rows]))
    report = compare(few, **QUICK)
    assert report.verdict == "unusable"
    assert "5 samples" in report.statement
