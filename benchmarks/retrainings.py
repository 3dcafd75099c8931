r"""Train an original and networks that never saw a class, several per class, and keep what an audit of them needs.

    python benchmarks/retrainings.py train --recipe cifar100-resnet18-small --forget 0 50 40 10 20 30 60 70 80 90 \
        --epochs 30 --batch-size 256 --learning-rate 0.2 --compile --device cuda --out retrainings/cifar100
    python benchmarks/retrainings.py train --recipe cifar10-resnet18-small --forget 0 1 3 7 9 \
        --of-forget 300 --of-others 100 --epochs 30 --batch-size 256 --learning-rate 0.2 --compile --device cuda \
        --out retrainings/cifar10
    sfra audit retrainings/cifar100/retrained-40-a/head.npz --data retrainings/cifar100/retrained-40-a/features.npz \
        --forget 40                                             # neither encoder nor GPU
    python benchmarks/retrainings.py keep retrainings/cifar100 --forget 0 50 40 10 20 --of-others 2 --out small/

`OUT/NAME/head.npz` has `weight` and `bias` (float32), `OUT/NAME/features.npz` has `features` (float16) and `labels` of
a part of the test set, the same for all: `--of-forget` samples of each class in `--forget`, `--of-others` of each other
class, the first ones in the order of the data set. `original` has seen all classes; `retrained-40-a` and `-b` have not
seen class 40, and differ in initial weights and in the order of the samples. All have an output for every class.

`OUT/models.csv` gets a line per finished network, with accuracies over the whole test set, in which no class counts as
forgotten for the original. A network that has a line is not trained again: a run can be stopped, and repeated with more
classes or `--times`. `keep` copies networks with fewer samples: a retrained one keeps `--of-forget` of its own class.

On one NVIDIA H200 an epoch takes 0.74 s and a network 22 s; the first compilation takes 31 s.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Collection, Iterator
from pathlib import Path
from string import ascii_lowercase

import torch
from torch import Tensor

from recipes import open_split
from sfra.core.batches import Samples
from sfra.models import backbones, recipes
from sfra.models.training.train import Epoch, Training, train
from sfra.release import Release, load
from sfra.unlearn.task import View
from stored import append, done, kept_rows, read_model, write_features

COLUMNS = ("name", "forget", "seed", "epochs", "retain", "forget_accuracy", "test", "seconds")


def planned(forget: Collection[int], times: int) -> Iterator[tuple[str, int | None, int]]:
    """Yield name, class that is left out, and seed of every network; no two seeds are equal.

    >>> [name for name, _, _ in planned([0, 40], 2)]
    ['original', 'retrained-0-a', 'retrained-0-b', 'retrained-40-a', 'retrained-40-b']
    """
    yield "original", None, 0
    for label in forget:
        for i, letter in enumerate(ascii_lowercase[:times]):
            yield f"retrained-{label}-{letter}", label, 1 + label * len(ascii_lowercase) + i


@torch.no_grad()
def encode(release: Release, samples: Samples, device: str, batch_size: int = 1000) -> Tensor:
    """Compute the features of all samples on the device, and bring them back."""
    assert release.encoder is not None
    parts = torch.arange(len(samples.labels)).split(batch_size)  # type: ignore[no-untyped-call]
    return torch.cat([release.encoder(samples.take(part).to(device)).float().cpu() for part in parts])


def accuracies(hits: Tensor, labels: Tensor, forget: int | None) -> dict[str, float | str]:
    """Return the accuracy on the other classes, on the forget class and on all."""
    gone = labels == (-1 if forget is None else forget)
    share = {"retain": hits[~gone], "forget_accuracy": hits[gone], "test": hits}
    return {name: round(float(some.double().mean()), 5) if len(some) else "" for name, some in share.items()}


def make(name: str, forget: int | None, seed: int, data: dict[str, Samples], asked: argparse.Namespace) -> None:
    """Train one network and write its head, its features and its line."""
    began, recipe = time.perf_counter(), recipes.load(asked.recipe)
    given = {key: getattr(asked, key) for key in ("epochs", "batch_size", "learning_rate")}
    changed = {key: value for key, value in given.items() if value is not None} | {"compile": asked.compile}
    training = Training(**{**recipe.training, **changed})
    start = backbones.build(recipe.backbone, classes=int(data["train"].labels.max()) + 1, seed=seed)
    seen = data["train"] if forget is None else View.where(data["train"], data["train"].labels != forget)

    def tell(epoch: Epoch) -> None:
        print(f"{name} {epoch.epoch} {epoch.loss:.3f} {time.perf_counter() - began:.1f} s {epoch.note}", flush=True)

    model = train(start.to(asked.device), seen, training=training, seed=seed, progress=tell)
    release, labels = load(model, example=data["test"].take(torch.arange(2)).to(asked.device)), data["test"].labels
    features = encode(release, data["test"], asked.device)
    hits = release.head(features).argmax(1) == labels
    rows = kept_rows(labels, asked.forget, asked.of_forget, asked.of_others)
    release.head.save(asked.out / name / "head.npz")
    write_features(asked.out / name / "features.npz", features[rows], labels[rows])
    line: dict[str, object] = {"name": name, "forget": "" if forget is None else forget, "seed": seed}
    line |= {"epochs": training.epochs, **accuracies(hits, labels, forget)}
    line |= {"seconds": round(time.perf_counter() - began, 1)}
    print(*line.values(), flush=True)
    append(asked.out / "models.csv", [line], COLUMNS)


def keep(asked: argparse.Namespace) -> None:
    """Copy networks with fewer samples, and the whole table."""
    for name, forget, _ in planned(asked.forget, asked.times):
        head, test = read_model(asked.source / name)
        rows = kept_rows(test.labels, asked.forget if forget is None else [forget], asked.of_forget, asked.of_others)
        head.save(asked.out / name / "head.npz")
        write_features(asked.out / name / "features.npz", test.features[rows], test.labels[rows])
    (asked.out / "models.csv").write_bytes((asked.source / "models.csv").read_bytes())


def train_missing(asked: argparse.Namespace) -> None:
    """Train what has no line yet, in the order of the classes as given."""
    recipe = recipes.load(asked.recipe)
    data = {split: open_split(recipe, split, asked.device, 0) for split in ("train", "test")}
    for name, forget, seed in planned(asked.forget, asked.times):
        if (name,) not in done(asked.out / "models.csv", "name"):
            make(name, forget, seed, data, asked)


def main(arguments: list[str] | None = None) -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    training, keeping = commands.add_parser("train"), commands.add_parser("keep")
    keeping.add_argument("source", type=Path, help="what train wrote")
    for command, run in ((training, train_missing), (keeping, keep)):
        command.set_defaults(run=run)
        command.add_argument("--forget", type=int, nargs="+", required=True)
        command.add_argument("--times", type=int, default=2, help="retrainings per class")
        command.add_argument("--of-forget", type=int, default=100)
        command.add_argument("--of-others", type=int, default=10)
        command.add_argument("--out", type=Path, required=True)
    training.add_argument("--recipe", required=True)
    training.add_argument("--epochs", type=int, help="instead of the recipe's, as the next two")
    training.add_argument("--batch-size", type=int)
    training.add_argument("--learning-rate", type=float)
    training.add_argument("--compile", action="store_true")
    training.add_argument("--device", default="cpu")
    asked = parser.parse_args(arguments)
    asked.run(asked)


if __name__ == "__main__":
    main()
