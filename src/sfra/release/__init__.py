"""Load a released classifier, whatever it is: a module, a directory, a file or a head alone."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sfra.core.errors import InputError
from sfra.core.text import written_out
from sfra.release.base import LOADERS, Arch, Encoder, Loader, Options, Release, loader_of
from sfra.release.checkpoint import INDEX_ENDING
from sfra.release.directory import SfraDirectory
from sfra.release.head import HeadLoader
from sfra.release.huggingface import HuggingFaceDirectory, HuggingFaceId
from sfra.release.module import ModuleLoader
from sfra.release.onnx import OnnxLoader
from sfra.release.preprocess import Preprocess
from sfra.release.state_dict import StateDictLoader
from sfra.release.transform import OwnTransform

__all__ = ["LOADERS", "Encoder", "Loader", "Options", "Preprocess", "Release", "load"]

LOADERS += [
    ModuleLoader(),
    HeadLoader(),
    OnnxLoader(),
    StateDictLoader(),
    SfraDirectory(),
    HuggingFaceDirectory(),
    HuggingFaceId(),
]


def load(
    source: object,
    *,
    arch: Arch | None = None,
    key: str | None = None,
    head_key: str | None = None,
    example: Tensor | None = None,
    shape: tuple[int, ...] | None = None,
    device: str | torch.device | None = None,
    preprocess: Preprocess | Callable[..., Any] | None = None,
) -> Release:
    """Split a released classifier into encoder and head; nothing it brings along is ever executed.

    Args:
        source: An ``nn.Module``, a :class:`~sfra.Head`, or a path or name: a model directory, a Hugging Face id, a
            file of tensors (``.safetensors``, ``.pt``, ``.pth``, ``.bin``, ``.ckpt``, ..., told by its content), an
            ``.onnx`` file, a head (``.npz``, ``.safetensors``). ``sfra list loaders`` shows them all.
        arch: For a state dict: a backbone by name, ``"package:factory(num_classes=10)"``, or a class or function that
            builds the model. Without it the last linear layer alone is taken, a head without encoder.
        key: The state dict to take from a file with several that fit, such as weights and their moving average.
        head_key: Without ``arch``: the name of the layer that is the head.
        example: A batch of inputs as the model takes them; only needed for an unusual input shape.
        shape: The shape of one input, such as ``(3, 48, 48)``, to try if no usual one fits.
        device: Where the encoder runs; the model's own device when left out. ONNX runs on the CPU.
        preprocess: How to prepare images for the model, instead of what it says itself: a :class:`Preprocess`, a
            transform of torchvision, or any function of a Pillow image or of a batch ``[n, c, h, w]`` in [0, 1].

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
    said = {"an architecture": arch, "a key": key, "a head by name": head_key}
    for what, value in said.items():
        if value is not None and (isinstance(source, Release) or not loader_of(given).takes_arch):
            name = source if isinstance(source, str | os.PathLike) else type(source).__name__
            raise InputError(
                f"{what} belongs to a state dict",
                expected="a file of tensors, such as .safetensors, .pt or .ckpt",
                got=f"{name} with {what}: {value}",
                do=_file_inside(given) or "leave it out",
            )
    own = preprocess if isinstance(preprocess, Preprocess | OwnTransform | None) else OwnTransform(preprocess)
    options = Options(
        arch=arch, key=key, head_key=head_key, example=example, shape=shape, device=device, preprocess=own
    )
    release = source if isinstance(source, Release) else loader_of(given).load(given, options)
    return release if own is None else replace(release, preprocess=own, silent=False)


def _file_inside(source: object) -> str | None:
    """Name a file of tensors in a folder, which may be meant."""
    if not (isinstance(source, Path) and source.is_dir()):
        return None
    endings = (INDEX_ENDING, *StateDictLoader.suffixes)
    found = next((file for ending in endings for file in sorted(source.glob(f"*{ending}"))), None)
    return None if found is None else f"pass the file itself: {found}"
