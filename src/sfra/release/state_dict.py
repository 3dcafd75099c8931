"""State dicts: tensors without code, put into an architecture that the user names."""

from __future__ import annotations

import pickle
import pickletools
import re
import warnings
import zipfile
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from sfra.core.errors import InputError, UnsafeFileError
from sfra.core.files import EMPTY, read_arrays, refuse_growth
from sfra.core.head import Head
from sfra.release.architecture import build_architecture, forms
from sfra.release.base import Loader, Options, Release, one_line, unreadable
from sfra.release.head import head_release
from sfra.release.module import load_module

NESTS = ("state_dict", "model", "model_state_dict", "net")
"""Keys under which training scripts keep the state dict."""

DEEPEST = 4
"""Levels of nesting that are looked through."""

PREFIXES = ("module.", "_orig_mod.")
"""Left on every key by data parallelism and ``torch.compile``."""

COMPLETE = "a complete file that torch.save wrote"
CONVERT = "in a place you trust: torch.save(model.state_dict(), 'weights.pt'), or safetensors.torch.save_file"


class StateDictLoader(Loader):
    """A file of tensors: a whole state dict, or the two of a head."""

    name = "state-dict"
    description = "a state dict (.safetensors, .pt, .pth) with --arch"
    suffixes = (".safetensors", ".pt", ".pth")
    takes_arch = True

    def load(self, source: Path, options: Options) -> Release:
        """Put the tensors into the architecture that the user names, and split the model."""
        weights, arch = read_state_dict(source), options.arch
        if arch is None and "weight" in weights and not weights.keys() - {"weight", "bias"}:
            return head_release(Head(weights["weight"], weights.get("bias")), f"head file {source}")
        if arch is None:
            raise InputError(
                f"{source.name} is a state dict: it does not say which architecture it belongs to",
                expected=forms(),
                got=f"{len(weights)} tensors: {one_line(', '.join(list(weights)[:3]), 120)}, ...",
                do="pass --arch (in Python: arch=)",
            )
        model, shapes = build_architecture(arch, weights)
        try:
            model.load_state_dict(weights, strict=True)
        except Exception as problem:
            raise InputError(f"{source.name} cannot be loaded into {arch}", got=one_line(problem)) from problem
        return load_module(model, options, shapes=shapes, source=f"state dict {source.name} ({arch})")


def read_state_dict(file: Path) -> dict[str, Tensor]:
    """Read the tensors of a ``.safetensors``, ``.pt`` or ``.pth`` file; nothing in it is ever executed."""
    content = read_arrays(file) if file.suffix == ".safetensors" else _read_torch(file)
    weights = _unnest(content, file.name)
    _check_backed(weights, file.name)
    return strip(weights)


def strip(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Remove the prefixes that every key carries.

    >>> list(strip({"module._orig_mod.fc.weight": torch.zeros(1)}))
    ['fc.weight']
    """
    for prefix in PREFIXES:
        if weights and all(key.startswith(prefix) for key in weights):
            return strip({key.removeprefix(prefix): value for key, value in weights.items()})
    return dict(weights)


def _unnest(content: object, name: str) -> Mapping[str, Tensor]:
    """Find the state dict in what a training script saved."""
    for _ in range(DEEPEST):
        if not isinstance(content, Mapping) or not content:
            break
        if all(isinstance(key, str) and isinstance(value, Tensor) for key, value in content.items()):
            return content
        inner = next((content[key] for key in NESTS if isinstance(content.get(key), Mapping)), None)
        if inner is None:
            break
        content = inner
    found = sorted(map(str, content)) if isinstance(content, Mapping) else type(content).__name__
    raise InputError(
        f"{name} holds no state dict",
        expected=f"names with tensors, at the top or under one of {', '.join(NESTS)}",
        got=one_line(found, 120),
    )


def _check_backed(weights: Mapping[str, Tensor], name: str) -> None:
    """Refuse tensors that are not dense and real, or whose shape claims more numbers than the file holds for them."""
    for key, tensor in weights.items():
        plain = tensor.layout is torch.strided and not (tensor.is_quantized or tensor.is_nested or tensor.is_complex())
        if not plain or tensor.numel() * tensor.element_size() > tensor.untyped_storage().nbytes():
            what = "nested" if tensor.is_nested else f"{list(tensor.shape)}, {tensor.dtype}, {tensor.layout}"
            raise InputError(
                f"{name} holds a tensor that is not plain numbers",
                expected="dense tensors of real numbers, with every element in the file",
                got=one_line(f"{key}: {what}", 120),
                do="save it again from a dense, contiguous copy",
            )


def _read_torch(file: Path) -> object:
    """Read with the restricted unpickler; name what it refused."""
    if file.stat().st_size == 0:
        raise unreadable(file, EMPTY, expected=COMPLETE)
    _refuse_archive(file)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return torch.load(file, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as problem:
        names = _refused_globals(str(problem), file)
        if names:
            raise UnsafeFileError(
                f"{file.name} holds more than tensors, and opening it could run code: it was not opened",
                expected="a state dict: names with tensors",
                got=f"a pickle that calls for {one_line(', '.join(names[:3]), 120)}",
                do=f"convert it {CONVERT}",
            ) from None
        raise unreadable(file, "not a file that torch.save wrote", expected=COMPLETE) from None
    except Exception as problem:
        raise unreadable(file, f"{type(problem).__name__}: {problem}", expected=COMPLETE) from None


def _refuse_archive(file: Path) -> None:
    """Refuse an archive with code, and one that would fill the memory."""
    try:
        with zipfile.ZipFile(file) as archive:
            members = {Path(member).name for member in archive.namelist()}
            size = sum(member.file_size for member in archive.infolist())
    except (zipfile.BadZipFile, OSError, ValueError):
        return
    refuse_growth(file, size)
    if "constants.pkl" in members or "data.pkl" not in members:
        raise UnsafeFileError(
            f"{file.name} is not a state dict but an archive with code: it was not opened",
            expected="a state dict: names with tensors",
            got="a TorchScript archive" if "constants.pkl" in members else one_line(sorted(members)[:4], 120),
            do=f"save the weights {CONVERT}; or export the model to ONNX",
        )


def _refused_globals(message: str, file: Path) -> list[str]:
    """Name what a pickle would call: from torch's message, or by reading the pickle without running it."""
    named = re.search(r"GLOBAL ([\w.]+)", message)
    if named:
        return [named.group(1)]
    names: list[str] = []
    strings: list[str] = []
    try:
        for opcode, argument, _ in pickletools.genops(file.read_bytes()):
            if opcode.name == "STACK_GLOBAL":
                names.append(".".join(strings[-2:]))
            elif opcode.name in ("GLOBAL", "INST"):
                names.append(str(argument).replace(" ", "."))
            elif isinstance(argument, str):
                strings.append(argument)
    except Exception:  # noqa: S110 - a damaged pickle: what was read so far is the answer
        pass
    return names
