"""What a chart of several seeds and a narrow screen show: marks on their lines, each to be seen, and keys unbroken."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from builders.audits import SMALL, compare, hidden, never_seen
from builders.browser import Browser
from builders.pages import DATE
from sfra.report.page import audit_page

SEEDS = 3
NUMBER = r"-?[\d.]+(?:e-?\d+)?"
SHAPES = """
    return [...document.querySelectorAll(`.chart[data-kind="trajectory"] g.role-mark.${arguments[0]} path`)]
      .map(path => [
        ...["transform", "d", "aria-label"].map(name => path.getAttribute(name)), path.getBBox().width]);
"""


@pytest.fixture
def several(browser: Browser, tmp_path: Path) -> Browser:
    """The page of an audit with several seeds, on a narrow screen."""
    audit = compare(hidden(), never_seen(), **{**SMALL, "seeds": SEEDS}).to_dict()
    (tmp_path / "page.html").write_text(audit_page(audit, date=DATE), encoding="utf-8")
    browser.open(tmp_path / "page.html", width=360)
    return browser


def places(text: str) -> list[tuple[float, float]]:
    found = re.findall(rf"({NUMBER})[, ]({NUMBER})", text)
    return [(float(x), float(y)) for x, y in found]


def test_marks_and_rings_of_several_seeds_lie_on_the_line_of_a_seed(several: Browser) -> None:
    lines = [places(d) for _, d, *_ in several.run(SHAPES, "layer_0_marks")]
    assert len(lines) == SEEDS
    for layer, count in (("layer_2_marks", 3 * SEEDS), ("layer_3_marks", SEEDS)):
        marks = [place for transform, *_ in several.run(SHAPES, layer) for place in places(transform)]
        assert len(marks) == count
        gaps = [min(abs(x - a) + abs(y - b) for line in lines for a, b in line) for x, y in marks]
        assert max(gaps) < 0.01


def test_marks_of_rules_at_one_epoch_differ_in_outline_and_size(several: Browser) -> None:
    marks = several.run(SHAPES, "layer_2_marks")
    wide = {label.split("rule: ")[1].split(";")[0]: width for _, _, label, width in marks}
    assert 1.5 * wide["source-free"] < 1.2 * wide["validation"] < wide["worst-case"]
    assert len({d for _, d, *_ in marks}) == 3
    assert several.messages() == []


def test_a_narrow_screen_does_not_part_a_key_from_its_word(several: Browser) -> None:
    heights = several.run(
        "return [...document.querySelectorAll('.key .item')].map(e => e.getBoundingClientRect().height)"
    )
    line = several.run("return parseFloat(getComputedStyle(document.querySelector('.key')).lineHeight)")
    assert len(heights) == 3
    assert max(heights) <= line + 1
