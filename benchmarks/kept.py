"""Audit the kept models of a group again with another proposal, score, forget row or scale; no encoder, no GPU.

    python benchmarks/kept.py --group cifar10-resnet18-224 --out reproduction/cifar10-resnet18-224/kept.csv
    python benchmarks/kept.py --group cifar10-vit-small --only scales --out reproduction/cifar10-vit-small/kept.csv

Models are those of ``reproduction/GROUP/models``: heads as they were audited, and test features of 100 samples of the
class and 10 of every other one. So rows are compared with one another, ``main`` among them, rather than with those of
``audits.csv``, which rest on the whole test set. The first command takes 45 minutes of one core; a stopped run goes on
where it was.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from reproduction.keep import COLUMNS
from reproduction.leaderboard import models_folder
from reproduction.rows import Group
from sfra import audit
from sfra.attack.scale import KAPPA
from sfra.core.errors import InputError
from stored import Stored, append, done, find_models, read_model, without

SETTINGS: dict[str, Any] = {"n": 500_000, "m": 500, "epochs": 500, "self_controls": 0, "threads": 1}
SEEDS = 3
VARIED: dict[str, tuple[dict[str, Any], ...]] = {
    "main": ({},),
    "scores": ({"score": "entropy"}, {"score": "energy"}),
    "missing row": ({"missing_row": True},),
    "proposals": ({"proposal": "uniform"}, {"proposal": "laplace"}),
    "support": ({"proposal": "relu-gaussian"}, {"proposal": "abs-gaussian"}),
    "scales": tuple({"scale": round(KAPPA * 2 ** (step / 2), 3)} for step in range(-4, 1)),
}
"""What is varied, by the name of the ablation; another proposal or scale has one seed, as in the protocols."""
USUAL = tuple(name for name in VARIED if name != "scales")


def rows(model: Stored, name: str, varied: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Audit a model; a row for each scale and rule, with the forget row as released or restored."""
    assert model.forget is not None
    head, test = read_model(model.folder)
    shown = without(head, [model.forget]) if "missing_row" in varied else head
    seeds = 1 if {"proposal", "scale"} & set(varied) else SEEDS
    report = audit(shown, model.forget, data=test, seeds=seeds, **SETTINGS, **varied)
    told = {"seed": 0, "method": model.name, "forget": model.forget, "audit": name}
    told["varied"] = " ".join(f"{key}={value}" for key, value in varied.items())
    for score in report.results:
        if score.variant != "reset-row" and varied.get("scale", score.kappa) == score.kappa:
            numbers = {column: getattr(score, column, None) for column in COLUMNS["audits"] if column not in told}
            texts = {key: round(value, 5) if isinstance(value, float) else value for key, value in numbers.items()}
            yield {**told, **texts}


def main() -> None:
    """Read the command line and audit what the table lacks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--group", type=Group, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", nargs="+", choices=VARIED, default=USUAL, help="what is varied; all but the scale")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    known = done(asked.out, "method", "forget", "audit", "varied")
    for name, variants in ((name, VARIED[name]) for name in asked.only):
        for model in find_models(models_folder(asked.group)):
            for varied in variants if name != "support" or model.name == "bad-teacher" else ():
                label = " ".join(f"{key}={value}" for key, value in varied.items())
                if (model.name, str(model.forget), name, label) in known:
                    continue
                began = time.process_time()
                try:
                    found = list(rows(model, name, varied))
                except InputError as error:  # too few draws fall into a class
                    print(f"{model.folder.name}, {label}: {error}", flush=True)
                    continue
                told = [{"protocol": f"{asked.group.name}-kept", **row} for row in found]
                append(asked.out, told, ("protocol", *COLUMNS["audits"]))
                print(f"{model.folder.name}, {label or name}: {time.process_time() - began:.0f} CPU s", flush=True)


if __name__ == "__main__":
    main()
