"""Architectures for a state dict: one of ours by name, or ``package:factory?keyword=value``."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from functools import reduce
from typing import Any
from urllib.parse import parse_qsl

from torch import Tensor, nn

from sfra.core.errors import InputError, MissingPackageError
from sfra.release.base import one_line

Shapes = tuple[tuple[int, ...], ...]


def build_architecture(arch: str, weights: Mapping[str, Tensor]) -> tuple[nn.Module, Shapes]:
    """Build the named model with room for exactly these weights; also return input shapes to try."""
    if ":" in arch:
        model = _from_factory(arch)
        _check(model, weights, arch)
        return model, ()
    from sfra.models import backbones

    if arch not in backbones.names():
        raise InputError(f"there is no architecture {arch!r}", expected=forms(), got=arch)
    return _with_fitting_classes(arch, weights), (backbones.input_shape(arch),)


def forms() -> str:
    """Say what an architecture can be."""
    from sfra.models import backbones

    ours = ", ".join(backbones.names())
    return f"one of {ours}; or package:factory, as in torchvision.models:resnet18?num_classes=10"


def parse_value(text: str) -> bool | int | float | str | None:
    """Read a keyword's value: a boolean, none, an integer, a number, or else the text itself.

    >>> [parse_value(text) for text in ("10", "0.5", "true", "None", "tiny")]
    [10, 0.5, True, None, 'tiny']
    """
    words: dict[str, bool | None] = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _with_fitting_classes(arch: str, weights: Mapping[str, Tensor]) -> nn.Module:
    """Build one of our backbones with as many outputs as the state dict has.

    The first guess is the height of the last matrix. Where only some shapes then disagree, and the weights
    have one and the same height there, that height is the number of classes.
    """
    from sfra.models import backbones

    model = backbones.build(arch, classes=_last_height(weights))
    own = model.state_dict()
    heights = {weights[key].shape[:1] for key in _reshaped(own, weights)}
    if own.keys() == weights.keys() and len(heights) == 1:
        model = backbones.build(arch, classes=max(1, *heights.pop()))
    _check(model, weights, arch)
    return model


def _last_height(weights: Mapping[str, Tensor]) -> int:
    """Return the first dimension of the last matrix, or else of the last 1x1 convolution."""
    shapes = [tuple(tensor.shape) for tensor in reversed(list(weights.values()))]
    matrices = [shape[0] for shape in shapes if len(shape) == 2]
    pointwise = [shape[0] for shape in shapes if len(shape) == 4 and shape[2:] == (1, 1)]
    return max(1, next(iter(matrices + pointwise), 1))


def _reshaped(own: Mapping[str, Tensor], weights: Mapping[str, Tensor]) -> list[str]:
    return [key for key in own if key in weights and own[key].shape != weights[key].shape]


def _check(model: nn.Module, weights: Mapping[str, Tensor], arch: str) -> None:
    """Refuse weights that do not fit exactly, with what is missing, unexpected or of another shape."""
    own = model.state_dict()
    found = {
        "missing": [key for key in own if key not in weights],
        "unexpected": [key for key in weights if key not in own],
        "of another shape": [
            f"{key} {list(weights[key].shape)} instead of {list(own[key].shape)}" for key in _reshaped(own, weights)
        ],
    }
    parts = [f"{len(names)} {kind} ({', '.join(names[:3])})" for kind, names in found.items() if names]
    if parts:
        raise InputError(
            f"the state dict does not fit {arch}",
            expected=f"the {len(own)} tensors of {arch}, of the same shapes",
            got=one_line("; ".join(parts), 600),
            do="name the architecture that was trained, with its arguments (as in ?num_classes=10)",
        )


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
