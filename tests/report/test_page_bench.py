"""The page of a benchmark: small enough, complete, safe, leading to every audit, and calling classes by name."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import msgspec
import pytest
import torch

from builders.audits import SMALL, compare, hidden, never_seen
from builders.charts import full_audits
from builders.diagnosed import diagnosis, mapped
from builders.pages import DATE, HOSTILE, Parsed, bench_of, made_up, page_data, rows_of, true_audit, true_result
from sfra.auditing.verdicts import VERDICTS
from sfra.bench.rows import AuditRow, OriginalRow
from sfra.bench.tables.results import per_class_table
from sfra.bench.tables.table import to_csv
from sfra.core.metrics import relearning_curve
from sfra.report import Bench, Setting, bench_page, draw_all, plan_setting
from sfra.report.page.audit import BADGES
from sfra.report.page.bench import METHODS as MOST_METHODS
from sfra.report.page.bench import board, heat_map
from sfra.report.sources import main_rows

METHODS = ["retrained", "finetune", "negative-gradient", HOSTILE]
NAMES = ["cat", "dog", "eel", "fox", "gnu", "hen"]


@pytest.fixture(scope="module")
def page() -> str:
    return bench_page(made_up(METHODS, 3), date=DATE)


@pytest.fixture(scope="module")
def parsed(page: str) -> Parsed:
    return Parsed(page)


def read(bench: Bench, scale: str, rule: str) -> list[AuditRow]:
    wanted = (scale, rule, "released")
    return [row for row in bench.rows.audits if (row.scale, row.rule, row.variant) == wanted]


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


def test_the_leaderboard_holds_the_means_of_every_scale_rule_and_forget_set() -> None:
    bench = made_up(["retrained", "finetune"], 3)
    lines = board(main_rows(bench.rows.audits), "canonical", "source-free")
    shown = [line for line in lines if not line["hidden"]]
    assert [line["name"] for line in shown] == ["Finetune", "Retrained"]
    mine = [row for row in read(bench, "canonical", "source-free") if row.method == "finetune"]
    values = [value for _, value in shown[0]["cells"]]
    assert values[0] == pytest.approx(sum(row.rs for row in mine) / 3, abs=1e-4)
    assert values[1] == pytest.approx(max(row.rs for row in mine), abs=1e-4)
    assert shown[0]["cells"][-1] == ("3", 3)
    places = {(line["where"]["scale"], line["where"]["rule"], line["where"]["forget"]) for line in lines}
    rules = ("source-free", "validation", "worst-case")
    assert places == {(s, r, f) for s in ("native", "canonical") for r in rules for f in ("", "0", "1", "2")}


def test_figures_are_there_with_words(page: str, parsed: Parsed) -> None:
    charts = page_data(page)["charts"]
    figures = {key: chart for key, chart in charts.items() if key.startswith("place-")}
    assert set(figures) == {f"place-0-{name}" for name in ("violin", "scatter", "accuracy", "tradeoff")}
    spoken = {a["data-chart"]: a["aria-label"] for a in parsed.all("div") if "data-chart" in a}
    assert spoken == {key: chart["wide"]["description"] for key, chart in charts.items()}
    assert parsed.text.count("Mark: one of 3 forget classes; bar: middle half; stroke: median.") == 1


def test_the_reference_is_called_so_and_not_blamed_for_having_none() -> None:
    alone = true_audit(verdict="no-reference", statement=VERDICTS["no-reference"].meaning)
    page = bench_page(made_up(["retrained", "finetune"], 1, alone), date=DATE)
    tags = re.findall('<span class="tag ([a-z]+)">([a-z-]+)</span>', page)
    assert tags == [("clear", "reference"), ("open", "no-reference")]
    assert page.count(f'<p class="statement">{BADGES["reference"]}</p>') == 1
    assert f"<strong>reference</strong>: {BADGES['reference']}" in page


def test_what_failed_and_what_is_missing_is_said(parsed: Parsed) -> None:
    assert "1 result of toy is missing" in parsed.text
    assert "Failed cells" in parsed.text
    assert f"{HOSTILE} error {HOSTILE} 2" in parsed.text


def test_the_same_benchmark_gives_the_same_bytes(page: str) -> None:
    assert bench_page(made_up(METHODS, 3), date=DATE) == page


def walks(count: int, samples: int, start: float, seed: int) -> torch.Tensor:
    """Accuracies of 500 epochs, as restless as real ones, on so many samples: one row for each run."""
    steps = torch.randint(-9, 10, (count, 501), generator=torch.Generator().manual_seed(seed)).cumsum(1)
    return ((steps + round(start * samples)).clamp(0, samples).double() / samples).round(decimals=6)


def test_many_audits_of_published_length_stay_small() -> None:
    """A page of 110 has less than 5 MB; here a tenth of it is measured, beside the program that draws the charts."""
    whole = compare(hidden(), never_seen(), **{**SMALL, "scale": "sweep", "seeds": 3, "self_controls": 0}).to_dict()
    bench = made_up(["retrained", "finetune"], 5, whole)
    audits = {}
    for i, (cell, audit) in enumerate(bench.audits.items()):
        retain, forget = walks(len(audit.traces), 9000, 0.94, i), walks(len(audit.traces), 1000, 0.3, 1000 + i)
        traces = [
            msgspec.structs.replace(run, retain=tuple(k.tolist()), forget=tuple(b.tolist()), rs=tuple(rs.tolist()))
            for run, k, b in zip(audit.traces, retain, forget, strict=True)
            for rs in [relearning_curve(k, b)]
        ]
        audits[cell] = msgspec.structs.replace(audit, traces=tuple(traces))
    page = bench_page(replace(bench, audits=audits), date=DATE)
    start = page.index('id="page-data">')
    assert len(page[start : page.index("</script>", start)]) < 10 * 25_000
    assert len(page) < 1_020_000 + 10 * 40_000


def test_a_map_has_a_hole_where_there_is_no_audit() -> None:
    rows = read(made_up(["finetune", "scrub"], 2), "native", "source-free")
    made = heat_map(rows[:-1], "rs", set())
    cells = [[cell and cell["text"] for cell in line["cells"]] for line in made["lines"]]
    assert cells == [["0.11", "0.22"], ["0.22", None]]


def test_a_page_draws_diagnostics_of_few_methods_those_with_maps_first() -> None:
    methods = ["retrained", "finetune", "scrub", "delete", HOSTILE]
    diagnoses = [diagnosis(method) for method in methods]
    maps = [mapped(method) for method in ("delete", HOSTILE)]
    page = bench_page(made_up(["retrained"], 2, diagnoses=diagnoses, maps=maps), date=DATE)
    keys = page_data(page)["charts"]
    shown = {key.removeprefix("place-0-alpha-") for key in keys if key.startswith("place-0-alpha-")}
    assert shown == {"retrained", "delete", HOSTILE}
    assert len(shown) == MOST_METHODS
    parsed = Parsed(page)
    assert parsed.all("img") == []
    assert {a["data-chart"] for a in parsed.all("div") if "data-chart" in a} == set(keys)
    assert 'id="diagnostics"' not in bench_page(made_up(["retrained"], 2), date=DATE)


def original(dataset: str = "digits", names: list[str] | None = NAMES) -> OriginalRow:
    """The accuracy of an original, as far as names go."""
    place: dict[str, Any] = {"dataset": dataset, "backbone": "small-cnn", "seed": 0, "method": "original"}
    facts: dict[str, Any] = {"accuracy": None, "hits": [], "samples": [], "model": {}}
    return OriginalRow(**place, **facts, class_names=names)


def named(*originals: OriginalRow, audit: dict[str, Any] | None = None, **more: Any) -> Bench:
    """A benchmark whose audits know no names, unless one is given, with a pair of classes among the forget sets."""
    one = audit or true_audit(class_names=None, findings=[])
    bench = made_up(["retrained", "finetune"], 2, one)
    pair = [replace(row, forget="0+2", forget_classes=[0, 2]) for row in rows_of(one, "finetune", 0, "f" * 64)]
    rows = replace(bench.rows, audits=[*bench.rows.audits, *pair], originals=list(originals))
    return bench_of(rows, {**bench.audits, "f" * 64: next(iter(bench.audits.values()))}, **more)


def offered(page: str) -> list[str]:
    """The forget sets that the leaderboard can be filtered by, as the page calls them."""
    menu = re.search(r'<select id="by-forget".*?</select>', page)
    assert menu
    return re.findall(r"<option[^>]*>([^<]*)</option>", menu[0])


def test_audits_without_names_take_those_of_their_data_set() -> None:
    bench = named(original())
    page = bench_page(bench, date=DATE)
    text = Parsed(page).text
    forgotten = true_result().forget_classes[0]
    assert f"forgot {NAMES[forgotten]} ({forgotten})" in text
    assert f"class {forgotten}" not in text
    assert offered(page) == ["all", "cat (0)", "dog (1)", "cat (0), eel (2)"]
    assert all(audit.class_names is None for audit in bench.audits.values())


def test_classes_without_names_go_by_their_index() -> None:
    page = bench_page(named(original(names=None)), date=DATE)
    assert f"forgot class {true_result().forget_classes[0]}" in Parsed(page).text
    assert offered(page) == ["all", "0", "1", "0+2"]


def test_the_names_of_an_audit_count_before_those_of_its_data_set_and_serve_where_there_are_none() -> None:
    own = [f"own {name}" for name in NAMES]
    forgotten = true_result().forget_classes[0]
    for originals in ([original()], []):
        page = bench_page(named(*originals, audit=true_audit(class_names=own)), date=DATE)
        assert f"forgot {own[forgotten]} ({forgotten})" in Parsed(page).text
        assert offered(page)[2] == ("dog (1)" if originals else "own dog (1)")


def test_a_column_of_the_map_has_the_name_and_its_links_all_names() -> None:
    parsed = Parsed(bench_page(named(original()), date=DATE))
    titles = [a.get("title") for a in parsed.all("th") if a.get("title")]
    assert titles == ["cat (0), eel (2)"] * 2  # RS and ΔRS; a single class needs no second name
    links = {(a.get("aria-label") or "").partition(": ")[2] for a in parsed.all("a") if a.get("aria-label")}
    assert {"Finetune, forget set dog (1)", "Finetune, forget set cat (0), eel (2)"} <= links


def test_an_index_that_means_two_classes_stays_an_index_in_the_filter() -> None:
    bench = named(original(), original("other", NAMES[::-1]))
    other = [replace(row, dataset="other") for row in bench.rows.audits if row.forget == "1"]
    rows = replace(bench.rows, audits=[*bench.rows.audits, *other])
    page = bench_page(bench_of(rows, bench.audits), date=DATE)
    assert offered(page) == ["all", "cat (0)", "1", "cat (0), eel (2)"]
    assert {"Digits, small CNN", "other, small CNN"} <= set(re.findall("<h3>([^<]*)</h3>", page))


def test_tables_on_the_page_have_names_where_files_have_indices() -> None:
    bench = named(original())
    table = per_class_table(bench.rows, scale="canonical", rule="source-free")
    page = bench_page(named(original(), tables=(table,)), date=DATE)
    assert "Finetune dog (1) unlearned" in Parsed(page).text
    assert ",1,unlearned" in to_csv(table)
    assert "dog" not in to_csv(table)


def test_names_of_classes_stay_text() -> None:
    parsed = Parsed(bench_page(named(original(names=[HOSTILE, *NAMES[1:]])), date=DATE))
    assert f"{HOSTILE} (0)" in parsed.text
    assert parsed.all("img") == []


def test_figures_tell_forget_sets_apart_by_name() -> None:
    rows = full_audits(2)
    swept = [replace(row, scale=f"{k}", kappa=k, reference_rs=0.1) for row in rows for k in (1.0, 1.7, 3.0)]
    for names, expected in ((None, {"0", "1"}), (NAMES, {"cat (0)", "dog (1)"})):
        drawn = draw_all(plan_setting(Setting(audits=[*rows, *swept], names=names)))
        for name in ("accuracy", "violin", "scatter", "heatmap-rs", "heatmap-delta-rs", "sweep"):
            text = json.dumps(drawn.charts[name].to_dict(), ensure_ascii=False)
            assert all(f'"forget": "{one}"' in text for one in expected)
            assert ("dog" in text) == (names is not None)
