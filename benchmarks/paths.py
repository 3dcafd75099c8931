"""RS with probes of the weighted stream beside RS with probes of the plain one, seed by seed.

Heads of ten classes are read from folders named ``METHOD-CLASS`` with ``head.npz`` and ``features.npz``. The head of a
hundred classes is a real one (CIFAR-100, ``reproduction/``) of which one class is masked; its features are not stored,
so they are made: a normal vector moved along the row of its class, so far that three quarters keep their class.

    python benchmarks/paths.py --checkpoints DIR --out benchmarks/results/paths.csv
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import torch
from safetensors.torch import load_file

from sfra.attack.probes import sample_probes
from sfra.attack.relearn import relearn_many
from sfra.attack.scale import Canonical, place
from sfra.auditing.evaluate import evaluate
from sfra.core.head import Head
from sfra.data import FeatureSet, load_data
from sfra.unlearn import mask_head

HEADS = Path(__file__).parents[1] / "reproduction" / "cifar100-resnet18" / "heads.safetensors"
HUNDRED, MASKED = "retrained-0", (40, 70)
SETTINGS = {10: {"n": 20_000, "m": 200, "epochs": 40}, 100: {"n": 4000, "m": 20, "epochs": 25}}
PATHS: tuple[Literal["plain", "weighted"], ...] = ("plain", "weighted")


def checkpoints(folder: Path) -> Iterator[tuple[str, int, Head, FeatureSet]]:
    """Read stored heads and features."""
    for path in sorted(folder.iterdir()):
        test = load_data(path / "features.npz")
        assert isinstance(test, FeatureSet)
        yield path.name, int(path.name.rsplit("-", 1)[1]), Head.load(path / "head.npz"), test


def masked() -> Iterator[tuple[str, int, Head, FeatureSet]]:
    """Mask classes of the real head and make features of it."""
    tensors = load_file(HEADS)
    head = Head(tensors[f"{HUNDRED}.weight"], tensors[f"{HUNDRED}.bias"])
    rows = torch.nn.functional.normalize(head.weight - head.weight.mean(0), dim=1)
    labels = torch.arange(100).repeat_interleave(50)
    noise = torch.randn(len(labels), head.width, generator=torch.Generator().manual_seed(0))
    for distance in torch.arange(0.5, 8.0, 0.25).tolist():
        features = noise + distance * rows[labels]
        if float((head(features).argmax(1) == labels).float().mean()) > 0.75:
            break
    for forget in MASKED:
        yield (
            f"cifar100 masked-{forget}",
            forget,
            mask_head(head, [forget]),
            FeatureSet(features=features, labels=labels),
        )


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
    for name, forget, head, test in [*(checkpoints(given.checkpoints) if given.checkpoints else []), *masked()]:
        found = [{"model": name, "classes": head.classes, **row} for row in scores(head, forget, test, given.seeds)]
        for path in PATHS:
            rs = torch.tensor([row["rs"] for row in found if row["path"] == path])
            print(f"{name:24} {path:9} RS {rs.mean():.4f} ± {rs.std():.4f} over {len(rs)} seeds", flush=True)
        rows += found
        with given.out.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
