"""Named architectures: what ``--arch`` and ``sfra train`` can build."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import nn

from sfra.core.errors import InputError, meant


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


_BACKBONES: dict[str, Backbone] = {}


def backbone(
    name: str, description: str, *, shape: tuple[int, int, int], any_size: bool = False
) -> Callable[[Callable[[int], nn.Module]], Callable[[int], nn.Module]]:
    """Register the decorated function, from a number of classes to a classifier, under a name."""

    def decorate(construct: Callable[[int], nn.Module]) -> Callable[[int], nn.Module]:
        register(
            Backbone(name=name, description=description, shape=shape, construct=construct, any_size=any_size),
        )
        return construct

    return decorate


def register(known: Backbone) -> None:
    """Add a backbone to those that can be built by name."""
    if known.name in _BACKBONES:
        raise ValueError(f"two backbones are called {known.name!r}: choose another name")
    _BACKBONES[known.name] = known


def build(
    name: str,
    *,
    classes: int,
    seed: int | None = None,
    pretrained: str | Path | None = None,
    keep_head: bool = False,
) -> nn.Module:
    """Build a classifier on the CPU, freshly initialised or with the encoder of a checkpoint.

    The weights are drawn from a state of their own, so the global random state stays as it was. The
    classifier maps images ``[n, c, h, w]`` to logits ``[n, classes]``, or to an object with ``.logits``.

    Args:
        name: One of :func:`names`.
        classes: Number of outputs.
        seed: Equal seeds give equal weights; None draws a new seed (for weights that are loaded afterwards).
        pretrained: A model directory, or the Hugging Face id (owner/name) of one, of the same architecture: all
            weights but those of the head are taken from it.
        keep_head: Take the head of ``pretrained`` too; it must have as many outputs.

    >>> build("small-cnn", classes=10, seed=0)(torch.zeros(2, 1, 8, 8)).shape
    torch.Size([2, 10])
    """
    known = find(name)
    if classes < 1:
        raise InputError("the classifier has no outputs", expected="at least 1 class", got=classes)
    if pretrained is not None:
        from sfra.models.backbones.start import start_from

        return start_from(known, pretrained, classes=classes, seed=seed, keep_head=keep_head)
    if keep_head:
        raise InputError("there is no head to keep", expected="pretrained=, the checkpoint that has it")
    with seeded(seed):
        return known.construct(classes)


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


def skeleton(known: Backbone, classes: int) -> dict[str, torch.Tensor]:
    """Return the state dict of a backbone without its numbers: names, shapes and types, whatever their size."""
    with torch.device("meta"):
        return dict(known.construct(classes).state_dict())


def head_names(known: Backbone) -> frozenset[str]:
    """Name the tensors whose shape depends on the number of classes: the head."""
    fewer, more = skeleton(known, 2), skeleton(known, 3)
    return frozenset(name for name in fewer if fewer[name].shape != more[name].shape)


def names() -> tuple[str, ...]:
    """Return the names of all backbones, sorted."""
    return tuple(sorted(_BACKBONES))


def input_shape(name: str) -> tuple[int, int, int]:
    """Return channels, height and width of the images a backbone is made for."""
    return find(name).shape


def describe(name: str) -> str:
    """Describe a backbone in one line."""
    return find(name).description


def find(name: str) -> Backbone:
    """Return a backbone by its name."""
    if name not in _BACKBONES:
        raise InputError(
            f"there is no backbone {name!r}",
            expected=f"one of {', '.join(names())}",
            got=name,
            do=meant(name, names()) or "choose one of sfra list backbones",
        )
    return _BACKBONES[name]
