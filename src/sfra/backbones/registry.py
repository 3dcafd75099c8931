"""Named architectures: what ``--arch`` and ``sfra train`` can build."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

from sfra.errors import InputError


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
    """Number of classes to a freshly initialised classifier."""


_BACKBONES: dict[str, Backbone] = {}


def backbone(
    name: str, description: str, *, shape: tuple[int, int, int]
) -> Callable[[Callable[[int], nn.Module]], Callable[[int], nn.Module]]:
    """Register the decorated function, from a number of classes to a classifier, under a name."""

    def register(construct: Callable[[int], nn.Module]) -> Callable[[int], nn.Module]:
        if name in _BACKBONES:
            raise ValueError(f"two backbones are called {name!r}: choose another name")
        _BACKBONES[name] = Backbone(name=name, description=description, shape=shape, construct=construct)
        return construct

    return register


def build(name: str, *, classes: int, seed: int | None = None) -> nn.Module:
    """Build a freshly initialised classifier on the CPU.

    The weights are drawn from a state of their own, so the global random state stays as it was. The
    classifier maps images ``[n, c, h, w]`` to logits ``[n, classes]``, or to an object with ``.logits``.

    Args:
        name: One of :func:`names`.
        classes: Number of outputs.
        seed: Equal seeds give equal weights; None draws a new seed (for weights that are loaded afterwards).

    >>> build("small-cnn", classes=10, seed=0)(torch.zeros(2, 1, 8, 8)).shape
    torch.Size([2, 10])
    """
    known = _find(name)
    if classes < 1:
        raise InputError("the classifier has no outputs", expected="at least 1 class", got=classes)
    # torch.manual_seed would reseed every accelerator too: only the CPU's generator is forked and used here.
    with torch.random.fork_rng(devices=[]), torch.device("cpu"):
        if seed is None:
            torch.default_generator.seed()
        else:
            torch.default_generator.manual_seed(seed)
        return known.construct(classes)


def names() -> tuple[str, ...]:
    """Return the names of all backbones, sorted."""
    return tuple(sorted(_BACKBONES))


def input_shape(name: str) -> tuple[int, int, int]:
    """Return channels, height and width of the images a backbone is made for."""
    return _find(name).shape


def describe(name: str) -> str:
    """Describe a backbone in one line."""
    return _find(name).description


def _find(name: str) -> Backbone:
    if name not in _BACKBONES:
        raise InputError(f"there is no backbone {name!r}", expected=f"one of {', '.join(names())}", got=name)
    return _BACKBONES[name]
