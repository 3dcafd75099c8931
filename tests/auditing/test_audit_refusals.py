"""What cannot be audited is refused, and before any work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from builders.audits import FORGET, QUICK, C, D, Toy, compare, hidden, knowing, never_seen
from sfra.auditing.audit import audit
from sfra.auditing.config import AuditConfig
from sfra.core.errors import InputError
from sfra.core.head import Head
from sfra.data import FeatureSet
from sfra.models.backbones import build
from sfra.release import Release, load


@pytest.fixture
def no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail if a head is relearned."""

    def never(*parts: object, **more: object) -> None:
        raise AssertionError("work began before the check")

    monkeypatch.setattr(import_module("sfra.auditing.audit"), "relearn_jobs", never)


STRAY = FeatureSet(features=torch.ones(9, D), labels=torch.arange(9))
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "stray labels": ({"data": STRAY}, "there are labels outside the head's classes"),
    "stray labels of the validation": (
        {"data": knowing().data, "validation": STRAY},
        "there are labels outside the head's classes",
    ),
    "stray labels of the reference": (
        {"data": knowing().data, "reference": knowing().head, "reference_data": STRAY},
        "there are labels outside the head's classes",
    ),
    "another width": ({"data": (np.ones((9, D + 1)), np.arange(9) % C)}, "the features do not fit the head"),
    "no forget samples": ({"data": (np.ones((2, D)), [0, 1])}, "there is no sample of the forget class"),
    "images for a head": ({"data": "digits"}, "a head has no encoder, so images cannot be measured"),
    "no features of the reference": (
        {"data": knowing().data, "reference": knowing().head},
        "the reference has no features to be measured on",
    ),
    "a reference without data": ({"reference": knowing().head}, "reference (--reference) needs data"),
    "a validation split without data": ({"validation": knowing().data}, "validation (--validation) needs data"),
    "features of no reference": (
        {"data": knowing().data, "reference_data": knowing().data},
        "reference_data (--reference-data) needs reference",
    ),
    "a reference of other classes": (
        {"data": knowing().data, "reference": Head(torch.eye(4)), "reference_data": knowing().data},
        "model and reference do not have the same classes\n  expected: 6 outputs (5 if the reference has none",
    ),
    "a class out of range": ({"forget": C}, "the forget class is out of range"),
    "no class": ({"forget": []}, "no forget class was given"),
    "an unknown name": ({"forget": "cow"}, "there is no class named 'cow'"),
    "too many probes": ({"n": 10, "m": 6}, "the pools are too small"),
    "config and settings": ({"config": AuditConfig(), "m": 5}, "config and single settings were both given"),
    "the model as its reference": (
        {"data": knowing().data, "reference": knowing().head, "reference_data": knowing().data},
        "model and reference are the same model",
    ),
    "a row that is not missing": (
        {"data": knowing().data, "missing_row": True},
        "the head has an output for each of the 6 classes",
    ),
    "a reference that is not there": (
        {"data": knowing().data, "reference": "nowhere.pt", "reference_data": knowing().data},
        "the file or directory does not exist",
    ),
}


@pytest.mark.usefixtures("no_work")
@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_audited_is_refused_before_any_work(case: str) -> None:
    given, message = REFUSED[case]
    arguments = {"forget": FORGET} | given
    with pytest.raises(InputError) as caught:
        audit(knowing().head, **arguments)
    assert message in str(caught.value)


def test_a_config_does_what_the_same_settings_do() -> None:
    one = audit(hidden().head, FORGET, data=hidden().data, config=AuditConfig(**QUICK))
    assert one.settings == compare(hidden(), **QUICK).settings
    assert one.rs == compare(hidden(), **QUICK).rs


def named(toy: Toy, names: Sequence[str]) -> FeatureSet:
    return FeatureSet(features=toy.data.features, labels=toy.data.labels, class_names=tuple(names))


def release(toy: Toy, **parts: Any) -> Release:
    return Release(**({"head": toy.head, "encoder": None, "source": "a toy", "fingerprint": "0"} | parts))


def test_data_with_the_classes_of_the_model_in_another_order_are_refused() -> None:
    toy = hidden(bias=-1.0)
    made = release(toy, class_names=tuple("abcdef"))
    with pytest.raises(InputError, match="model and data number their classes differently"):
        audit(made, FORGET, data=named(toy, "fedcba"), **QUICK)
    with pytest.raises(InputError, match="model and validation data number"):
        audit(made, FORGET, data=toy.data, validation=named(toy, "abcdfe"), **QUICK)
    with pytest.raises(InputError, match="model and reference data number"):
        audit(made, FORGET, data=toy.data, reference=toy.head, reference_data=named(toy, "abcdfe"), **QUICK)


def test_a_reference_with_its_classes_in_another_order_is_refused() -> None:
    toy, other = hidden(bias=-1.0), never_seen()
    given: dict[str, Any] = {"data": named(toy, "abcdef"), "reference_data": other.data, **QUICK}
    with pytest.raises(InputError, match="data and reference number their classes differently"):
        audit(toy.head, FORGET, reference=release(other, class_names=tuple("abcdfe")), **given)
    earlier = audit(release(other, class_names=tuple("abcdfe")), FORGET, data=other.data, **QUICK)
    with pytest.raises(InputError, match="data and reference number their classes differently"):
        audit(toy.head, FORGET, data=given["data"], reference=earlier, **QUICK)
    same = audit(toy.head, FORGET, reference=release(other, class_names=tuple("abcdef")), **given)
    assert same.delta_rs == compare(toy, other, **QUICK).delta_rs


def test_an_earlier_audit_of_the_model_itself_is_no_reference(tmp_path: Path) -> None:
    toy = hidden(bias=-1.0)
    earlier = compare(toy, **QUICK)
    for reference in (earlier, earlier.save(tmp_path)):
        with pytest.raises(InputError, match="model and reference are the same model"):
            audit(toy.head, FORGET, data=toy.data, reference=reference, **QUICK)
    other = FeatureSet(features=toy.data.features + 0.5, labels=toy.data.labels)
    assert audit(toy.head, FORGET, data=other, reference=earlier, **QUICK).delta_rs is not None


@pytest.mark.parametrize("as_path", [True, False])
def test_a_network_is_not_its_own_reference_and_nothing_is_extracted_to_find_out(tmp_path: Path, as_path: bool) -> None:
    model = build("small-mlp", classes=10, seed=0)
    torch.save(model.state_dict(), tmp_path / "model.pt")
    given: dict[str, Any] = {"arch": "small-mlp"} if as_path else {}
    told: list[str] = []
    source = tmp_path / "model.pt" if as_path else model
    for reference, message in (
        (source, "model and reference are the same model"),
        (tmp_path / "gone.pt", "the file or directory does not exist"),
        (tmp_path / "gone.json", "cannot read .*gone.json"),
    ):
        with pytest.raises(InputError, match=message):
            audit(
                source,
                3,
                data="digits",
                reference=reference,
                cache=False,
                progress=lambda stage, *_: told.append(stage),
                **given,
                **QUICK,
            )
    assert not told


def folder_of_classes(folder: Path, names: Sequence[str]) -> Path:
    generator = np.random.default_rng(0)
    for name in names:
        (folder / name).mkdir(parents=True)
        for number in range(2):
            pixels = generator.integers(0, 255, (8, 8), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / name / f"{number}.png")
    return folder


def test_an_image_folder_without_a_class_is_refused_and_an_empty_folder_in_its_place_is_not(tmp_path: Path) -> None:
    names = ("five", "four", "one", "three", "two", "zero")
    made = replace(load(build("small-mlp", classes=len(names), seed=0)), class_names=names)
    data = folder_of_classes(tmp_path / "images", [name for name in names if name != "one"])
    with pytest.raises(InputError, match=r"(?s)'three' to be class 3.*got: +class 2; there is no 'one' in the data"):
        audit(made, "three", data=data, cache=False, **QUICK)
    (data / "one").mkdir()
    report = audit(made, "three", data=data, cache=False, **QUICK)
    assert report.forget_classes == (3,)
    assert report.confusion is not None
    assert sum(report.confusion.before[0]) == 2
