"""The table of goals and the figure of cost: they show the rows that are kept, and bounds and exponents are right."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from reproduction.report import include

goals: Any = pytest.importorskip("goals", reason="the benchmarks are not on the path")
cost: Any = pytest.importorskip("cost", reason="the benchmarks are not on the path")


def test_the_page_shows_the_rows() -> None:
    text = goals.PAGE.read_text(encoding="utf-8")
    assert include(text, {"goals": [goals.table()]}) == text


def test_nothing_is_faster_than_its_bound() -> None:
    rows = [row for row in goals.read(goals.ROWS) if row["bound_seconds"] is not None]
    assert len(rows) >= 5
    assert all(row["bound_seconds"] <= row["seconds"] for row in rows)


def test_bounds_count_the_numbers_and_the_operations() -> None:
    most = goals.Ceilings(normals=10.0, product=100.0, half_product=1.0, copy=1.0)
    assert most.probes(draws=3, classes=5, rank=4) == pytest.approx(12 / 10 + 3 * 2 * 5 * 4 / 100)
    # two products of 2 * 3 * 7 operations for each of 2 * 5 * (3 - 1) probes, 11 epochs, 2 runs
    assert most.relearning(runs=2, classes=3, width=7, m=5, epochs=11) == pytest.approx(2 * 2 * 42 * 20 * 11 / 100)


def test_a_row_takes_the_place_of_an_older_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(goals, "ROWS", tmp_path / "rows.csv")
    for name, seconds in (("a", 1.0), ("b", 2.0), ("a", 3.0)):
        goals.keep(goals.Row(name=name, seconds=seconds))
    assert sorted((row["name"], row["seconds"], row["draws"]) for row in goals.read(goals.ROWS)) == [
        ("a", 3.0, None),
        ("b", 2.0, None),
    ]


def test_exponents_are_the_slopes_at_the_end_and_carry_on_to_many_classes() -> None:
    rows = [
        {"axis": axis, "value": value, "probes": 2e-6 * value**1.5 + 3.0 * (value == values[0]), "relearning": 5.0}
        for axis, values in cost.GRID.items()
        for value in values
    ]
    found = pl.DataFrame(rows)
    for axis in cost.GRID:
        assert cost.exponents(found)[axis, "probes"][0] == pytest.approx(1.5)
        assert cost.exponents(found)[axis, "relearning"][0] == pytest.approx(0.0, abs=1e-9)
    ahead = cost.predict(found)
    assert ahead["probes"] == pytest.approx(2e-6 * cost.MANY**1.5)
    assert math.isclose(ahead["relearning"], 5.0)


def test_the_stored_rows_of_cost_have_every_point() -> None:
    found = pl.read_csv(cost.ROWS)
    assert {axis: tuple(part["value"]) for (axis,), part in found.group_by("axis")} == cost.GRID
    assert (found["probes"] > 0).all()
    assert (found["relearning"] > 0).all()
