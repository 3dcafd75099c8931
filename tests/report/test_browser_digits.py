"""The page of the whole digits benchmark in a real browser; `make bench` runs the benchmark, and then this."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from builders.bench_run import Row, expected_board, read_readings
from builders.browser import ROUNDED, Browser, value
from sfra.cli import main

STORE = os.environ.get("SFRA_DIGITS_STORE")
pytestmark = pytest.mark.skipif(not STORE, reason="SFRA_DIGITS_STORE names no store of the digits benchmark")


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return read_readings(Path(str(STORE)), ["digits"])


@pytest.fixture(scope="module")
def page(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Browser:
    file = tmp_path_factory.mktemp("digits") / "page.html"
    assert main(["report", "--bench", "digits", "--store", str(STORE), "--out", str(file), "--quiet"]) == 0
    browser.open(file)
    assert browser.requests() == [file.as_uri()]
    return browser


def check_board(page: Browser, expected: dict[tuple[str, str], list[float]]) -> list[list[float]]:
    """Compare the leaderboard with what the audits say; return the exact numbers in the order that is shown."""
    wanted = {method: numbers for (method, _), numbers in expected.items()}
    shown = page.table("#board tbody tr:not([hidden])")
    assert sorted(cells[0] for cells in shown) == sorted(wanted)
    for name, *cells in shown:
        assert [value(text) for text in cells] == pytest.approx(wanted[name], abs=ROUNDED), name
    return [wanted[cells[0]] for cells in shown]


def test_the_leaderboard_is_that_of_the_audits_and_sorts(page: Browser, rows: list[Row]) -> None:
    opened = [numbers[2] for numbers in check_board(page, expected_board(rows))]
    assert opened == sorted(opened, reverse=True)
    page.run("arguments[0].click()", page.all("#board th button")[1])
    by_rs = [numbers[0] for numbers in check_board(page, expected_board(rows))]
    assert by_rs == sorted(by_rs, reverse=True) != opened


def test_filters_keep_the_audits_of_a_forget_set_a_scale_and_a_rule(page: Browser, rows: list[Row]) -> None:
    for name, choices in (("forget", ("1+6", "")), ("scale", ("native", "canonical")), ("rule", ("worst-case",))):
        for choice in choices:
            page.choose(f"by-{name}", choice)
            check_board(page, expected_board(rows, **{name: choice}))
    page.choose("by-rule", "source-free")


def test_every_cell_of_the_map_leads_to_its_audit_and_one_opens(page: Browser, rows: list[Row]) -> None:
    mine = {row["cell"]: row for row in rows if (row["scale"], row["rule"]) == ("canonical", "source-free")}
    for cell, row in mine.items():
        assert value(page.find(f'.map a[href="#audit-{cell[:12]}"]').text) == pytest.approx(row["rs"], abs=ROUNDED)
    cell = next(cell for cell, row in mine.items() if (row["method"], row["forget"]) == ("delete", "7"))
    page.run("arguments[0].click()", page.find(f'.map a[href="#audit-{cell[:12]}"]'))
    page.settle()
    assert [one.get_attribute("id") for one in page.all("details.audit[open]")] == [f"audit-{cell[:12]}"]
    assert "of the forgotten class comes back, and clearly more" in page.text(f"#audit-{cell[:12]} .statement")


def test_the_console_stays_silent(page: Browser) -> None:
    assert page.messages() == []
