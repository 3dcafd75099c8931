"""Checkpoints that are refused: models that are not what is said, and directories that are not what they claim."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

import sfra
from builders.backbones import edit, trained
from sfra.core.errors import InputError, UnsafeFileError
from sfra.models.backbones import build
from sfra.models.backbones.checkpoint import load_model, save_model

transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.usefixtures("tiny")
NAMES = ["cat", "dog", "ox", "hen"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return save_model(tmp_path / "net", trained("small-cnn"), backbone="small-cnn", classes=4, class_names=NAMES)


@pytest.mark.parametrize("extra", ["thesis.txt", "sub/x.txt", "only", "file"])
def test_what_is_not_a_checkpoint_is_never_replaced(extra: str, folder: Path) -> None:
    if extra == "only":  # the files of a model, but not written here
        (folder / "sfra.json").unlink()
    elif extra != "file":
        (folder / extra).parent.mkdir(exist_ok=True)
        (folder / extra).write_text("years of work")
    target = folder / "config.json" if extra == "file" else folder
    before = sorted(str(path) for path in folder.rglob("*"))
    with pytest.raises(InputError, match=r"is already there and is not a checkpoint of ours: nothing was written"):
        save_model(target, build("small-mlp", classes=3), backbone="small-mlp", classes=3)
    assert sorted(str(path) for path in folder.rglob("*")) == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"classes": 5}, r"(?s)not a small-cnn with 5 outputs\n.*\[4, 64\] instead of \[5, 64\]"),
        ({"backbone": "tiny-vit"}, r"(?s)not a tiny-vit with 4 outputs.*classifier of transformers"),
        ({"class_names": ["a"]}, "every output needs a name"),
        ({"notes": {"x": object()}}, "the notes cannot be written"),
        ({"notes": {"x": float("nan")}}, "the notes cannot be written"),
    ],
)
def test_a_model_that_is_not_what_is_said_is_not_saved(arguments: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        save_model(tmp_path / "net", trained("small-cnn"), **{"backbone": "small-cnn", "classes": 4, **arguments})
    assert os.listdir(tmp_path) == []


def test_another_member_of_a_family_is_not_saved_under_its_name(tmp_path: Path) -> None:
    model = build("tiny-vit", classes=4)
    with pytest.raises(InputError, match=r"(?s)not a vit-b-16 with 4.*hidden_size 16 instead of 768"):
        save_model(tmp_path / "net", model, backbone="vit-b-16", classes=4)
    with pytest.raises(InputError, match=r"(?s)not a tiny-vit with 9 outputs.*classifier\.weight \[4, 16\]"):
        save_model(tmp_path / "net", model, backbone="tiny-vit", classes=9)


@pytest.mark.parametrize("name", ["small-mlp", "tiny-vit"])
def test_a_diverged_model_is_neither_saved_nor_loaded(name: str, tmp_path: Path) -> None:
    model = build(name, classes=4)
    place = save_model(tmp_path / "net", model, backbone=name, classes=4)
    key = next(key for key in load_file(place / "model.safetensors") if key.endswith("classifier.bias"))
    with torch.no_grad():
        model.get_parameter("classifier.bias")[1] = float("nan")
    with pytest.raises(InputError, match=r"(?s)not finite.*NaN or infinity in classifier.bias"):
        save_model(tmp_path / "other", model, backbone=name, classes=4)
    weights = load_file(place / "model.safetensors")
    weights[key] = torch.full((4,), float("inf"))
    save_file(weights, place / "model.safetensors", metadata={"format": "pt"})
    for load in (load_model, sfra.load):
        with pytest.raises(InputError, match="not finite"):
            load(place)


@pytest.mark.parametrize("classes", [10**9, 0, 3, 4.0, "4", True])
def test_a_claimed_number_of_classes_is_not_believed(classes: Any, folder: Path) -> None:
    edit(folder / "config.json", num_labels=classes)
    with pytest.raises(InputError, match=r"number of classes"):
        load_model(folder)
    edit(folder / "config.json", num_labels=None, id2label={str(i): "x" for i in range(5)})
    with pytest.raises(InputError, match=r"(?s)disagree about the number of classes.*expected: 4.*got: +5"):
        load_model(folder)
    place = save_model(folder.parent / "vit", build("tiny-vit", classes=4), backbone="tiny-vit", classes=4)
    edit(place / "config.json", num_labels=10**9, id2label=None, label2id=None)
    with pytest.raises(InputError, match="number of classes that makes no sense"):  # transformers never sees it
        load_model(place)


@pytest.mark.parametrize("backbone", ["vit-b-16", None, ["small-cnn"], "small\x1b[31m"])
def test_an_unknown_backbone_is_one_message(backbone: Any, folder: Path) -> None:
    edit(folder / "config.json", backbone=backbone)
    with pytest.raises(InputError, match=r"(?s)a backbone that is not known here.*small-cnn.*import") as caught:
        load_model(folder)
    assert "\x1b" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"encoder.0.weight": None}, r"1 missing \(encoder\.0\.weight\)"),
        ({"extra": torch.zeros(1)}, r"1 unexpected \(extra\)"),
        (
            {"encoder.0.weight": torch.zeros(16, 1, 5, 5)},
            r"encoder\.0\.weight \[16, 1, 5, 5\] instead of \[16, 1, 3, 3\]",
        ),
        ({"encoder.0.weight": torch.zeros(16, 1, 3, 3, dtype=torch.int8)}, r"1 of another kind \(encoder\.0\.weight"),
        ({"classifier.weight": None, "classifier.bias": None}, r"disagree about the number of classes"),
        ({"classifier.weight": torch.zeros(()), "classifier.bias": None}, r"disagree about the number of classes"),
    ],
)
def test_weights_that_do_not_fit_are_refused(change: dict[str, Any], message: str, folder: Path) -> None:
    weights = {**load_file(folder / "model.safetensors"), **change}
    save_file({key: value for key, value in weights.items() if value is not None}, folder / "model.safetensors")
    with pytest.raises(InputError, match=message):
        load_model(folder)


@pytest.mark.parametrize("load", [load_model, sfra.load])
def test_a_checkpoint_is_checked_as_any_other_directory(load: Any, folder: Path) -> None:
    whole = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match=r"(?s)model\.safetensors cannot be read.*truncated"):
        load(folder)
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(b"")
    with pytest.raises(UnsafeFileError, match="can run code"):
        load(folder)
    edit(folder / "config.json", auto_map={"AutoConfig": "evil.Config"})
    with pytest.raises(UnsafeFileError, match="asks for code"):
        load(folder)


@pytest.mark.parametrize("content", ["[]", "{", '{"format": 2, "notes": {}}', '{"format": 1, "notes": []}'])
def test_odd_notes_and_a_missing_directory_are_one_message(content: str, folder: Path) -> None:
    (folder / "sfra.json").write_text(content)
    with pytest.raises(InputError, match=r"sfra\.json cannot be"):
        load_model(folder)
    with pytest.raises(InputError, match="the directory does not exist"):
        load_model(folder / "other")
