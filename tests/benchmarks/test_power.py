"""The study of power: which heads it audits, and that fewer probes are those that would have been drawn."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
import torch

from power import compute, fewer, subjects
from sfra.attack.probes import sample_probes
from sfra.attack.relearn import relearn
from sfra.attack.scale import Canonical, place
from sfra.auditing.evaluate import evaluate
from sfra.core.head import Head
from stored import read_model, without

CLASSES, WIDTH = 5, 8


def write(folder: Path, *, seed: int) -> None:
    """Store a head that knows its classes, with features around its rows."""
    rows = 4 * torch.eye(CLASSES, WIDTH)
    labels = torch.arange(60) % CLASSES
    features = rows[labels] / 2 + torch.randn(60, WIDTH, generator=torch.Generator().manual_seed(seed))
    folder.mkdir()
    Head(rows).save(folder / "head.npz")
    np.savez(folder / "features.npz", features=features.half().numpy(), labels=labels.to(torch.int16).numpy())


def heads(folder: Path) -> Path:
    for seed, name in enumerate(["original", *(f"retrained-{k}-{x}" for k in (1, 3) for x in "ab")]):
        write(folder / name, seed=seed)
    return folder


def test_fewer_probes_are_those_of_a_smaller_m() -> None:
    head = Head(torch.randn(5, 8, generator=torch.Generator().manual_seed(0)))
    many, few = (sample_probes(head, 2, n=400, m=m, seed=3) for m in (40, 7))
    cut = fewer(many, 7)
    for name in ("labels", "sources", "sureness", "retain_count"):
        one, other = torch.as_tensor(getattr(cut, name)), torch.as_tensor(getattr(few, name))
        torch.testing.assert_close(one, other)
    logits = head(cut.samples)
    assert torch.equal(logits[:, [0, 1, 3, 4]].argmax(1), torch.tensor([0, 1, 2, 3]).repeat_interleave(7).repeat(2))


def test_every_class_has_its_masked_original_and_two_retrainings(tmp_path: Path) -> None:
    found = list(subjects(heads(tmp_path), [1, 3], "cpu"))
    kinds = [("masked", "original"), ("fresh", "a"), ("fresh", "b")]
    assert [(one.forget, (one.kind, one.model)) for one in found] == [(k, kind) for k in (1, 3) for kind in kinds]
    assert [one.head.classes for one in found] == [CLASSES - 1, CLASSES, CLASSES] * 2


def test_rows_are_appended_once_and_tell_what_returned(tmp_path: Path) -> None:
    folder, out = heads(tmp_path), tmp_path / "rows.csv"
    compute(folder, out, None, "cpu", "small")
    text = out.read_text()
    compute(folder, out, None, "cpu", "small")
    assert out.read_text() == text
    assert len(text.splitlines()) == 1 + 2 * 3 * 2 * 3
    original = read_model(folder / "original")
    placed = place(without(original[0], [3]), [3], scale=Canonical(1.7), variant="restored-row", seed=1)
    path = relearn(placed.head, sample_probes(placed.head, 3, n=10_000, m=100, seed=1), epochs=100, seed=1)
    expected = evaluate(path, placed.features(original[1].features), original[1].labels, [3])
    wanted = {"forget": "3", "kind": "masked", "m": "100", "exponent": "0.0"}
    (row,) = (row for row in csv.DictReader(text.splitlines()) if wanted.items() <= row.items())
    assert float(row["rs_100"]) == pytest.approx(float(expected.rs[-1]), abs=1e-4)
    assert float(row["forget_after"]) == pytest.approx(float(expected.forget[-1]), abs=1e-4)
