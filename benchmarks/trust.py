"""Honest retrainings, hidden classes and the self-control: the rows behind the verdicts.

    python benchmarks/trust.py make build/trust/digits                        # train digits networks
    python benchmarks/trust.py audit build/trust/digits --out benchmarks/results/trust-digits.csv
    python benchmarks/trust.py audit DIR --out FILE --n 20000 --m 50 --epochs 60 --classes 0 10 20 --hidden 0 10 20

Models are read as ``stored.py`` keeps them. Every one is audited as ``sfra audit`` does it, source-free at canonical
scale: its forget class with the row as released and with a fresh one, and then the self-control. For this the forget
class leaves the head for good, and some retain classes in turn get fresh rows in place of their own: classes that the
network knows and only hides. An original stands for one model per class, which hides that class. Both commands go on
where they were stopped.
"""

from __future__ import annotations

import argparse
import multiprocessing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import torch
from torch import nn

from sfra.attack.grid import Setting, relearn_release
from sfra.auditing.config import AuditConfig
from sfra.auditing.measure import measure
from sfra.auditing.subject import Measurable
from sfra.core.head import Head
from sfra.data import FeatureSet
from sfra.models import backbones, recipes
from sfra.release.architecture import Backbone, register
from sfra.unlearn.make import train_model
from stored import Stored, append, digits_features, done, find_models, read_model, without, write_model

ARCHITECTURES = ("small-mlp", "small-cnn", "norm-mlp")
ORIGINALS, RETRAININGS = 3, 5
ACCURACIES = ("retain_before", "retain_after", "forget_before", "forget_after")
COLUMNS = ("arch", "model", "forget", "seed", "audited", "row", "rs", *ACCURACIES, "retain_samples", "forget_samples")


def norm_mlp(classes: int) -> nn.Module:
    """Build a multilayer perceptron, 64 pixels to 128 to 128 features, with layer norm."""
    layers = (nn.Linear(64, 128), nn.LayerNorm(128), nn.ReLU(), nn.Linear(128, 128), nn.LayerNorm(128), nn.ReLU())
    return nn.Sequential(nn.Flatten(), *layers, nn.Linear(128, classes))


def make(folder: Path, job: tuple[str, int | None, int]) -> None:
    """Train an original (no class), or a network that never saw a class."""
    torch.set_num_threads(1)
    arch, forget, seed = job
    if arch not in backbones.names():
        register(Backbone(name=arch, description="with layer norm", shape=(1, 8, 8), construct=norm_mlp))
    recipe = replace(recipes.load("digits-small-cnn" if "cnn" in arch else "digits-small-mlp"), backbone=arch)
    place = folder / arch / (f"original-{seed}" if forget is None else f"retrained-{forget}-{seed}")
    if not (place / "head.npz").exists():
        without = () if forget is None else (forget,)
        made = train_model(data="digits", backbone=arch, recipe=recipe, without=without, seed=seed)
        write_model(place, *digits_features(made.model))


class Job(NamedTuple):
    """Audits of one model and forget class that are not done yet: the class, and the row it gets."""

    model: Stored
    forget: int
    audits: list[tuple[int, str]]

    @property
    def key(self) -> tuple[str, str, str, str]:
        """Its first columns; an original is a model that hides the forget class."""
        name = "masked" if self.model.forget is None else self.model.name
        return self.model.arch, name, str(self.forget), str(self.model.seed)


def jobs_of(folder: Path, asked: argparse.Namespace, done: set[tuple[str, ...]]) -> list[Job]:
    """List what there is to do: forget classes before self-controls."""
    forgotten, controls = [], []
    for model in sorted(find_models(folder), key=lambda one: one.seed):
        for forget in asked.classes if model.forget is None else {model.forget} & set(asked.classes):
            own = [(forget, "fresh")] if model.forget is None else [(forget, "released"), (forget, "fresh")]
            retain = [label for label in asked.hidden if label != forget]
            count = min(asked.others, len(retain))
            hidden = [(retain[i * len(retain) // count], "self") for i in range(count)]
            for audits, jobs in ((own, forgotten), (hidden, controls)):
                key = Job(model, forget, []).key
                left = [(label, row) for label, row in audits if (*key, str(label), row) not in done]
                jobs += [Job(model, forget, left)] if left else []
    return forgotten + controls


def rows_of(job: Job, config: AuditConfig) -> list[dict[str, object]]:
    """Do the audits of a job."""
    torch.set_num_threads(1)
    head, test = read_model(job.model.folder)
    left, kept = without(head, [job.forget]), test.labels != job.forget
    labels = test.labels[kept] - (test.labels[kept] > job.forget).long()
    rest = FeatureSet(features=test.features[kept], labels=labels)
    found = []
    for label, row in job.audits:
        if row == "released":
            values = audit(head, test, label, config, variant="released")
        elif row == "fresh":
            values = audit(left, test, label, config)
        else:
            index = label - (label > job.forget)
            values = audit(without(left, [index]), rest, index, config)
        found.append(dict(zip(COLUMNS, (*job.key, label, row), strict=False)) | values)
    return found


def audit(
    head: Head, test: FeatureSet, forget: int, config: AuditConfig, *, variant: str = "restored-row"
) -> dict[str, object]:
    """Relearn a class at the scale of the verdict and measure the last epoch."""
    runs = relearn_release(head, [forget], [Setting(scale=config.scales.verdict, variant=variant)], config)
    trace = measure(runs, Measurable(report=test, validation=None, own_validation=False), [forget])[0].test
    ends = (trace.retain[0], trace.retain[-1], trace.forget[0], trace.forget[-1])
    values = {"rs": trace.rs[-1], **dict(zip(ACCURACIES, ends, strict=True))}
    counts = {"retain_samples": trace.retain_count, "forget_samples": trace.forget_count}
    return {name: f"{float(value):.5f}" for name, value in values.items()} | counts


def main() -> None:
    """Make models, or audit them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("make", "audit"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, help="rows of the audits")
    parser.add_argument("--others", type=int, default=4, help="how many of them")
    parser.add_argument("--classes", type=int, nargs="*", default=list(range(10)), help="forget classes")
    parser.add_argument("--hidden", type=int, nargs="*", default=list(range(10)), help="classes of the self-control")
    parser.add_argument("--workers", type=int, default=2)
    for name in ("n", "m", "epochs"):
        parser.add_argument(f"--{name}", type=int)
    asked = parser.parse_args()
    with multiprocessing.get_context("spawn").Pool(asked.workers) as pool:
        if asked.what == "make":
            jobs = [(arch, None, seed) for seed in range(ORIGINALS) for arch in ARCHITECTURES]
            jobs += [(a, label, s) for s in range(RETRAININGS) for a in ARCHITECTURES for label in asked.classes]
            for count, _ in enumerate(pool.imap_unordered(partial(make, asked.folder), jobs), 1):
                print(f"{count} of {len(jobs)}", flush=True)
            return
        given = {name: getattr(asked, name) for name in ("n", "m", "epochs") if getattr(asked, name)}
        jobs = jobs_of(asked.folder, asked, done(asked.out, *COLUMNS[:6]))
        run = partial(rows_of, config=AuditConfig(threads=1, **given))
        for count, rows in enumerate(pool.imap_unordered(run, jobs), 1):
            append(asked.out, rows, COLUMNS)
            print(f"{count} of {len(jobs)}: {' '.join(str(rows[0][name]) for name in COLUMNS[:4])}", flush=True)


if __name__ == "__main__":
    main()
