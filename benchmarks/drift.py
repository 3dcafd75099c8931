"""How much a network forgets when no weight changes: passes over the forget class that only move batch-norm averages.

    python benchmarks/drift.py MODEL --recipe cifar10-resnet18-small --forget 0 1 2 --passes 3 --json out.json
    python benchmarks/drift.py MODEL --recipe cifar10-resnet18-small --forget 0 --out drifted  # sfra audit drifted/0

A method that trains on the forget class alone, at a rate so low that its weights stay where they are, still leaves the
running means and variances of that class in every batch-norm layer. Here nothing else happens: batches of the forget
class go through the network in training mode, without a gradient. Test accuracies after each pass say what that does.
A network without batch norm comes out as it went in. The file is written anew after every pass.
"""

from __future__ import annotations

import argparse
import copy
import json
import platform
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from recipes import open_split
from sfra import unlearn
from sfra.core.files import write_text
from sfra.models import recipes
from sfra.models.backbones.checkpoint import Checkpoint, load_model, save_model
from sfra.models.training.train import Samples, logits, shuffled
from sfra.unlearn.task import View


@torch.no_grad()
def drift(model: nn.Module, data: Samples, batch_size: int, order: torch.Generator, device: str) -> None:
    """Pass over data once, in a random order, so that batch-norm layers average over it."""
    model.train()
    for images, _ in shuffled(data, batch_size, generator=order, device=torch.device(device)):
        logits(model, images)
    model.eval()


def rows(original: Checkpoint, splits: Mapping[str, Samples], asked: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Yield test accuracies for each forget class before the first pass and after each; save the last network."""
    for label in asked.forget:
        model = copy.deepcopy(original.model).to(asked.device).eval()
        order = torch.Generator().manual_seed(asked.seed)
        forget = View.where(splits["train"], splits["train"].labels == label)
        for done in range(asked.passes + 1):
            if done:
                drift(model, forget, asked.batch_size, order, asked.device)
            found = unlearn.measure(model, splits["test"], [label])
            yield {"forget": label, "passes": done, "retain": found.retain, "forget_accuracy": found.forget}
        if asked.out is not None:
            same = {name: getattr(original, name) for name in ("backbone", "classes", "preprocess", "class_names")}
            save_model(asked.out / str(label), model.cpu(), **same)


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, help="model directory of the original")
    parser.add_argument("--recipe", required=True)
    parser.add_argument("--forget", type=int, nargs="+", default=[0])
    parser.add_argument("--passes", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="folder for the networks after the last pass, by forget class")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    recipe = recipes.load(asked.recipe)
    splits = {split: open_split(recipe, split, asked.device, asked.seed) for split in ("train", "test")}
    machine = torch.cuda.get_device_name() if asked.device.startswith("cuda") else platform.machine()
    settings = {"recipe": recipe.name, "batch_size": asked.batch_size, "seed": asked.seed}
    content = {**settings, "machine": machine, "torch": torch.__version__, "rows": []}
    for row in rows(load_model(asked.model), splits, asked):
        content["rows"].append(row)
        print(json.dumps(row), flush=True)
        if asked.json is not None:
            write_text(asked.json, json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
