"""How much a network forgets when no weight changes: passes over the forget class that only move batch-norm averages.

    python benchmarks/drift.py MODEL --recipe cifar10-resnet18-small --forget 0 1 2 --passes 3 --json out.json
    python benchmarks/drift.py MODEL --recipe cifar10-resnet18-small --forget 0 --audit cifar10-resnet18 --json out.json

A method that trains on the forget class alone, at a rate so low that its weights stay where they are, still leaves the
running means and variances of that class in every batch-norm layer. Here nothing else happens: batches of the forget
class go through the network in training mode, without a gradient. Test accuracies after each pass say what that does.
A network without batch norm comes out as it went in.

With ``--audit`` the network is audited after the last pass, with the settings of a protocol: is what RS finds in the
models of such a method more than this? The file is written anew after every class.
"""

from __future__ import annotations

import argparse
import copy
import json
import platform
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

import sfra
from recipes import open_split
from sfra import unlearn
from sfra.bench.protocol import load_protocol
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


def drifted(original: nn.Module, train: Samples, label: int, asked: argparse.Namespace) -> Iterator[nn.Module]:
    """Yield a copy of the network before the first pass and after each; it is the same object every time."""
    model, order = copy.deepcopy(original).eval(), torch.Generator().manual_seed(asked.seed)
    forget = View.where(train, train.labels == label)
    yield model
    for _ in range(asked.passes):
        drift(model, forget, asked.batch_size, order, asked.device)
        yield model


def rows(original: nn.Module, splits: Mapping[str, Samples], asked: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Yield test accuracies for each forget class before the first pass and after each."""
    for label in asked.forget:
        for done, model in enumerate(drifted(original, splits["train"], label, asked)):
            found = unlearn.measure(model, splits["test"], [label])
            yield {"forget": label, "passes": done, "retain": found.retain, "forget_accuracy": found.forget}


def audits(original: Checkpoint, train: Samples, asked: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Yield what an audit finds in the network after the last pass, for each forget class: a row per scale and rule."""
    protocol, network = load_protocol(asked.audit), original.model.to(asked.device)
    settings = {**protocol.audit, "scale": "canonical", "device": asked.device}
    for label in asked.forget:
        *_, model = drifted(network, train, label, asked)
        with tempfile.TemporaryDirectory() as folder:
            same = {name: getattr(original, name) for name in ("backbone", "classes", "preprocess", "class_names")}
            saved = save_model(f"{folder}/model", model, **same)
            found = sfra.audit(saved, forget=label, data=protocol.dataset, **settings).results
        yield from ({"forget": label, "passes": asked.passes} | row for row in found if row["variant"] == "released")


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
    parser.add_argument("--audit", metavar="PROTOCOL", help="audit after the last pass, with a protocol's settings")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    recipe, original = recipes.load(asked.recipe), load_model(asked.model)
    splits = {split: open_split(recipe, split, asked.device, asked.seed) for split in ("train", "test")}
    network = original.model.to(asked.device)
    made = audits(original, splits["train"], asked) if asked.audit else rows(network, splits, asked)
    machine = torch.cuda.get_device_name() if asked.device.startswith("cuda") else platform.machine()
    settings = {"recipe": recipe.name, "batch_size": asked.batch_size, "seed": asked.seed}
    content = {**settings, "machine": machine, "torch": torch.__version__, "rows": []}
    for row in made:
        content["rows"].append(row)
        print(json.dumps(row), flush=True)
        if asked.json is not None:
            write_text(asked.json, json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
