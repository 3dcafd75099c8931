"""Checkpoints as people save them: opened by what they hold, wherever the weights are in them."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

import sfra
from builders.releases import answer
from sfra.core.errors import InputError, UnsafeFileError
from sfra.models import backbones
from sfra.release import load

ARCH, CLASSES = "small-cnn", 7
Weights = dict[str, Tensor]


@pytest.fixture
def model() -> nn.Module:
    return backbones.build(ARCH, classes=CLASSES, seed=3).eval()


def assert_same_function(file: Path | str, model: nn.Module) -> None:
    images = torch.randn(3, *backbones.input_shape(ARCH), generator=torch.Generator().manual_seed(1))
    release = load(file, arch=ARCH)
    with torch.no_grad():
        expected = model(images)
    torch.testing.assert_close(answer(release, images), expected, rtol=1e-4, atol=1e-5)
    assert release.source == f"state dict {Path(file).name} ({ARCH})"


def behind(prefix: str, weights: Weights) -> Weights:
    return {f"{prefix}{name}": tensor for name, tensor in weights.items()}


def lightning(weights: Weights) -> dict[str, Any]:
    """What a trainer writes: prefixed weights, buffers of a metric beside them, and much else."""
    return {
        "epoch": 3,
        "pytorch-lightning_version": "2.5.0",
        "state_dict": behind("model.", weights) | {"train_acc.tp": torch.zeros(7), "loss.weight": torch.ones(7)},
        "optimizer_states": [{"state": {0: {"exp_avg": torch.zeros(3)}}, "param_groups": []}],
        "hyper_parameters": {"lr": 0.1},
        "callbacks": {"ModelCheckpoint": {"best_model_score": torch.tensor(0.5)}},
    }


SAVED: dict[str, Callable[[Weights], dict[str, Any]]] = {
    "bare": dict,
    "lightning": lightning,
    "the script of an image classifier": lambda w: {
        "arch": "cnn",
        "state_dict": behind("module.", w),
        "best_acc1": 9.0,
    },
    "with its command line": lambda w: {"model": w, "args": Namespace(lr=0.1, model="cnn"), "epoch": 9},
    "with what NumPy computed": lambda w: {"model": w, "acc": np.float64(0.9), "loss": np.arange(9.0), "at": Path("a")},
    "compiled": lambda w: behind("_orig_mod.", w),
    "compiled and in parallel": lambda w: {"model_state_dict": behind("module._orig_mod.", w)},
    "backbone": lambda w: {"net": behind("backbone.", w)},
    "averaged": lambda w: behind("module.", w) | {"n_averaged": torch.tensor(5)},
    "only the average": lambda w: {"ema": {"decay": 0.999, "module": w}, "optimizer": {"state": {}}},
    "before batches were counted": lambda w: {"model": {k: t for k, t in w.items() if "num_batches" not in k}},
    "after a profiler": lambda w: w | {"total_ops": torch.zeros(1), "features.0.total_params": torch.zeros(1)},
    "deep": lambda w: {"state": {"trainer": {"model": behind("a.b.", w)}}},
}


@pytest.mark.parametrize(
    ("saved", "suffix"),
    [*((saved, ".pt") for saved in SAVED), *(("lightning", suffix) for suffix in (".pth.tar", ".bin", ".ckpt", ""))],
)
def test_the_weights_are_found_wherever_a_training_script_put_them(
    model: nn.Module, tmp_path: Path, saved: str, suffix: str
) -> None:
    torch.save(SAVED[saved](model.state_dict()), tmp_path / f"best{suffix}")
    assert_same_function(tmp_path / f"best{suffix}", model)


@pytest.mark.parametrize("name", ["weights.safetensors", "pytorch_model.bin", "weights.pt", "weights"])
def test_safetensors_are_known_by_their_content(model: nn.Module, tmp_path: Path, name: str) -> None:
    save_file(behind("model.", model.state_dict()), tmp_path / name)
    assert_same_function(str(tmp_path / name), model)


@pytest.mark.parametrize(
    ("name", "classes"),
    [("small-cnn", 3), ("small-cnn", 64), ("small-mlp", 5), ("small-mlp", 100), ("resnet18-small", 4)],
)
def test_the_number_of_classes_is_read_from_the_weights(tmp_path: Path, name: str, classes: int) -> None:
    weights = backbones.build(name, classes=classes, seed=0).state_dict()
    torch.save(dict(reversed(weights.items())), tmp_path / "weights.pt")  # the head need not come last
    save_file(weights, tmp_path / "weights.safetensors")
    for suffix in (".pt", ".safetensors"):
        assert load(tmp_path / f"weights{suffix}", arch=name).head.classes == classes


@pytest.mark.parametrize("ending", ["safetensors", "bin"])
def test_the_files_that_an_index_names_are_one_checkpoint(model: nn.Module, tmp_path: Path, ending: str) -> None:
    weights = list(behind("model.", model.state_dict()).items())
    shards = {f"model-0000{i}-of-00002.{ending}": dict(weights[i - 1 :: 2]) for i in (1, 2)}
    for name, part in shards.items():
        save_file(part, tmp_path / name) if ending == "safetensors" else torch.save(part, tmp_path / name)
    index = tmp_path / f"model.{ending}.index.json"
    index.write_text(json.dumps({"weight_map": {key: name for name, part in shards.items() for key in part}}))
    assert_same_function(index, model)
    for arch in (ARCH, None):
        with pytest.raises(InputError, match=r"(?s)one of several files.*part 2 of 2.*pass the index"):
            load(tmp_path / f"model-00002-of-00002.{ending}", arch=arch)
    (tmp_path / f"model-00002-of-00002.{ending}").unlink()
    with pytest.raises(InputError, match=r"(?s)is incomplete.*1 missing: model-00002"):
        load(index, arch=ARCH)
    index.write_text(json.dumps({"weight_map": {"a": f"../secret.{ending}"}}))
    with pytest.raises(UnsafeFileError, match="none was opened"):
        load(index, arch=ARCH)


def with_average(model: nn.Module) -> tuple[Weights, Weights]:
    """The weights, and an average in which the last class is switched off."""
    weights = model.state_dict()
    average = {name: tensor.clone() for name, tensor in weights.items()}
    average["classifier.bias"][-1] = -100.0
    return weights, average


@pytest.mark.parametrize("arch", [ARCH, None])
def test_weights_beside_their_average_are_refused_until_one_is_chosen(
    model: nn.Module, tmp_path: Path, arch: str | None
) -> None:
    weights, average = with_average(model)
    file = tmp_path / "both.pth"
    torch.save({"model": behind("module.", weights), "model_ema": behind("module.", average), "epoch": 3}, file)
    with pytest.raises(InputError, match=r"(?s)holds 2 sets of weights that fit.*model.*, model_ema.*--key"):
        load(file, arch=arch)
    biases = {key: load(file, arch=arch, key=key).head.bias[-1].item() for key in ("model", "model_ema")}
    assert biases["model"] == weights["classifier.bias"][-1]
    assert biases["model_ema"] == -100.0
    for wrong in ("ema", "mod", "epoch"):
        with pytest.raises(InputError, match=rf"(?s)no weights that fit under the key '{wrong}'.*model.*model_ema"):
            load(file, arch=arch, key=wrong)


def test_two_networks_in_one_state_dict_are_refused_until_one_is_chosen(model: nn.Module, tmp_path: Path) -> None:
    weights, average = with_average(model)
    file = tmp_path / "both.ckpt"
    torch.save({"state_dict": behind("student.", weights) | behind("teacher.", average)}, file)
    with pytest.raises(InputError, match=r"(?s)2 sets.*state_dict\.student, state_dict\.teacher"):
        load(file, arch=ARCH)
    found = load(file, arch=ARCH, key="state_dict.teacher")
    assert found.head.bias[-1] == -100.0
    assert found.source == f"state dict both.ckpt [state_dict.teacher] ({ARCH})"
    with pytest.raises(InputError, match=r"(?s)does not say which.*teacher\.classifier \[7, 64\], student\.classifier"):
        load(file)


@pytest.mark.parametrize("arch", [ARCH, None])
def test_a_key_that_leads_nowhere_is_refused(model: nn.Module, tmp_path: Path, arch: str | None) -> None:
    torch.save(model.state_dict(), tmp_path / "bare.pt")
    torch.save({"model": model.state_dict()}, tmp_path / "one.pt")
    with pytest.raises(InputError, match=r"(?s)no weights that fit under the key 'ema'.*at the top.*leave the key out"):
        load(tmp_path / "bare.pt", arch=arch, key="ema")
    with pytest.raises(InputError, match=r"(?s)no weights that fit under the key 'ema'.*got: +model"):
        load(tmp_path / "one.pt", arch=arch, key="ema")


def test_of_what_does_not_fit_the_closest_is_described(model: nn.Module, tmp_path: Path) -> None:
    weights = behind("model.", model.state_dict())
    weights["model.other"] = weights.pop("model.classifier.bias")
    weights["model.classifier.weight"] = torch.zeros(2, 2, 2)
    torch.save({"optimizer": {"lr": torch.zeros(1)}, "state_dict": weights}, tmp_path / "near.ckpt")
    shape = r"1 of another shape \(classifier\.weight"
    with pytest.raises(InputError, match=rf"1 missing \(classifier\.bias\); 1 unexpected \(other\); {shape}"):
        load(tmp_path / "near.ckpt", arch=ARCH)


def test_a_prefix_that_not_every_key_has_stays(tmp_path: Path) -> None:
    torch.save({"module.fc.weight": torch.zeros(3, 2), "fc.bias": torch.zeros(3)}, tmp_path / "half.pt")
    with pytest.raises(InputError, match=r"unexpected \(module\.fc\.weight"):
        load(tmp_path / "half.pt", arch=ARCH)


def test_a_whole_module_is_refused_with_the_way_out(model: nn.Module, tmp_path: Path) -> None:
    torch.save({"model": model}, tmp_path / "module.ckpt")
    with pytest.raises(
        UnsafeFileError, match=r"(?s)was not opened.*SmallClassifier.*torch\.save\(model\.state_dict\(\)"
    ):
        load(tmp_path / "module.ckpt", arch=ARCH)


def network() -> nn.Sequential:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 5))


def test_the_last_linear_layer_of_a_state_dict_is_a_head(tmp_path: Path) -> None:
    net = network()
    torch.save({"state_dict": behind("net.", net.state_dict())}, tmp_path / "net.ckpt")
    release = load(tmp_path / "net.ckpt")
    assert torch.equal(release.head.weight, net.state_dict()["3.weight"])
    assert torch.equal(release.head.bias, net.state_dict()["3.bias"])
    assert release.encoder is None
    assert release.source == "head file net.ckpt (layer net.3)"


@pytest.mark.parametrize("name", ["net.1", "net.1.weight"])
def test_another_layer_is_the_head_if_the_user_says_so(tmp_path: Path, name: str) -> None:
    net = network()
    torch.save(behind("net.", net.state_dict()), tmp_path / "net.pt")
    assert torch.equal(load(tmp_path / "net.pt", head_key=name).head.weight, net.state_dict()["1.weight"])
    with pytest.raises(InputError, match=r"(?s)has no linear layer 'net\.2'.*write net"):
        load(tmp_path / "net.pt", head_key="net.2")
    with pytest.raises(InputError, match=r"a head by name belongs to a state dict without an architecture"):
        load(tmp_path / "net.pt", head_key=name, arch=ARCH)


def test_a_named_layer_may_be_a_convolution_without_bias(tmp_path: Path) -> None:
    layer = nn.Conv2d(8, 5, 1, bias=False)
    torch.save({"features.weight": torch.zeros(9, 8), "last.weight": layer.weight.detach()}, tmp_path / "conv.pt")
    head = load(tmp_path / "conv.pt", head_key="last").head
    assert torch.equal(head.weight, layer.weight.detach().flatten(1))
    assert not head.bias.any()


def test_where_the_order_is_lost_a_usual_name_tells_the_head(tmp_path: Path) -> None:
    weights = {"fc.weight": torch.ones(5, 8), "fc.bias": torch.ones(5), "zz.weight": torch.zeros(8, 9)}
    save_file(weights | {"zz.bias": torch.zeros(8)}, tmp_path / "sorted.safetensors")
    assert load(tmp_path / "sorted.safetensors").head.classes == 5
    save_file(
        {f"layers.{name}": tensor for name, tensor in network().state_dict().items()}, tmp_path / "odd.safetensors"
    )
    with pytest.raises(InputError, match=r"(?s)which of its layers is the head.*layers\.1 \[16, 64\].*--head-key"):
        load(tmp_path / "odd.safetensors")


LAYER = {"hidden.weight": torch.zeros(6, 9), "hidden.bias": torch.zeros(6)}


@pytest.mark.parametrize(
    ("last", "way"),
    [
        ({"last.weight": torch.ones(5, 6)}, r"--head-key last"),
        ({"last.weight": torch.ones(5, 6, 1, 1), "last.bias": torch.ones(5)}, r"--head-key last"),
        (nn.utils.parametrizations.weight_norm(nn.Linear(6, 5)).state_dict(), r"pass --arch"),
    ],
)
def test_a_layer_before_the_last_is_not_taken_for_the_head(tmp_path: Path, last: Weights, way: str) -> None:
    torch.save({**LAYER, **last}, tmp_path / "net.pt")
    with pytest.raises(InputError, match=rf"(?s)which of its layers is the head.*hidden \[6, 9\].*{way}"):
        load(tmp_path / "net.pt")
    assert load(tmp_path / "net.pt", head_key="hidden").head.classes == 6


def test_a_head_without_bias_is_not_overlooked_where_the_order_is_lost(tmp_path: Path) -> None:
    save_file({**LAYER, "head.weight": torch.ones(5, 6)}, tmp_path / "net.safetensors")
    with pytest.raises(InputError, match=r"(?s)which of its layers is the head.*--head-key head"):
        load(tmp_path / "net.safetensors")
    assert load(tmp_path / "net.safetensors", head_key="head").head.classes == 5


def test_a_state_dict_and_its_features_are_audited(tmp_path: Path) -> None:
    net = network()
    torch.save(net.state_dict(), tmp_path / "net.pth")
    features = np.random.default_rng(0).normal(size=(100, 16)).astype("float32")
    labels = np.arange(100) % 5
    report = sfra.audit(tmp_path / "net.pth", 3, data=(features, labels), n=100, m=10, epochs=1, self_controls=0)
    assert report.model.source == "head file net.pth (layer 3)"
    with pytest.raises(InputError, match=r"(?s)has no encoder, so images cannot be measured.*--arch"):
        sfra.audit(tmp_path / "net.pth", 3, data=(np.zeros((10, 1, 8, 8), "float32"), labels[:10]), n=100, m=10)


def test_without_an_architecture_and_a_linear_layer_the_known_ones_are_listed(tmp_path: Path) -> None:
    torch.save(nn.Conv2d(3, 4, 3).state_dict(), tmp_path / "weights.pt")
    with pytest.raises(InputError, match="has no linear layer") as caught:
        load(tmp_path / "weights.pt")
    assert all(name in str(caught.value) for name in (*backbones.names(), "--arch", "--head-key"))


def test_very_many_parts_that_fit_are_one_message(tmp_path: Path) -> None:
    layers = {f"a{i}.{name}": torch.zeros(1) for i in range(2000) for name in ("weight", "bias")}
    save_file(layers, tmp_path / "many.safetensors")
    with pytest.raises(InputError, match=r"(?s)holds 2000 sets of weights that fit.*a0, a1") as caught:
        load(tmp_path / "many.safetensors", arch=lambda: nn.Linear(64, 5))
    assert len(str(caught.value)) < 1000


def test_an_archive_of_a_version_that_is_not_known_is_refused(model: nn.Module, tmp_path: Path) -> None:
    torch.save(model.state_dict(), tmp_path / "new.pt")
    content = bytearray((tmp_path / "new.pt").read_bytes())
    content[content.rindex(b"PK\x01\x02") + 6] = 200  # the version that is needed to extract
    (tmp_path / "new.pt").write_bytes(content)
    with pytest.raises(InputError, match=r"new\.pt cannot be read"):
        load(tmp_path / "new.pt", arch=ARCH)
