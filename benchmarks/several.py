"""Two, five and ten classes hidden at once in one network: what comes back, and what the assignment of probes does.

    python benchmarks/several.py run --out reproduction/cifar100-resnet18/several.csv      # ten minutes of one core
    python benchmarks/several.py keep FOLDER --out reproduction/retrainings/cifar100/original/several.npz

The network is the original of ``reproduction/retrainings/cifar100``, which has seen all classes; some are hidden:

    masked     rows zero, bias -15: hidden rows are equal, so no probe belongs to one rather than to another
    fresh      rows drawn anew
    silenced   rows as trained, bias -15

Sets are the paper's, and the tens, of which there are more test samples. Probes are drawn once; then they are shared
out by the greedy rule, classes in ascending and in descending order, and by the optimal one. ``keep`` copies from what
``retrainings.py train`` wrote the test features that are needed, the last five bits of each number cleared. A row is a
hidden class, or the whole set (class empty), after the last epoch: how many of its samples are answered with the class
itself, and with any class of the set; in the row of the set also RS and retain accuracy.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sfra.attack.probes import Probes, sample_probes
from sfra.attack.probes.assign import assign
from sfra.attack.relearn import relearn
from sfra.attack.scale import Canonical, Placed, place
from sfra.core.head import Head
from sfra.core.metrics import relearning_score
from sfra.unlearn.mask import HIDING_BIAS, mask_head
from stored import append, done, kept_rows, read_model, write_features

ORIGINAL = Path("reproduction/retrainings/cifar100/original")
PAPER = (25, 58, 38, 23, 96, 54, 51, 49, 98, 66)
TENS = (0, 50, 20, 10, 40, 30, 60, 70, 80, 90)
SETS = {"paper": PAPER, "tens": TENS}
SIZES = (2, 5, 10)
ORDERS = ("ascending", "descending", "optimal")
N, M, EPOCHS = 20_000, 50, 60
COLUMNS = (
    *("protocol", "set", "classes", "kind", "order", "class", "samples", "own", "any"),
    *("rs", "retain_before", "retain_after", "probes", "moved"),
)


def keep(source: Path, out: Path) -> None:
    """Copy the features that the sets need."""
    _, test = read_model(source)
    rows = kept_rows(test.labels, TENS, 50, 1).tolist()
    rows += [at for at in kept_rows(test.labels, PAPER, 10, 0).tolist() if at not in rows]
    write_features(out, test.features[rows], test.labels[rows], coarse=True)


def hide(head: Head, classes: Sequence[int], kind: str) -> Placed:
    """Hide classes, and bring the head to the canonical scale."""
    hidden = mask_head(head, classes)
    if kind == "silenced":
        bias = head.bias.clone()
        bias[list(classes)] = HIDING_BIAS
        hidden = Head(head.weight, bias)
    variant = "reset-row" if kind == "fresh" else "released"
    return place(hidden, classes, scale=Canonical(), variant=variant, seed=0)


def shared_out(probes: Probes, head: Head, classes: Sequence[int], order: str) -> Probes:
    """Share the forget probes of each pool out anew; the greedy rule lets the classes choose in the given order."""
    targets = torch.tensor(sorted(classes, reverse=order == "descending"))
    affinity = head(probes.forget).log_softmax(1)[:, targets]
    labels, sources = probes.labels.clone(), probes.sources[probes.retain_count :]
    for pool in sorted({*sources.tolist()}):
        mine = (sources == pool).nonzero().squeeze(1)
        method = "optimal" if order == "optimal" else "greedy"
        labels[probes.retain_count + mine] = targets[assign(affinity[mine], M, method)]
    return replace(probes, labels=labels)


def audit(head: Head, features: Tensor, labels: Tensor, name: str, size: int, kind: str) -> Iterator[dict[str, Any]]:
    """Hide the first classes of a set and relearn them, once for each way to share the probes out."""
    classes = SETS[name][:size]
    placed = hide(head, classes, kind)
    probes, there = sample_probes(placed.head, classes, n=N, m=M, threads=1), placed.features(features)
    retained = ~torch.isin(labels, torch.tensor(classes))
    before = (placed.head(there).argmax(1) == labels)[retained].double().mean()
    first = probes.labels
    for order in ORDERS:
        mine = shared_out(probes, placed.head, classes, order)
        answers = relearn(placed.head, mine, epochs=EPOCHS, record="last").last(there).argmax(1)
        after = (answers == labels)[retained].double().mean()
        told = {"protocol": "cifar100-resnet18", "set": name, "classes": size, "kind": kind, "order": order}
        hits = {c: answers[labels == c] for c in sorted(classes)}
        for c, got in hits.items():
            any_of = torch.isin(got, torch.tensor(classes)).sum()
            yield {**told, "class": c, "samples": len(got), "own": int((got == c).sum()), "any": int(any_of)}
        own, samples = sum(int((got == c).sum()) for c, got in hits.items()), sum(map(len, hits.values()))
        anyhow = sum(int(torch.isin(got, torch.tensor(classes)).sum()) for got in hits.values())
        scores: dict[str, Any] = {"rs": relearning_score(before, after, 0.0, own / samples), "retain_before": before}
        scores |= {"retain_after": after, "moved": (mine.labels != first)[probes.retain_count :].double().mean()}
        written = {key: round(float(value), 5) for key, value in scores.items()}
        count = len(probes.labels) - probes.retain_count
        yield {**told, "samples": samples, "own": own, "any": anyhow, "probes": count, **written}


def run(out: Path) -> None:
    """Audit every set, size and way of hiding that the table lacks."""
    head, data = Head.load(ORIGINAL / "head.npz"), np.load(ORIGINAL / "several.npz")
    features, labels = torch.from_numpy(data["features"]).float(), torch.from_numpy(data["labels"]).long()
    known = done(out, "set", "classes", "kind")
    for size, name, kind in itertools.product(SIZES, SETS, ("masked", "fresh", "silenced")):
        if (name, str(size), kind) not in known:
            began = time.process_time()
            append(out, list(audit(head, features, labels, name, size, kind)), COLUMNS)
            print(f"{size} of {name}, {kind}: {time.process_time() - began:.0f} CPU s", flush=True)


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True, dest="command")
    running, keeping = commands.add_parser("run"), commands.add_parser("keep")
    keeping.add_argument("source", type=Path)
    for command in (running, keeping):
        command.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    if asked.command == "run":
        run(asked.out)
    else:
        keep(asked.source, asked.out)


if __name__ == "__main__":
    main()
