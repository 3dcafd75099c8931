"""The study of power: which heads it audits, and that fewer probes are those that would have been drawn."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
import torch

from power import compute, fewer, subjects
from sfra.attack.probes import sample_probes
from sfra.core.head import Head

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


def test_every_class_has_its_masked_original_two_retrainings_and_self_controls(tmp_path: Path) -> None:
    found = list(subjects(heads(tmp_path), [1, 3], "cpu"))
    kinds = ["masked", "hidden", "fresh", "released", "self", "fresh", "released"]
    assert [(one.forget, one.kind) for one in found] == [(k, kind) for k in (1, 3) for kind in kinds]
    own = next(one for one in found if one.kind == "self")
    assert (own.masked, own.target, own.head.classes) == (3, 2, CLASSES - 2)
    assert set(own.labels.tolist()) == {0, 1, 2, 3}
    assert len(own.labels) == 48


def test_rows_are_appended_once_and_tell_what_returned(tmp_path: Path) -> None:
    folder, out = heads(tmp_path), tmp_path / "rows.csv"
    compute(folder, out, None, "cpu", "small")
    text = out.read_text()
    compute(folder, out, None, "cpu", "small")
    assert out.read_text() == text
    assert len(text.splitlines()) == 1 + 2 * 7 * 2 * 3
    hidden = [row for row in csv.DictReader(text.splitlines()) if row["kind"] == "hidden"]
    for row in hidden:  # a bias of -15 keeps the class at 0 in the beginning
        kept, back = 1 - max(0.0, float(row["retain_drop"])), float(row["forget_after"])
        assert float(row["rs_100"]) == pytest.approx(2 * kept * back / (kept + back), abs=2e-4)
    assert len(hidden) == 2 * 2 * 3
