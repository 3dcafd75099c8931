"""Inputs to watch a model with: the caller's, the shape its configuration names, or a usual one."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

from sfra.core.errors import InputError

USUAL_SHAPES = ((3, 224, 224), (3, 32, 32), (3, 64, 64), (1, 28, 28), (1, 8, 8))
"""Channels, height and width of one input, tried in this order."""

LARGEST = 3 * 2048 * 2048
"""Numbers in one input above which a shape named by a file is not believed."""


def batches(model: nn.Module, example: Tensor | None, shapes: Sequence[tuple[int, ...]]) -> Iterator[Tensor]:
    """Yield batches to try, in order: the caller's example alone, or noise of each plausible shape."""
    if example is not None:
        yield two_rows(example)
        return
    known = [*shapes, *_configured(model), *USUAL_SHAPES, *_vectors(model)]
    for shape in dict.fromkeys(known):
        if min(shape) > 0 and math.prod(shape) <= LARGEST:
            yield noise((2, *shape))


def two_rows(example: Tensor) -> Tensor:
    """Take at most four rows of a batch; a single row gets its mirror image as company.

    With two rows a model that drops dimensions of size one (``squeeze``) still shows its true shapes.
    """
    if example.ndim < 2 or example.numel() == 0:
        raise InputError(
            "the example is not a batch",
            expected="a tensor [n, ...] with at least one input",
            got=f"shape {list(example.shape)}",
            do="add a first dimension: example.unsqueeze(0)",
        )
    return example[:4] if len(example) > 1 else torch.cat([example, example.flip(-1)])


def noise(shape: Sequence[int]) -> Tensor:
    """Draw numbers as a normalised image has them, the same every time."""
    return torch.randn(*shape, device="cpu", generator=torch.Generator().manual_seed(0))


def _configured(model: nn.Module) -> Iterator[tuple[int, ...]]:
    """Yield the input shape that a transformers or a timm model carries."""
    config = getattr(model, "config", None)
    for part in (config, getattr(config, "vision_config", None)):
        side, channels = getattr(part, "image_size", None), getattr(part, "num_channels", 3)
        sides = (side, side) if isinstance(side, int) else side
        if isinstance(sides, list | tuple) and all(isinstance(x, int) for x in (*sides, channels)):
            yield (channels, *sides)
    timm = getattr(model, "pretrained_cfg", None)
    if isinstance(timm, dict) and isinstance(timm.get("input_size"), list | tuple):
        yield tuple(timm["input_size"])


def _vectors(model: nn.Module) -> Iterator[tuple[int, ...]]:
    """Yield the width of the first linear layer: the model may take plain vectors."""
    first = next((module for module in model.modules() if isinstance(module, nn.Linear)), None)
    if first is not None:
        yield (first.in_features,)
