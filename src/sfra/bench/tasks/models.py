"""Train, unlearn, mask and encode. Heavy packages are imported by the process that computes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfra.bench.engine.task import Context, task
from sfra.core.errors import InputError

if TYPE_CHECKING:
    from sfra.data import ImageSet, Split
    from sfra.models.backbones.checkpoint import Checkpoint
    from sfra.models.recipes import Recipe

MODEL, FEATURES, HEAD = "model", "features.safetensors", "head.safetensors"
"""Names inside the folders of cells."""

DATA = "fingerprints"
"""Note of a model: what it was trained on, by split."""

FACTS = ("kind", "method", "epoch", "validation", "seconds", "device")
"""Notes of a model that its features carry along."""

SPLITS: tuple[Split, ...] = ("train", "validation", "test")

Settings = dict[str, Any]
Inputs = Mapping[str, Path]


@task("train", version=1)
def train(settings: Settings, inputs: Inputs, out: Path, context: Context) -> dict[str, Any]:
    """Train an original, or a reference without some classes; a killed training goes on from its last epoch."""
    from sfra.unlearn.make import train_model

    made = train_model(
        data=settings["data"],
        backbone=settings["backbone"],
        recipe=_recipe(settings),
        without=settings["without"],
        seed=settings["seed"],
        device=context.device,
        resume=context.scratch / "training.pt",
        progress=tell_stage(context),
    )
    _save(made, out, {split: _images(settings["data"], split).fingerprint for split in SPLITS})
    return dict(made.notes)


@task("unlearn", version=1)
def unlearn(settings: Settings, inputs: Inputs, out: Path, context: Context) -> dict[str, Any]:
    """Unlearn some classes of the original by one method; the validation split picks the epoch."""
    from sfra.unlearn import source_of
    from sfra.unlearn.make import unlearn_model

    if settings.get("source") != source_of(settings["method"]):
        what = f"the file of {settings['method']} is another one than when this was planned"
        raise InputError(what, do="give the same command again")
    original = _model(inputs["original"])
    for split in ("train", "validation"):
        _check_data(original, _images(settings["data"], split), split)
    made = unlearn_model(
        original,
        data=settings["data"],
        method=settings["method"],
        forget=settings["forget"],
        recipe=_recipe({**settings, "backbone": original.backbone}),
        settings=settings["settings"],
        seed=settings["seed"],
        device=context.device,
        progress=tell_stage(context),
    )
    _save(made, out, original.notes[DATA])
    return dict(made.notes)


@task("mask", version=1)
def mask(settings: Settings, inputs: Inputs, out: Path, context: Context) -> dict[str, Any]:
    """Switch off the forget outputs of the original: the audit's positive control."""
    from sfra.unlearn import mask_head

    original = _model(inputs["original"])
    masked = mask_head(original.model, settings["forget"])
    _save(replace(original, model=masked), out, original.notes[DATA])
    return {}


@task("features", version=1)
def features(settings: Settings, inputs: Inputs, out: Path, context: Context) -> dict[str, Any]:
    """Encode one split, keep features, labels and head, and count what the released head gets right."""
    import torch
    from safetensors.torch import save_file

    from sfra.data import extract_features
    from sfra.release import load

    images = _images(settings["data"], settings["split"])
    model = _model(inputs["model"])
    _check_data(model, images, settings["split"])
    release = load(inputs["model"] / MODEL, device=context.device)
    if release.encoder is None:
        raise InputError("the model has no encoder", got=release.source)
    found = extract_features(
        release.encoder,
        images,
        model_fingerprint=release.fingerprint,
        preprocess=release.preprocess,
        progress=lambda _, done, total: context.progress(done, total, "encoding"),
        cache=False,
    )
    kept = found.features.to(getattr(torch, settings["type"]))
    save_file({"features": kept.contiguous(), "labels": found.labels}, out / FEATURES)
    release.head.save(out / HEAD)
    parts = kept.float().split(4096)  # type: ignore[no-untyped-call]
    right = torch.cat([release.head(part).argmax(1) for part in parts]) == found.labels
    classes = release.head.classes
    return {
        "class_names": list(images.class_names) if images.class_names else None,
        "model": {name: model.notes[name] for name in FACTS if name in model.notes},
        "samples": torch.bincount(found.labels, minlength=classes).tolist(),
        "hits": torch.bincount(found.labels[right], minlength=classes).tolist(),
    }


def tell_stage(context: Context) -> Callable[[str, int, int], None]:
    """Pass on what a public function tells of its progress."""
    return lambda stage, done, total: context.progress(done, total, stage)


def _recipe(settings: Mapping[str, Any]) -> Recipe:
    """Make a recipe of what the cell says, whatever the recipe's file holds by now."""
    from sfra.models.recipes import Recipe

    return Recipe(
        name="",
        dataset=settings["data"],
        backbone=settings["backbone"],
        pretrained=settings.get("pretrained"),
        training=settings.get("training", {}),
        preprocess=settings.get("preprocess", {}),
        augment=settings["augment"],
        methods={},
        sources={},
    )


def _save(checkpoint: Checkpoint, out: Path, fingerprints: object) -> None:
    replace(checkpoint, notes={**checkpoint.notes, DATA: fingerprints}).save(out / MODEL)


def _model(folder: Path) -> Checkpoint:
    from sfra.models.backbones.checkpoint import load_model

    return load_model(folder / MODEL)


def _images(data: str, split: Split) -> ImageSet:
    from sfra.data import ImageSet, load_data

    found = load_data(data, split=split)
    if not isinstance(found, ImageSet):
        raise InputError(f"{data} holds no images", expected="images to encode with every model", got="features")
    return found


def _check_data(model: Checkpoint, images: ImageSet, split: str) -> None:
    """Refuse data that are not those of the training: a data set may be exchanged between two runs."""
    known = model.notes.get(DATA)
    trained_on = known.get(split) if isinstance(known, dict) else None
    if trained_on != images.fingerprint:
        raise InputError(
            f"the data set is not the one that the model was trained on: {images.source}",
            expected=f"fingerprint {trained_on}",
            got=images.fingerprint,
            do="bring back the data set, or start a new store",
        )
