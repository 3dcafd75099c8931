"""Small members of the three transformers families, registered for the length of a test; networks and images."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from sfra.models.backbones import build, huggingface, input_shape
from sfra.release import architecture

TINY: dict[str, dict[str, Any]] = {
    "tiny-resnet": {"family": "resnet", "embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1]},
    "tiny-vit": {
        "family": "vit",
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 24,
        "image_size": 16,
        "patch_size": 8,
    },
    "tiny-swin": {
        "family": "swin",
        "image_size": 16,
        "patch_size": 2,
        "embed_dim": 8,
        "depths": [1, 1],
        "num_heads": [1, 2],
        "window_size": 2,
    },
}


def add_tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Register them; the registry is put back by monkeypatch."""
    monkeypatch.setattr(architecture, "_BACKBONES", dict(architecture._BACKBONES))
    for name, settings in TINY.items():
        huggingface.add(name, f"{name}, for tests", shape=(3, 16, 16), **settings)


def run(model: nn.Module, images: Tensor) -> Tensor:
    """Return the logits in eval mode."""
    with torch.no_grad():
        output = model.eval()(images)
    logits = getattr(output, "logits", output)
    assert isinstance(logits, Tensor)
    return logits


def images(name: str, rows: int = 3) -> Tensor:
    """Random images of the right shape."""
    return torch.rand(rows, *input_shape(name), generator=torch.Generator().manual_seed(0))


def trained(name: str, *, classes: int = 4) -> nn.Module:
    """A network whose buffers are not those of a new one."""
    model = build(name, classes=classes, seed=1)
    model.train()(images(name, 6))
    return model


def edit(file: Path, **changes: Any) -> None:
    """Change a JSON file; the value None removes a key."""
    content = {**json.loads(file.read_text()), **changes}
    file.write_text(json.dumps({key: value for key, value in content.items() if value is not None}))
