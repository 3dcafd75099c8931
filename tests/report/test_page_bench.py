"""The page of a benchmark: small enough, complete, safe, and leading to every audit."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest
import torch

from builders.audits import SMALL, compare, hidden, never_seen
from builders.pages import DATE, HOSTILE, Parsed, made_up, true_audit
from sfra.auditing.verdict import VERDICTS
from sfra.core.metrics import relearning_curve
from sfra.report.figures_colour import contrast
from sfra.report.page_bench import TITLES, page_of_reports
from sfra.report.page_map import heat_css, heat_map
from sfra.report.page_text import BADGES
from sfra.report.vega import differences

METHODS = ["retrained", "finetune", "negative-gradient", HOSTILE]


@pytest.fixture(scope="module")
def page() -> str:
    report, audits = made_up(METHODS, 3, true_audit())
    return page_of_reports([report], audits, date=DATE)


@pytest.fixture(scope="module")
def parsed(page: str) -> Parsed:
    return Parsed(page)


def data(page: str) -> dict[str, Any]:
    start = page.index('id="page-data">') + len('id="page-data">')
    found: dict[str, Any] = json.loads(page[start : page.index("</script>", start)])
    return found


def board(found: dict[str, Any]) -> list[dict[str, Any]]:
    columns = {name: [column["values"][i] for i in column["places"]] for name, column in found["rows"].items()}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def test_every_cell_of_the_maps_leads_to_an_audit_in_detail(parsed: Parsed) -> None:
    details = {f"#{a['id']}" for a in parsed.all("details") if a.get("class") == "audit"}
    links = [a["href"] for a in parsed.all("a") if (a["href"] or "").startswith("#audit-")]
    assert len(details) == len(METHODS) * 3
    assert set(links) == details
    in_maps = (2 * len(METHODS) - 1) * 3  # the reference has no ΔRS to show
    assert len(links) == in_maps + len(METHODS) * 3 - 1  # all but the first say where their settings are


def test_names_of_methods_and_failures_stay_text(parsed: Parsed) -> None:
    assert HOSTILE in parsed.text
    assert parsed.open == []
    assert parsed.all("img") == []
    assert not [name for _, attributes in parsed.elements for name in attributes if name.startswith("on")]


def test_the_leaderboard_can_be_filtered_by_every_scale_and_rule(page: str) -> None:
    found = data(page)
    rows = board(found)
    assert {row["rule"] for row in rows} == {"source-free", "validation", "worst-case"}
    assert found["filters"]["scale"] == [["canonical", "canonical"], ["native", "native"]]
    assert found["filters"]["forget"] == [["0", "0"], ["1", "1"], ["2", "2"]]
    assert found["defaults"] == {"scale": "canonical", "rule": "source-free"}
    assert len(rows) == len(METHODS) * 3 * 6


def test_figures_are_there_with_words_and_a_dark_twin(page: str, parsed: Parsed) -> None:
    figures = data(page)["figures"]
    assert set(figures) == {"0-violin", "0-scatter", "0-accuracy", "0-tradeoff"}
    spoken = [a["aria-label"] for a in parsed.all("div") if (a.get("class") or "").startswith("chart fixed")]
    assert spoken == [figures[f"0-{name}"]["spec"]["description"] for name in TITLES if f"0-{name}" in figures]
    assert all(figure["dark"] and figure["spec"]["description"] not in parsed.text for figure in figures.values())
    assert parsed.text.count("Mark: one of 3 forget classes; bar: middle half; stroke: median.") == 1


def test_the_reference_is_called_so_and_not_blamed_for_having_none() -> None:
    alone = true_audit(verdict="no-reference", statement=VERDICTS["no-reference"])
    report, audits = made_up(["retrained", "finetune"], 1, alone)
    page = page_of_reports([report], audits, date=DATE)
    assert re.findall('<span class="tag ([a-z]+)">([a-z-]+)</span>', page) == [
        ("calm", "reference"),
        ("care", "no-reference"),
    ]
    assert page.count(f'<p class="statement">{BADGES["reference"]}</p>') == 1
    assert f"<strong>reference</strong>: {BADGES['reference']}" in page


@pytest.mark.parametrize(
    ("sets", "title"),
    [([[0], [1]], "RS over the forget sets"), ([[0], [0, 1]], "RS over the single forget classes")],
)
def test_a_figure_of_single_classes_says_that_it_leaves_out_the_others(sets: list[list[int]], title: str) -> None:
    report, audits = made_up(["retrained", "finetune"], 2, true_audit())
    named = {str(i): ("+".join(map(str, labels)), labels) for i, labels in enumerate(sets)}
    rows = [
        replace(row, forget=named[row.forget][0], forget_classes=named[row.forget][1]) for row in report.rows.audits
    ]
    report = replace(report, rows=replace(report.rows, audits=rows))
    assert f"<h3>{title}, method by method</h3>" in page_of_reports([report], audits, date=DATE)


def test_what_failed_and_what_is_missing_is_said(parsed: Parsed) -> None:
    assert "1 result of toy is missing" in parsed.text
    assert "Failures What Why Message Attempts" in parsed.text


def test_the_same_benchmark_gives_the_same_bytes(page: str) -> None:
    report, audits = made_up(METHODS, 3, true_audit())
    assert page_of_reports([report], audits, date=DATE) == page


def walks(count: int, samples: int, start: float, seed: int) -> torch.Tensor:
    """Accuracies of 500 epochs, as restless as real ones, on so many samples: one row for each run."""
    steps = torch.randint(-9, 10, (count, 501), generator=torch.Generator().manual_seed(seed)).cumsum(1)
    return ((steps + round(start * samples)).clamp(0, samples).double() / samples).round(decimals=6)


def test_a_hundred_and_ten_audits_of_published_length_stay_under_five_megabytes() -> None:
    whole = compare(hidden(), never_seen(), **{**SMALL, "scale": "sweep", "seeds": 3}).to_dict()
    report, audits = made_up([f"method {i}" for i in range(11)], 10, whole)
    for i, audit in enumerate(audits.values()):
        for subject, seed in (("model", i), ("reference", 500 + i % 10)):  # methods share the reference of a class
            runs = [run for run in audit["trajectory"] if run["subject"] == subject]
            retain, forget = walks(len(runs), 9000, 0.94, seed), walks(len(runs), 1000, 0.3, 1000 + seed)
            for run, kept, back in zip(runs, retain, forget, strict=True):
                curves = {"retain": kept, "forget": back, "rs": relearning_curve(kept, back)}
                run |= {name: curve.tolist() for name, curve in curves.items()}
    page = page_of_reports([report], audits, date=DATE)
    assert len(audits) == 110
    assert len(data(page)["runs"]) == 3 * (110 + 10)
    assert 2_000_000 < len(page.encode()) < 5_000_000


def test_numbers_can_be_read_on_every_shade() -> None:
    pairs = [line.split("background: ")[1].split("; color: ") for line in heat_css().splitlines() if "color: " in line]
    assert len(pairs) == 3 * 2 * 21
    assert min(contrast(fill, ink.split(";")[0]) for fill, ink in pairs) >= 4.5


def test_a_map_has_a_hole_where_there_is_no_audit() -> None:
    report, _ = made_up(["finetune", "scrub"], 2, true_audit())
    rows = [
        row
        for row in report.rows.audits
        if (row["scale"], row["rule"], row["variant"]) == ("native", "source-free", "released")
    ]
    assert len(rows) == 4
    made = heat_map(rows[:-1], "rs", set())
    assert [[cell and cell["text"] for cell in line["cells"]] for line in made["lines"]] == [
        ["0.11", "0.22"],
        ["0.22", None],
    ]


def test_the_dark_twin_is_rebuilt_from_its_differences() -> None:
    light: dict[str, Any] = {"a": [1, {"b": "white", "c": [1, 2]}], "d": {"x": 1}}
    dark: dict[str, Any] = {"a": [1, {"b": "black", "c": [1, 2, 3]}], "d": {"y": 1}}
    changes = differences(light, dark)
    assert changes == [[["a", 1, "b"], "black"], [["a", 1, "c"], [1, 2, 3]], [["d"], {"y": 1}]]
    assert differences(dark, dark) == []
