"""Choose the hyper-parameters of a recipe's unlearning methods, by how well they unlearn.

Every method is tried at multiples of its published learning rate, with a few variants; what the recipe says besides
(batch size, epochs) is kept. A candidate is judged by its AUS on the validation split, averaged over the forget sets;
the first of equals wins, and the multiples nearest to 1 come first. Neither test data nor an audit is used. One that
diverges is out. ``--candidates FILE`` names the settings to try instead, as TOML: lists of tables under each method.
Candidates that the CSV holds from an earlier search of the same method take part again.

    python benchmarks/recipes.py digits-small-cnn --forget 0 3 7 1+6 --out benchmarks/recipes
    python benchmarks/recipes.py digits-small-cnn --forget 0 3 7 1+6 --check   # test accuracies of the recipe as it is
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import sys
import time
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from sfra import unlearn
from sfra.core.errors import InputError
from sfra.data import Augment, ImageSet, Split, load_data, open_samples
from sfra.models import backbones, recipes
from sfra.models.backbones.checkpoint import load_model
from sfra.models.training.train import Samples, train
from sfra.release import Preprocess
from stored import append

FACTORS: dict[str, tuple[float, ...]] = {
    "bad-teacher": (1, 3, 10, 30, 100),
    "boundary-shrink": (1, 10, 30, 100, 300),
    "finetune": (1, 3, 10, 30),
    "learn-to-unlearn": (0.01, 0.03, 0.1, 0.3, 1),
    "negative-gradient": (0.1, 0.3, 1, 3, 10),
    "negative-gradient-plus": (0.3, 1, 3, 10),
    "salun": (0.3, 1, 3, 10),
}
"""Multiples of the published learning rate, where they are not the usual ones."""

USUAL_FACTORS = (0.3, 1, 3, 10, 30)
STILL = {"freeze_batch_norm": True}
VARIANTS: dict[str, tuple[dict[str, Any], ...]] = {
    "boundary-shrink": ({}, STILL),
    "delete": ({}, STILL),
    "finetune": ({}, {"weight_decay": 5e-4}, {"weight_decay": 5e-3}),
    "learn-to-unlearn": ({}, STILL | {"optimizer": "adam"}),
    "negative-gradient": ({}, STILL | {"optimizer": "adam"}),
    "negative-gradient-plus": ({}, {"alpha": 0.99}),
    "random-label": ({}, STILL),
}
"""Settings tried at every rate, the published ones first."""

Row = dict[str, Any]
"""A candidate on one forget set, as the CSV has it."""

COLUMNS = ("method", "settings", "forget", "aus", "retain", "forget_accuracy", "epoch", "seconds", "chosen", "note")


@dataclass(frozen=True, kw_only=True)
class Lab:
    """The original and its data."""

    recipe: recipes.Recipe
    original: nn.Module
    data: dict[str, Samples]
    device: str
    seed: int

    def rebuild(self, seed: int) -> nn.Module:
        """Make the untrained architecture."""
        return backbones.build(self.recipe.backbone, classes=int(self.data["train"].labels.max()) + 1, seed=seed)

    def clock(self) -> float:
        """Count seconds: of this process alone on a CPU, which others may be using, else of the clock."""
        return time.process_time() if self.device == "cpu" else time.perf_counter()

    def unlearn(self, method: str, settings: dict[str, Any], forget: tuple[int, ...]) -> unlearn.Unlearned:
        """Run one candidate on one forget set."""
        common: dict[str, Any] = {"validation": self.data["validation"], "seed": self.seed, "device": self.device}
        method_ = unlearn.get(method)(**settings)
        return method_(self.original, self.data["train"], forget, rebuild=self.rebuild, **common)


def open_split(recipe: recipes.Recipe, split: Split, device: str, seed: int) -> Samples:
    """Load a split as training sees it: training images are augmented."""
    images = load_data(recipe.dataset, split=split)
    assert isinstance(images, ImageSet)
    prepare = Preprocess(**recipe.preprocess) if recipe.preprocess else None
    augment = Augment(**recipe.augment) if recipe.augment is not None and split == "train" else None
    return open_samples(images, prepare=prepare, augment=augment, seed=seed, device=device)


def open_lab(recipe: recipes.Recipe, checkpoint: Path | None, device: str, seed: int) -> Lab:
    """Load the data, and load or train the original."""
    data = {split: open_split(recipe, split, device, seed) for split in ("train", "validation", "test")}
    if checkpoint is not None:
        original = load_model(checkpoint).model
    elif recipe.pretrained is not None:
        raise InputError("this recipe starts from other weights", do="train an original first, then pass --original")
    else:
        start = backbones.build(recipe.backbone, classes=int(data["train"].labels.max()) + 1, seed=seed)
        original = train(start, data["train"], seed=seed, device=device, **recipe.training)
    return Lab(recipe=recipe, original=original.to(device), data=data, device=device, seed=seed)


def candidates(recipe: recipes.Recipe, method: str, factors: Sequence[float]) -> Iterator[dict[str, Any]]:
    """Yield settings around the published ones, the nearest first."""
    published = unlearn.describe(method).settings["learning_rate"]
    assert isinstance(published, float)
    variants = list(VARIANTS.get(method, ({},)))
    if not any(isinstance(part, _BatchNorm) for part in backbones.build(recipe.backbone, classes=2).modules()):
        variants = [{k: v for k, v in variant.items() if k != "freeze_batch_norm"} for variant in variants]
        variants = [variant for i, variant in enumerate(variants) if variant not in variants[:i]]
    varied = {"learning_rate", *(key for variant in variants for key in variant)}
    kept = {key: value for key, value in recipe.methods.get(method, {}).items() if key not in varied}
    for factor in sorted(factors, key=lambda f: (abs(math.log(f)), f)):
        for variant in variants:
            yield kept | {"learning_rate": float(f"{published * factor:.3g}")} | variant


def judge(lab: Lab, method: str, settings: dict[str, Any], forgets: list[tuple[int, ...]]) -> list[Row]:
    """Run one candidate on every forget set, until it diverges."""
    rows: list[Row] = []
    for forget in forgets:
        row: Row = {"method": method, "settings": json.dumps(settings), "forget": "+".join(map(str, forget))}
        start = lab.clock()
        try:
            result = lab.unlearn(method, settings, forget)
        except InputError as problem:
            return [*rows, row | {"note": problem.what}]
        quality = result.quality
        assert quality is not None
        row |= {"aus": f"{quality.aus:.4f}", "retain": f"{quality.retain:.4f}"}
        row |= {"forget_accuracy": f"{quality.forget:.4f}", "epoch": result.epoch}
        rows.append(row | {"seconds": f"{lab.clock() - start:.2f}"})
    return rows


def mean_aus(rows: list[Row]) -> float:
    """Average a candidate's AUS; one that diverged somewhere is worse than any."""
    return -math.inf if any("note" in row for row in rows) else sum(float(row["aus"]) for row in rows) / len(rows)


def block(method: str, settings: dict[str, Any]) -> str:
    """Write what differs from the published defaults as TOML."""
    defaults = unlearn.describe(method).settings
    lines = [f"{key} = {json.dumps(value)}" for key, value in settings.items() if value != defaults.get(key)]
    return "\n".join([f"[methods.{method}]", *lines, ""])


def search(
    lab: Lab, method: str, forgets: list[tuple[int, ...]], settings_tried: Iterable[dict[str, Any]], old: list[Row]
) -> list[Row]:
    """Try candidates of a method, print the best of these and of earlier ones as TOML and return all rows.

    Earlier ones take part again where they were judged on the same forget sets, or diverged.
    """
    earlier: dict[str, list[Row]] = {}
    for row in old:
        if row["method"] == method:
            earlier.setdefault(row["settings"], []).append({name: value for name, value in row.items() if value})
    wanted = ["+".join(map(str, forget)) for forget in forgets]
    usable = [rows for rows in earlier.values() if [row["forget"] for row in rows] == wanted or "note" in rows[-1]]
    tried = [(json.loads(rows[0]["settings"]), rows) for rows in usable]
    for settings in settings_tried:
        if settings not in (known for known, _ in tried):
            tried.append((settings, judge(lab, method, settings, forgets)))
            print(f"  {mean_aus(tried[-1][1]):.4f} {method} {settings}", file=sys.stderr, flush=True)
    best = max(range(len(tried)), key=lambda i: mean_aus(tried[i][1]))
    print(block(method, tried[best][0]), flush=True)
    return [row | {"chosen": "yes" if i == best else ""} for i, (_, rows) in enumerate(tried) for row in rows]


def check(lab: Lab, methods: Sequence[str], forgets: list[tuple[int, ...]]) -> None:
    """Print test accuracies of the recipe as it stands: forget / points of retain lost (kept epoch, seconds)."""
    print("| method | " + " | ".join("+".join(map(str, forget)) for forget in forgets) + " |")
    print("|---" * (len(forgets) + 1) + "|")
    for method in methods:
        cells = []
        for forget in forgets:
            start = lab.clock()
            result = lab.unlearn(method, lab.recipe.methods.get(method, {}), forget)
            seconds = lab.clock() - start
            before = unlearn.measure(lab.original, lab.data["test"], forget)
            after = unlearn.measure(result.model, lab.data["test"], forget)
            told = f"(epoch {result.epoch}, {seconds:.1f} s)"
            cells.append(f"{after.forget:.1%} / {100 * (before.retain - after.retain):.1f} {told}")
        print(f"| {method} | " + " | ".join(cells) + " |", flush=True)


def main() -> None:
    """Search, print TOML, store every candidate; or check the recipe on test data."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe", help="name or path of a recipe")
    parser.add_argument("--forget", nargs="+", default=["0", "3", "7", "1+6"], help="forget sets, classes joined by +")
    parser.add_argument("--methods", nargs="+", help="default: every approximate method")
    parser.add_argument("--factors", nargs="+", type=float, help="multiples of the published rate")
    parser.add_argument("--candidates", type=Path, help="TOML file of the settings to try, by method")
    parser.add_argument("--original", type=Path, help="model directory of the original; default: train one")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="folder for NAME.csv with every candidate")
    parser.add_argument("--check", action="store_true", help="measure the recipe on test data; choose nothing")
    asked = parser.parse_args()
    recipe = recipes.load(asked.recipe)
    torch.set_num_threads(1 if asked.device == "cpu" else torch.get_num_threads())
    forgets = [tuple(int(label) for label in group.split("+")) for group in asked.forget]
    methods = asked.methods or [name for name in unlearn.names() if name != "retrained"]
    lab = open_lab(recipe, asked.original, asked.device, asked.seed)
    if asked.check:
        check(lab, methods, forgets)
        return
    listed = tomllib.loads(asked.candidates.read_text()) if asked.candidates else {}
    path = None if asked.out is None else asked.out / f"{recipe.name}.csv"
    old = list(csv.DictReader(path.open())) if path is not None and path.exists() else []
    for method in asked.methods or list(listed) or methods:
        factors = asked.factors or FACTORS.get(method, USUAL_FACTORS)
        tried = listed[method] if asked.candidates else candidates(recipe, method, factors)
        others = [row for row in old if row["method"] != method]
        old = sorted([*others, *search(lab, method, forgets, tried, old)], key=lambda row: row["method"])
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.unlink(missing_ok=True)
            append(path, old, COLUMNS)


if __name__ == "__main__":
    main()
