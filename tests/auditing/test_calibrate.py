"""The calibrated scale: found on retain classes that are hidden, without the forgotten one."""

from __future__ import annotations

from pathlib import Path
from statistics import median
from typing import Any

import msgspec
import numpy as np
import pytest
import torch

from builders.audits import FORGET, KEPT, QUICK, Toy, codes, compare, hidden, knowing, never_seen
from sfra.auditing import calibrate as calibration
from sfra.auditing.audit import audit
from sfra.auditing.calibrate import COMES_BACK, GRID
from sfra.auditing.result import AuditReport, AuditResult, Calibration, ScaleStep
from sfra.core.errors import InputError
from sfra.core.head import Head
from sfra.data import FeatureSet

MODELS = Path(__file__).parents[2] / "reproduction" / "cifar10-vit-small" / "models"


def calibrated(toy: Toy, reference: Toy | None = None, **settings: Any) -> tuple[AuditReport, Calibration]:
    report = compare(toy, reference, scale="calibrated", **settings)
    assert report.calibration is not None
    return report, report.calibration


@pytest.fixture(scope="module")
def found() -> tuple[AuditReport, Calibration]:
    return calibrated(never_seen())


def test_the_size_is_the_smallest_at_which_hidden_classes_come_back(found: tuple[AuditReport, Calibration]) -> None:
    report, chosen = found
    medians = {}
    for kappa in GRID:
        control = compare(never_seen(), scale=kappa, self_controls=len(KEPT)).controls[0]
        medians[kappa] = median(one.score.rs for one in control.hidden if one.classes in chosen.classes)
    assert chosen.kappa == min(kappa for kappa, rs in medians.items() if rs >= COMES_BACK)
    assert {step.kappa: median(step.rs) for step in chosen.steps} == {
        step.kappa: medians[step.kappa] for step in chosen.steps
    }
    assert len(chosen.steps) == 4
    assert (report.results[0].kappa, report.settings["scale"]) == (chosen.kappa, chosen.kappa)


def test_the_forgotten_class_has_no_part_in_the_choice(found: tuple[AuditReport, Calibration]) -> None:
    toy = never_seen()
    other = toy.data.features.clone()
    other[toy.data.labels == FORGET] = 7.0
    changed = Toy(toy.with_row(3.0, 2.0).head, FeatureSet(features=other, labels=toy.data.labels))
    assert calibrated(changed, epochs=40)[1] == found[1]
    assert calibrated(toy, never_seen(seed=7))[1] == found[1]  # nor has a reference


def test_features_of_another_unit_are_calibrated_alike(found: tuple[AuditReport, Calibration]) -> None:
    other, chosen = calibrated(never_seen().scaled(8.0))
    assert (other.verdict, other.rs, chosen) == (found[0].verdict, found[0].rs, found[1])


def test_classes_that_chose_the_size_are_no_control_of_it(found: tuple[AuditReport, Calibration]) -> None:
    report, chosen = found
    [control] = report.controls
    assert {one.classes for one in control.hidden} == {(label,) for label in KEPT} - {*chosen.classes}
    assert len(chosen.classes) == 3


def test_only_the_original_clears_a_model_at_a_calibrated_size() -> None:
    model, reference, original = never_seen(), never_seen(seed=7), knowing()
    assert compare(model, reference, scale=3.4).verdict in ("not-recovered", "generic")
    assert calibrated(model, reference)[0].verdict == "blind"
    beside, _ = calibrated(model, reference, control=original.head, control_data=original.data)
    assert beside.verdict in ("not-recovered", "generic")
    assert calibrated(hidden(bias=-1.0), reference)[0].verdict == "recovered"
    assert calibrated(hidden(bias=-1.0))[0].verdict == "no-reference"  # where the constant size says like-hidden


def test_where_hidden_classes_come_back_at_no_size_the_constant_one_is_kept() -> None:
    report, chosen = calibrated(never_seen(), epochs=1)
    assert (chosen.found, chosen.kappa, report.scale) == (False, 1.7, "canonical")
    assert "no-scale" in codes(report)


def test_a_size_that_breaks_the_other_classes_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[float] = []

    def look(_: object, kappa: float, *__: object) -> ScaleStep:
        looked.append(kappa)
        broken = kappa > GRID[4]
        return ScaleStep(kappa=kappa, rs=(0.9 if broken else 0.1,), retain_drop=0.3 if broken else 0.0)

    monkeypatch.setattr(calibration, "_look", look)
    _, chosen = calibrated(never_seen(), **QUICK)
    assert (looked, chosen.found) == ([GRID[7], GRID[3], GRID[5], GRID[4]], False)


def test_a_calibrated_scale_needs_labelled_data_of_retain_classes() -> None:
    with pytest.raises(InputError, match=r"the scale cannot be calibrated\n.*retain classes"):
        audit(never_seen().head, FORGET, scale="calibrated", **QUICK)


def test_how_the_size_was_found_is_kept(found: tuple[AuditReport, Calibration]) -> None:
    assert msgspec.convert(found[0].to_dict(), AuditResult).calibration == found[1]
    assert "no-scale" not in codes(found[0])
    assert compare(never_seen(), **QUICK).calibration is None


def test_a_vision_transformer_tells_hidden_from_unseen_at_a_calibrated_size() -> None:
    def read(name: str) -> tuple[Head, FeatureSet]:
        with np.load(MODELS / name / "features.npz") as arrays:
            features, labels = (torch.from_numpy(arrays[one]) for one in ("features", "labels"))
        return Head.load(MODELS / name / "head.npz"), FeatureSet(features=features.float(), labels=labels.long())

    (masked, seen), (unseen, other) = read("masked-0"), read("retrained-0")
    given: dict[str, Any] = {"data": seen, "reference": unseen, "reference_data": other, "n": 20_000, "threads": 1}
    constant = audit(masked, 0, **given)
    report = audit(masked, 0, scale="calibrated", **given)
    assert constant.reference_rs is not None
    assert constant.reference_rs > 0.5  # a model that never saw the class relearns it
    assert report.reference_rs is not None
    assert report.reference_rs < 0.1
    assert report.delta_rs is not None
    assert report.delta_rs > 0.6
    assert report.verdict == "recovered"
