"""Load a released classifier, whatever it is: a module, a directory, a file or a head alone."""

from __future__ import annotations

import os

import torch
from torch import Tensor

from sfra.core.errors import InputError
from sfra.core.text import written_out
from sfra.release.base import LOADERS, Encoder, Loader, Options, Release, loader_of
from sfra.release.directory import SfraDirectory
from sfra.release.head import HeadLoader
from sfra.release.huggingface import HuggingFaceDirectory, HuggingFaceId
from sfra.release.module import ModuleLoader
from sfra.release.onnx import OnnxLoader
from sfra.release.preprocess import Preprocess
from sfra.release.state_dict import StateDictLoader

__all__ = ["LOADERS", "Encoder", "Loader", "Options", "Preprocess", "Release", "load"]

LOADERS += [
    ModuleLoader(),
    HeadLoader(),
    StateDictLoader(),
    OnnxLoader(),
    SfraDirectory(),
    HuggingFaceDirectory(),
    HuggingFaceId(),
]


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
            ``.safetensors``). ``sfra list loaders`` shows them all.
        arch: For a state dict: a backbone by name, or ``package:factory?keyword=value``.
        example: A batch of inputs as the model takes them; only needed for an unusual input shape.
        device: Where the encoder runs; the model's own device when left out. ONNX runs on the CPU.

    >>> from torch import nn
    >>> model = nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 10))
    >>> release = load(model, example=torch.zeros(1, 1, 8, 8))
    >>> release.head.classes, release.head.width
    (10, 16)
    """
    given = source
    if isinstance(source, str | os.PathLike):
        path = written_out(source)
        given = path if path.exists() else os.fspath(source)
    if arch is not None and (isinstance(source, Release) or not loader_of(given).takes_arch):
        name = source if isinstance(source, str | os.PathLike) else type(source).__name__
        raise InputError(
            "an architecture belongs to a state dict",
            expected="a .safetensors, .pt or .pth file",
            got=f"{name} with the architecture {arch}",
            do="leave --arch out",
        )
    if isinstance(source, Release):
        return source
    return loader_of(given).load(given, Options(arch=arch, example=example, device=device))
