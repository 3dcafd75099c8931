"""What benchmarks keep on the disk: heads with test features, and rows that a stopped run goes on from.

A model is a folder with ``head.npz`` and ``features.npz`` (``features``, ``labels``): ``original``, ``original-SEED``,
``METHOD-CLASS`` or ``METHOD-CLASS-SEED``, at will inside a folder named after its architecture.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn

from sfra.core.files import write_npz
from sfra.core.head import Head
from sfra.data import FeatureSet, ImageSet, extract_features, load_data
from sfra.release import load


class Stored(NamedTuple):
    """A model on the disk; an original has no forget class of its own, and a seed that is a letter is its place."""

    folder: Path
    arch: str
    name: str
    forget: int | None
    seed: int


def find_models(folder: Path) -> list[Stored]:
    """List the models below a folder."""

    def number(text: str | None) -> int:
        return 0 if text is None else int(text) if text.isdigit() else ord(text) - ord("a")

    found = []
    for path in sorted(one.parent for one in folder.rglob("head.npz")):
        parts = re.fullmatch(r"([a-z-]*?[a-z]{2,})(?:-(\d+))?(?:-(\d+|[a-z]))?", path.name)
        assert parts is not None, path
        name, first, second = parts.groups()
        arch, forget = "" if path.parent == folder else path.parent.name, None if name == "original" else int(first)
        found.append(Stored(path, arch, name, forget, number(first if forget is None else second)))
    return found


def read_model(folder: Path) -> tuple[Head, FeatureSet]:
    """Read a head and its test features."""
    test = load_data(folder / "features.npz")
    assert isinstance(test, FeatureSet)
    return Head.load(folder / "head.npz"), test


def write_model(folder: Path, head: Head, test: FeatureSet) -> None:
    """Write a head and its test features; the head last, since it says that the model is there."""
    folder.mkdir(parents=True, exist_ok=True)
    write_npz(folder / "features.npz", features=test.features.numpy(), labels=test.labels.numpy())
    head.save(folder / "head.npz")


def digits_features(model: nn.Module, images: ImageSet | None = None) -> tuple[Head, FeatureSet]:
    """Return the head of a digits network and what its encoder makes of images, by default of the test split."""
    chosen = images or load_data("digits", split="test")
    assert isinstance(chosen, ImageSet)
    release = load(model, example=torch.zeros(1, 1, 8, 8))
    assert release.encoder is not None
    found = extract_features(release.encoder, chosen, model_fingerprint=release.fingerprint, cache=False)
    return release.head, found


def without(head: Head, labels: Collection[int]) -> Head:
    """Drop outputs of a head."""
    kept = [k for k in range(head.classes) if k not in labels]
    return Head(head.weight[kept], head.bias[kept])


def done(table: Path, *columns: str) -> set[tuple[str, ...]]:
    """Return what the rows of a table say in some columns; nothing where there is no table yet."""
    if not table.exists():
        return set()
    with table.open(newline="", encoding="utf-8") as file:
        return {tuple(row[name] for name in columns) for row in csv.DictReader(file)}


def append(table: Path, rows: Sequence[Mapping[str, Any]], columns: Sequence[str] | None = None) -> None:
    """Append rows to a table, which begins with the names of its columns: those of the first row, if not given."""
    with table.open("a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns or list(rows[0]), lineterminator="\n")
        if file.tell() == 0:
            writer.writeheader()
        writer.writerows(rows)
