"""Pages in a real browser, off the network: what a click or a key changes, against numbers computed from the JSON."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
import torch
from selenium.webdriver.common.keys import Keys

from builders.bench_run import NAMES, Row, expected_board, read_benchmark
from builders.browser import ROUNDED, Browser, value
from builders.pages import DATE, HOSTILE, made_up, true_audit
from sfra.bench.tables.names import backbone_name
from sfra.core.metrics import relearning_curve, rs_at_budget
from sfra.report.page import audit_page
from sfra.report.page_bench import page_of_reports

COLUMNS = {"RS mean": 2, "RS max": 3, "ΔRS mean": 4, "ΔRS max": 5, "Forget before": 6, "Forget after": 7}
RING = "g.role-mark.layer_3_marks path"


@pytest.fixture(scope="module")
def rows(bench_folder: Path) -> list[Row]:
    return read_benchmark(bench_folder)


@pytest.fixture
def bench(browser: Browser, bench_folder: Path) -> Browser:
    """The page of the benchmark, just opened."""
    browser.open(bench_folder / "page.html")
    return browser


def called(row: Row) -> str:
    """Name the forget class of a row: only one of the two data sets has words for its classes."""
    return f"{NAMES[int(row['forget'])]} ({row['forget']})" if row["dataset"] != "digits" else str(row["forget"])


def check_board(browser: Browser, expected: dict[tuple[str, str], list[float]]) -> list[list[float]]:
    """Compare the leaderboard with what it should say; return its exact numbers in the order that is shown."""
    shown = browser.table("#board tbody tr")
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
    assert bench.text("#board-count") == "4 methods, 10 audits"


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
        names = [cells[0].lower() for cells in bench.table("#board tbody tr")]
        assert names == sorted(names, reverse=reverse)


@pytest.mark.parametrize("name", ["dataset", "backbone", "forget", "scale", "rule"])
def test_a_filter_keeps_the_audits_that_have_its_value(bench: Browser, rows: list[Row], name: str) -> None:
    offered = [option.get_attribute("value") for option in bench.all(f"#by-{name} option")]
    known = {row[name] for row in rows}
    assert set(offered) == (known if name in ("scale", "rule") else known | {""})
    assert len(known) > 1
    for choice in offered:
        bench.choose(f"by-{name}", choice)
        expected = expected_board(rows, **{name: choice})
        check_board(bench, expected)
        audits = round(sum(numbers[-1] for numbers in expected.values()))
        methods = len({method for method, _ in expected})
        assert bench.text("#board-count") == f"{methods} methods, {audits} audits"


def test_two_methods_stand_side_by_side_under_the_filters(bench: Browser, rows: list[Row]) -> None:
    bench.choose("first", "delete")
    bench.choose("second", "retrained")
    bench.choose("by-rule", "worst-case")
    mine = [row for row in rows if (row["scale"], row["rule"]) == ("canonical", "worst-case")]
    pairs = {
        (called(one), backbone_name(one["backbone"])): (one["rs"], two["rs"], one["delta_rs"], two["delta_rs"])
        for one in mine
        for two in mine
        if (one["method"], two["method"]) == ("delete", "retrained")
        if all(one[name] == two[name] for name in ("forget", "dataset"))
    }
    shown = {
        (cells[0].split(",")[0], cells[0].rpartition(", ")[2]): cells[1:] for cells in bench.table("#pair tbody tr")
    }
    assert shown.keys() == pairs.keys()
    assert len(pairs) == 3
    for key, (a, b, da, db) in pairs.items():
        assert [value(text) for text in shown[key]] == pytest.approx([a, b, a - b, da, db, da - db], abs=ROUNDED)
    assert value(bench.table("#pair tfoot tr")[0][3]) == pytest.approx(
        fmean(pair[0] - pair[1] for pair in pairs.values()), abs=ROUNDED
    )
    more = sum(pair[0] > pair[1] for pair in pairs.values())
    words = f"In {more} of 3 forget sets more comes back under DELETE than under Retrained."
    assert bench.text("#pair-words") == words


def test_classes_are_called_by_the_names_that_their_data_set_gives_them(bench: Browser, rows: list[Row]) -> None:
    mine = next(row for row in rows if (row["method"], row["backbone"]) == ("delete", "small-cnn"))
    link = bench.find(f'.map a[href="#audit-{mine["cell"][:12]}"]')
    assert link.accessible_name == f"RS {link.text}: DELETE, forget set dog (3)"
    assert "forgot dog (3)" in bench.text(f"#audit-{mine['cell'][:12]} summary")
    headings = [cells[1:] for cells in bench.table(".map thead tr")]
    assert headings == [["dog (3)"]] * 2 + [["3", "7"]] * 2
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
    assert len(bench.all(f"#{key} .chart svg.marks")) == 1


def test_the_slider_follows_the_keys_and_tells_the_score_at_its_budget(browser: Browser, demo_folder: Path) -> None:
    audits = [json.loads((demo_folder / name / "audit.json").read_text()) for name in ("delete", "bad-teacher")]
    browser.open(demo_folder / "report.html", "#audit-1")
    before = [ring(browser, 1)]
    for number, audit in enumerate(audits, start=1):
        browser.run("document.getElementById(arguments[0]).open = true", f"audit-{number}")
        browser.run("document.getElementById(arguments[0]).focus()", f"audit-{number}-budget")
        for keys, budget in (([], 2.0), ([Keys.HOME], 0.0), ([Keys.ARROW_RIGHT] * 7, 0.7), ([Keys.END], 20.0)):
            browser.press(*keys)
            assert browser.text(f"#audit-{number}-found") == told(audit, "canonical", budget)
        before.append(ring(browser, 1))
    assert before[0] != before[1] == before[2]  # the ring moved with the first slider, and not with the second


def told(audit: Row, scale: str, points: float) -> str:
    """Say what the page should, from the trajectories of the file and the formula of the package."""

    def best(subject: str) -> tuple[float, int]:
        mine = (subject, scale, "released")
        run = next(one for one in audit["trajectory"] if (one["subject"], one["scale"], one["variant"]) == mine)
        retain, forget = (torch.tensor(run[name], dtype=torch.float64) for name in ("retain", "forget"))
        score = rs_at_budget(retain, forget, points / 100)
        return score, int((relearning_curve(retain, forget) - score).abs().argmin())

    (model, epoch), (reference, _) = best("model"), best("reference")
    difference = f"{model - reference:+.2f}".replace("-", "−")
    compared = f"reference {reference:.2f}, difference {difference}"
    return f"ε = {points:.1f} points: RS@ε {model:.2f} at epoch {epoch}; {compared}"


def ring(browser: Browser, number: int) -> str:
    """Return where the ring around the best epoch is drawn."""
    chart = f'.chart[data-audit="audit-{number}"]'
    browser.settle()
    return str(browser.run("return document.querySelector(arguments[0]).getAttribute('transform')", f"{chart} {RING}"))


def test_other_curves_of_an_audit_can_be_chosen(browser: Browser, demo_folder: Path, tmp_path: Path) -> None:
    audit = json.loads((demo_folder / "masked" / "audit.json").read_text())
    (tmp_path / "page.html").write_text(audit_page(audit, date=DATE), encoding="utf-8")
    browser.open(tmp_path / "page.html")
    assert browser.text("#audit-found") == told(audit, "canonical", 2.0)
    options = {option.text: option.get_attribute("value") for option in browser.all("#audit-which option")}
    browser.choose("audit-which", options["native scale, released"])
    assert browser.text("#audit-found") == told(audit, "native", 2.0)
    assert told(audit, "native", 2.0) != told(audit, "canonical", 2.0)


def test_with_several_seeds_the_slider_tells_the_mean_of_their_best_scores(browser: Browser, tmp_path: Path) -> None:
    audit = true_audit()
    main = ("model", audit["scale"], audit["variant"])
    run = next(run for run in audit["trajectory"] if (run["subject"], run["scale"], run["variant"]) == main)
    forget = torch.linspace(0.0, 0.8, 41)
    runs = [(0.95 - share * torch.linspace(0.0, 1.0, 41), forget) for share in (0.2, 0.4)]
    audit["trajectory"] = [
        run | {"seed": i, "retain": r.tolist(), "forget": f.tolist(), "rs": relearning_curve(r, f).tolist()}
        for i, (r, f) in enumerate(runs)
    ]
    (tmp_path / "page.html").write_text(audit_page(audit, date=DATE), encoding="utf-8")
    browser.open(tmp_path / "page.html")
    browser.run("document.getElementById('audit-budget').focus()")
    browser.press(*[Keys.ARROW_RIGHT] * 30)
    expected = fmean(rs_at_budget(retain, forget, 0.05) for retain, forget in runs)
    assert f"ε = 5.0 points: RS@ε {expected:.2f} at epoch" in browser.text("#audit-found")


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


def test_names_of_strangers_stay_text_where_the_script_writes_them(browser: Browser, tmp_path: Path) -> None:
    report, audits = made_up(["retrained", "finetune", HOSTILE], 2, true_audit())
    (tmp_path / "page.html").write_text(page_of_reports([report], audits, date=DATE), encoding="utf-8")
    browser.open(tmp_path / "page.html")
    assert HOSTILE in [cells[0] for cells in browser.table("#board tbody tr")]
    assert HOSTILE in [option.text for option in browser.all("#first option")]
    assert browser.all("img") == []
    assert browser.messages() == []
