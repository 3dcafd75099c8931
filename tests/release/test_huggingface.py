"""Hugging Face directories and ids: data only, complete, and silent."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from builders.backbones import TINY, add_tiny, edit
from builders.hub import stand_in
from builders.releases import Bomb, answer
from sfra.core.errors import InputError, UnsafeFileError
from sfra.models.backbones import build
from sfra.release import Preprocess, load
from sfra.release.module import ModuleEncoder

transformers = pytest.importorskip("transformers")
NAMES = ["cat", "dog", "ox", "hen"]


@pytest.fixture(autouse=True)
def _tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    add_tiny(monkeypatch)


def tiny(name: str, names: list[str] | None = None) -> Any:
    model: Any = build(name, classes=4, seed=0)
    if names is not None:
        model.config.id2label, model.config.label2id = dict(enumerate(names)), {n: i for i, n in enumerate(names)}
    return model


def assert_same_function(folder: Path, model: Any) -> None:
    images = torch.randn(5, 3, 16, 16, generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        expected = model(images).logits
    torch.testing.assert_close(answer(load(folder), images), expected, rtol=1e-4, atol=1e-5)


def save(model: Any, folder: Path, **options: Any) -> Path:
    transformers.utils.logging.disable_progress_bar()
    model.save_pretrained(folder, **options)
    transformers.utils.logging.enable_progress_bar()
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return save(tiny("tiny-resnet", NAMES), tmp_path / "tiny-resnet")


@pytest.mark.parametrize("name", TINY)
@pytest.mark.parametrize("sharded", [False, True])
def test_head_of_encoder_is_the_model(tmp_path: Path, name: str, sharded: bool) -> None:
    model = tiny(name).eval()
    folder = save(model, tmp_path / "tiny", **({"max_shard_size": "4KB"} if sharded else {}))
    assert (folder / "model.safetensors.index.json").exists() == sharded
    assert_same_function(folder, model)
    assert load(folder).source == f"Hugging Face directory tiny ({type(model).__name__})"


def test_the_module_itself_gives_the_same_release(folder: Path) -> None:
    model = transformers.AutoModelForImageClassification.from_pretrained(folder)
    assert load(model).fingerprint == load(folder).fingerprint


def test_half_precision_is_loaded_as_float32(tmp_path: Path) -> None:
    model = tiny("tiny-vit").to(torch.bfloat16)
    release = load(save(model, tmp_path / "half"))
    assert torch.equal(release.head.weight, model.classifier.weight.detach().float())
    assert isinstance(release.encoder, ModuleEncoder)
    assert {parameter.dtype for parameter in release.encoder.model.parameters()} == {torch.float32}


def test_class_names_come_from_the_configuration(folder: Path, tmp_path: Path) -> None:
    assert load(folder).class_names == tuple(NAMES)
    assert load(save(tiny("tiny-resnet"), tmp_path / "plain")).class_names is None


@pytest.mark.parametrize(
    ("odd", "expected"),
    [
        ({"0": "a\x1b[31m", "1": "b\nc", "2": "c", "3": "c"}, ("a?[31m", "b c", "c", "c")),
        ({"0": "a", "1": "b", "2": "c", "9": "d"}, None),
        ({"0": "a", "1": "b", "2": "c", "3": ""}, None),
    ],
)
def test_odd_class_names_are_cleaned_or_dropped(folder: Path, odd: Any, expected: tuple[str, ...] | None) -> None:
    edit(folder / "config.json", id2label=odd, label2id=None)
    assert load(folder).class_names == expected


@pytest.mark.parametrize("odd", [["a", "b"], {"zero": "a"}, "abc", {"0": "a", "1": "b", "2": "c"}])
def test_class_names_that_do_not_fit_are_one_clear_message(folder: Path, odd: Any) -> None:
    edit(folder / "config.json", id2label=odd, label2id=None)
    with pytest.raises(InputError, match=r"transformers cannot load tiny-resnet|weights of tiny-resnet are incomplete"):
        load(folder)


def test_preprocessing_is_read_where_it_is_told(folder: Path) -> None:
    assert load(folder).preprocess is None
    settings = {"image_mean": [0.5] * 3, "image_std": [0.25] * 3, "size": {"height": 16, "width": 12}, "resample": 2}
    settings["image_processor_type"] = "ViTImageProcessor"
    (folder / "preprocessor_config.json").write_text(json.dumps(settings))
    assert load(folder).preprocess == Preprocess(size=(16, 12), mean=(0.5,) * 3, std=(0.25,) * 3)


def test_loading_writes_nothing_and_puts_the_settings_back(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    logs = transformers.utils.logging
    before = (logs.get_verbosity(), logs.is_progress_bar_enabled())
    capfd.readouterr()
    load(folder)
    assert capfd.readouterr() == ("", "")
    assert (logs.get_verbosity(), logs.is_progress_bar_enabled()) == before


def test_remote_code_is_refused_before_anything_is_imported(folder: Path) -> None:
    marker = folder / "marker"
    (folder / "modeling_evil.py").write_text(f"import os; os.mkdir({str(marker)!r})\nclass Net: ...\n")
    for auto in ("AutoConfig", "AutoModelForImageClassification"):
        edit(folder / "config.json", auto_map={auto: "modeling_evil.Net"})
        with pytest.raises(UnsafeFileError, match=r"(?s)asks for code or files from elsewhere.*auto_map"):
            load(folder)
    assert not marker.exists()


@pytest.mark.parametrize(
    "change",
    [
        {"attn_implementation": "someone/kernel"},
        {"_attn_implementation": "someone/kernel"},
        {"vision_config": {"auto_map": {"AutoModel": "evil.Net"}}},
        {"use_pretrained_backbone": True},
        {"transformers_weights": "../other.safetensors"},
    ],
)
def test_a_configuration_that_reaches_out_is_refused(folder: Path, change: dict[str, Any]) -> None:
    edit(folder / "config.json", **change)
    with pytest.raises(UnsafeFileError, match="asks for code or files from elsewhere"):
        load(folder)


def test_only_checked_files_are_shown_to_transformers(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "adapter_config.json").write_text('{"base_model_name_or_path": "someone/else"}')
    (folder / "shard-00001-model-00001-of-00001.safetensors").write_bytes(b"garbage")
    (folder / "model.safetensors.index.json").write_text('{"weight_map": {"a": "/etc/passwd"}}')
    (folder / "pytorch_model.bin").write_bytes(b"garbage")
    auto, shown = transformers.AutoModelForImageClassification, []
    original = auto.from_pretrained

    def spy(path: str, **options: Any) -> Any:
        shown.extend(os.listdir(path))
        assert options["trust_remote_code"] is False
        assert options["local_files_only"] is True
        return original(path, **options)

    monkeypatch.setattr(auto, "from_pretrained", spy)
    assert load(folder).class_names == tuple(NAMES)
    assert sorted(shown) == ["config.json", "model.safetensors"]


def test_a_quantised_model_is_refused(folder: Path) -> None:
    edit(folder / "config.json", quantization_config={"quant_method": "bitsandbytes"})
    with pytest.raises(InputError, match=r"(?s)the model is quantised.*dequantize"):
        load(folder)


@pytest.mark.parametrize("name", ["model.h5", "weights.pkl"])
def test_other_pickles_are_refused_with_the_way_to_convert_them(folder: Path, name: str) -> None:
    (folder / "model.safetensors").unlink()
    (folder / name).write_bytes(b"")
    with pytest.raises(UnsafeFileError, match=rf"(?s)can run code: they were not opened.*{name}.*convert"):
        load(folder)


@pytest.mark.parametrize("name", TINY)
@pytest.mark.parametrize("sharded", [False, True])
def test_weights_as_older_versions_saved_them_are_read_as_data(tmp_path: Path, name: str, sharded: bool) -> None:
    model = tiny(name).eval()
    folder = save(model, tmp_path / "old")
    (folder / "model.safetensors").unlink()
    weights = list(model.state_dict().items())
    shards = {f"pytorch_model-0000{i}-of-00002.bin": dict(weights[i - 1 :: 2]) for i in (1, 2)}
    for file, part in (shards if sharded else {"pytorch_model.bin": dict(weights)}).items():
        torch.save(part, folder / file)
    if sharded:
        mapping = {key: file for file, part in shards.items() for key in part}
        (folder / "pytorch_model.bin.index.json").write_text(json.dumps({"weight_map": mapping}))
    assert_same_function(folder, model)


def test_pickled_weights_that_would_run_code_are_not_opened(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    marker = folder / "marker"
    torch.save({"weight": Bomb(marker)}, folder / "pytorch_model.bin")
    with pytest.raises(UnsafeFileError, match=r"(?s)it was not opened.*mkdir"):
        load(folder)
    assert not marker.exists()
    torch.save({"model": {"weight": torch.zeros(3)}}, folder / "pytorch_model.bin")
    with pytest.raises(InputError, match=r"(?s)not what save_pretrained writes.*--arch"):
        load(folder)


def test_an_adapter_beside_its_base_is_refused(folder: Path) -> None:
    (folder / "adapter_model.safetensors").write_bytes(b"")
    with pytest.raises(InputError, match=r"(?s)LoRA adapter beside the weights.*merge_and_unload"):
        load(folder)


@pytest.mark.parametrize(
    "name",
    ["../outside.safetensors", "/etc/passwd", "sub/x.safetensors", "pytorch_model.bin", "a" * 5000 + ".safetensors"],
)
def test_shards_outside_the_directory_and_impossible_names_are_refused(tmp_path: Path, name: str) -> None:
    folder = save(tiny("tiny-resnet"), tmp_path / "tiny", max_shard_size="4KB")
    shutil.copy(sorted(folder.glob("model-*.safetensors"))[0], tmp_path / "outside.safetensors")
    edit(folder / "model.safetensors.index.json", weight_map={"a": name})
    with pytest.raises(UnsafeFileError, match=f"(?s)not weights of this directory.*{name[:60]}"):
        load(folder)


@pytest.mark.parametrize("content", ["{}", '{"weight_map": []}', '{"weight_map": {"a": 3}}'])
def test_an_odd_index_is_refused(folder: Path, content: str) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors.index.json").write_text(content)
    with pytest.raises(InputError, match=r"(?s)model.safetensors.index.json cannot be used.*weight_map"):
        load(folder)


@pytest.mark.parametrize("share", [0.0, 0.99])
def test_truncated_weights_are_refused(folder: Path, share: float) -> None:
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[: int(share * file.stat().st_size)])
    with pytest.raises(InputError, match=r"(?s)model\.safetensors cannot be read.*truncated"):
        load(folder)


@pytest.mark.parametrize("content", [b"", b"not json", b"[1, 2]", b"\xff\xfe", b"[" * 100_000])
def test_a_configuration_that_is_no_object_is_refused(folder: Path, content: bytes) -> None:
    (folder / "config.json").write_bytes(content)
    with pytest.raises(InputError, match=r"(?s)config\.json cannot be.*JSON object"):
        load(folder)


def test_a_timm_configuration_is_sent_to_arch(folder: Path) -> None:
    timm = {"architecture": "resnet18", "num_classes": 10, "pretrained_cfg": {"input_size": [3, 224, 224]}}
    (folder / "config.json").write_text(json.dumps(timm))
    with pytest.raises(InputError, match=r"(?s)a timm model.*timm:create_model.model_name=resnet18&num_classes="):
        load(folder)


@pytest.mark.parametrize("change", [{"model_type": "bert"}, {"model_type": "no-such-model"}, {"hidden_sizes": [8, 32]}])
def test_other_kinds_and_other_sizes_of_models_are_refused(folder: Path, change: dict[str, Any]) -> None:
    edit(folder / "config.json", **change)
    with pytest.raises(InputError, match=r"transformers cannot load tiny-resnet as an image|would be random"):
        load(folder)


def test_a_backbone_whose_head_would_be_random_is_refused(tmp_path: Path) -> None:
    folder = save(tiny("tiny-vit").vit, tmp_path / "backbone")
    with pytest.raises(InputError, match=r"(?s)incomplete: the rest would be random.*2 missing.*classifier\.bias"):
        load(folder)


def test_symbolic_links_as_in_the_hub_cache_are_followed(folder: Path, tmp_path: Path) -> None:
    cached = tmp_path / "snapshot"
    cached.mkdir()
    for file in folder.iterdir():
        (cached / file.name).symlink_to(os.path.relpath(file, cached))
    assert load(cached).fingerprint == load(folder).fingerprint


def test_an_id_is_fetched_as_data_and_its_configuration_first(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = stand_in(monkeypatch, tmp_path, folder)
    release = load("someone/tiny")
    assert release.source == "Hugging Face model someone/tiny (ResNetForImageClassification)"
    assert {name for name, _ in hub.asked} == {"someone/tiny"}
    assert hub.patterns[0] == ["config.json"]
    assert not any(pattern.endswith((".py", ".bin", "*")) for patterns in hub.patterns for pattern in patterns)
    edit(folder / "config.json", auto_map={"AutoConfig": "evil.Config"})
    hub.asked.clear()
    with pytest.raises(UnsafeFileError):
        load("someone/tiny")
    assert hub.patterns == [["config.json"]]


def test_pickled_weights_are_fetched_only_of_a_model_that_has_no_others(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.save(tiny("tiny-resnet").state_dict(), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    hub = stand_in(monkeypatch, tmp_path, folder)
    assert load("someone/tiny").head.classes == 4
    assert [any(pattern.endswith(".bin") for pattern in patterns) for patterns in hub.patterns] == [False, False, True]


def test_a_hub_that_cannot_be_reached_is_one_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, tmp_path, ConnectionError("no route\nto the hub"))
    with pytest.raises(InputError, match=r"(?s)someone/tiny is neither a file.*ConnectionError: no route to the hub"):
        load("someone/tiny")
