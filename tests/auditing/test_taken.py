"""Data are taken as the model takes them: tables as features or inputs, labels by name."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn

from sfra.auditing.audit import audit
from sfra.auditing.result import AuditReport
from sfra.core.errors import InputError
from sfra.core.head import Head
from sfra.data import load_data
from sfra.release import Release, load

QUICK: dict[str, Any] = {"n": 200, "m": 20, "epochs": 2, "self_controls": 0, "cache": False}
DIGITS = load_digits()
VECTORS = torch.from_numpy(DIGITS.data / 16).float()
LABELS = torch.from_numpy(DIGITS.target)
WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
NAMED = np.array(WORDS)[DIGITS.target]


def mlp(*, width: int) -> nn.Sequential:
    """A network of vectors that was fitted to the digits: random features, and a head by ridge regression."""
    torch.manual_seed(0)
    body, head = nn.Sequential(nn.Linear(64, width), nn.ReLU()), nn.Linear(width, 10)
    with torch.no_grad():
        features = torch.cat([body(VECTORS), torch.ones(len(VECTORS), 1)], 1).double()
        wanted = 10 * nn.functional.one_hot(LABELS).double()
        ridge = torch.eye(width + 1).double()  # some features are always zero
        fitted = torch.linalg.solve(features.T @ features + ridge, features.T @ wanted).float()
        head.weight.copy_(fitted[:-1].T)
        head.bias.copy_(fitted[-1])
    return nn.Sequential(*body, head)


MODEL, SQUARE = mlp(width=100), mlp(width=64)


def features(model: nn.Sequential) -> Tensor:
    with torch.no_grad():
        return model[:2](VECTORS)  # type: ignore[no-any-return]


def right(model: nn.Sequential, *, also: int = 3) -> float:
    """Accuracy on all classes but 3, and perhaps another, by hand."""
    kept = ~torch.isin(LABELS, torch.tensor([3, also]))
    with torch.no_grad():
        return float((model(VECTORS).argmax(1) == LABELS)[kept].double().mean())


def run(model: Any, data: Any, forget: Any = 3, **given: Any) -> AuditReport:
    return audit(model, forget, data=data, **{**QUICK, **given})


def named(names: tuple[str, ...] | None) -> Release:
    return replace(load(MODEL), class_names=names)


def test_inputs_go_through_the_network_as_they_are(tmp_path: Path) -> None:
    np.savez(tmp_path / "vectors.npz", inputs=VECTORS.numpy(), labels=LABELS.numpy())
    for data in (tmp_path / "vectors.npz", {"inputs": VECTORS, "labels": LABELS}):
        report = run(MODEL, data)
        assert report.retain.before == pytest.approx(right(MODEL))
        assert right(MODEL) > 0.85
        assert report.data is not None
        assert report.data.kind == "inputs"
        assert report.model.preprocess is None
    assert repr(load_data(tmp_path / "vectors.npz")) == "ImageSet('vectors.npz': 1,797 inputs of [64], labels 0 to 9)"


def test_a_bare_table_is_what_its_width_says() -> None:
    for samples, kind in ((VECTORS, "inputs"), (features(MODEL), "features")):
        report = run(MODEL, (samples, LABELS))
        assert report.data is not None
        assert report.data.kind == kind
        assert report.retain.before == pytest.approx(right(MODEL), abs=1e-3)
    assert run(load(MODEL).head, (features(MODEL), LABELS)).data.kind == "features"  # type: ignore


def test_a_bare_table_that_may_be_both_is_refused_until_it_has_a_name() -> None:
    with pytest.raises(InputError, match=r'(?s)may be features or inputs.*64 numbers.*data=\{"inputs": samples'):
        run(SQUARE, (VECTORS, LABELS))
    for name, samples in (("inputs", VECTORS), ("features", features(SQUARE))):
        report = run(SQUARE, {name: samples, "labels": LABELS})
        assert report.retain.before == pytest.approx(right(SQUARE), abs=1e-3)


def test_a_table_that_the_encoder_leaves_as_it_is_may_be_either() -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    report = run(load(model, example=torch.zeros(2, 64)), (VECTORS, LABELS))
    assert report.data is not None
    assert report.data.kind == "features"


def test_features_that_are_inputs_are_refused_with_the_name_that_they_need() -> None:
    with pytest.raises(InputError, match=r"(?s)not those of the head.*100 numbers.*got: +64.*call the array 'inputs'"):
        run(MODEL, {"features": VECTORS, "labels": LABELS})


def test_a_reference_is_measured_on_the_same_inputs() -> None:
    report = run(MODEL, {"inputs": VECTORS, "labels": LABELS}, reference=mlp(width=80))
    assert report.reference_rs is not None
    own = run(MODEL, (features(MODEL), LABELS), reference=SQUARE, reference_data={"inputs": VECTORS, "labels": LABELS})
    assert own.results[0].reference_retain_before == pytest.approx(right(SQUARE))


def test_inputs_of_the_wrong_kind_are_refused() -> None:
    with pytest.raises(InputError, match=r"(?s)cannot enter a network.*nothing is scaled.*uint8.*inputs / 255"):
        load_data({"inputs": torch.zeros(4, 3, dtype=torch.uint8), "labels": [0, 1, 2, 3]})
    with pytest.raises(InputError, match="inputs of the given arrays are not finite"):
        load_data({"inputs": torch.full((2, 3), float("nan")), "labels": [0, 1]})
    with pytest.raises(InputError, match=r"(?s)given arrays are not data.*'features', 'images', 'inputs'.*got: +x, y"):
        load_data({"x": VECTORS, "y": LABELS})


def test_inputs_that_are_scaled_otherwise_are_found() -> None:
    report = run(MODEL, {"inputs": 255 * VECTORS, "labels": LABELS})
    better = [one for one in report.findings if one.code == "inputs-differ"]
    assert [one.severity for one in better] == ["critical"]


def test_labels_by_name_are_numbered_as_the_model_does(tmp_path: Path) -> None:
    by_index = run(named(WORDS), {"inputs": VECTORS, "labels": LABELS}, "three")
    np.savez(tmp_path / "named.npz", inputs=VECTORS.numpy(), labels=NAMED)
    for data in (tmp_path / "named.npz", {"inputs": VECTORS, "labels": [word.upper() for word in NAMED]}):
        report = run(named(WORDS), data, "three")
        assert (report.forget_classes, report.class_names) == ((3,), WORDS)
        assert report.retain == by_index.retain
        assert report.data is not None
        assert report.data.numbering == "names as in the model"
        assert "1,797 samples, labels by names as in the model" in " ".join(report.summary().split())
    assert json.loads(by_index.to_json())["data"].get("numbering") is None


def test_one_of_several_words_for_a_class_will_do() -> None:
    words = (*WORDS[:3], "three, drei, 3", *WORDS[4:])
    assert run(named(words), {"inputs": VECTORS, "labels": np.where(NAMED == "three", "drei", NAMED)}).rs is not None


def test_classes_may_be_missing_from_labels_by_name() -> None:
    kept = NAMED != "zero"
    report = run(named(WORDS), {"inputs": VECTORS[kept], "labels": NAMED[kept]}, "three")
    assert report.retain.before == pytest.approx(right(MODEL, also=0))


def test_names_of_a_model_without_names_are_sorted_if_there_is_one_for_each_output() -> None:
    order = [WORDS.index(word) for word in sorted(WORDS)]
    head = load(MODEL).head
    head = Head(head.weight[order], head.bias[order])
    report = run(head, {"features": features(MODEL), "labels": NAMED}, "three")
    assert report.class_names == tuple(sorted(WORDS))
    assert report.retain.before == pytest.approx(right(MODEL), abs=1e-3)
    assert "labels by names in sorted order" in report.summary()
    few = NAMED != "zero"
    with pytest.raises(InputError, match=r"(?s)are names, and the model has none.*10 names.*got: +9: eight, five"):
        run(head, {"features": features(MODEL)[few], "labels": NAMED[few]}, "three")


def test_names_that_the_model_does_not_have_or_has_twice_are_refused() -> None:
    for words in ((*WORDS[:9], "neuf"), (*WORDS[:8], "nine", "nine")):
        with pytest.raises(InputError, match=r"(?s)does not have, or has twice.*expected: zero, one.*got: .*nine"):
            run(named(words), {"inputs": VECTORS, "labels": NAMED})


def test_numbers_written_as_text_are_numbers() -> None:
    found = load_data({"inputs": VECTORS[:3], "labels": ["0", "10", "2"]})
    assert (found.labels.tolist(), found.class_names) == ([0, 10, 2], None)
