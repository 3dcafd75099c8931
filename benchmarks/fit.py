"""How sure trained models are of themselves, and which findings broken labels raise: what the thresholds rest on.

For each model as ``stored.py`` keeps them (an original counts as one that forgot class 0), accuracy, confidence and
critical findings: with the labels as they are, in another order, shifted by one, and with half of them permuted.

Run ``python benchmarks/fit.py FOLDER…`` for the extremes over all models of the folders.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sfra.auditing.answers import Answers
from sfra.auditing.findings import fit
from stored import Stored, find_models, read_model


def broken(labels: Tensor, classes: int) -> Iterator[tuple[str, Tensor]]:
    """Yield the labels as they are, and spoilt in three ways."""
    generator = torch.Generator().manual_seed(0)
    yield "as they are", labels
    yield "another order", torch.randperm(classes, generator=generator)[labels]
    yield "shifted by one", (labels + 1) % classes
    half, rows = labels.clone(), torch.randperm(len(labels), generator=generator)[: len(labels) // 2]
    half[rows] = labels[rows[torch.randperm(len(rows), generator=generator)]]
    yield "half permuted", half


def examine(model: Stored) -> Iterator[dict[str, Any]]:
    """Yield, for each way in which the labels are spoilt, confidence minus accuracy and whether that is critical."""
    (head, data), forget = read_model(model.folder), [model.forget or 0]
    for how, labels in broken(data.labels, head.classes):
        found = Answers.of(head, data.features, labels, range(head.classes), forget=forget)
        raised = (fit.class_order(found), fit.retain_low(1.0, 1.0, found), fit.confidence_gap(found))
        yield {"labels": how, "gap": found.confidence - found.accuracy, "refused": any(raised)}


def main() -> None:
    """Print a line per kind of labels."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    asked = parser.parse_args()
    rows = [row for folder in asked.folders for model in find_models(folder) for row in examine(model)]
    for how in dict.fromkeys(row["labels"] for row in rows):
        mine = [row for row in rows if row["labels"] == how]
        gaps, refused = [row["gap"] for row in mine], sum(row["refused"] for row in mine)
        print(f"{how}: {refused} of {len(mine)} unusable; confidence - accuracy {min(gaps):+.3f} to {max(gaps):+.3f}")


if __name__ == "__main__":
    main()
