"""Time the audits of the CIFAR-10 grid from stored heads and features, by the workers of the benchmark.

    python benchmarks/grid.py                        # 110 audits with the default settings
    python benchmarks/grid.py --audits 20 --epochs 500
    python benchmarks/grid.py --device cuda --workers 8

The heads are those of ``reproduction/cifar10-resnet18``; time does not depend on the features, so they are made: 10,000
test and 2,500 validation vectors beside the row of their class. Models come with the audit of their reference, as in
the protocol. Prints the seconds of the whole run and of the audits in it.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import msgspec
import torch
from safetensors.torch import load_file, save_file

from sfra.bench.engine.cell import Cell
from sfra.bench.engine.pool import cores
from sfra.bench.engine.run import run
from sfra.bench.engine.store import Store
from sfra.bench.engine.summary import Summary
from sfra.bench.plan import Goal, plan
from sfra.bench.protocol import load_protocol
from sfra.bench.tasks.models import FEATURES, HEAD
from sfra.core.head import Head
from sfra.data import FeatureSet

PROTOCOL = "cifar10-resnet18"
HEADS = Path(__file__).parents[1] / "reproduction" / PROTOCOL / "heads.safetensors"
SIZES = {"test": 10_000, "validation": 2500}


def made_features(head: Head, count: int) -> FeatureSet:
    """Make normal vectors around the rows of their classes."""
    labels = torch.arange(count) % head.classes
    rows = torch.nn.functional.normalize(head.weight - head.weight.mean(0), dim=1)
    noise = torch.randn(count, head.width, generator=torch.Generator().manual_seed(0))
    return FeatureSet(features=noise / 10 + rows[labels], labels=labels)


def store_features(store: Store, cell: Cell, head: Head, split: str) -> None:
    """Write what the encoder would have left: a head and its features."""
    made, draft = made_features(head, SIZES[split]), store.draft(cell)
    save_file({"features": made.features.half(), "labels": made.labels}, draft / FEATURES)
    head.save(draft / HEAD)
    facts = {"result": {}, "seconds": 0.0, "host": "here", "pid": os.getpid(), "device": "cpu", "versions": {}}
    store.publish(cell, draft, {**facts, "finished": time.time()})


def fill(store: Store, goals: list[Goal]) -> None:
    """Store heads and features of all goals and of their references."""
    heads = load_file(HEADS)
    for goal in goals:
        forget = goal.identity["forget"]
        named = {goal.identity["method"]: goal.cell, "retrained": goal.cell.needs.get("reference", goal.cell)}
        for method, cell in named.items():
            weight, bias = (heads[f"{method}-{forget}.{name}"] for name in ("weight", "bias"))
            for split in SIZES:
                if not store.is_done(cell.needs[split]):
                    store_features(store, cell.needs[split], Head(weight, bias), split)


def timed(audits: int, workers: int, settings: dict[str, Any], device: str = "cpu") -> tuple[Summary, list[float]]:
    """Run audits of the grid in a temporary store; returns how that went, and the seconds of each."""
    protocol = msgspec.structs.replace(load_protocol(PROTOCOL), audit=settings, controls=())
    goals = plan(protocol, {"what": "audit"})[:audits]
    with tempfile.TemporaryDirectory(prefix="sfra-grid-") as folder:
        store = Store(folder)
        fill(store, goals)
        done = run([goal.cell for goal in goals], store, workers=workers, devices=(device,))
        return done, [record.seconds for record in store.records("audit")]


def main() -> None:
    """Print what the grid and its audits took."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--audits", type=int, default=110)
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--scale", default="canonical")
    parser.add_argument("--workers", type=int, default=cores())
    parser.add_argument("--device", default="cpu")
    asked = parser.parse_args()
    settings = {"epochs": asked.epochs, "seeds": asked.seeds, "scale": asked.scale}
    done, spent = timed(asked.audits, asked.workers, settings, asked.device)
    print(
        f"{len(done.computed)} audits, {len(done.failed)} failed, {settings}, {asked.workers} workers, {asked.device}"
    )
    print(f"{done.seconds:.1f} s, {sum(spent):.1f} s of workers in audits, {sum(spent) / len(spent):.2f} s each")


if __name__ == "__main__":
    main()
