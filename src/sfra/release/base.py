"""What every loaded classifier becomes: encoder | head, whatever it was before."""

from __future__ import annotations

import hashlib
import importlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from sfra.core.errors import InputError, MissingPackageError, printable
from sfra.core.head import Head
from sfra.core.types import Features
from sfra.release.preprocess import Preprocess

__all__ = ["Encoder", "Preprocess", "Release", "clean_names", "fingerprint", "one_line", "require", "usable_device"]


@runtime_checkable
class Encoder(Protocol):
    """Everything of a classifier before its head: a batch of inputs to their features ``z = e(x)``."""

    def __call__(self, images: Tensor) -> Features:
        """Return the inputs of the head, float32, one row per image, on the encoder's device."""
        ...


@dataclass(frozen=True, kw_only=True, eq=False)
class Release:
    """A released classifier ``h(e(x))``, split where the audit needs it: ``head(encoder(x))`` are its logits."""

    head: Head
    """The linear head ``h``: all that the audit itself sees."""
    encoder: Encoder | None
    """The rest, ``e``: needed only to measure; None for a head file."""
    source: str
    """What it was, in a few words, for the report."""
    fingerprint: str
    """SHA-256 over all weights: equal models, equal fingerprints."""
    class_names: tuple[str, ...] | None = None
    """One name per output, where the release carries them."""
    preprocess: Preprocess | None = None
    """How the encoder wants its images, where the release says so."""

    def __repr__(self) -> str:
        """Say what it is, without its weights."""
        encoder = "no encoder" if self.encoder is None else "with its encoder"
        size = f"{self.head.classes} outputs, {self.head.width} features"
        return f"Release({self.source!r}: {size}, {encoder}, fingerprint {self.fingerprint[:12]}…)"


def fingerprint(weights: Mapping[str, Tensor], *, structure: str) -> str:
    """Hash names, types, shapes and bytes of all weights, and a text that describes the structure."""
    digest = hashlib.sha256(re.sub(r" at 0x[0-9a-fA-F]+", "", structure).encode())
    for name in sorted(weights):
        tensor = weights[name].detach().cpu().contiguous()
        digest.update(f"|{name}|{tensor.dtype}|{tuple(tensor.shape)}|".encode())
        digest.update(tensor.flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()


def clean_names(names: object, classes: int) -> tuple[str, ...] | None:
    """Turn a list, or a mapping from index, into one printable name per class; None if it is not that.

    >>> clean_names({"1": "dog", "0": "cat", "2": "ox"}, 3)
    ('cat', 'dog', 'ox')
    >>> clean_names(["LABEL_0", "LABEL_1", "LABEL_2"], 3) is None
    True
    """
    if isinstance(names, Mapping):
        indexed = {str(key): value for key, value in names.items()}
        names = [indexed.get(str(index)) for index in range(classes)] if len(indexed) == classes else None
    if not isinstance(names, list | tuple) or len(names) != classes:
        return None
    if not all(isinstance(name, str | int) and str(name).strip() for name in names):
        return None
    if all(name == f"LABEL_{index}" for index, name in enumerate(names)):
        return None
    return tuple(one_line(name) for name in names)


def one_line(text: object, limit: int = 300) -> str:
    """Make text that came out of a file, or an error about it, fit for a terminal: printable, one line."""
    line = printable(" ".join(str(text).split()))
    return line if len(line) <= limit else line[: limit - 1] + "…"


def require(package: str, *, extra: str) -> Any:
    """Import an optional package, or say which extra brings it."""
    try:
        return importlib.import_module(package)
    except ImportError as problem:
        raise MissingPackageError(
            f"this model needs the package {package}",
            got=one_line(problem),
            do=f'pip install "sfra[{extra}]"',
        ) from None


def usable_device(device: str | torch.device) -> torch.device:
    """Turn a name into a device that exists here."""
    try:
        found = torch.empty(0, device=device).device
        torch.Generator(found)  # not every device that torch knows can compute: meta holds shapes only
    except (RuntimeError, AssertionError, NotImplementedError) as problem:
        raise InputError(
            f"the device {str(device)!r} cannot be used",
            expected="cpu, cuda, cuda:1, mps ... as this machine has them",
            got=one_line(problem),
        ) from None
    return found
