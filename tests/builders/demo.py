"""The demonstration, really run, and the models that it made while the test split could not be read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

import sfra.demo.models as demo
import sfra.demo.story as story
from sfra.demo.models import NamedModel, digits_models, digits_tensors
from sfra.models.training.train import TensorData


@dataclass(frozen=True, kw_only=True)
class Made:
    """What training left."""

    models: list[NamedModel]
    """As the demonstration got them."""
    told: list[str]
    """What it heard while they were made."""


def make_demo(folder: Path) -> None:
    """Run the demonstration into ``folder/out`` and keep its models beside it; they take most of the time."""

    def kept(forget: tuple[int, ...], *, seed: int, progress: Callable[[str], None]) -> list[NamedModel]:
        told: list[str] = []

        def tell(name: str) -> None:
            told.append(name)
            progress(name)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(demo, "digits_tensors", _guarded)
            models = digits_models(forget, seed=seed, progress=tell)
        torch.save(Made(models=models, told=told), folder / "models.pt")
        return models

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(story, "digits_models", kept)
        story.run_demo(folder / "out")


def read_models(folder: str | Path) -> Made:
    """Read the models that :func:`make_demo` kept."""
    made = torch.load(Path(folder) / "models.pt", weights_only=False)
    assert isinstance(made, Made)
    return made


def _guarded(split: str) -> TensorData:
    assert split != "test"
    return digits_tensors(split)  # type: ignore[arg-type]
