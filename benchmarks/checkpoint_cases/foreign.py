"""Formats that are not read: each is to be named with the way out."""

from __future__ import annotations

import gzip
import io
import pickle
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file

from checkpoint_cases.case import ARCH, IMAGE, Made, Maker, add, dense, network, refused, shrunk


def written(name: str, content: bytes = b"", more: Mapping[str, bytes] | None = None) -> Maker:
    """Write a file; ``more`` are others beside it, and then the folder is what is passed."""

    def make(folder: Path) -> Made:
        for each, text in {name: content, **(more or {})}.items():
            (folder / each).write_bytes(text)
        return Made(source=folder if more is not None else folder / name)

    return make


def archive(names: Mapping[str, bytes]) -> bytes:
    """Return a zip archive."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as opened:
        for name, text in names.items():
            opened.writestr(name, text)
    return content.getvalue()


def tarred() -> bytes:
    """Return a tar archive with a file in it."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as opened:
        opened.addfile(tarfile.TarInfo("model.pth"), io.BytesIO())
    return content.getvalue()


def scripted(file: Path) -> None:
    """Save TorchScript."""
    torch.jit.save(torch.jit.trace(network(), torch.zeros(2, *IMAGE)), file)


def exported(file: Path) -> None:
    """Save a program of torch.export."""
    torch.export.save(torch.export.export(dense(), (torch.zeros(2, *IMAGE),)), file)


def estimator(protocol: int) -> Callable[[Path], object]:
    """Pickle a fitted estimator of scikit-learn."""

    def write(file: Path) -> None:
        from sklearn.linear_model import LogisticRegression

        fitted = LogisticRegression().fit(np.random.default_rng(0).normal(size=(30, 4)), np.arange(30) % 3)
        file.write_bytes(pickle.dumps(fitted, protocol=protocol))

    return write


def adapter(file: Path) -> None:
    """Save the two factors of an adapter, as PEFT names them."""
    names = {"base_model.model.fc.lora_A.weight": (2, 8), "base_model.model.fc.lora_B.weight": (5, 2)}
    save_file({name: torch.ones(shape) for name, shape in names.items()}, file)


def adapter_folder(folder: Path) -> Made:
    """Save an adapter with its configuration, and no base."""
    adapter(folder / "adapter_model.safetensors")
    (folder / "adapter_config.json").write_text('{"peft_type": "LORA"}')
    return Made(source=folder)


def packed(sign: str) -> Maker:
    """Save names by which quantised weights are known."""
    weights = {"fc.weight": torch.ones(5, 8, dtype=torch.int8), f"fc.{sign}": torch.ones(5)}
    return refused("model.safetensors", lambda file: save_file(weights, file))


LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"
HDF5 = b"\x89HDF\r\n\x1a\n" + bytes(9)

add(
    "not read",
    {
        "a whole module (`torch.save(model)`)": (
            refused("model.pt", lambda file: torch.save(network(), file), arch=ARCH),
            r"model\.state_dict\(\)",
        ),
        "TorchScript": (refused("model.pt", scripted, arch=ARCH), "ONNX"),
        "`torch.export` program (`.pt2`)": (refused("model.pt2", exported), "ONNX"),
        "a state dict of torch's quantisation": (
            refused("small.pt", lambda file: torch.save(shrunk().state_dict(), file)),
            "dequantize",
        ),
        "a state dict of bitsandbytes (8 bits)": (packed("SCB"), "dequantize"),
        "a state dict of GPTQ or AWQ": (packed("qweight"), "dequantize"),
        "GGUF": (written("model.gguf", b"GGUF" + bytes(20)), "made from"),
        "a LoRA adapter": (refused("adapter_model.safetensors", adapter), "merge_and_unload"),
        "a PEFT directory": (adapter_folder, "merge_and_unload"),
        "scikit-learn (`.pkl`)": (refused("model.pkl", estimator(0)), "coef_"),
        "scikit-learn (`.joblib`)": (refused("model.joblib", estimator(4)), "coef_"),
        "Keras (`.keras`)": (
            written("model.keras", archive({"config.json": b"{}", "model.weights.h5": HDF5})),
            "ONNX",
        ),
        "Keras (`.h5`)": (written("model.h5", HDF5), "ONNX"),
        "Keras, called `.ckpt`": (written("model.ckpt", HDF5), "ONNX"),
        "TensorFlow SavedModel": (written("saved_model.pb", more={"fingerprint.pb": b""}), "tf2onnx"),
        "TensorFlow Lite": (written("model.tflite", b"\x1c\0\0\0TFL3" + bytes(9)), "tf2onnx"),
        "ExecuTorch (`.pte`)": (written("model.pte", b"\x1c\0\0\0ET12" + bytes(9)), "made from"),
        "Core ML package": (written("Manifest.json", b"{}", more={"weights": b""}), "made from"),
        "TensorRT engine": (written("model.engine", bytes(9)), "ONNX"),
        "a compressed state dict": (written("model.pth.gz", gzip.compress(bytes(9), mtime=0)), "unpack"),
        "a tar archive": (written("model.tar", tarred()), "unpack"),
        "a Git LFS pointer": (written("model.safetensors", LFS), "git lfs pull"),
        "a web page in the place of a file": (written("model.pth", b"<!DOCTYPE html><html></html>"), "download"),
        "an empty file": (written("model.pt"), "save, download or copy"),
    },
)
