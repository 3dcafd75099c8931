"""Models for the demonstration: digits classifiers that forgot a class in different ways."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import torch
from safetensors.torch import save as dump_safetensors
from torch import nn

from sfra import unlearn
from sfra.core.cpu import one_thread
from sfra.core.files import write_atomically
from sfra.data import ImageSet, Split, load_data
from sfra.models import backbones
from sfra.models.training.train import TensorData, train

ARCH = "small-cnn"
"""Architecture of every model here, as ``--arch`` names it."""

TRAINING = unlearn.Retrained(epochs=40, learning_rate=0.1, batch_size=64)
"""How the original is trained, and the retrained ones: without the forget classes, from a new start."""

RECIPES: dict[str, tuple[unlearn.UnlearningMethod, ...]] = {
    "delete": tuple(unlearn.Delete(learning_rate=rate) for rate in (1e-3, 3e-3, 1e-2)),
    "bad-teacher": tuple(unlearn.BadTeacher(learning_rate=rate, epochs=10, batch_size=64) for rate in (1e-3, 1e-2)),
    "finetune": tuple(
        unlearn.Finetune(learning_rate=rate, epochs=12, batch_size=64, weight_decay=5e-4) for rate in (0.2, 0.5)
    ),
}
"""Candidates of each approximate method. The validation split picks one by AUS; no audit is asked."""

STORIES = {
    "delete": "the original's own answers, without the class",
    "bad-teacher": "an ignorant teacher for the class",
    "finetune": "trained on without the class, at a high rate",
}

Role = Literal["original", "reference", "release"]
"""A release is what an audit examines; the reference is what it is compared with."""


@dataclass(frozen=True, kw_only=True, eq=False)
class NamedModel:
    """A trained or unlearned model, with how it came about."""

    name: str
    """Also the name of its file."""
    role: Role
    """What it is for."""
    story: str
    """What was done, in a sentence."""
    model: nn.Module
    """In eval mode."""
    recipe: dict[str, object]
    """Every setting."""
    validation: unlearn.Quality
    """Accuracies and AUS on the validation split."""

    def save(self, folder: Path) -> Path:
        """Write the state dict to ``folder/NAME.safetensors`` and return the path."""
        path = folder / f"{self.name}.safetensors"
        tensors = {name: value.contiguous() for name, value in self.model.state_dict().items()}
        write_atomically(path, dump_safetensors(tensors, metadata={"arch": ARCH}))
        return path


def digits_models(
    forget: Sequence[int] = (7,), *, seed: int = 0, progress: Callable[[str], None] | None = None
) -> list[NamedModel]:
    """Train an original on the digits and make it forget, in five ways.

    The list: the ``original``; the ``reference``, retrained without the forget classes; and the releases:
    ``masked`` (hidden at the head by construction), ``delete`` and ``bad-teacher`` (approximate methods),
    ``finetune`` (a strong one) and ``retrained`` (an honest release: another retraining, from another seed
    than the reference). The seed is that of the original; the retrained models use the next two. ``progress`` is told
    the name of each model before it is made.
    """
    tell = progress or (lambda name: None)
    with one_thread():
        tell("original")
        data, validation = digits_tensors("train"), digits_tensors("validation")
        original = train(_build(seed), data, training=TRAINING, seed=seed)
        goal = unlearn.measure(original, validation, forget).retain
        made: list[NamedModel] = []

        def keep(name: str, role: Role, story: str, model: nn.Module, recipe: dict[str, object]) -> None:
            quality = unlearn.measure(model, validation, forget, retain_original=goal)
            one = NamedModel(name=name, role=role, story=story, model=model, recipe=recipe, validation=quality)
            made.append(one)

        def retrain(name: str, role: Role, own: int) -> None:
            tell(name)
            result = TRAINING(original, data, forget, rebuild=_build, seed=own)
            recipe = result.settings | {"method": result.method, "seed": own}
            keep(name, role, "trained anew without the class", result.model, recipe)

        keep("original", "original", "trained on every class", original, asdict(TRAINING))
        retrain("reference", "reference", seed + 1)
        tell("masked")
        masked = unlearn.mask_head(original, forget)
        keep("masked", "release", "the original with the class's output switched off", masked, {"method": "mask_head"})
        for name, story in STORIES.items():
            tell(name)
            found = unlearn.choose(
                RECIPES[name], original, data, forget, validation=validation, rebuild=_build, seed=seed
            )
            recipe = found.settings | {"method": found.method, "epoch": found.epoch, "seed": seed}
            keep(name, "release", story, found.model, recipe)
        retrain("retrained", "release", seed + 2)
    return made


def digits_tensors(split: Split) -> TensorData:
    """Load a split of the digits into memory."""
    images = load_data("digits", split=split)
    assert isinstance(images, ImageSet)
    return TensorData(torch.cat(list(images.batches(len(images)))), images.labels)


def _build(seed: int) -> nn.Module:
    return backbones.build(ARCH, classes=10, seed=seed)
