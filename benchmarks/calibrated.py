"""Verdicts at the constant size of the head and at a calibrated one, on networks of many kinds; no encoder, no GPU.

    python benchmarks/trust.py make build/trust/digits --classes 0 3 7
    python benchmarks/calibrated.py audit build/trust/digits --classes 0 3 7
    python benchmarks/calibrated.py audit reproduction/retrainings/cifar10 --classes 0
    python benchmarks/calibrated.py audit reproduction/retrainings/cifar100 --classes 0 50
    python benchmarks/calibrated.py audit reproduction/cifar10-resnet18-224/models
    python benchmarks/calibrated.py audit reproduction/cifar10-vit-small/models
    python benchmarks/calibrated.py table          # the one of docs/scale.md

Models are read as ``stored.py`` keeps them. An original stands for one model per class, which hides that class. Each is
audited beside a retraining of another seed, and beside an original as control, where there are some. Rows go to
``benchmarks/results/calibrated.csv``; a stopped run goes on where it was.
"""

from __future__ import annotations

import argparse
import csv
import multiprocessing
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch

from checkpoints import put
from sfra import audit
from sfra.auditing.verdicts import VERDICTS
from sfra.unlearn.mask import mask_head
from stored import Stored, append, done, find_models, read_model

ROWS = Path(__file__).parent / "results" / "calibrated.csv"
PAGE = Path(__file__).parents[1] / "docs" / "scale.md"
COLUMNS = (
    "network",
    "model",
    "forget",
    "seed",
    "scale",
    "kappa",
    "found",
    "reference",
    "verdict",
    "rs",
    "delta_rs",
    "fresh",
)
SCALES = ("canonical", "calibrated")
NAMES = {"cifar10": "CIFAR-10, ResNet-18", "cifar10-resnet18-224": "CIFAR-10, ResNet-18 at 224"}
NAMES |= {"cifar10-vit-small": "CIFAR-10, ViT", "small-mlp": "digits, no norm", "norm-mlp": "digits, layer norm"}
NAMES |= {"small-cnn": "digits, batch norm", "cifar100": "CIFAR-100, ResNet-18"}
KINDS = ("back", "clear", "blind", "open")


class Job(NamedTuple):
    """A model with a forget class, what it is compared with, and the scale."""

    network: str
    model: Stored
    forget: int
    reference: Stored | None
    original: Stored | None
    scale: str

    @property
    def key(self) -> tuple[str, str, str, str, str]:
        """Its first columns."""
        name = "masked" if self.model.forget is None else self.model.name
        return self.network, name, str(self.forget), str(self.model.seed), self.scale


def jobs_of(folder: Path, classes: list[int] | None) -> Iterator[Job]:
    """List the audits of all models below a folder, but those of retrainings that have no other beside them."""
    models = find_models(folder)
    for model in models:
        network = model.arch or (folder.parent.name if folder.name == "models" else folder.name)
        own = [one for one in models if one.arch == model.arch]
        for forget in (classes or []) if model.forget is None else [model.forget]:
            if classes is not None and forget not in classes:
                continue
            honest = sorted(
                (one for one in own if (one.name, one.forget) == ("retrained", forget)), key=lambda one: one.seed
            )
            later = [one for one in honest if one.seed > model.seed] + [one for one in honest if one.seed < model.seed]
            original = next((one for one in own if one.name == "original" and one.seed == 0), None)
            if model.forget is None:
                original = model
            for scale in SCALES:
                others = later if model.name == "retrained" else honest
                yield Job(network, model, forget, others[0] if others else None, original, scale)


def row_of(job: Job) -> dict[str, Any]:
    """Audit a model."""
    torch.set_num_threads(1)
    head, test = read_model(job.model.folder)
    beside: dict[str, Any] = {}
    for name, stored in (("reference", job.reference), ("control", job.original)):
        if stored is not None:
            beside[name], beside[f"{name}_data"] = read_model(stored.folder)
    shown = mask_head(head, [job.forget]) if job.model.forget is None else head
    report = audit(shown, job.forget, data=test, scale=job.scale, threads=1, **beside)
    fresh = next(one for one in report.results if one.variant == "reset-row")
    numbers = {"rs": report.rs, "delta_rs": report.delta_rs, "fresh": fresh.rs, "kappa": report.results[0].kappa}
    texts = {name: "" if value is None else round(value, 5) for name, value in numbers.items()}
    reference = "" if job.reference is None else job.reference.folder.name
    texts |= {"reference": reference, "verdict": report.verdict}
    texts["found"] = "" if report.calibration is None else str(report.calibration.found)
    return dict(zip(COLUMNS, job.key, strict=False)) | texts


def read_rows() -> list[dict[str, str]]:
    """Read what was audited."""
    with ROWS.open(newline="", encoding="utf-8") as file:
        return [*csv.DictReader(file)]


def table(rows: list[dict[str, str]]) -> str:
    """Count the kinds of verdicts at both scales, by network and by what is known of the model."""
    lines = [
        "| network | model | κ found | constant κ: back / clear / blind / open | calibrated |",
        "|---|---|--:|--:|--:|",
    ]
    groups = dict.fromkeys((row["network"], known(row["model"])) for row in rows)
    for network, what in sorted(groups, key=lambda one: (list(NAMES).index(one[0]), one[1])):
        mine = [row for row in rows if (row["network"], known(row["model"])) == (network, what)]
        found = sorted(float(row["kappa"]) for row in mine if row["found"] == "True")
        sizes = f"{found[0]:.2f} to {found[-1]:.2f}, {len(found)} of {len(mine) // 2}" if found else "none"
        cells = []
        for scale in SCALES:
            counts = Counter(VERDICTS[row["verdict"]].kind for row in mine if row["scale"] == scale)
            cells.append(" / ".join(str(counts[kind]) for kind in KINDS))
        lines.append(f"| {NAMES[network]} | {what} | {sizes} | {' | '.join(cells)} |")
    return "\n".join(lines)


def known(model: str) -> str:
    """Say what is known of a model by how it was made."""
    return {"masked": "hides the class", "retrained": "never saw it"}.get(model, "unlearned")


def main() -> None:
    """Audit what the table lacks, or print it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="what", required=True)
    auditing = commands.add_parser("audit")
    auditing.add_argument("folder", type=Path)
    auditing.add_argument("--classes", type=int, nargs="+", help="forget classes; all that models forgot, if left out")
    auditing.add_argument("--workers", type=int, default=2)
    commands.add_parser("table", help="write it into the page")
    asked = parser.parse_args()
    if asked.what == "table":
        PAGE.write_text(put(PAGE.read_text(encoding="utf-8"), "calibrated", table(read_rows())), encoding="utf-8")
        return
    known_rows = done(ROWS, "network", "model", "forget", "seed", "scale")
    jobs = [job for job in jobs_of(asked.folder, asked.classes) if job.key not in known_rows]
    with multiprocessing.get_context("spawn").Pool(asked.workers) as pool:
        for count, row in enumerate(pool.imap_unordered(row_of, jobs), 1):
            append(ROWS, [row], COLUMNS)
            print(f"{count} of {len(jobs)}: {' '.join(str(row[name]) for name in COLUMNS)}", flush=True)


if __name__ == "__main__":
    main()
