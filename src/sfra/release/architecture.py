"""Architectures by name: backbones that packages register, or ``package:factory?keyword=value``."""

from __future__ import annotations

import ast
import importlib
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, reduce
from importlib.metadata import entry_points
from typing import Any
from urllib.parse import parse_qsl

import torch
from torch import Tensor, nn

from sfra.core.errors import InputError, MissingPackageError, meant
from sfra.release.base import one_line

GROUP = "sfra.backbones"
"""Entry-point group: each entry names a module whose import registers backbones. sfra announces its own like this."""

Shapes = tuple[tuple[int, ...], ...]


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


def build_architecture(arch: str, weights: Mapping[str, Tensor]) -> tuple[nn.Module, Shapes]:
    """Build the named model with room for exactly these weights; also return input shapes to try."""
    shapes: Shapes = ()
    if ":" in arch:
        model = _from_factory(arch)
    elif arch in names():
        model, shapes = _with_fitting_classes(find(arch), weights), (find(arch).shape,)
    else:
        raise InputError(f"there is no architecture {arch!r}", expected=forms(), got=arch)
    check_fit(
        weights,
        model.state_dict(),
        f"the state dict does not fit {arch}",
        kinds=False,
        do="name the architecture that was trained, with its arguments (as in ?num_classes=10)",
    )
    return model, shapes


def forms() -> str:
    """Say what an architecture can be."""
    return f"one of {', '.join(names())}; or package:factory, as in torchvision.models:resnet18?num_classes=10"


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


def parse_value(text: str) -> bool | int | float | str | None:
    """Read a keyword's value: a boolean, none, an integer, a number, or else the text itself.

    >>> [parse_value(text) for text in ("10", "0.5", "true", "None", "tiny")]
    [10, 0.5, True, None, 'tiny']
    """
    word = text.capitalize()
    try:
        value: bool | int | float | str | None = ast.literal_eval(word if word in ("True", "False", "None") else text)
    except (ValueError, SyntaxError):
        return text
    return value


def _with_fitting_classes(known: Backbone, weights: Mapping[str, Tensor]) -> nn.Module:
    """Build a backbone with as many outputs as the state dict has.

    The first guess is the height of the last matrix, or else of the last 1x1 convolution. Where only some shapes
    then disagree, and the weights have the same height there, that height is the number of classes.
    """
    shapes = [tuple(tensor.shape) for tensor in reversed(list(weights.values()))]
    matrices = [shape[0] for shape in shapes if len(shape) == 2]
    pointwise = [shape[0] for shape in shapes if len(shape) == 4 and shape[2:] == (1, 1)]
    model = known.build(max(1, next(iter(matrices + pointwise), 1)))
    own = model.state_dict()
    heights = {weights[key].shape[:1] for key in own if key in weights and own[key].shape != weights[key].shape}
    if own.keys() == weights.keys() and len(heights) == 1:
        return known.build(max((1, *heights.pop())))
    return model


def _from_factory(arch: str) -> nn.Module:
    """Call ``package:factory?keyword=value``."""
    target, _, query = arch.partition("?")
    package, _, path = target.partition(":")
    keywords = {key: parse_value(text) for key, text in parse_qsl(query, keep_blank_values=True)}
    try:
        factory: Any = reduce(getattr, path.split("."), importlib.import_module(package))
    except ModuleNotFoundError as problem:
        raise MissingPackageError(
            f"the package of --arch {arch} cannot be imported",
            got=one_line(problem),
            do=f"pip install {package.partition('.')[0]}, or put your own module on PYTHONPATH",
        ) from None
    except (ImportError, AttributeError, ValueError, TypeError) as problem:  # the last for a relative import
        raise InputError(f"there is no {target}", expected=forms(), got=one_line(problem)) from None
    try:
        model = factory(**keywords)
    except Exception as problem:
        raise InputError(
            f"{target} cannot be called with these arguments",
            expected="keywords that it takes, as in ?num_classes=10",
            got=one_line(f"{keywords}: {problem}"),
        ) from problem
    if not isinstance(model, nn.Module):
        raise InputError(f"{target} does not build a model", expected="an nn.Module", got=type(model).__name__)
    return model
