"""What is measured of a model's features: the audit, and the two controls that see real samples."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfra.bench.engine.store import parse_cell
from sfra.bench.engine.task import Context, task
from sfra.bench.tasks.models import FEATURES, HEAD, Inputs, Settings, tell_stage

if TYPE_CHECKING:
    from sfra.core.head import Head
    from sfra.data import FeatureSet


@task("audit", version=1)
def audit(settings: Settings, inputs: Inputs, out: Path, context: Context) -> dict[str, Any]:
    """Audit a head on its features, beside the audit of its reference."""
    from sfra.auditing.audit import audit as run
    from sfra.auditing.config import LATER, AuditConfig

    config = {name: value for name, value in settings["config"].items() if name not in ("kappa", "sweep")}
    head, test = read_features(inputs["test"])
    missing = settings["missing_row"]
    report = run(
        without_rows(head, settings["forget"]) if missing else head,
        settings["forget"],
        data=test,
        validation=read_features(inputs["validation"])[1],
        reference=inputs["reference"] / "audit.json" if "reference" in inputs else None,
        missing_row=missing,
        self_controls=0,  # a protocol has controls of its own
        progress=tell_stage(context),
        config=AuditConfig(**{**LATER, **config, "budgets": tuple(config["budgets"])}, device=context.device),
    )
    report.save(out)
    return {"verdict": report.verdict, "rs": report.rs, "delta_rs": report.delta_rs}


@task("pra", version=1)
def pra(settings: Settings, inputs: Inputs, out: Path, context: Context) -> dict[str, Any]:
    """Bring the class back with prototypes of real samples, for several draws of the samples."""
    from sfra.controls import pra as run

    (head, train_set), (_, test) = (read_features(inputs[split]) for split in ("train", "test"))
    rows = []
    for variant in settings["variants"]:
        for seed in range(settings["supports"]):
            made = run(head, train_set, settings["forget"], variant=variant, k=settings["k"], seed=seed)
            rows.append({"variant": variant, "support": seed, **asdict(made.measure(test))})
    return {"rows": rows}


@task("linear-probe", version=1)
def linear_probe(settings: Settings, inputs: Inputs, out: Path, context: Context) -> dict[str, Any]:
    """Train a fresh linear classifier on real features: what the encoder still tells apart."""
    from sfra.controls import linear_probe as run

    (head, train_set), (_, test) = (read_features(inputs[split]) for split in ("train", "test"))
    chosen = {name: value for name, value in settings.items() if name != "forget"}
    found = run(train_set, test, settings["forget"], classes=head.classes, device=context.device, **chosen)
    return {
        "forget_accuracy": found.forget_accuracy,
        "per_class": {str(label): accuracy for label, accuracy in found.per_class.items()},
        "retain_accuracy": found.retain_accuracy,
        "epoch": found.epoch,
    }


def read_features(folder: Path) -> tuple[Head, FeatureSet]:
    """Read the head and the features of a cell, with the class names that its record holds."""
    from sfra.core.files import read_arrays
    from sfra.core.head import Head
    from sfra.data import FeatureSet

    arrays = read_arrays(folder / FEATURES)
    record = parse_cell(folder)
    names = record.result.get("class_names") if record is not None else None
    data = FeatureSet(
        features=arrays["features"].float(),
        labels=arrays["labels"],
        class_names=tuple(names) if names else None,
        source="stored features",
    )
    return Head.load(folder / HEAD), data


def without_rows(head: Head, forget: list[int]) -> Head:
    """Take the forget outputs off a head, as a release may come."""
    from sfra.core.head import Head

    kept = [label for label in range(head.classes) if label not in forget]
    return Head(head.weight[kept], head.bias[kept])
