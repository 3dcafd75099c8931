"""The figure behind κ: what each line is can be read off it, and the one in the documents is the one that is drawn."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import polars as pl
import pytest

from sfra.attack.scale import KAPPA

scale = pytest.importorskip("scale", reason="the benchmarks are not on the path")
DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The figure, drawn from the rows that are kept."""
    target = tmp_path_factory.mktemp("figure") / "scale.svg"
    scale.plot(pl.read_csv(DOCS / "scale.csv"), target)
    return target.read_text(encoding="utf-8")


def texts(svg: str) -> list[str]:
    root = ElementTree.fromstring(svg)  # noqa: S314 (our own file)
    return [element.text or "" for element in root.iter() if element.tag.endswith("}text")]


def keys(svg: str) -> list[dict[str, str]]:
    """Return how each entry of the legend is drawn."""
    legend = svg[svg.index("role-legend-symbol") :]
    found = [
        dict(re.findall(r'(stroke(?:-dasharray)?|d)="([^"]*)"', path)) for path in re.findall(r"<path[^>]*>", legend)
    ]
    return [one for one in found if one.get("stroke") in scale.COLOURS][: len(scale.KINDS)]


def test_the_legend_shows_lines_of_different_colour_and_dash(drawn: str) -> None:
    entries = keys(drawn)
    assert [entry["stroke"] for entry in entries] == scale.COLOURS
    assert len({entry.get("stroke-dasharray") for entry in entries}) == len(scale.KINDS)
    assert all("A" not in entry["d"] for entry in entries)  # a line, not a disc whose edge is dashed
    assert [text for text in texts(drawn) if text in scale.KINDS] == scale.KINDS


def test_each_panel_names_the_constant_once(drawn: str) -> None:
    assert texts(drawn).count(f"κ = {KAPPA}") == len({"CIFAR-10", "digits"} & {*texts(drawn)}) == 2


def test_the_documents_show_what_is_drawn(drawn: str) -> None:
    kept = (DOCS / "scale.svg").read_text(encoding="utf-8")
    assert texts(kept) == texts(drawn)
    assert keys(kept) == keys(drawn)
    for role in ("mark-line", "mark-rule", "mark-symbol"):
        assert kept.count(role) == drawn.count(role) > 0
