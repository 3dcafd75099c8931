"""Pages in a real browser, off the network: what a click or a key changes, against numbers computed from the JSON."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver import ActionChains
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select

from builders.bench_run import Row, expected_board, read_benchmark
from builders.browser import ROUNDED, Browser, value
from builders.pages import DATE, HOSTILE, made_up
from sfra.report import audit_page, bench_page, read_audit

SHOWN = "#board tbody tr:not([hidden])"
COLUMNS = {"RS mean": 2, "RS max": 3, "ΔRS mean": 4, "ΔRS max": 5, "Forget before": 6, "Forget after": 7}


@pytest.fixture(scope="module")
def rows(bench_folder: Path) -> list[Row]:
    return read_benchmark(bench_folder)


@pytest.fixture
def bench(browser: Browser, bench_folder: Path) -> Browser:
    """The page of the benchmark, just opened."""
    browser.open(bench_folder / "page.html")
    return browser


def check_board(browser: Browser, expected: dict[tuple[str, str], list[float]]) -> list[list[float]]:
    """Compare the leaderboard with what it should say; return its exact numbers in the order that is shown."""
    shown = browser.table(SHOWN)
    keys = [(cells[0], cells[1].rpartition(", ")[2]) for cells in shown]
    assert sorted(keys) == sorted(expected)
    for key, cells in zip(keys, shown, strict=True):
        assert [value(text) for text in cells[2:]] == pytest.approx(expected[key], abs=ROUNDED), key
    return [expected[key] for key in keys]


def heading(browser: Browser, name: str) -> Any:
    return next(head for head in browser.all("#board th") if head.text.split(" ↓")[0].split(" ↑")[0] == name)


def test_the_leaderboard_opens_with_the_most_recoverable_method_first(bench: Browser, rows: list[Row]) -> None:
    shown = [numbers[2] for numbers in check_board(bench, expected_board(rows))]
    assert shown == sorted(shown, reverse=True)
    assert len(set(shown)) > 2


@pytest.mark.parametrize("name", ["RS mean", "ΔRS max", "Forget after"])
def test_a_click_on_a_heading_sorts_and_another_turns_the_order(bench: Browser, rows: list[Row], name: str) -> None:
    expected = expected_board(rows)
    for direction in ("descending", "ascending"):
        heading(bench, name).find_element("css selector", "button").click()
        shown = [numbers[COLUMNS[name] - 2] for numbers in check_board(bench, expected)]
        assert shown == sorted(shown, reverse=direction == "descending")
        assert len(set(shown)) > 2
        assert heading(bench, name).get_attribute("aria-sort") == direction
        assert len(bench.all("#board th[aria-sort]")) == 1


def test_the_keyboard_sorts_as_the_mouse_does(bench: Browser) -> None:
    bench.run("arguments[0].focus()", heading(bench, "Method").find_element("css selector", "button"))
    for key, reverse in ((Keys.ENTER, False), (Keys.SPACE, True)):
        bench.press(key)
        names = [cells[0].lower() for cells in bench.table(SHOWN)]
        assert names == sorted(names, reverse=reverse)


@pytest.mark.parametrize("name", ["dataset", "backbone", "forget", "scale", "rule"])
def test_a_filter_keeps_the_audits_that_have_its_value(bench: Browser, rows: list[Row], name: str) -> None:
    offered = [option.get_attribute("value") for option in bench.all(f"#by-{name} option")]
    known = {row[name] for row in rows}
    assert set(offered) == (known if name in ("scale", "rule") else known | {""})
    assert len(known) > 1
    for choice in offered:
        bench.choose(f"by-{name}", choice)
        check_board(bench, expected_board(rows, **{name: choice}))


def test_classes_are_called_by_the_names_that_their_data_set_gives_them(bench: Browser, rows: list[Row]) -> None:
    mine = next(row for row in rows if (row["method"], row["backbone"]) == ("delete", "small-cnn"))
    link = bench.find(f'.map a[href="#audit-{mine["cell"][:12]}"]')
    assert link.accessible_name == f"RS {link.text}: DELETE, forget set dog (3)"
    assert "forgot dog (3)" in bench.text(f"#audit-{mine['cell'][:12]} summary")
    headings = [cells[1:] for cells in bench.table(".map thead tr")]
    assert headings == [["3", "7"]] * 2 + [["dog (3)"]] * 2
    offered = [option.text for option in bench.all("#by-forget option")]
    assert offered == ["all", "3", "7"]  # 3 is another class in either data set


@pytest.mark.parametrize("way", ["mouse", "keyboard"])
def test_a_cell_of_the_map_opens_its_audit(bench: Browser, rows: list[Row], way: str) -> None:
    mine = next(
        row for row in rows if (row["method"], row["forget"], row["backbone"]) == ("finetune", "7", "small-mlp")
    )
    key = f"audit-{mine['cell'][:12]}"
    link = bench.find(f'.map a[href="#{key}"]')
    assert value(link.text) == pytest.approx(mine["rs"], abs=ROUNDED)
    assert link.accessible_name == f"RS {link.text}: Finetune, forget set 7"
    assert not bench.find(f"#{key} .verdict").is_displayed()
    if way == "mouse":
        link.click()
    else:
        bench.run("arguments[0].focus()", link)
        bench.press(Keys.ENTER)
    bench.wait(lambda: bench.all("details.audit[open]"))  # the page follows its address a moment later
    bench.settle()
    assert [details.get_attribute("id") for details in bench.all("details.audit[open]")] == [key]
    assert bench.find(f"#{key} .verdict").is_displayed()
    assert f"RS {mine['rs']:.2f}" in bench.text(f"#{key} summary")
    assert "Finetune" in bench.text(f"#{key} summary")
    assert 0 <= bench.run("return document.activeElement.getBoundingClientRect().top") < 900
    assert len(bench.all(f"#{key} .chart svg.marks")) == 3


def test_the_page_of_the_demo_tells_every_verdict_in_words(browser: Browser, demo_folder: Path) -> None:
    browser.open(demo_folder / "report.html")
    content = json.loads((demo_folder / "demo.json").read_text())
    shown = browser.table("table.sortable tbody tr")[: len(content["audits"])]
    for number, (name, audit) in enumerate(content["audits"].items()):
        row = next(cells for cells in shown if cells[0].split()[0] == name)
        assert row[8] == audit["verdict"]
        assert [value(text) for text in row[2:4]] == pytest.approx([audit["rs"], audit["delta_rs"]], abs=ROUNDED)
        browser.run("arguments[0].click()", browser.find(f'th a[href="#audit-{number}"]'))
        assert browser.text(f"#audit-{number} .statement") == audit["statement"]
        assert browser.text(f"#audit-{number} summary").startswith(name)


def test_a_finding_leads_to_its_explanation(browser: Browser, demo_folder: Path) -> None:
    browser.open(demo_folder / "report.html", "#audit-0")
    link = browser.find("#audit-0 .findings a")
    code = link.text
    link.click()
    assert browser.find(".flag:target h3").text == code
    assert 0 <= browser.run("return document.querySelector('.flag:target').getBoundingClientRect().top") < 900


def test_other_curves_of_an_audit_can_be_chosen(browser: Browser, demo_folder: Path, tmp_path: Path) -> None:
    audit = read_audit(demo_folder / "masked")
    (tmp_path / "page.html").write_text(audit_page(audit, date=DATE), encoding="utf-8")
    browser.open(tmp_path / "page.html")

    def rules() -> list[str]:
        return [text.text for text in browser.all('[data-chart="audit-trajectory"] svg text') if "epoch " in text.text]

    def expected(scale: str) -> set[str]:
        mine = [one for one in audit.results if (one.scale, one.variant) == (scale, "released")]
        return {f"epoch {one.epochs[0]}, RS {one.rs_seeds[0]:.2f}" for one in mine}

    assert {text.partition(": ")[2] for text in rules()} == expected("canonical")
    menu = Select(browser.find('[data-chart="audit-trajectory"] select'))
    menu.select_by_visible_text("native, released")
    browser.wait(lambda: {text.partition(": ")[2] for text in rules()} == expected("native"))
    assert expected("native") != expected("canonical")


def test_pointing_at_an_epoch_tells_all_its_values(browser: Browser, demo_folder: Path) -> None:
    audit = read_audit(demo_folder / "delete")
    names = [name for name, _ in json.loads((demo_folder / "demo.json").read_text())["audits"].items()]
    key = f"audit-{names.index('delete')}"
    browser.open(demo_folder / "report.html", f"#{key}")
    picture = browser.find(f'[data-chart="{key}-trajectory"] svg.marks')
    browser.run("arguments[0].scrollIntoView({ block: 'center' })", picture)
    ActionChains(browser.driver).move_to_element(picture).move_by_offset(3, 3).perform()
    told = browser.wait(lambda: browser.all("#vg-tooltip-element.visible") and browser.text("#vg-tooltip-element"))
    epoch = int(re.search(r"epoch (\d+)", told)[1])  # type: ignore[index]
    main = ("model", audit.scale, audit.variant)
    run = next(run for run in audit.traces if (run.subject, run.scale, run.variant) == main)
    assert run.rs is not None
    assert f"RS {run.rs[epoch]:.3f}" in told


def test_names_of_strangers_stay_text_where_the_script_writes_them(browser: Browser, tmp_path: Path) -> None:
    bench = made_up(["retrained", "finetune", HOSTILE], 2)
    (tmp_path / "page.html").write_text(bench_page(bench, date=DATE), encoding="utf-8")
    browser.open(tmp_path / "page.html")
    assert HOSTILE in [cells[0] for cells in browser.table(SHOWN)]
    assert any(HOSTILE in text.text for text in browser.all(".chart svg text"))
    assert browser.all("img") == []
    assert browser.messages() == []
