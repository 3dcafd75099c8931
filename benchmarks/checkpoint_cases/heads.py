"""Heads: a last layer alone, or found among others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from torch import nn

from checkpoint_cases.case import CLASSES, Made, Maker, Weights, add, behind, seeded


def head(name: str, write: Callable[[nn.Linear, Path], object], **options: Any) -> Maker:
    """Save a layer, alone or with others, to be audited as a head."""

    def make(folder: Path) -> Made:
        layer = seeded(lambda: nn.Linear(16, CLASSES))
        assert isinstance(layer, nn.Linear)
        write(layer, folder / name)
        return Made(source=folder / name, options=options, logits=layer, shape=(16,))

    return make


def arrays(layer: nn.Linear) -> dict[str, Any]:
    """Return weight and bias as arrays."""
    return {"weight": layer.weight.detach().numpy(), "bias": layer.bias.detach().numpy()}


def inner(layer: nn.Linear, name: str, last: str) -> Weights:
    """Put a layer among others: before one that is called ``last``."""
    other = {f"{last}.weight": torch.ones(9, CLASSES), f"{last}.bias": torch.ones(9)}
    return behind(f"{name}.", layer.state_dict()) | other


OTHER = torch.ones(9, CLASSES)


def few(outputs: int) -> Callable[[nn.Linear, Path], object]:
    """Save a layer with fewer outputs than an audit needs."""
    return lambda _, file: torch.save({"fc.weight": torch.ones(outputs, 8), "fc.bias": torch.ones(outputs)}, file)


add(
    "head, with features",
    {
        "`.npz` with `weight` and `bias`": head("head.npz", lambda layer, file: np.savez(file, **arrays(layer))),
        "`.safetensors` with `weight` and `bias`": head(
            "head.safetensors", lambda layer, file: save_file(layer.state_dict(), file)
        ),
        "a state dict without `--arch`: its last layer": head(
            "net.pth",
            lambda layer, file: torch.save(
                {"conv.weight": torch.ones(16, 3, 3, 3), **behind("fc.", layer.state_dict())}, file
            ),
        ),
        "a last layer without bias": (
            head(
                "net.pt", lambda layer, file: torch.save(behind("a.", layer.state_dict()) | {"b.weight": OTHER}, file)
            ),
            "--head-key b",
        ),
        "another layer, with `--head-key`": head(
            "net.pt", lambda layer, file: torch.save(inner(layer, "id", "attributes"), file), head_key="id"
        ),
        "safetensors without `--arch`, the layer called `fc`": head(
            "net.safetensors", lambda layer, file: save_file(inner(layer, "fc", "other"), file)
        ),
        "safetensors without `--arch`, no usual name": (
            head("net2.safetensors", lambda layer, file: save_file(inner(layer, "a", "b"), file)),
            "--head-key",
        ),
        "one output": (head("one.pt", few(1)), "one or two outputs cannot be audited"),
        "two outputs": (head("two.pt", few(2)), "one or two outputs cannot be audited"),
        "no linear layer": (
            head("conv.pt", lambda _, file: torch.save({"conv.weight": torch.ones(8, 3, 3, 3)}, file)),
            "--arch",
        ),
    },
)
