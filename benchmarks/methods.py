"""Seconds and accuracies of training and of every unlearning method, on one data set, backbone and device.

    python benchmarks/methods.py --data cifar10 --backbone resnet18-small --device cuda --forget 0 --json out.json

Each model is made as ``sfra train`` and ``sfra unlearn`` make it, with the recipe of the data set and backbone. Seconds
are wall-clock for the whole command (data onto the device, training or unlearning, validation), without the start of
Python. Test accuracies are measured afterwards and have no say in anything.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from pathlib import Path
from typing import Any

import torch

from sfra import unlearn
from sfra.bench.protocol import PUBLISHED
from sfra.core.errors import SfraError
from sfra.data import ImageSet, load_data, open_samples
from sfra.models import recipes
from sfra.models.backbones.checkpoint import Checkpoint
from sfra.unlearn.make import Made, train_model, unlearn_model


def main() -> None:
    """Make the models and print a row for each."""
    asked = arguments()
    recipe = recipes.load(asked.recipe) if asked.recipe else recipes.find(asked.data, asked.backbone)
    if recipe is None:
        raise SystemExit(f"there is no recipe for {asked.backbone} on {asked.data}: name one with --recipe")
    forget = [int(label) for label in asked.forget.split("+")]
    rows: list[dict[str, Any]] = []

    def note(name: str, made: Made, seconds: float) -> None:
        rows.append({"model": name, "seconds": round(seconds, 3), **facts(made), **accuracies(made, forget, asked)})
        print(json.dumps(rows[-1]), flush=True)
        keep(asked, recipe.name, rows)

    began = time.perf_counter()
    common: dict[str, Any] = {"data": asked.data, "recipe": recipe, "seed": asked.seed, "device": asked.device}
    original = train_model(backbone=asked.backbone, **common)
    note("original", original, time.perf_counter() - began)
    for name in asked.methods.split(","):
        began = time.perf_counter()
        try:
            made = unlearn_model(original.checkpoint, method=name, forget=forget, **common)
        except SfraError as problem:
            print(f"{name}: {problem}", flush=True)
            rows.append({"model": name, "failed": str(problem)})
            continue
        note(name, made, time.perf_counter() - began)


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="digits")
    parser.add_argument("--backbone", default="small-cnn")
    parser.add_argument("--recipe")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--forget", default="0", help="one class, or several as 1+6")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--methods", default=",".join(PUBLISHED))
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


def facts(made: Made) -> dict[str, Any]:
    """Pick what tells how the model came about."""
    training = made.facts.get("training") or made.facts.get("settings") or {}
    return {
        "epochs": training.get("epochs"),
        "kept_epoch": made.facts.get("epoch"),
        "validation": made.facts["validation"],
        "notes": made.facts.get("notes", []),
    }


def accuracies(made: Made, forget: list[int], asked: argparse.Namespace) -> dict[str, float]:
    """Measure on the test split."""
    images = load_data(asked.data, split="test")
    assert isinstance(images, ImageSet)
    model: Checkpoint = made.checkpoint
    samples = open_samples(images, prepare=model.preprocess, device=asked.device)
    right = unlearn.predict(model.model.to(asked.device), samples) == samples.labels
    model.model.to("cpu")
    gone = torch.isin(samples.labels, torch.tensor(forget))
    return {
        "test": float(right.double().mean()),
        "test_retain": float(right[~gone].double().mean()),
        "test_forget": float(right[gone].double().mean()),
    }


def keep(asked: argparse.Namespace, recipe: str, rows: list[dict[str, Any]]) -> None:
    """Write the rows so far."""
    if asked.json is None:
        return
    machine = torch.cuda.get_device_name() if asked.device.startswith("cuda") else platform.processor()
    content = {
        "command": f"python benchmarks/methods.py --data {asked.data} --backbone {asked.backbone} --recipe {recipe} "
        f"--device {asked.device} --forget {asked.forget} --seed {asked.seed}",
        "machine": machine,
        "torch": torch.__version__,
        "rows": rows,
    }
    asked.json.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
