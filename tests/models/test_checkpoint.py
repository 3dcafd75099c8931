"""Checkpoints: what is saved is what is loaded, by us and by transformers, and a directory is whole or not there."""

from __future__ import annotations

import copy
import os
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

import sfra
from builders.backbones import TINY, edit, images, run, trained
from builders.releases import answer
from sfra.core.errors import InputError
from sfra.models.backbones import build, input_shape, names
from sfra.models.backbones.checkpoint import load_model, save_model
from sfra.models.backbones.images import default_preprocess, processor_config
from sfra.release import Preprocess
from sfra.release.processors import preprocess_from

transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.usefixtures("tiny")
PLAIN = ("small-cnn", "small-mlp", "resnet18-small")
NAMES = ["cat", "dog", "ox", "hen"]


def snapshot(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return save_model(tmp_path / "net", trained("small-cnn"), backbone="small-cnn", classes=4, class_names=NAMES)


@pytest.mark.parametrize("name", [*PLAIN, *TINY])
def test_a_checkpoint_comes_back_to_the_last_bit(name: str, tmp_path: Path) -> None:
    model, prepare = trained(name), Preprocess(size=(16, 16), mean=(0.1, 0.2, 0.3), std=(0.5, 0.4, 0.3))
    prepare = prepare if input_shape(name)[0] == 3 else Preprocess(size=(8, 8), mean=(0.1,))
    notes = {"seed": 3, "history": [0.5, None], "nested": {"é": True}}
    place = save_model(
        tmp_path / "a" / "net", model, backbone=name, classes=4, preprocess=prepare, class_names=NAMES, notes=notes
    )
    files = sorted(os.listdir(place))
    assert files == ["config.json", "model.safetensors", "preprocessor_config.json", "sfra.json"]
    assert os.listdir(tmp_path / "a") == ["net"]
    found = load_model(place)
    assert (found.backbone, found.classes, found.class_names, found.notes) == (name, 4, tuple(NAMES), notes)
    assert found.preprocess == prepare
    assert not found.model.training
    assert torch.equal(run(found.model, images(name)), run(model, images(name)))
    assert found.model.state_dict().keys() == model.state_dict().keys()

    release = sfra.load(place)
    assert (release.class_names, release.preprocess) == (tuple(NAMES), prepare)
    torch.testing.assert_close(answer(release, images(name)), run(model, images(name)))


@pytest.mark.parametrize("name", [*PLAIN, *TINY])
def test_transformers_loads_every_checkpoint_as_the_same_function(name: str, tmp_path: Path) -> None:
    import sfra.models.backbones.pretrained as ours

    model = trained(name)
    place = save_model(tmp_path / "net", model, backbone=name, classes=4, class_names=NAMES)
    again, report = transformers.AutoModelForImageClassification.from_pretrained(place, output_loading_info=True)
    assert not any(report[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    assert again.config.id2label == dict(enumerate(NAMES))
    same = torch.equal if name in PLAIN else torch.allclose
    assert same(run(again, images(name)), run(model, images(name)))
    if name in PLAIN:
        itself = ours.SfraForImageClassification.from_pretrained(place)
        assert torch.equal(run(itself, images(name)), run(model, images(name)))


def test_what_transformers_saves_again_is_still_read_without_it(tmp_path: Path) -> None:
    import sfra.models.backbones.pretrained as ours

    model = trained("resnet18-small", classes=2)  # two is the number that transformers does not write down
    place = save_model(tmp_path / "net", model, backbone="resnet18-small", classes=2)
    ours.SfraForImageClassification.from_pretrained(place).save_pretrained(tmp_path / "again", max_shard_size="9MB")
    assert (tmp_path / "again" / "model.safetensors.index.json").is_file()
    edit(tmp_path / "again" / "config.json", id2label=None, label2id=None)
    found = load_model(tmp_path / "again")
    assert (found.backbone, found.classes, found.class_names, found.notes) == ("resnet18-small", 2, None, {})
    assert torch.equal(run(found.model, images("resnet18-small")), run(model, images("resnet18-small")))


def test_the_transformers_model_of_a_plain_backbone_trains_copies_and_gets_new_heads(folder: Path) -> None:
    import sfra.models.backbones.pretrained as ours

    model = ours.SfraForImageClassification.from_pretrained(folder)
    twin, x, labels = copy.deepcopy(model), images("small-cnn", 8), torch.arange(8) % 4
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    model.train()
    for _ in range(5):
        optimiser.zero_grad()
        loss = model(x, labels=labels).loss
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]
    assert torch.equal(run(twin, x), run(load_model(folder).model, x))
    assert not torch.equal(run(model, x), run(twin, x))

    other = ours.SfraForImageClassification.from_pretrained(folder, num_labels=7, ignore_mismatched_sizes=True)
    assert run(other, x).shape == (8, 7)
    assert float(other.classifier.weight.detach().std()) > 0
    assert torch.equal(other.encoder[0].weight, twin.encoder[0].weight)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        fresh = ours.SfraForImageClassification(ours.SfraConfig(backbone="small-cnn", num_labels=4))
    expected = build("small-cnn", classes=4, seed=5).state_dict()
    assert all(torch.equal(value, expected[key]) for key, value in fresh.state_dict().items())


def test_a_transformers_directory_of_another_maker_is_recognised_by_its_settings(tmp_path: Path) -> None:
    model: Any = build("tiny-vit", classes=3, seed=0)
    model.save_pretrained(tmp_path / "net")
    found = load_model(tmp_path / "net")
    assert (found.backbone, found.classes, found.notes) == ("tiny-vit", 3, {})
    edit(tmp_path / "net" / "config.json", num_attention_heads=4)
    with pytest.raises(InputError, match=r"(?s)not one that can be built here.*one of resnet18, .*tiny-vit"):
        load_model(tmp_path / "net")
    edit(tmp_path / "net" / "config.json", num_attention_heads=2)
    (tmp_path / "net" / "sfra.json").write_text('{"format": 1, "backbone": "tiny-swin", "notes": {}}')
    with pytest.raises(InputError, match=r"(?s)one of tiny-swin\n.*model_type 'vit'"):
        load_model(tmp_path / "net")


@pytest.mark.parametrize("name", ["small-cnn", "tiny-resnet"])
def test_saving_leaves_the_model_as_it_is(name: str, tmp_path: Path) -> None:
    model: Any = trained(name)
    config = copy.deepcopy(model.config.to_dict()) if hasattr(model, "config") else None
    before = {key: (value.clone(), value.data_ptr()) for key, value in model.state_dict().items()}
    random = torch.get_rng_state()
    save_model(tmp_path / "net", model, backbone=name, classes=4, class_names=NAMES)
    assert all(torch.equal(value, before[key][0]) for key, value in model.state_dict().items())
    assert all(value.data_ptr() == before[key][1] for key, value in model.state_dict().items())
    assert model.training
    assert all(parameter.requires_grad for parameter in model.parameters())
    assert config is None or model.config.to_dict() == config
    assert torch.equal(torch.get_rng_state(), random)


@pytest.mark.parametrize("name", ["small-cnn", "tiny-resnet"])
def test_odd_memory_is_written_as_plain_numbers(name: str, tmp_path: Path) -> None:
    model = trained(name)
    norms = [module for module in model.modules() if isinstance(module, nn.BatchNorm2d)]
    norms[0].bias = norms[0].weight  # tied
    expected = {key: value.clone() for key, value in model.state_dict().items()}
    model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    assert any(not value.is_contiguous() for value in model.state_dict().values())
    place = save_model(tmp_path / "net", nn.DataParallel(model), backbone=name, classes=4)
    found = load_model(place).model.state_dict()
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[key], expected[key]) for key in expected)


def test_half_precision_is_kept_in_the_file_and_loaded_as_float32(tmp_path: Path) -> None:
    model = build("small-mlp", classes=4, seed=0).to(torch.bfloat16)
    place = save_model(tmp_path / "net", model, backbone="small-mlp", classes=4)
    assert {value.dtype for value in load_file(place / "model.safetensors").values()} == {torch.bfloat16}
    found = load_model(place).model.state_dict()
    assert all(torch.equal(found[key], value.float()) for key, value in model.state_dict().items())


def test_a_checkpoint_replaces_a_checkpoint_and_an_empty_directory(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to(folder, target_is_directory=True)
    for place in (folder, tmp_path / "empty", tmp_path / "link"):
        save_model(place, build("small-mlp", classes=3), backbone="small-mlp", classes=3)
        assert load_model(place).backbone == "small-mlp"
        assert not (place / "preprocessor_config.json").exists()
    assert (tmp_path / "link").is_symlink()
    assert sorted(os.listdir(tmp_path)) == ["empty", "link", "net"]


@pytest.mark.parametrize("where", ["sfra.models.backbones.checkpoint._write_plain", "os.rename"])
def test_a_failed_save_leaves_the_old_checkpoint_and_nothing_else(
    where: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, real = snapshot(folder), os.rename

    def fail(*parts: Any) -> None:
        if where == "os.rename" and Path(parts[0]).name != "new":
            return real(*parts)
        raise OSError("no space left")

    monkeypatch.setattr(where, fail)
    with pytest.raises(OSError, match="no space left"):
        save_model(folder, build("small-mlp", classes=3), backbone="small-mlp", classes=3)
    assert snapshot(folder) == before
    assert os.listdir(folder.parent) == [folder.name]


def test_others_may_read_a_checkpoint_as_far_as_the_umask_lets_them(folder: Path) -> None:
    mask = os.umask(0o022)
    try:
        save_model(folder, build("small-mlp", classes=3), backbone="small-mlp", classes=3)
    finally:
        os.umask(mask)
    assert folder.stat().st_mode & 0o777 == 0o755
    assert {file.stat().st_mode & 0o777 for file in folder.iterdir()} == {0o644}


@pytest.mark.parametrize(
    "place",
    [
        {"size": (20, 18)},
        {"resize": 24, "crop": (20, 18), "resample": "lanczos"},
        {"size": (24, 22), "crop": (20, 18), "channels": "rgb"},
    ],
)
def test_our_preprocessing_and_that_of_transformers_agree(place: dict[str, Any], tmp_path: Path) -> None:
    prepare = Preprocess(**place, mean=(0.2, 0.3, 0.4), std=(0.5, 0.25, 0.2))
    assert preprocess_from(processor_config(prepare, channels=3)) == prepare
    net = save_model(
        tmp_path / "net", trained("resnet18-small"), backbone="resnet18-small", classes=4, preprocess=prepare
    )
    processor = transformers.AutoImageProcessor.from_pretrained(net)
    pixels = torch.randint(0, 256, (2, 3, 48, 48), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    expected = processor(list(pixels), return_tensors="pt")["pixel_values"]
    assert expected.shape == (2, 3, 20, 18)
    assert float((prepare(pixels) - expected).abs().max()) < 1e-6


def test_channels_that_a_directory_cannot_tell_are_not_saved() -> None:
    with pytest.raises(InputError, match="cannot say that images are converted to bgr"):
        processor_config(Preprocess(channels="bgr"), channels=3)


def test_images_are_resized_only_for_networks_of_one_size() -> None:
    assert default_preprocess("vit-b-16", (3, 32, 32), mean=(0.5,)).mean == (0.5, 0.5, 0.5)
    sizes = {name: default_preprocess(name, (1, 64, 48)).size for name in names() if name not in TINY}
    fixed = dict.fromkeys(("resnet18", "vit-b-16", "swin-t"), (224, 224))
    assert sizes == {
        "resnet18-small": (64, 48),
        "small-cnn": (64, 48),
        "small-mlp": (8, 8),
        "swin-t-small": (96, 96),
        "vit-small": (32, 32),
        **fixed,
    }
    assert default_preprocess("swin-t", (1, 28, 28))(torch.rand(1, 1, 28, 28)).shape == (1, 3, 224, 224)
    with pytest.raises(InputError, match=r"(?s)small-cnn cannot take these images.*1 channels.*got: +3 channels"):
        default_preprocess("small-cnn", (3, 32, 32))


def test_the_examples_of_the_document_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (Path(__file__).parents[2] / "docs" / "models.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", page, flags=re.MULTILINE | re.DOTALL)
    assert len(blocks) == 5
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for block in blocks:
        exec(block, names)  # noqa: S102 - our own document
    assert names["net"](torch.zeros(1, 3, 32, 32)).shape == (1, 7)
    assert sorted(os.listdir(tmp_path)) == ["mine", "net"]
