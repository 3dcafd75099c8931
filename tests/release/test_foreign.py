"""What is not read is refused by what it is, with the way out."""

from __future__ import annotations

import io
import pickle
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from sklearn.linear_model import LogisticRegression
from torch import Tensor, nn

from builders.releases import answer
from sfra.core.errors import SfraError
from sfra.core.head import Head
from sfra.release import load
from sfra.release.checkpoint import _check_backed


def network() -> nn.Sequential:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 5))


def starting(*parts: bytes) -> Callable[[Path], object]:
    return lambda file: file.write_bytes(b"".join(parts) + bytes(600))


def regression(file: Path) -> None:
    fitted = LogisticRegression().fit(np.random.default_rng(0).normal(size=(30, 4)), np.arange(30) % 3)
    file.write_bytes(pickle.dumps(fitted, protocol=2 if file.suffix == ".sav" else 0))


def exported(file: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.export.save(torch.export.export(network().eval(), (torch.zeros(2, 1, 8, 8),)), file)


def quantised(file: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        small = torch.ao.quantization.quantize_dynamic(network(), {nn.Linear}, dtype=torch.qint8)  # type: ignore[no-untyped-call]
    torch.save(small.state_dict(), file)


def keras(file: Path) -> None:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("config.json", "{}")
        archive.writestr("model.weights.h5", b"\x89HDF\r\n\x1a\n")
    file.write_bytes(content.getvalue())


def adapter(file: Path) -> None:
    file.parent.mkdir(exist_ok=True)
    save_file({"base.fc.lora_A.weight": torch.zeros(2, 8), "base.fc.lora_B.weight": torch.zeros(5, 2)}, file)


FILES: dict[str, tuple[Callable[[Path], object], str]] = {
    "model.pkl": (regression, r"a pickle.*sfra\.Head\(model\.coef_, model\.intercept_\)"),
    "model.sav": (regression, r"was not opened.*sklearn.*model\.coef_, model\.intercept_"),
    "model.h5": (lambda file: file.write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(9)), r"a Keras model.*ONNX"),
    "model.keras": (keras, r"was not opened.*a Keras model.*ONNX"),
    "model.tflite": (lambda file: file.write_bytes(b"\x1c\0\0\0TFL3" + bytes(9)), r"TensorFlow Lite.*tf2onnx"),
    "model.pt2": (exported, r"was not opened.*torch\.export program.*ONNX"),
    "model.pt": (quantised, r"holds quantised weights.*dequantize"),
    "model.safetensors": (adapter, r"holds a LoRA adapter.*merge_and_unload"),
    "model.dat": (starting(b"\0"), r"got: +\.dat.*ONNX.*sfra\.Head\(weight, bias\)"),
    "model.gguf": (starting(b"GGUF"), r"a GGUF model.*made from"),
    "ggml-model.bin": (starting(b"GGUF"), r"cannot be read.*a GGUF model.*made from"),
    "model.pte": (starting(b"\x1c\0\0\0ET12"), r"an ExecuTorch program.*made from"),
    "model.pth.gz": (starting(b"\x1f\x8b"), r"a compressed file.*unpack it"),
    "models.tar": (starting(b"m" * 257, b"ustar"), r"a tar archive.*unpack it"),
    "lfs.safetensors": (starting(b"version https://git-lfs.github.com/spec/v1\n"), r"a Git LFS pointer.*git lfs pull"),
    "lfs.pt": (starting(b"version https://git-lfs.github.com/spec/v1\n"), r"a Git LFS pointer.*git lfs pull"),
    "lfs.onnx": (starting(b"version https://git-lfs.github.com/spec/v1\n"), r"a Git LFS pointer.*git lfs pull"),
    "page.pth": (starting(b"<!DOCTYPE html>"), r"a web page.*download the file itself"),
    "one.pt": (lambda file: torch.save(nn.Linear(8, 1).state_dict(), file), r"one or two outputs cannot be audited"),
    "two.safetensors": (
        lambda file: save_file(nn.Linear(8, 2).state_dict(), file),
        r"too few classes.*at least 3.*got: +2",
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_another_format_is_named_with_the_way_out(tmp_path: Path, name: str) -> None:
    write, message = FILES[name]
    write(tmp_path / name)
    with pytest.raises(SfraError, match=f"(?s){message}"):
        load(tmp_path / name)


def test_the_way_out_of_a_regression_works(tmp_path: Path) -> None:
    fitted = LogisticRegression().fit(np.random.default_rng(0).normal(size=(30, 4)), np.arange(30) % 3)
    Head(fitted.coef_, fitted.intercept_).save(tmp_path / "head.npz")
    assert load(tmp_path / "head.npz").head.classes == 3


def test_an_adapter_directory_is_named_with_the_way_out(tmp_path: Path) -> None:
    adapter(tmp_path / "lora" / "adapter_model.safetensors")
    (tmp_path / "lora" / "adapter_config.json").write_text("{}")
    with pytest.raises(SfraError, match=r"(?s)adapter_config\.json.*merge_and_unload"):
        load(tmp_path / "lora")


@pytest.mark.parametrize(
    ("name", "way"),
    [("saved_model.pb", "tf2onnx"), ("Manifest.json", "made from"), ("notes.txt", "the model file itself")],
)
def test_a_directory_of_another_format_is_named_with_the_way_out(tmp_path: Path, name: str, way: str) -> None:
    (tmp_path / name).write_text("")
    with pytest.raises(SfraError, match=f"(?s)not a Hugging Face model.*{name}.*{way}"):
        load(tmp_path)


class Adapted(nn.Module):
    """A layer with an adapter that is not merged, as PEFT makes it: ``W z + b + B A z``."""

    def __init__(self) -> None:
        super().__init__()
        self.base_layer, self.lora_A, self.lora_B = nn.Linear(16, 5), nn.ModuleDict(), nn.ModuleDict()
        self.lora_A["default"], self.lora_B["default"] = nn.Linear(16, 2, bias=False), nn.Linear(2, 5, bias=False)

    def forward(self, z: torch.Tensor) -> torch.Tensor:
        added: torch.Tensor = self.lora_B["default"](self.lora_A["default"](z))
        return torch.add(self.base_layer(z), added, alpha=0.5)


def test_a_module_with_an_adapted_or_quantised_head_is_refused_with_the_way_out() -> None:
    adapted = nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.ReLU(), Adapted())
    with pytest.raises(SfraError, match=r"(?s)no linear layer.*a LoRA adapter that is not merged.*merge_and_unload"):
        load(adapted, example=torch.randn(2, 1, 8, 8))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        small = torch.ao.quantization.quantize_dynamic(network(), {nn.Linear}, dtype=torch.qint8)  # type: ignore[no-untyped-call]
    with pytest.raises(SfraError, match=r"(?s)no linear layer.*quantised weights.*dequantize"):
        load(small, example=torch.randn(2, 1, 8, 8))
    inside = nn.Sequential(nn.Flatten(), nn.Linear(64, 16), Adapted(), nn.Linear(5, 4))
    assert load(inside, example=torch.randn(2, 1, 8, 8)).head.classes == 4


class Rounded(Tensor):
    """Whole numbers that stand for others, in the way in which packages quantise."""

    whole: Tensor

    @staticmethod
    def __new__(cls, whole: Tensor) -> Rounded:
        made: Rounded = Tensor._make_wrapper_subclass(cls, whole.shape, dtype=torch.float32)
        made.whole = whole
        return made

    def dequantize(self) -> Tensor:
        return self.whole / 100

    def __tensor_flatten__(self) -> tuple[list[str], None]:
        return ["whole"], None

    @staticmethod
    def __tensor_unflatten__(inner: dict[str, Tensor], *_: object) -> Rounded:
        return Rounded(inner["whole"])

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is nn.functional.linear:
            return func(args[0], args[1].dequantize(), *args[2:])
        return super().__torch_function__(func, types, args, kwargs)  # type: ignore[no-untyped-call]

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        assert func is torch.ops.aten.detach.default, f"{func} must not be asked for"
        return Rounded(args[0].whole)


def test_weights_that_a_package_quantised_are_read_in_a_module_and_refused_in_a_file(tmp_path: Path) -> None:
    head, images = nn.Linear(16, 5), torch.randn(3, 1, 8, 8)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.ReLU(), head)
    whole = torch.round(100 * head.weight.detach()).to(torch.int8)
    head.weight = nn.Parameter(Rounded(whole), requires_grad=False)
    release = load(model, example=images[:2])
    torch.testing.assert_close(release.head.weight, whole / 100)
    torch.testing.assert_close(answer(release, images), model(images))
    with pytest.raises(SfraError, match=r"(?s)not plain numbers.*3\.weight: Rounded.*dequantize"):
        _check_backed({"3.weight": Rounded(whole)}, "small.pt")


class Scaled(nn.Linear):
    """A layer whose own names look like those of quantised weights."""

    def __init__(self) -> None:
        super().__init__(64, 5)
        self.fake = nn.Module()
        self.fake.register_buffer("zero_point", torch.zeros(1))

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return super().forward(input.flatten(1))


def test_an_architecture_with_such_names_of_its_own_is_loaded(tmp_path: Path) -> None:
    torch.save(Scaled().state_dict(), tmp_path / "own.pt")
    assert load(tmp_path / "own.pt", arch=Scaled).head.classes == 5
