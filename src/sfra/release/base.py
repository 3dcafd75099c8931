"""What every loaded classifier becomes, encoder | head, and what a loader of one format must do."""

from __future__ import annotations

import hashlib
import importlib
import re
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol, runtime_checkable

import torch
from torch import Tensor
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from sfra.core.errors import InputError, MissingPackageError, printable
from sfra.core.head import Head
from sfra.core.text import parse_json
from sfra.core.types import Features
from sfra.release.foreign import OTHERWISE, known_file, known_start
from sfra.release.preprocess import Preprocess
from sfra.release.transform import OwnTransform

Arch = str | Callable[..., Any]
"""An architecture: its name, or what builds the model; a model of that architecture will do as well."""


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
    preprocess: Preprocess | OwnTransform | None = None
    """How the encoder wants its images, where the release, or the caller, says so."""
    silent: bool = False
    """Others of its kind say how they want their images, and this one does not."""

    def __repr__(self) -> str:
        """Say what it is, without its weights."""
        encoder = "no encoder" if self.encoder is None else "with its encoder"
        size = f"{self.head.classes} outputs, {self.head.width} features"
        return f"Release({self.source!r}: {size}, {encoder}, fingerprint {self.fingerprint[:12]}…)"


@dataclass(frozen=True, kw_only=True, eq=False)
class Options:
    """What the caller says about a model besides where it is."""

    arch: Arch | None = None
    """For a state dict: a backbone by name, ``package:factory``, or in Python what builds the model."""
    key: str | None = None
    """For a file with several state dicts: the one to take."""
    head_key: str | None = None
    """For a state dict without an architecture: the layer to audit as a head."""
    example: Tensor | None = None
    """A batch of inputs as the model takes them."""
    shape: tuple[int, ...] | None = None
    """What one input may look like, if no usual shape fits."""
    device: str | torch.device | None = None
    """Where the encoder is to run; None: where the model is."""
    preprocess: Preprocess | OwnTransform | None = None
    """How the model wants its images; None: as it says itself."""
    source: str | None = None
    """What to call the model in the report; None: what it is."""


class Loader(ABC):
    """One format of released classifiers.

    A source is the caller's object, a ``Path`` that exists, or a ``str``: a name that is no path here.
    """

    name: ClassVar[str]
    """What ``sfra list loaders`` calls the format."""
    description: ClassVar[str]
    """What the user passes, in a few words."""
    suffixes: ClassVar[tuple[str, ...]] = ()
    """Endings of its files."""
    takes_arch: ClassVar[bool] = False
    """Whether the user may name an architecture."""

    def accepts(self, source: object) -> bool:
        """Tell whether a source has this format; nothing but its name and its outline is looked at."""
        return isinstance(source, Path) and source.suffix in self.suffixes and source.is_file()

    @abstractmethod
    def load(self, source: Any, options: Options) -> Release:
        """Load an accepted source; nothing in it is ever executed."""


LOADERS: list[Loader] = []
"""Every format, in the order in which they are asked: the first that accepts a source loads it."""


def loader_of(source: object) -> Loader:
    """Return the loader that takes a source, or say what can be loaded."""
    found = next((loader for loader in LOADERS if loader.accepts(source)), None)
    if found is not None:
        return found
    forms = ", ".join(loader.description for loader in LOADERS)
    if isinstance(source, str):
        raise InputError("the file or directory does not exist", expected=forms, got=source, do="check the path")
    if isinstance(source, Path):
        known = known_file(source) if source.is_file() else None
        got, do = known or (source.suffix or "no suffix", OTHERWISE)
        raise InputError(f"{source.name} is not a model that can be read", expected=forms, got=got, do=do)
    weights = isinstance(source, Mapping) and any(isinstance(value, Tensor) for value in source.values())
    way = "put the state dict into its network, and pass that: net.load_state_dict(...)" if weights else None
    raise InputError("this is not a model", expected=forms, got=type(source).__name__, do=way)


def plain(tensor: Tensor) -> Tensor:
    """Return the numbers that a tensor of another kind stands for, such as one that a package quantised."""
    wrapped = is_traceable_wrapper_subclass(tensor) and hasattr(tensor, "dequantize")
    return (tensor.dequantize() if wrapped else tensor).detach()


def fingerprint(weights: Mapping[str, Tensor], *, structure: str) -> str:
    """Hash names, types, shapes and bytes of all weights, and a text that describes the structure."""
    digest = hashlib.sha256(re.sub(r" at 0x[0-9a-fA-F]+", "", structure).encode())
    for name in sorted(weights):
        tensor = plain(weights[name]).cpu().contiguous()
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


def unreadable(file: Path, problem: object, *, expected: str) -> InputError:
    """Say that a file is not what its name promises."""
    damaged = "it may be truncated or damaged: save, download or copy it again"
    got, do = known_start(file) or (one_line(problem), damaged)
    return InputError(f"{file.name} cannot be read", expected=expected, got=got, do=do)


def read_json(file: Path) -> dict[str, Any]:
    """Read a JSON object, or say what is wrong with the file."""
    try:
        content = parse_json(file.read_text(encoding="utf-8"), constants=True)
    except (ValueError, OSError) as problem:
        raise unreadable(file, problem, expected="a JSON object") from None
    if not isinstance(content, dict):
        raise InputError(f"{file.name} cannot be used", expected="a JSON object", got=type(content).__name__)
    return content


def require(package: str, *, extra: str) -> Any:
    """Import an optional package, or say which extra brings it."""
    try:
        return importlib.import_module(package)
    except ImportError as problem:
        raise MissingPackageError(
            f"this model needs the package {package}",
            got=one_line(problem),
            do=f"pip install 'sfra[{extra}]'",
        ) from None


def usable_device(device: str | torch.device) -> torch.device:
    """Turn a name into a device that exists here."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch knows names of devices that were given up
            found = torch.empty(0, device=device).device
        torch.Generator(found)  # not every device that torch knows can compute: meta holds shapes only
    except (RuntimeError, AssertionError, NotImplementedError, ImportError) as problem:
        raise InputError(
            f"cannot use the device {str(device)!r}",
            expected="cpu, cuda, cuda:1, mps ... as this machine has them",
            got=one_line(problem),
        ) from None
    return found
