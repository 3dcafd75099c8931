"""Names of classes on the page of a benchmark: the audit's, else the data set's, and indices where there are none."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from builders.pages import DATE, HOSTILE, Parsed, made_up, rows_of, true_audit
from sfra.bench.report import BenchReport
from sfra.bench.rows import OriginalRow, Rows
from sfra.bench.tables import to_csv
from sfra.bench.tables.results import per_class_table
from sfra.report.figures import benchmark_figures
from sfra.report.page_bench import page_of_reports

NAMES = ["cat", "dog", "eel", "fox", "gnu", "hen"]
METHODS = ["retrained", "finetune"]


def original(dataset: str = "digits", names: list[str] | None = NAMES) -> OriginalRow:
    """The accuracy of an original, as far as names go."""
    where: dict[str, Any] = {"dataset": dataset, "backbone": "small-cnn", "seed": 0, "method": "original"}
    return OriginalRow(**where, accuracy=1.0, hits=[1] * 6, samples=[1] * 6, class_names=names, model={})


def benchmark(*originals: OriginalRow, audit: dict[str, Any] | None = None) -> tuple[BenchReport, dict[str, Any]]:
    """A benchmark whose audits know no names, unless one is given, with a pair of classes among the forget sets."""
    report, audits = made_up(METHODS, 2, audit or true_audit(class_names=None, findings=[]))
    pair = next(iter(audits.values()))
    more = [replace(row, forget="0+2", forget_classes=[0, 2]) for row in rows_of(pair, "finetune", 0, "f" * 64)]
    rows = replace(report.rows, audits=[*report.rows.audits, *more], originals=list(originals))
    return replace(report, rows=rows), {**audits, "f" * 64: pair}


def page_data(page: str) -> dict[str, Any]:
    start = page.index('id="page-data">') + len('id="page-data">')
    found: dict[str, Any] = json.loads(page[start : page.index("</script>", start)])
    return found


def offered(page: str) -> dict[str, str]:
    """The forget sets that the leaderboard can be filtered by, as the page calls them."""
    return dict(page_data(page)["filters"]["forget"])


def test_audits_without_names_take_those_of_their_data_set() -> None:
    report, audits = benchmark(original())
    page = page_of_reports([report], audits, date=DATE)
    text = Parsed(page).text
    forgotten = true_audit()["forget_classes"][0]
    assert f"forgot {NAMES[forgotten]} ({forgotten})" in text
    assert f"samples of {NAMES[forgotten]} ({forgotten}), first seed" in text
    assert f"class {forgotten}" not in text
    assert offered(page) == {"0": "cat (0)", "1": "dog (1)", "0+2": "cat (0), eel (2)"}
    assert set(page_data(page)["rows"]["where"]["values"]) == {"cat (0)", "dog (1)", "0+2"}
    assert page_of_reports([report], audits, date=DATE) == page


def test_classes_without_names_go_by_their_index() -> None:
    report, audits = benchmark(original(names=None))
    page = page_of_reports([report], audits, date=DATE)
    assert f"forgot class {true_audit()['forget_classes'][0]}" in Parsed(page).text
    assert offered(page) == {"0": "0", "1": "1", "0+2": "0+2"}


def test_the_names_of_an_audit_count_before_those_of_its_data_set_and_serve_where_there_are_none() -> None:
    own = [f"own {name}" for name in NAMES]
    forgotten = true_audit()["forget_classes"][0]
    for originals in ([original()], []):
        report, audits = benchmark(*originals, audit=true_audit(class_names=own))
        page = page_of_reports([report], audits, date=DATE)
        assert f"forgot {own[forgotten]} ({forgotten})" in Parsed(page).text
        assert offered(page)["1"] == ("dog (1)" if originals else "own dog (1)")


def test_a_column_of_the_map_has_the_name_and_its_links_all_names() -> None:
    report, audits = benchmark(original())
    parsed = Parsed(page_of_reports([report], audits, date=DATE))
    titles = [a.get("title") for a in parsed.all("th") if a.get("title")]
    assert titles == ["cat (0), eel (2)"] * 2  # RS and ΔRS; a single class needs no second name
    links = {(a.get("aria-label") or "").partition(": ")[2] for a in parsed.all("a") if a.get("aria-label")}
    assert {"Finetune, forget set dog (1)", "Finetune, forget set cat (0), eel (2)"} <= links


def test_an_index_that_means_two_classes_stays_an_index_in_the_filter() -> None:
    report, audits = benchmark(original(), original("other", NAMES[::-1]))
    other = [replace(row, dataset="other") for row in report.rows.audits if row["forget"] == "1"]
    rows = replace(report.rows, audits=[*report.rows.audits, *other])
    page = page_of_reports([replace(report, rows=rows)], audits, date=DATE)
    assert offered(page) == {"0": "cat (0)", "1": "1", "0+2": "cat (0), eel (2)"}
    places = set(page_data(page)["rows"]["where"]["values"])
    assert {"dog (1), Digits, small CNN", "gnu (1), other, small CNN"} <= places


def test_tables_on_the_page_have_names_where_files_have_indices() -> None:
    report, audits = benchmark(original())
    table = per_class_table(report.rows, scale="canonical", rule="source-free")
    page = page_of_reports([replace(report, tables=(table,))], audits, date=DATE)
    assert "Finetune dog (1) unlearned" in Parsed(page).text
    assert ",1,unlearned" in to_csv(table)
    assert "dog" not in to_csv(table)


def test_names_stay_text() -> None:
    names = [HOSTILE, *NAMES[1:]]
    report, audits = benchmark(original(names=names))
    parsed = Parsed(page_of_reports([report], audits, date=DATE))
    assert f"{HOSTILE} (0)" in parsed.text
    assert parsed.all("img") == []


@pytest.mark.parametrize("name", ["accuracy", "violin", "scatter", "heatmap-rs", "heatmap-delta-rs", "sweep"])
def test_figures_tell_forget_sets_apart_by_name(name: str) -> None:
    rows = made_up(METHODS, 2, true_audit())[0].rows.audits
    swept = [row | {"scale": f"{k}", "kappa": k, "reference_rs": 0.1} for row in rows for k in (1.0, 1.7, 3.0)]
    for names, expected in ((None, {"0", "1"}), (NAMES, {"cat (0)", "dog (1)"})):
        drawn, _ = benchmark_figures([*rows, *swept], names=names)
        text = json.dumps(drawn[name].to_dict(), ensure_ascii=False)
        assert all(f'"forget": "{one}"' in text for one in expected)
        assert ("dog" in text) == (names is not None)


def test_rows_of_a_benchmark_keep_the_indices() -> None:
    report, audits = benchmark(original())
    before = Rows(**vars(report.rows))
    page_of_reports([report], audits, date=DATE)
    assert report.rows == before
    assert all(audit["class_names"] is None for audit in audits.values())
