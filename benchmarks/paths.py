"""RS with probes of the weighted stream beside RS with probes of the plain one, seed by seed.

Heads of ten classes are read as ``stored.py`` keeps them. The head of a hundred classes is that of a CIFAR-100 network
with its test features (``reproduction/retrainings``), one class masked.

    python benchmarks/paths.py --checkpoints DIR --out benchmarks/results/paths.csv
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import polars as pl
import torch

from sfra.attack.probes import sample_probes
from sfra.attack.relearn import relearn_many
from sfra.attack.scale import Canonical, place
from sfra.auditing.evaluate import evaluate
from sfra.core.head import Head
from sfra.data import FeatureSet
from sfra.unlearn import mask_head
from stored import find_models, read_model

HUNDRED, MASKED = Path(__file__).parents[1] / "reproduction" / "retrainings" / "cifar100" / "original", (0, 10, 40)
SETTINGS = {10: {"n": 20_000, "m": 200, "epochs": 40}, 100: {"n": 20_000, "m": 50, "epochs": 60}}
PATHS: tuple[Literal["plain", "weighted"], ...] = ("plain", "weighted")


def models(folder: Path | None) -> Iterator[tuple[str, int, Head, FeatureSet]]:
    """Give the heads of ten classes, then the one of a hundred with a class masked."""
    for one in find_models(folder) if folder else []:
        yield one.folder.name, one.forget or 0, *read_model(one.folder)
    head, test = read_model(HUNDRED)
    for forget in MASKED:
        yield f"cifar100 masked-{forget}", forget, mask_head(head, [forget]), test


def scores(head: Head, forget: int, test: FeatureSet, seeds: int) -> Iterator[dict[str, object]]:
    """Relearn with the probes of both paths."""
    placed = place(head, [forget], scale=Canonical(), variant="released")
    features, how = placed.features(test.features), SETTINGS[head.classes]
    for path in PATHS:
        probes = [
            sample_probes(placed.head, forget, n=how["n"], m=how["m"], seed=seed, path=path) for seed in range(seeds)
        ]
        trained = relearn_many(
            [placed.head] * seeds, probes, epochs=how["epochs"], seeds=range(seeds), record=(0, how["epochs"])
        )
        for seed, (one, trajectory) in enumerate(zip(probes, trained, strict=True)):
            rs = float(evaluate(trajectory, features, test.labels, [forget]).rs[-1])
            yield {"path": path, "seed": seed, "rs": round(rs, 4), "draws": one.draws, "repeats": round(one.repeats, 6)}


def main() -> None:
    """Measure, print the means, write the rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkpoints", type=Path, help="folder of ten-class heads and features")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    rows = []
    for name, forget, head, test in models(given.checkpoints):
        found = [{"model": name, "classes": head.classes, **row} for row in scores(head, forget, test, given.seeds)]
        for path in PATHS:
            rs = torch.tensor([row["rs"] for row in found if row["path"] == path])
            print(f"{name:24} {path:9} RS {rs.mean():.4f} ± {rs.std():.4f} over {len(rs)} seeds", flush=True)
        rows += found
        pl.DataFrame(rows).write_csv(given.out)


if __name__ == "__main__":
    main()
