"""Load a released classifier, whatever it is: a module, a directory, a file or a head alone."""

from __future__ import annotations

import os
import re
from pathlib import Path

import torch
from torch import Tensor, nn

from sfra.core.errors import InputError
from sfra.core.head import Head
from sfra.core.text import written_out
from sfra.release.base import Encoder, Preprocess, Release
from sfra.release.huggingface import load_directory, load_id
from sfra.release.module import load_module
from sfra.release.onnx import load_onnx
from sfra.release.state_dict import load_state_dict, read_state_dict

__all__ = ["Encoder", "Preprocess", "Release", "load"]

STATE_DICTS = (".safetensors", ".pt", ".pth")
FORMS = (
    "a model directory, a Hugging Face id (owner/name), a state dict (.safetensors, .pt, .pth) with --arch, "
    "an .onnx file, or a head (.npz, .safetensors)"
)


def load(
    source: object,
    *,
    arch: str | None = None,
    example: Tensor | None = None,
    device: str | torch.device | None = None,
) -> Release:
    """Split a released classifier into encoder and head; nothing it brings along is ever executed.

    Args:
        source: An ``nn.Module``, a :class:`~sfra.Head`, or a path or name: a model directory, a Hugging Face id, a
            state dict (``.safetensors``, ``.pt``, ``.pth``), an ``.onnx`` file, a head (``.npz``,
            ``.safetensors``).
        arch: For a state dict: a backbone of ours, or ``package:factory?keyword=value``.
        example: A batch of inputs as the model takes them; only needed for an unusual input shape.
        device: Where the encoder runs; the model's own device when left out. ONNX runs on the CPU.

    >>> model = nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 10))
    >>> release = load(model, example=torch.zeros(1, 1, 8, 8))
    >>> release.head.classes, release.head.width
    (10, 16)
    """
    if isinstance(source, str | os.PathLike):
        return _load_path(os.fspath(source), arch=arch, example=example, device=device)
    _refuse_arch(arch, type(source).__name__)
    if isinstance(source, Release):
        return source
    if isinstance(source, Head):
        return _head_release(source, "a head")
    if isinstance(source, nn.Module):
        return load_module(source, example=example, device=device)
    raise InputError("this is not a model", expected=f"an nn.Module, or {FORMS}", got=type(source).__name__)


def _load_path(name: str, *, arch: str | None, example: Tensor | None, device: str | torch.device | None) -> Release:
    path = written_out(name)
    if path.suffix in STATE_DICTS and path.is_file():
        return _load_tensors(path, arch=arch, example=example, device=device)
    hub = re.fullmatch(r"[\w-][\w.-]*/[\w-][\w.-]*", name) and path.suffix not in (*STATE_DICTS, ".onnx", ".npz")
    if not (path.is_file() or path.is_dir() or hub):
        raise InputError("there is no such file or directory", expected=FORMS, got=name, do="check the path")
    _refuse_arch(arch, name)
    if path.is_dir():
        return load_directory(path, example=example, device=device)
    if path.is_file():
        if path.suffix == ".onnx":
            return load_onnx(path, example=example)
        if path.suffix == ".npz":
            return _head_release(Head.load(path), f"head file {path}")
        raise InputError(f"{path.name} is not a model that can be read", expected=FORMS, got=path.suffix or "no suffix")
    return load_id(name, example=example, device=device)


def _load_tensors(
    path: Path, *, arch: str | None, example: Tensor | None, device: str | torch.device | None
) -> Release:
    """Load a file of tensors: the two of a head, or a whole state dict."""
    weights = read_state_dict(path)
    if arch is None and "weight" in weights and not weights.keys() - {"weight", "bias"}:
        return _head_release(Head(weights["weight"], weights.get("bias")), f"head file {path}")
    return load_state_dict(weights, name=path.name, arch=arch, example=example, device=device)


def _head_release(head: Head, source: str) -> Release:
    return Release(head=head, encoder=None, source=source, fingerprint=head.fingerprint)


def _refuse_arch(arch: str | None, name: str) -> None:
    if arch is not None:
        raise InputError(
            "an architecture belongs to a state dict",
            expected="a .safetensors, .pt or .pth file",
            got=f"{name} with the architecture {arch}",
            do="leave --arch out",
        )
