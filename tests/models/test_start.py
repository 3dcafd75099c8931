"""Starting from a checkpoint: its encoder, a fresh head, and nothing of another architecture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from builders.backbones import TINY, edit
from builders.hub import stand_in
from sfra.core.errors import InputError, UnsafeFileError
from sfra.models.backbones import build, find
from sfra.models.backbones.checkpoint import save_model

transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.usefixtures("tiny")
EVERY = ("small-mlp", "resnet18-small", *TINY)


def checkpoint(folder: Path, name: str, *, classes: int = 4) -> tuple[Path, dict[str, Tensor]]:
    model = build(name, classes=classes, seed=1)
    names = [f"class {index}" for index in range(classes)]
    save_model(folder / name, model, backbone=name, classes=classes, class_names=names)
    return folder / name, model.state_dict()


def parts(model: nn.Module, name: str) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Split a state dict into encoder and head."""
    state, head = model.state_dict(), find(name).head_names()
    assert head
    return {k: v for k, v in state.items() if k not in head}, {k: v for k, v in state.items() if k in head}


def equal(some: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return all(torch.equal(value, other[key]) for key, value in some.items())


@pytest.mark.parametrize("name", EVERY)
def test_the_head_is_the_part_that_depends_on_the_number_of_classes(name: str) -> None:
    head = {"fc.weight", "fc.bias"} if name == "resnet18-small" else {"classifier.weight", "classifier.bias"}
    assert find(name).head_names() == ({key.replace(".", ".1.") for key in head} if name == "tiny-resnet" else head)


@pytest.mark.parametrize("name", EVERY)
def test_the_encoder_is_taken_and_the_head_is_new_and_seeded(name: str, tmp_path: Path) -> None:
    folder, state = checkpoint(tmp_path, name)
    random = torch.get_rng_state()
    encoder, head = parts(build(name, classes=7, seed=5, pretrained=folder), name)
    assert torch.equal(torch.get_rng_state(), random)
    assert equal(encoder, state)
    scratch_encoder, scratch_head = parts(build(name, classes=7, seed=5), name)
    assert equal(head, scratch_head)
    assert not equal(scratch_encoder, state)
    same_count = parts(build(name, classes=4, seed=5, pretrained=str(folder)), name)[1]
    assert not equal({key: value for key, value in same_count.items() if "weight" in key}, state)


@pytest.mark.parametrize("name", EVERY)
def test_the_head_is_kept_on_demand_and_only_if_it_fits(name: str, tmp_path: Path) -> None:
    folder, state = checkpoint(tmp_path, name)
    model = build(name, classes=4, pretrained=folder, keep_head=True)
    assert equal(model.state_dict(), state)
    if name in TINY:
        assert model.config.id2label[3] == "class 3"  # type: ignore[union-attr, index]
    with pytest.raises(InputError, match=r"(?s)another number of outputs.*expected: 5 classes.*got: +4"):
        build(name, classes=5, pretrained=folder, keep_head=True)
    with pytest.raises(InputError, match="there is no head to keep"):
        build(name, classes=4, keep_head=True)


def test_a_checkpoint_without_a_head_will_do_unless_the_head_is_wanted(tmp_path: Path) -> None:
    model: Any = build("tiny-vit", classes=4, seed=1)
    model.vit.save_pretrained(tmp_path / "encoder")
    started = build("tiny-vit", classes=3, seed=5, pretrained=tmp_path / "encoder")
    encoder, head = parts(started, "tiny-vit")
    assert equal(encoder, model.state_dict())
    assert equal(head, parts(build("tiny-vit", classes=3, seed=5), "tiny-vit")[1])
    with pytest.raises(InputError, match=r"(?s)would be random.*classifier\.bias"):
        build("tiny-vit", classes=2, pretrained=tmp_path / "encoder", keep_head=True)


def test_settings_without_weights_of_their_own_are_those_of_the_checkpoint(tmp_path: Path) -> None:
    folder, _ = checkpoint(tmp_path, "tiny-vit")
    edit(folder / "config.json", layer_norm_eps=0.125)
    assert build("tiny-vit", classes=3, pretrained=folder).config.layer_norm_eps == 0.125  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("made", "wanted", "got"),
    [
        ("tiny-vit", "tiny-swin", "model_type 'vit'"),
        ("tiny-vit", "vit-b-16", "patch_size 8 instead of 16; hidden_size 16 instead of 768"),
        ("small-cnn", "tiny-vit", "small-cnn"),
    ],
)
def test_another_architecture_is_one_clear_message(made: str, wanted: str, got: str, tmp_path: Path) -> None:
    folder, _ = checkpoint(tmp_path, made)
    with pytest.raises(InputError, match=rf"(?s){made} is another architecture than {wanted}.*{got}"):
        build(wanted, classes=4, pretrained=folder)
    with pytest.raises(InputError, match="the checkpoint does not exist"):
        build(wanted, classes=4, pretrained=tmp_path / "none")


def test_other_shapes_under_the_same_settings_are_refused(tmp_path: Path) -> None:
    config = transformers.ResNetConfig(
        embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], downsample_in_first_stage=True, num_labels=4
    )
    transformers.ResNetForImageClassification(config).save_pretrained(tmp_path / "net")
    edit(tmp_path / "net" / "config.json", num_channels=1)
    with pytest.raises(InputError, match=r"transformers cannot load net|net is not a tiny-resnet"):
        build("tiny-resnet", classes=4, pretrained=tmp_path / "net")


def test_an_id_is_fetched_and_checked_as_any_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, state = checkpoint(tmp_path, "tiny-swin")
    hub = stand_in(monkeypatch, tmp_path, folder)
    assert equal(parts(build("tiny-swin", classes=9, pretrained="someone/tiny"), "tiny-swin")[0], state)
    assert {name for name, _ in hub.asked} == {"someone/tiny"}
    edit(folder / "config.json", auto_map={"AutoConfig": "evil.Config"})
    with pytest.raises(UnsafeFileError, match="asks for code"):
        build("tiny-swin", classes=9, pretrained="someone/tiny")
