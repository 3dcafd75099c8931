"""Architectures by name: backbones that packages register, or whatever else builds a model."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import entry_points

import torch
from torch import Tensor, nn

from sfra.core.errors import InputError, meant
from sfra.release.base import Arch, one_line
from sfra.release.factory import FORMS, called, constructor

GROUP = "sfra.backbones"
"""Entry-point group: each entry names a module whose import registers backbones. sfra announces its own like this."""

Shapes = tuple[tuple[int, ...], ...]

COUNTS = ("num_batches_tracked", "total_ops", "total_params")
"""Last parts of names that no answer depends on: what old versions of torch did not count, and a profiler's counts."""


@dataclass(frozen=True, kw_only=True)
class Backbone:
    """An architecture that can be built for any number of classes."""

    name: str
    """What the user types."""
    description: str
    """One line for ``sfra list backbones``."""
    shape: tuple[int, int, int]
    """Channels, height and width of the images it is made for."""
    construct: Callable[[int], nn.Module]
    """Number of classes to a freshly initialised classifier; it must also run on torch's meta device."""
    any_size: bool = False
    """Whether it takes images of other heights and widths as they are."""
    family: str | None = None
    """Its ``model_type`` in transformers; None for a plain module."""
    settings: Mapping[str, object] = field(default_factory=dict)
    """What makes it this member of its family: fields of the transformers configuration."""

    def build(self, classes: int, *, seed: int | None = None) -> nn.Module:
        """Draw new weights on the CPU, from a state of their own: equal seeds give equal weights."""
        with seeded(seed):
            return self.construct(classes)

    def skeleton(self, classes: int) -> dict[str, Tensor]:
        """Return the state dict without its numbers: names, shapes and types, whatever their size."""
        with torch.device("meta"):
            return dict(self.construct(classes).state_dict())

    def head_names(self) -> frozenset[str]:
        """Name the tensors whose shape depends on the number of classes: the head."""
        fewer, more = self.skeleton(2), self.skeleton(3)
        return frozenset(name for name in fewer if fewer[name].shape != more[name].shape)


_BACKBONES: dict[str, Backbone] = {}


def register(known: Backbone) -> None:
    """Add a backbone to those that can be built by name."""
    if known.name in _BACKBONES:
        raise ValueError(f"two backbones are called {known.name!r}: choose another name")
    _BACKBONES[known.name] = known


def names() -> tuple[str, ...]:
    """Return the names of all backbones, sorted."""
    _import_announced()
    return tuple(sorted(_BACKBONES))


def find(name: str) -> Backbone:
    """Return a backbone by its name."""
    if name not in _BACKBONES and name not in names():
        raise InputError(
            f"there is no backbone {name!r}",
            expected=f"one of {', '.join(names())}",
            got=name,
            do=meant(name, names()) or "choose one of sfra list backbones",
        )
    return _BACKBONES[name]


@cache
def _import_announced() -> None:
    """Import, once, the modules that installed packages announce; one that fails does not disturb the others."""
    for entry in entry_points(group=GROUP):
        try:
            entry.load()
        except Exception as problem:  # code of a stranger: it raises whatever it runs into
            package = "unknown" if entry.dist is None else entry.dist.name
            warnings.warn(
                f"backbones could not be loaded: package {package}, entry {entry.value}: {one_line(problem)}",
                RuntimeWarning,
                stacklevel=3,
            )


@contextmanager
def seeded(seed: int | None) -> Iterator[None]:
    """Draw weights on the CPU from a state of their own; the global one stays as it was."""
    # torch.manual_seed would reseed every accelerator too: only the CPU's generator is forked and used here.
    with torch.random.fork_rng(devices=[]), torch.device("cpu"):
        if seed is None:
            torch.default_generator.seed()
        else:
            torch.default_generator.manual_seed(seed)
        yield


@dataclass(frozen=True, kw_only=True)
class Network:
    """An architecture that the tensors of a state dict can be put into."""

    name: str
    """What the user typed."""
    own: Mapping[str, Tensor]
    """A state dict of it: its names."""
    build: Callable[[int], nn.Module]
    """Number of classes to a model; one whose arguments are given does not look at it."""
    shapes: Shapes = ()
    """Input shapes to try."""

    def filled(self, weights: Mapping[str, Tensor]) -> nn.Module:
        """Build the model with room for exactly these weights, and load them; mere counts may be missing or extra."""
        weights = {name: tensor for name, tensor in weights.items() if name in self.own or not is_count(name)}
        weights |= {
            name: torch.zeros(tensor.shape, dtype=tensor.dtype)
            for name, tensor in self.own.items()
            if is_count(name) and name not in weights
        }
        model = _with_fitting_classes(self.build, weights)
        check_fit(
            weights,
            model.state_dict(),
            f"the state dict does not fit {self.name}",
            kinds=False,
            do="name the architecture that was trained, with its arguments, as in 'package:Net(num_classes=10)'",
        )
        model.load_state_dict(dict(weights), strict=True)
        return model


def is_count(name: str) -> bool:
    """Tell whether a tensor is of no consequence by the last part of its name.

    >>> is_count("bn1.num_batches_tracked"), is_count("bn1.weight")
    (True, False)
    """
    return name.rpartition(".")[2] in COUNTS


def open_architecture(arch: Arch) -> Network:
    """Find an architecture by its name, or call what the user names."""
    if isinstance(arch, str) and arch in names():
        known = find(arch)
        return Network(name=arch, own=known.skeleton(2), build=known.build, shapes=(known.shape,))
    if not isinstance(arch, str):
        kind = arch if hasattr(arch, "__qualname__") else type(arch)
        name = f"{kind.__module__}:{kind.__qualname__}"
        model = copy.deepcopy(arch) if isinstance(arch, nn.Module) else called(arch, name)
        return Network(name=name, own=model.state_dict(), build=lambda _: model)
    if ":" not in arch:
        where = f"{arch}:Net" if arch.endswith(".py") else f"torchvision:{arch}, timm:{arch}, ./file.py:{arch}"
        do = "; ".join(filter(None, [meant(arch, names()), f"say where it is: {where}"]))
        raise InputError(f"there is no architecture {arch!r}", expected=forms(), got=arch, do=do)
    build = constructor(arch)
    return Network(name=arch, own=build(2).state_dict(), build=build)


def forms() -> str:
    """Say what an architecture can be."""
    return f"one of {', '.join(names())}; or {FORMS}"


def check_fit(
    found: Mapping[str, Tensor], own: Mapping[str, Tensor], what: str, *, kinds: bool = True, do: str | None = None
) -> None:
    """Refuse weights, or outlines of them, that are not exactly those of an architecture.

    With ``kinds``, whole numbers must not stand for floating-point numbers, nor the other way round.
    """
    shared = [name for name in own if name in found]
    wrong = {
        "missing": [name for name in own if name not in found],
        "unexpected": [name for name in found if name not in own],
        "of another shape": [
            f"{name} {list(found[name].shape)} instead of {list(own[name].shape)}"
            for name in shared
            if found[name].shape != own[name].shape
        ],
        "of another kind": [
            f"{name} {found[name].dtype} instead of {own[name].dtype}"
            for name in shared
            if kinds and found[name].is_floating_point() != own[name].is_floating_point()
        ],
    }
    parts = [f"{len(some)} {kind} ({', '.join(some[:3])})" for kind, some in wrong.items() if some]
    if parts:
        expected = f"its {len(own)} tensors, of the same shapes"
        raise InputError(what, expected=expected, got=one_line("; ".join(parts), 600), do=do)


def refuse_not_finite(weights: Mapping[str, Tensor], name: str) -> None:
    """Refuse NaN and infinity."""
    bad = [key for key, tensor in weights.items() if not bool(torch.isfinite(tensor).all())]
    if bad:
        raise InputError(
            f"the weights of {name} are not finite",
            got=one_line(f"NaN or infinity in {', '.join(bad[:3])}"),
            do="the model is damaged, or its training diverged: train it with a smaller learning rate",
        )


def _with_fitting_classes(build: Callable[[int], nn.Module], weights: Mapping[str, Tensor]) -> nn.Module:
    """Build a model with as many outputs as the state dict has.

    The first guess is the height of the last matrix, or else of the last 1x1 convolution. Where only some shapes
    then disagree, and the weights have the same height there, that height is the number of classes.
    """
    shapes = [tuple(tensor.shape) for tensor in reversed(list(weights.values()))]
    matrices = [shape[0] for shape in shapes if len(shape) == 2]
    pointwise = [shape[0] for shape in shapes if len(shape) == 4 and shape[2:] == (1, 1)]
    model = build(max(1, next(iter(matrices + pointwise), 1)))
    own = model.state_dict()
    heights = {weights[key].shape[:1] for key in own if key in weights and own[key].shape != weights[key].shape}
    if own.keys() == weights.keys() and len(heights) == 1:
        return build(max((1, *heights.pop())))
    return model
