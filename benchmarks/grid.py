"""The audits of the CIFAR-10 grid from stored heads and features, by the workers of the benchmark: for ``goals.py``.

The heads are those of ``reproduction/cifar10-resnet18``; time does not depend on the features, so they are made: 10,000
test and 2,500 validation vectors beside the row of their class. Models come with the audit of their reference, as in
the protocol.
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from typing import Any

import msgspec
import torch
from safetensors.torch import load_file, save_file

from gpu import share_gpu
from sfra.bench.engine.cell import Cell
from sfra.bench.engine.run import run
from sfra.bench.engine.store import Store
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


def seconds_of(audits: int, workers: int, settings: dict[str, Any], device: str) -> float:
    """Run audits of the grid in a temporary store, and return how long that took."""
    if device.startswith("cuda"):
        share_gpu()
    protocol = msgspec.structs.replace(load_protocol(PROTOCOL), audit=settings, controls=())
    goals = plan(protocol, {"what": "audit"})[:audits]
    with tempfile.TemporaryDirectory(prefix="sfra-grid-") as folder:
        store = Store(folder)
        fill(store, goals)
        done = run([goal.cell for goal in goals], store, workers=workers, devices=(device,))
        if not done.complete:
            raise SystemExit(f"the grid is not complete: {done}")
        return done.seconds
