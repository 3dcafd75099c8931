"""A model that was made here, with the facts about how it came about."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from sfra._version import __version__
from sfra.data import ImageTensors
from sfra.models.backbones.checkpoint import Checkpoint, save_model
from sfra.models.recipes import Recipe
from sfra.models.training.train import Epoch
from sfra.release import Preprocess

Tell = Callable[[str, int, int], None]
"""Told the stage, how many parts of it are done, and of how many."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Made:
    """A new model, and how it came about."""

    checkpoint: Checkpoint
    """The model, on the CPU, with what is needed to use it; its notes are the facts."""
    facts: dict[str, Any]
    """Values of JSON: settings, seeds, accuracies on the validation split, history, seconds."""

    def __repr__(self) -> str:
        """Say what was made; the facts have all of it."""
        return f"Made({self.facts.get('kind')!r}, {self.checkpoint!r})"

    def save(self, folder: Path) -> Path:
        """Write a model directory that ``sfra audit`` and transformers can load."""
        made = self.checkpoint
        return save_model(
            folder,
            made.model,
            backbone=made.backbone,
            classes=made.classes,
            preprocess=made.preprocess,
            class_names=made.class_names,
            notes=made.notes,
        )


def noting(tell: Tell, stage: str, losses: list[float], notes: list[str]) -> Callable[[Epoch], None]:
    """Make a callback that keeps losses and notes, and tells the stage on."""

    def note(done: Epoch) -> None:
        losses.append(done.loss)
        if done.note:
            notes.append(done.note)
        tell("resuming" if done.resumed else stage, done.epoch, done.epochs)

    return note


def common_facts(data: str, recipe: Recipe | None, samples: ImageTensors, seed: int, device: str) -> dict[str, Any]:
    """List the facts that every model has."""
    return {
        "data": data,
        "recipe": None if recipe is None else recipe.name,
        "pretrained": None if recipe is None else recipe.pretrained,
        "preprocess": asdict(samples.prepare) if isinstance(samples.prepare, Preprocess) else None,
        "augment": None if samples.augment is None else asdict(samples.augment),
        "seed": seed,
        "device": device,
        "versions": {"sfra": __version__, "torch": torch.__version__},
    }


def silent(stage: str, done: int, total: int) -> None:
    """Tell nobody."""
