"""What each kind of cell of the benchmark computes. Heavy packages are imported by the process that computes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfra.bench.cell import Cell
from sfra.bench.work import Context, work
from sfra.errors import InputError, NotFiniteError

if TYPE_CHECKING:
    from torch import nn

    from sfra.backbones.checkpoint import Checkpoint
    from sfra.data import FeatureSet, ImageSet, Split
    from sfra.head import Head
    from sfra.make import Made
    from sfra.recipes import Recipe

MODEL, FEATURES, HEAD = "model", "features.safetensors", "head.safetensors"
"""Names inside the folders of cells."""

DATA = "fingerprints"
"""Note of a model: what it was trained on, by split."""

FACTS = ("kind", "method", "epoch", "validation", "seconds", "device")
"""Notes of a model that its features carry along."""

SPLITS: tuple[Split, ...] = ("train", "validation", "test")

Inputs = Mapping[str, Path]


@work("train", version=1)
def train(cell: Cell, inputs: Inputs, out: Path, context: Context) -> dict[str, Any]:
    """Train an original, or a reference without some classes; a killed training goes on from its last epoch."""
    from sfra.make import train_model

    settings = cell.settings
    made = train_model(
        data=settings["data"],
        backbone=settings["backbone"],
        recipe=_recipe(settings),
        without=settings["without"],
        seed=settings["seed"],
        device=context.device,
        resume=context.scratch / "training.pt",
        progress=_tell(context),
    )
    return _keep(made, out, {split: _images(settings["data"], split).fingerprint for split in SPLITS})


@work("unlearn", version=1)
def unlearn(cell: Cell, inputs: Inputs, out: Path, context: Context) -> dict[str, Any]:
    """Unlearn some classes of the original by one method; the validation split picks the epoch."""
    from sfra.make import unlearn_model

    settings, original = cell.settings, _model(inputs["original"])
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
        progress=_tell(context),
    )
    return _keep(made, out, original.notes[DATA])


@work("mask", version=1)
def mask(cell: Cell, inputs: Inputs, out: Path, context: Context) -> dict[str, Any]:
    """Switch off the forget outputs of the original: the audit's positive control."""
    from sfra.unlearn import mask_head

    original = _model(inputs["original"])
    masked = mask_head(original.model, cell.settings["forget"])
    _save(replace(original, model=masked), out, original.notes[DATA])
    return {}


@work("features", version=1)
def features(cell: Cell, inputs: Inputs, out: Path, context: Context) -> dict[str, Any]:
    """Encode one split, keep features, labels and head, and count what the released head gets right."""
    import torch
    from safetensors.torch import save_file

    from sfra.data import extract_features
    from sfra.release import load

    images = _images(cell.settings["data"], cell.settings["split"])
    model = _model(inputs["model"])
    _check_data(model, images, cell.settings["split"])
    release = load(inputs["model"] / MODEL, device=context.device)
    if release.encoder is None:
        raise InputError("the model has no encoder", got=release.source)
    found = extract_features(
        release.encoder,
        images,
        model_fingerprint=release.fingerprint,
        preprocess=release.preprocess,
        progress=lambda done, total: context.progress(done, total, "encoding"),
        cache=False,
    )
    kept = found.features.to(getattr(torch, cell.settings["type"]))
    save_file({"features": kept.contiguous(), "labels": found.labels}, out / FEATURES)
    release.head.save(out / HEAD)
    counts = _hits(release.head, kept.float(), found.labels)
    made = {name: model.notes[name] for name in FACTS if name in model.notes}
    return {"class_names": _names(images), "model": made, **counts}


@work("audit", version=1)
def audit(cell: Cell, inputs: Inputs, out: Path, context: Context) -> dict[str, Any]:
    """Audit a head on its features, beside the audit of its reference."""
    from sfra.audit import audit as run
    from sfra.config import AuditConfig

    settings = {name: value for name, value in cell.settings["config"].items() if name not in ("kappa", "sweep")}
    head, test = read_features(inputs["test"])
    missing = cell.settings["missing_row"]
    report = run(
        _without_rows(head, cell.settings["forget"]) if missing else head,
        cell.settings["forget"],
        data=test,
        validation=read_features(inputs["validation"])[1],
        reference=inputs["reference"] / "audit.json" if "reference" in inputs else None,
        missing_row=missing,
        progress=_tell(context),
        config=AuditConfig(**{**settings, "budgets": tuple(settings["budgets"])}, device=context.device),
    )
    report.save(out)
    return {"verdict": report.verdict, "rs": report.rs, "delta_rs": report.delta_rs}


@work("pra", version=1)
def pra(cell: Cell, inputs: Inputs, out: Path, context: Context) -> dict[str, Any]:
    """Bring the class back with prototypes of real samples, for several draws of the samples."""
    from sfra.controls import pra as run

    (head, train_set), (_, test) = (read_features(inputs[split]) for split in ("train", "test"))
    settings = cell.settings
    rows = []
    for variant in settings["variants"]:
        for seed in range(settings["supports"]):
            made = run(head, train_set, settings["forget"], variant=variant, k=settings["k"], seed=seed)
            rows.append({"variant": variant, "support": seed, **asdict(made.measure(test))})
    return {"rows": rows}


@work("linear-probe", version=1)
def linear_probe(cell: Cell, inputs: Inputs, out: Path, context: Context) -> dict[str, Any]:
    """Train a fresh linear classifier on real features: what the encoder still tells apart."""
    from sfra.controls import linear_probe as run

    (head, train_set), (_, test) = (read_features(inputs[split]) for split in ("train", "test"))
    settings = {name: value for name, value in cell.settings.items() if name != "forget"}
    found = run(train_set, test, cell.settings["forget"], classes=head.classes, device=context.device, **settings)
    return {
        "forget_accuracy": found.forget_accuracy,
        "per_class": {str(label): accuracy for label, accuracy in found.per_class.items()},
        "retain_accuracy": found.retain_accuracy,
        "epoch": found.epoch,
    }


def _tell(context: Context) -> Callable[[str, int, int], None]:
    return lambda stage, done, total: context.progress(done, total, stage)


def read_features(folder: Path) -> tuple[Head, FeatureSet]:
    """Read the head and the features of a cell."""
    from sfra.data import FeatureSet
    from sfra.files import read_arrays
    from sfra.head import Head

    arrays = read_arrays(folder / FEATURES)
    data = FeatureSet(features=arrays["features"].float(), labels=arrays["labels"], source="stored features")
    return Head.load(folder / HEAD), data


def _recipe(settings: Mapping[str, Any]) -> Recipe:
    """Make a recipe of what the cell says, whatever the recipe's file holds by now."""
    from sfra.recipes import Recipe

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


def _keep(made: Made, out: Path, fingerprints: object) -> dict[str, Any]:
    _check_finite(made.checkpoint.model)
    _save(made.checkpoint, out, fingerprints)
    return dict(made.facts)


def _save(checkpoint: Checkpoint, out: Path, fingerprints: object) -> None:
    from sfra.backbones.checkpoint import save_model

    save_model(
        out / MODEL,
        checkpoint.model,
        backbone=checkpoint.backbone,
        classes=checkpoint.classes,
        preprocess=checkpoint.preprocess,
        class_names=checkpoint.class_names,
        notes={**checkpoint.notes, DATA: fingerprints},
    )


def _model(folder: Path) -> Checkpoint:
    from sfra.backbones.checkpoint import load_model

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


def _check_finite(model: nn.Module) -> None:
    import torch

    bad = [name for name, value in model.state_dict().items() if not bool(torch.isfinite(value).all())]
    if bad:
        raise NotFiniteError("the model is not finite", expected="finite weights", got=f"NaN or infinity in {bad[0]}")


def _hits(head: Head, found: Any, labels: Any) -> dict[str, Any]:
    """Count samples and correct answers of each class."""
    import torch

    right = torch.cat([head(part).argmax(1) for part in found.split(4096)]) == labels
    classes = head.classes
    return {
        "samples": torch.bincount(labels, minlength=classes).tolist(),
        "hits": torch.bincount(labels[right], minlength=classes).tolist(),
    }


def _names(images: ImageSet) -> list[str] | None:
    return list(images.class_names) if images.class_names else None


def _without_rows(head: Head, forget: list[int]) -> Head:
    from sfra.head import Head

    kept = [label for label in range(head.classes) if label not in forget]
    return Head(head.weight[kept], head.bias[kept])
