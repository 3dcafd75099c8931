"""What benchmarks keep on the disk: heads with test features, and rows that a stopped run goes on from.

A model is a folder with ``head.npz`` and ``features.npz`` (``features``, ``labels``): ``original``, ``original-SEED``,
``METHOD-CLASS`` or ``METHOD-CLASS-SEED``, at will inside a folder named after its architecture.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from sfra.core.files import write_atomically, write_npz
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


def kept_rows(labels: Tensor, forget: Collection[int], of_forget: int, of_others: int) -> Tensor:
    """Return the positions of the first samples of each class, in ascending order.

    >>> kept_rows(torch.tensor([0, 1, 1, 0, 1]), [1], 2, 1)
    tensor([0, 1, 2])
    """
    classes = sorted(set(labels.tolist()))
    found = [(labels == c).nonzero().squeeze(1)[: of_forget if c in forget else of_others] for c in classes]
    return torch.cat(found).sort().values


def rounded(features: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Clear the last five of a float16's ten bits, rounding up or down: it compresses, and is within 1.6 %.

    >>> rounded(np.array([1.0, 1.01, 1.02], dtype=np.float16)).tolist()
    [1.0, 1.0, 1.03125]
    """
    bits = features.view(np.uint16).astype(np.uint32)
    return ((bits + 16) >> 5 << 5).astype(np.uint16).view(np.float16)


def write_features(file: Path, features: Tensor, labels: Tensor, *, coarse: bool = False) -> None:
    """Write features with 16 bits, or with the last five of their ten bits cleared, and labels."""
    kept = features.half().numpy()
    buffer = io.BytesIO()
    np.savez_compressed(buffer, features=rounded(kept) if coarse else kept, labels=labels.numpy().astype(np.int16))
    write_atomically(file, buffer.getvalue())


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
