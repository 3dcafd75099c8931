"""Formats that are not read: what each is called, and the way out."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

HEAD_OF = (
    "audit its last layer alone: sfra.Head(model.coef_, model.intercept_).save('head.npz'), with features in --data"
)
KERAS = "export it to ONNX: model.export('model.onnx', format='onnx'), or python -m tf2onnx.convert"
LITE = "convert it to ONNX: python -m tf2onnx.convert --tflite FILE --output model.onnx"
EXPORTED = (
    "save its weights: torch.save(program.state_dict, 'weights.pt'), and name --arch; or export the model to ONNX"
)
MERGE = "merge it into its base model: model.merge_and_unload().save_pretrained('merged')"
DEQUANTISE = "save the model before it was quantised, or dequantised: model.dequantize()"

OTHERWISE = (
    "export the model to ONNX, or audit its last layer alone: sfra.Head(weight, bias).save('head.npz'),"
    " with features in --data"
)
ORIGINAL = "audit the model that it was made from, as ONNX or as a state dict"
UNPACK = "unpack it, and pass the file inside"
AGAIN = "download the file itself"

STARTS = {
    (0, b"\x89HDF"): ("a Keras model (HDF5)", KERAS),
    (4, b"TFL3"): ("a TensorFlow Lite model", LITE),
    (0, b"GGUF"): ("a GGUF model, quantised for inference", ORIGINAL),
    (4, b"ET12"): ("an ExecuTorch program", ORIGINAL),
    (0, b"\x1f\x8b"): ("a compressed file (gzip)", UNPACK),
    (0, b"\xfd7zXZ"): ("a compressed file (xz)", UNPACK),
    (0, b"BZh"): ("a compressed file (bzip2)", UNPACK),
    (257, b"ustar"): ("a tar archive", UNPACK),
    (0, b"version https://git-lfs"): ("a Git LFS pointer: the file itself is elsewhere", "fetch it: git lfs pull"),
    (0, b"<!DOCTYPE"): ("a web page", AGAIN),
    (0, b"<!doctype"): ("a web page", AGAIN),
    (0, b"<html"): ("a web page", AGAIN),
}
"""Bytes at a place by which a file is known."""

SUFFIXES = {
    ".pkl": ("a pickle", HEAD_OF),
    ".pickle": ("a pickle", HEAD_OF),
    ".joblib": ("a pickle", HEAD_OF),
    ".pb": ("a TensorFlow graph", KERAS),
    ".mlmodel": ("a Core ML model", ORIGINAL),
    ".engine": ("a TensorRT engine", "audit the ONNX file that it was built from"),
}
MEMBERS = {
    "model.weights.h5": ("a Keras model", KERAS),
    "archive_format": ("a torch.export program (.pt2)", EXPORTED),
    "weight.npy": ("arrays of NumPy", "let its name end in .npz"),
}
"""Names of files in an archive by which it is known."""

NAMES = {
    ".lora_A.": ("a LoRA adapter that is not merged", MERGE),
    ".lora_down.": ("a LoRA adapter that is not merged", MERGE),
    ".qweight": ("quantised weights", DEQUANTISE),
    ".zero_point": ("quantised weights", DEQUANTISE),
    ".SCB": ("quantised weights", DEQUANTISE),
    ".absmax": ("quantised weights", DEQUANTISE),
    ".weight_scale": ("quantised weights", DEQUANTISE),
    ".weight_packed": ("quantised weights", DEQUANTISE),
    "._packed_params": ("quantised weights", DEQUANTISE),
    ".weight._data": ("quantised weights", DEQUANTISE),
}
"""Parts of the names of tensors that no network for floating-point numbers has by itself."""

Known = tuple[str, str]


def known_start(file: Path) -> Known | None:
    """Tell by its first bytes what a file is that cannot be read, and the way out."""
    with file.open("rb") as opened:
        start = opened.read(512)
    return next((known for (place, sign), known in STARTS.items() if start[place:].startswith(sign)), None)


def known_file(file: Path) -> Known | None:
    """Tell by its first bytes or its name what a file is that cannot be read, and the way out."""
    return known_start(file) or SUFFIXES.get(file.suffix)


def known_archive(members: Iterable[str]) -> Known | None:
    """Tell by the files in it what an archive is."""
    return next((MEMBERS[name] for name in members if name in MEMBERS), None)


def known_names(names: Iterable[str], own: Iterable[str]) -> Known | None:
    """Tell by names of tensors that they are no plain weights, unless an architecture has such names itself."""
    theirs, mine = "\n".join(f"{name}." for name in names), "\n".join(f"{name}." for name in own)
    return next((known for sign, known in NAMES.items() if sign in theirs and sign not in mine), None)
