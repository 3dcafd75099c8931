"""How sure trained models are of themselves, and which findings broken labels raise: what the thresholds rest on.

For each model as ``stored.py`` keeps them (an original counts as one that forgot class 0), a row of accuracy,
confidence and critical findings: with the labels as they are, in another order, shifted by one, and with half of them
permuted.

Run ``python benchmarks/fit.py FOLDER…``; ``--summary`` prints the extremes over all folders instead.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

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


def examine(model: Stored) -> Iterator[dict[str, object]]:
    """Yield a row for each way in which the labels are spoilt."""
    (head, data), forget = read_model(model.folder), [model.forget or 0]
    for how, labels in broken(data.labels, head.classes):
        found = Answers.of(head, data.features, labels, range(head.classes), forget=forget)
        raised = (fit.class_order(found), fit.retain_low(1.0, 1.0, found), fit.confidence_gap(found))
        yield {
            "model": "/".join(model.folder.parts[-2:]),
            "labels": how,
            "accuracy": found.accuracy,
            "confidence": found.confidence,
            "critical": " ".join(one.code for one in raised if one is not None),
        }


def main() -> None:
    """Print a row per model and kind of labels, or a row per kind."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--summary", action="store_true")
    asked = parser.parse_args()
    rows = [row for folder in asked.folders for model in find_models(folder) for row in examine(model)]
    if not asked.summary:
        for row in rows:
            print("{model:30} {labels:15} {accuracy:.3f} {confidence:.3f} {critical}".format(**row))
        return
    for how in dict.fromkeys(row["labels"] for row in rows):
        mine = [row for row in rows if row["labels"] == how]
        gaps = [float(str(row["confidence"])) - float(str(row["accuracy"])) for row in mine]
        refused = sum(bool(row["critical"]) for row in mine)
        print(f"{how}: {refused} of {len(mine)} unusable; confidence - accuracy {min(gaps):+.3f} to {max(gaps):+.3f}")


if __name__ == "__main__":
    main()
