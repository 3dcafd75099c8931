"""Every checkpoint of the table is loaded with equal logits or refused with the way out, as the page says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

checkpoints = pytest.importorskip("checkpoints", reason="the benchmarks are not on the path")
pytest.importorskip("transformers")
pytest.importorskip("onnxscript")
PAGE = checkpoints.PAGE.read_text(encoding="utf-8")


def rows(label: str) -> list[list[str]]:
    """Return the cells of a table of the page."""
    found = re.search(rf"<!-- table: {label} -->\n(.*?)<!-- end -->", PAGE, flags=re.DOTALL)
    assert found is not None
    lines = found[1].strip().splitlines()[2:]
    return [[cell.strip().replace(r"\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


OTHERS = {name: (outcome, text) for _, name, outcome, _, text in rows("others")}
ROWS = {name: (group, outcome, difference, text) for group, name, outcome, difference, text in rows("made")}


def test_the_page_has_every_case_and_no_other() -> None:
    assert len(rows("made")) == len(ROWS) >= 40
    assert {name: group for name, (group, *_) in ROWS.items()} == {
        name: case.group for name, case in checkpoints.CASES.items()
    }


@pytest.mark.parametrize("name", checkpoints.CASES)
def test_a_checkpoint_is_loaded_with_equal_logits_or_refused_with_the_way_out(name: str, tmp_path: Path) -> None:
    case = checkpoints.CASES[name]
    found = checkpoints.outcome(case.make(checkpoints.made_folder(tmp_path)))
    assert found.loaded == (case.way_out is None), found.text
    if found.loaded:
        assert found.difference <= 1e-5
    else:
        assert re.search(case.way_out, found.text), found.text
    _, outcome, difference, text = ROWS[name]
    assert (outcome, text) == ("loaded" if found.loaded else "refused", found.text)
    assert (float(difference) <= 1e-5) if found.loaded else (difference == "")


@pytest.mark.parametrize("name", checkpoints.OTHERS)
def test_what_another_package_writes_is_loaded_or_refused_as_the_page_says(name: str, tmp_path: Path) -> None:
    case = checkpoints.OTHERS[name]
    outcome, text = OTHERS[name]
    assert outcome == ("loaded" if case.way_out is None else "refused")
    assert case.way_out is None or re.search(case.way_out, text)
    pytest.importorskip(case.group)
    found = checkpoints.outcome(case.make(checkpoints.made_folder(tmp_path)))
    assert found.text == text
    assert not found.loaded or found.difference <= 1e-5
