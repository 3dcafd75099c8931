"""The figure behind κ that the documents show is the one that is drawn, and names what it shows."""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl
import pytest

from sfra.attack.scale import KAPPA

scale = pytest.importorskip("scale", reason="the benchmarks are not on the path")
DOCS = Path(__file__).parents[2] / "docs"


def test_the_documents_show_what_is_drawn(tmp_path: Path) -> None:
    scale.plot(pl.read_csv(DOCS / "scale.csv"), tmp_path / "scale.svg")
    drawn, kept = ((folder / "scale.svg").read_text(encoding="utf-8") for folder in (tmp_path, DOCS))
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", drawn)
    assert re.findall(r"<text[^>]*>([^<]*)</text>", kept) == texts
    assert [text for text in texts if text in scale.KINDS] == scale.KINDS
    assert texts.count(f"κ = {KAPPA}") == len({"CIFAR-10", "digits"} & {*texts}) == 2
    for mark in ("mark-line", "mark-rule", "mark-symbol", *scale.COLOURS):
        assert kept.count(mark) == drawn.count(mark) > 0
