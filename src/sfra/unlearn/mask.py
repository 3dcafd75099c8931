"""The positive control: a class hidden at the head, and nowhere else."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, overload

import torch
from torch import nn

from sfra.core.errors import InputError
from sfra.core.head import Head
from sfra.unlearn.base import Checkpoint, UnlearningMethod
from sfra.unlearn.registry import register
from sfra.unlearn.task import Task

HIDING_BIAS = -15.0
"""Bias of a masked output: low enough never to win."""


@overload
def mask_head(source: Head, forget: Sequence[int], *, layer: str | None = None) -> Head: ...
@overload
def mask_head(source: nn.Module, forget: Sequence[int], *, layer: str | None = None) -> nn.Module: ...
def mask_head(source: Head | nn.Module, forget: Sequence[int], *, layer: str | None = None) -> Head | nn.Module:
    """Hide the forget classes by a zero row and a bias of -15, in a copy of a head or of a whole model.

    Everything else stays, so the class is hidden by construction and a sound audit must bring it back.

    Args:
        source: A head, or a classifier whose last linear layer is its head.
        forget: The classes to hide.
        layer: Name of the model's head layer, where it is not the last ``nn.Linear``.

    >>> head = mask_head(Head(torch.eye(3)), [1])
    >>> head(torch.tensor([[0.0, 9.0, 0.0]])).tolist()
    [[0.0, -15.0, 0.0]]
    """
    copied = copy.deepcopy(source)
    head = copied if isinstance(copied, Head) else head_layer(copied, layer)[1]
    if not forget or not all(0 <= label < len(head.bias) for label in forget):
        raise InputError(
            "the classes to hide are not outputs of the head",
            expected=f"one or more of 0 to {len(head.bias) - 1}",
            got=list(forget),
        )
    with torch.no_grad():
        head.weight[list(forget)], head.bias[list(forget)] = 0.0, HIDING_BIAS
    return Head(copied.weight, copied.bias) if isinstance(copied, Head) else copied.eval()


def head_layer(model: nn.Module, layer: str | None) -> tuple[str, nn.Linear]:
    """Find the named layer, or the last linear one, and its name."""
    linear = {name: module for name, module in model.named_modules() if isinstance(module, nn.Linear)}
    name = layer if layer is not None else next(reversed(linear), "")
    if name not in linear or linear[name].bias is None:
        raise InputError(
            "the model's head cannot be masked",
            expected="a linear layer with a bias",
            got=f"{name or 'no linear layer'}; linear layers: {', '.join(linear) or 'none'}",
            do="name the head with layer=, or mask the Head of the loaded release",
        )
    return name, linear[name]


@register("masked")
@dataclass(frozen=True, kw_only=True)
class Masked(UnlearningMethod):
    """Switch the output of the class off, and leave everything else: a control, not a method.

    The class is hidden by construction, so a sound audit brings it back. Nothing is trained.
    """

    needs: ClassVar[tuple[str, ...]] = ("forget",)

    epochs: int = 1
    batch_size: int = 1
    learning_rate: float = 1.0

    def run(self, task: Task) -> Iterator[Checkpoint]:
        """Mask the head once."""
        yield Checkpoint(1, 0.0, mask_head(task.student, task.forget_classes))
