"""``sfra doctor``: what is said of a model before any audit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import sfra
from builders.cli import BIAS, FEATURES, FORGET, LABELS, WEIGHT, C, D, Files, Run, write_features, write_head
from sfra.auditing.examine import examine
from sfra.models import backbones
from sfra.models.backbones.checkpoint import save_model
from sfra.release import Preprocess


def words(text: str) -> str:
    return " ".join(text.split())


def doctor(run: Run, *arguments: object) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run("doctor", *arguments, "--json").out)
    return found


def test_head_is_described_with_its_odd_row_and_what_is_missing(files: Files, run: Run) -> None:
    ran = run("doctor", files.head)
    assert ran.code == 0
    shown = words(ran.out)
    assert f"Model head file {files.head.name} (head)" in shown
    assert f"Head {C} outputs, {D} features; norm 3.00 and bias +0.00 in the median" in shown
    assert "Odd rows 3 (norm 0.00, bias -3.00)" in shown
    assert "--data features, the inputs of the head, and labels: without it nothing is measured" in shown
    line = "sfra audit head.npz --forget 3 --data DATA --reference REFERENCE --reference-data FEATURES --out results"
    assert ran.out.endswith(f"\nNext:\n  {line.replace('head.npz', str(files.head))}\n")


def test_head_without_an_odd_row_leaves_the_class_open(files: Files, run: Run) -> None:
    found = doctor(run, write_head(files.folder / "whole.npz", WEIGHT))
    assert (found["odd_rows"], found["suspects"]) == ([], [])
    assert " --forget CLASS " in found["audit"]


def test_class_that_is_not_recognised_is_named_and_the_others_are_measured(files: Files, run: Run) -> None:
    found = doctor(run, files.head, "--data", files.features)
    hit = np.argmax(FEATURES @ np.where(np.arange(C)[:, None] == FORGET, 0, WEIGHT).T + _bias(), axis=1) == LABELS
    assert found["data"]["accuracy"] == pytest.approx(hit.mean())
    assert found["data"]["unknown"] == {"3": 0.0}
    assert found["suspects"] == [FORGET]
    assert found["data"]["findings"] == []
    assert set(found["missing"]) == {"--forget", "--reference", "--control"}


def _bias() -> Any:
    bias = BIAS.copy()
    bias[FORGET] = -3.0
    return bias


def test_labels_in_another_order_are_noticed(files: Files, run: Run) -> None:
    shifted = write_features(files.folder / "shifted.npz", labels=(LABELS + 1) % C)
    found = doctor(run, files.head, "--data", shifted)
    assert "class-order" in {one["code"] for one in found["data"]["findings"]}
    said = run("doctor", files.head, "--data", shifted).out
    assert "What to do: number the labels" in said
    assert "sfra explain class-order" in said


def test_network_is_described_with_its_size_and_how_it_wants_images(files: Files, run: Run) -> None:
    network = backbones.build("small-cnn", classes=10, seed=0)
    names = [f"digit {label}" for label in range(10)]
    prepare = Preprocess(size=(8, 8), mean=(0.3,), std=(0.4,))
    save_model(Path("cnn"), network, backbone="small-cnn", classes=10, preprocess=prepare, class_names=names)
    found = doctor(run, "cnn", "--data", "digits")
    assert (found["format"], found["weights"]) == ("sfra-directory", sum(p.numel() for p in network.parameters()))
    assert (found["normalises"], found["class_names"]) == (True, names)
    assert found["preprocess"]["mean"] == [0.3]
    assert "--reference-data" not in found["audit"]
    assert "retain-low" in {one["code"] for one in found["data"]["findings"]}
    shown = words(run("doctor", "cnn").out)
    assert "Images resized to 8 x 8 (bilinear), mean 0.3, std 0.4" in shown
    assert "digit 7 and 2 more" in shown


def test_state_dict_goes_in_as_it_is_and_is_a_head_without_its_architecture(files: Files, run: Run) -> None:
    shown = words(run("doctor", files.state_dict, "--arch", "small-mlp").out)
    assert "Normalisation no" in shown
    assert "Images go in as they are" in shown
    assert "--arch small-mlp" in shown
    alone = doctor(run, files.state_dict)
    assert (alone["encoder"], alone["outputs"]) == (False, 10)
    assert "--arch" in alone["missing"]


def test_data_of_the_forgotten_class_alone_are_measured(files: Files, run: Run) -> None:
    gone = write_features(files.folder / "gone.npz", FEATURES[LABELS == FORGET], LABELS[LABELS == FORGET])
    found = doctor(run, files.head, "--data", gone)
    assert (found["data"]["accuracy"], found["suspects"]) == (0.0, [FORGET])


def test_labels_that_are_names_are_said_to_be_numbered(files: Files, run: Run) -> None:
    named = write_features(files.folder / "named.npz", labels=np.array([f"beast {label}" for label in LABELS]))
    assert "features, labels by names in sorted order)" in words(run("doctor", files.head, "--data", named).out)


def test_output_that_the_model_lost_is_pointed_out(files: Files, run: Run) -> None:
    ran = run("doctor", files.headless, "--data", files.features)
    assert ran.code == 2
    assert "--missing-row" in ran.err


def test_examination_leaves_a_model_in_memory_as_it_was() -> None:
    network = backbones.build("small-mlp", classes=10, seed=0)
    before = {name: weight.clone() for name, weight in network.state_dict().items()}
    found = examine(network, progress=lambda stage, done, total: None)
    assert (found.outputs, found.format) == (sfra.load(network).head.classes, "module")
    assert all(bool((network.state_dict()[name] == weight).all()) for name, weight in before.items())


def test_class_is_named_so_that_the_audit_takes_the_same_one(files: Files, run: Run) -> None:
    network = backbones.build("small-mlp", classes=4, seed=0)
    with torch.no_grad():
        network.get_parameter("classifier.bias")[1] = -20.0
    save_model(Path("m"), network, backbone="small-mlp", classes=4, class_names=("1", "2", "3", "4"))
    found = doctor(run, "m")
    assert found["suspects"] == [1]
    assert " --forget 2 " in found["audit"]


def test_names_of_the_data_serve_a_model_that_has_none(files: Files, run: Run) -> None:
    named = write_features(files.folder / "named.npz", labels=np.array([f"beast {label}" for label in LABELS]))
    found = doctor(run, files.head, "--data", named)
    assert found["class_names"] == [f"beast {label}" for label in range(C)]
    assert "Unrecognised 3 (beast 3): 0.0 %" in words(run("doctor", files.head, "--data", named).out)
