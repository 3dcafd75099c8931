"""Tensors go into the architecture that the user names; whatever else a file holds is never executed."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import warnings
import zipfile
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from sfra.core import files
from sfra.core.errors import InputError, UnsafeFileError
from sfra.models import backbones
from sfra.release import load
from sfra.release.checkpoint import read_checkpoint

ARCH, CLASSES = "small-cnn", 7


class Marks:
    """A pickle that, once opened, leaves a file behind."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.marker),)


@pytest.fixture
def model() -> nn.Module:
    return backbones.build(ARCH, classes=CLASSES, seed=3).eval()


def images(rows: int = 3) -> Tensor:
    return torch.randn(rows, *backbones.input_shape(ARCH), generator=torch.Generator().manual_seed(1))


def assert_same_function(file: Path, model: nn.Module, arch: str = ARCH) -> None:
    release = load(file, arch=arch)
    assert release.encoder is not None
    with torch.no_grad():
        expected = model(images())
    torch.testing.assert_close(release.head(release.encoder(images())), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("suffix", [".pt", ".pth", ".safetensors"])
def test_every_kind_of_file_gives_the_model_back(model: nn.Module, tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"weights{suffix}"
    if suffix == ".safetensors":
        save_file(model.state_dict(), file)
    else:
        torch.save(model.state_dict(), file)
    assert_same_function(file, model)
    release = load(str(file), arch=ARCH)
    assert release.head.classes == CLASSES
    assert release.source == f"state dict weights{suffix} ({ARCH})"


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


@pytest.mark.parametrize(
    ("nests", "prefix"),
    [
        (["state_dict"], ""),
        (["model"], "module."),
        (["model_state_dict"], "_orig_mod."),
        (["net"], "module._orig_mod."),
        (["state_dict", "model"], "_orig_mod.module."),
    ],
)
def test_nests_and_prefixes_of_training_scripts_are_removed(
    model: nn.Module, tmp_path: Path, nests: list[str], prefix: str
) -> None:
    content: dict[str, Any] = {f"{prefix}{key}": value for key, value in model.state_dict().items()}
    for nest in nests:
        content = {"epoch": 3, nest: content, "optimizer": {"lr": 0.1}}
    torch.save(content, tmp_path / "checkpoint.pth")
    assert_same_function(tmp_path / "checkpoint.pth", model)


def test_a_prefix_that_not_every_key_has_stays(tmp_path: Path) -> None:
    own = tmp_path / "half.pt"
    torch.save({"module.fc.weight": torch.zeros(3, 2), "fc.bias": torch.zeros(3)}, own)
    with pytest.raises(InputError, match=r"unexpected \(module\.fc\.weight"):
        load(own, arch=ARCH)


def test_a_factory_of_any_package_can_be_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_models.py").write_text(
        "from torch import nn\n"
        "class Zoo:\n"
        "    @staticmethod\n"
        "    def net(num_classes, width=8, bias=True, act='relu', slope=0.0):\n"
        "        acts = {'relu': nn.ReLU(), 'leaky': nn.LeakyReLU(slope)}\n"
        "        return nn.Sequential(nn.Flatten(), nn.Linear(64, width), acts[act],\n"
        "                             nn.Linear(width, num_classes, bias=bias))\n"
        "def number(): return 3\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 9), nn.LeakyReLU(0.25), nn.Linear(9, 4, bias=False))
    torch.save(model.state_dict(), tmp_path / "own.pt")
    query = "num_classes=4&width=9&bias=false&act=leaky&slope=0.25"
    assert_same_function(tmp_path / "own.pt", model, arch=f"own_models:Zoo.net?{query}")
    for arch, message in {
        "own_models:Zoo.net?classes=4": "cannot be called with these arguments",
        "own_models:Zoo.nets": "there is no Zoo.nets in own_models",
        "own_models:number": "own_models:number does not build a model",
        "own_models:Zoo.net?num_classes=5&width=9&bias=0": r"1 of another shape \(3.weight \[4, 9\] instead",
    }.items():
        with pytest.raises(InputError, match=message):
            load(tmp_path / "own.pt", arch=arch)


def test_wrong_keys_are_counted_and_named_in_one_message(model: nn.Module, tmp_path: Path) -> None:
    weights = dict(model.state_dict())
    first, *_, last = list(weights)
    weights["extra.weight"] = weights.pop(first)
    weights[last] = torch.zeros(2, 2, 2)
    torch.save(weights, tmp_path / "wrong.pt")
    with pytest.raises(InputError, match=rf"1 missing \({first}\); 1 unexpected \(extra.weight\); 1 of another shape"):
        load(tmp_path / "wrong.pt", arch=ARCH)


def test_without_an_architecture_and_a_linear_layer_the_known_ones_are_listed(tmp_path: Path) -> None:
    torch.save(nn.Conv2d(3, 4, 3).state_dict(), tmp_path / "weights.pt")
    with pytest.raises(InputError, match="has no linear layer") as caught:
        load(tmp_path / "weights.pt")
    assert all(name in str(caught.value) for name in (*backbones.names(), "--arch", "--head-key"))


@pytest.mark.parametrize("arch", ["..a:b", ".:b", ":b", "os:", "alexnet"])
def test_a_module_that_cannot_be_named_is_refused(model: nn.Module, tmp_path: Path, arch: str) -> None:
    torch.save(model.state_dict(), tmp_path / "weights.pt")
    with pytest.raises(InputError, match=r"(?s)there is no .*package:factory"):
        load(tmp_path / "weights.pt", arch=arch)


WRITERS: dict[str, Callable[[object, Path], object]] = {
    "zip": torch.save,
    "legacy": lambda content, file: torch.save(content, file, _use_new_zipfile_serialization=False),
    "protocol 4": lambda content, file: file.write_bytes(pickle.dumps(content, protocol=4)),
    "protocol 0": lambda content, file: file.write_bytes(pickle.dumps(content, protocol=0)),
}


@pytest.mark.parametrize("write", WRITERS)
@pytest.mark.parametrize("arch", [None, ARCH])
@pytest.mark.parametrize("suffix", [".pt", ".pth"])
def test_a_malicious_pickle_is_never_executed(tmp_path: Path, write: str, arch: str | None, suffix: str) -> None:
    file, marker = tmp_path / f"evil{suffix}", tmp_path / "marker"
    WRITERS[write]({"state_dict": {"fc.weight": Marks(marker)}}, file)
    with pytest.raises(UnsafeFileError, match=r"(?s)could run code: it was not opened.*posix\.mkdir.*safetensors"):
        load(file, arch=arch)
    assert not marker.exists()
    if write == "protocol 4":  # the control: opened, it would have worked
        pickle.loads(file.read_bytes())
        assert marker.exists()


def test_an_environment_that_asks_for_unsafe_loading_changes_nothing(tmp_path: Path) -> None:
    file, marker = tmp_path / "evil.pt", tmp_path / "marker"
    torch.save(Marks(marker), file)
    code = f"import sfra.release as r\ntry: r.load({str(file)!r})\nexcept Exception as e: print(type(e).__name__)"
    result = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert result.stdout.strip() == "UnsafeFileError"
    assert not marker.exists()


def test_a_checkpoint_with_other_objects_is_refused(tmp_path: Path) -> None:
    torch.save({"state_dict": nn.Linear(4, 3).state_dict(), "accuracy": Fraction(1, 2)}, tmp_path / "other.pt")
    with pytest.raises(UnsafeFileError, match="fractions"):
        load(tmp_path / "other.pt", arch=ARCH)


def test_torchscript_is_refused(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scripted = torch.jit.trace(nn.Linear(4, 3), torch.zeros(1, 4))  # type: ignore[no-untyped-call]
        scripted.save(str(tmp_path / "script.pt"))
    with pytest.raises(UnsafeFileError, match=r"(?s)another archive.*a TorchScript archive.*ONNX"):
        load(tmp_path / "script.pt", arch=ARCH)


@pytest.mark.parametrize("content", [b"", b"garbage" * 9, b"PK\x03\x04broken", pickle.dumps({"a": 1}, protocol=4)])
def test_what_torch_did_not_write_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "bad.pt").write_bytes(content)
    with pytest.raises(InputError, match=r"bad\.pt cannot be read"):
        load(tmp_path / "bad.pt", arch=ARCH)


@pytest.mark.parametrize("suffix", [".pt", ".safetensors"])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.99])
def test_a_truncated_file_is_refused(model: nn.Module, tmp_path: Path, suffix: str, share: float) -> None:
    file = tmp_path / f"cut{suffix}"
    save_file(model.state_dict(), file) if suffix == ".safetensors" else torch.save(model.state_dict(), file)
    content = file.read_bytes()
    file.write_bytes(content[: int(share * len(content))])
    with pytest.raises(InputError, match=f"cut{suffix} cannot be read"):
        load(file, arch=ARCH)


def test_a_safetensors_file_that_declares_more_than_it_holds_is_refused(tmp_path: Path) -> None:
    header = b'{"fc.weight":{"dtype":"F32","shape":[1000000000000,9],"data_offsets":[0,36000000000000]}}'
    (tmp_path / "huge.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + b"\0" * 64)
    with pytest.raises(InputError, match=r"huge\.safetensors cannot be read"):
        load(tmp_path / "huge.safetensors", arch=ARCH)


def nested() -> Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)])


@pytest.mark.parametrize(
    "tensor",
    [
        torch.zeros(1, 1).expand(10**12, 10**3),
        torch.eye(3).to_sparse(),
        torch.zeros(3, dtype=torch.complex64),
        nested(),
    ],
    ids=["claims its size", "sparse", "complex", "nested"],
)
@pytest.mark.parametrize("arch", [None, ARCH])
def test_a_tensor_that_is_not_plain_numbers_is_refused(tmp_path: Path, tensor: Tensor, arch: str | None) -> None:
    torch.save({"weight": tensor}, tmp_path / "wide.pt")
    with pytest.raises(InputError, match=r"(?s)wide\.pt holds a tensor that is not plain numbers.*got: +weight"):
        load(tmp_path / "wide.pt", arch=arch)


def test_a_compressed_file_that_would_fill_the_memory_is_not_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.save({"weight": torch.zeros(2**20)}, tmp_path / "plain.pt")
    with (
        zipfile.ZipFile(tmp_path / "plain.pt") as plain,
        zipfile.ZipFile(tmp_path / "bomb.pt", "w", zipfile.ZIP_DEFLATED) as packed,
    ):
        for member in plain.namelist():
            packed.writestr(member, plain.read(member))
    monkeypatch.setattr(files, "SUSPICIOUS_BYTES", 2**20)
    with pytest.raises(UnsafeFileError, match=r"bomb\.pt would grow to"):
        read_checkpoint(tmp_path / "bomb.pt")
    assert len(read_checkpoint(tmp_path / "plain.pt").parts[""]["weight"]) == 2**20


LOOP: dict[str, Any] = {"epoch": 1}
LOOP["state_dict"] = LOOP


@pytest.mark.parametrize("content", [{}, [1, 2], {"state_dict": {"a": 1}}, {1: torch.zeros(2)}, LOOP])
def test_a_file_without_a_state_dict_is_refused(tmp_path: Path, content: object) -> None:
    torch.save(content, tmp_path / "other.pt")
    with pytest.raises(InputError, match=r"other\.pt holds no state dict"):
        load(tmp_path / "other.pt", arch=ARCH)


def test_names_in_a_message_cannot_steer_the_terminal(tmp_path: Path) -> None:
    torch.save({"\x1b[2Jfc.weight\nall is well": torch.zeros(2)}, tmp_path / "odd.pt")
    with pytest.raises(InputError) as caught:
        load(tmp_path / "odd.pt", arch=ARCH)
    assert "\x1b" not in str(caught.value)
    assert "\nall is well" not in str(caught.value)
