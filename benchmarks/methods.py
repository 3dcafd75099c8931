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
import sys
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
from sfra.unlearn.make import train_model, unlearn_model


def describe(model: Checkpoint, forget: list[int], asked: argparse.Namespace) -> dict[str, Any]:
    """Say how the model came about, and measure it on the test split."""
    images = load_data(asked.data, split="test")
    assert isinstance(images, ImageSet)
    facts = model.notes
    samples = open_samples(images, prepare=model.preprocess, device=asked.device)
    right = unlearn.predict(model.model.to(asked.device), samples) == samples.labels
    model.model.to("cpu")
    gone = torch.isin(samples.labels, torch.tensor(forget))
    return {
        "epochs": (facts.get("training") or facts.get("settings") or {}).get("epochs"),
        "kept_epoch": facts.get("epoch"),
        "validation": facts["validation"],
        "notes": facts.get("notes", []),
        "test": float(right.double().mean()),
        "test_retain": float(right[~gone].double().mean()),
        "test_forget": float(right[gone].double().mean()),
    }


def main() -> None:
    """Make the models and print a row for each; the file is written anew after each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="digits")
    parser.add_argument("--backbone", default="small-cnn")
    parser.add_argument("--recipe")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--forget", default="0", help="one class, or several as 1+6")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--methods", default=",".join(PUBLISHED))
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    recipe = recipes.load(asked.recipe) if asked.recipe else recipes.find(asked.data, asked.backbone)
    if recipe is None:
        raise SystemExit(f"there is no recipe for {asked.backbone} on {asked.data}: name one with --recipe")
    forget = [int(label) for label in asked.forget.split("+")]
    common: dict[str, Any] = {"data": asked.data, "recipe": recipe, "seed": asked.seed, "device": asked.device}
    machine = torch.cuda.get_device_name() if asked.device.startswith("cuda") else platform.processor()
    rows: list[dict[str, Any]] = []
    original: Checkpoint | None = None
    for name in ("original", *asked.methods.split(",")):
        began = time.perf_counter()
        try:
            if original is None:
                made = original = train_model(backbone=asked.backbone, **common)
            else:
                made = unlearn_model(original, method=name, forget=forget, **common)
            seconds = round(time.perf_counter() - began, 3)
            rows.append({"model": name, "seconds": seconds, **describe(made, forget, asked)})
        except SfraError as problem:
            if original is None:
                raise
            rows.append({"model": name, "failed": str(problem)})
        print(json.dumps(rows[-1]), flush=True)
        if asked.json is not None:
            told = {"command": " ".join(["python", *sys.argv]), "machine": machine, "torch": torch.__version__}
            asked.json.write_text(json.dumps({**told, "rows": rows}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
