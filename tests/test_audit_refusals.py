"""What cannot be audited is refused, and before any work."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any

import numpy as np
import pytest
import torch

from audit_toys import FORGET, C, D, compare, hidden, knowing
from sfra.audit import audit
from sfra.config import AuditConfig
from sfra.data import FeatureSet
from sfra.errors import InputError
from sfra.head import Head
from sfra.release import Release

QUICK: dict[str, Any] = {"n": 300, "m": 30, "epochs": 6, "threads": 1}


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail if a head is relearned."""

    def never(*parts: object, **more: object) -> None:
        raise AssertionError("work began before the check")

    monkeypatch.setattr(import_module("sfra.audit"), "relearn_release", never)


STRAY = FeatureSet(features=torch.ones(9, D), labels=torch.arange(9))
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "stray labels": (
        {"data": STRAY},
        "there are labels outside the head's classes\n  expected: 0 to 5\n  got:      6, 7",
    ),
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
    "a reference without data": ({"reference": knowing().head}, "reference is of no use without data"),
    "a validation split without data": ({"validation": knowing().data}, "validation is of no use without data"),
    "features of no reference": (
        {"data": knowing().data, "reference_data": knowing().data},
        "reference_data is of no use without reference",
    ),
    "a reference of other classes": (
        {"data": knowing().data, "reference": Head(torch.eye(4)), "reference_data": knowing().data},
        "model and reference do not have the same classes\n  expected: 6 outputs (5 if the reference has none",
    ),
    "a class out of range": ({"forget": C}, "the forget class is out of range"),
    "no class": ({"forget": []}, "no forget class was given"),
    "an unknown name": ({"forget": "cow"}, "there is no class named 'cow'"),
    "too many probes": ({"n": 10, "m": 6}, "the pools are too small"),
    "config and settings": (
        {"config": AuditConfig(), "epochs": 3, "m": 5},
        "config and single settings were both given\n  got:      epochs, m\n  do:       give one of them",
    ),
    "an unknown device": ({"device": "abacus"}, "the device 'abacus' cannot be used"),
    "an architecture for a head": ({"arch": "resnet18"}, "an architecture belongs to a state dict"),
}


@pytest.mark.usefixtures("no_work")
@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_audited_is_refused_before_any_work(case: str) -> None:
    given, message = REFUSED[case]
    arguments = {"forget": FORGET} | given
    with pytest.raises(InputError) as caught:
        audit(knowing().head, **arguments)
    assert message in str(caught.value)


def test_a_misspelt_setting_is_an_error() -> None:
    with pytest.raises(TypeError, match="epoch"):
        audit(knowing().head, FORGET, epoch=3)


def test_a_config_does_what_the_same_settings_do() -> None:
    one = audit(hidden().head, FORGET, data=hidden().data, config=AuditConfig(**QUICK))
    assert one.settings == compare(hidden(), **QUICK).settings
    assert one.rs == compare(hidden(), **QUICK).rs


def test_data_with_the_classes_of_the_model_in_another_order_are_refused() -> None:
    toy = hidden(bias=-1.0)
    names = tuple("abcdef")
    release = Release(head=toy.head, encoder=None, source="a toy", fingerprint="0", class_names=names)
    data = FeatureSet(features=toy.data.features, labels=toy.data.labels, class_names=names[::-1])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(import_module("sfra.audit"), "load", lambda *_, **__: release)
        with pytest.raises(InputError, match="number their classes differently"):
            audit("model", FORGET, data=data, **QUICK)
