"""The page of an audit: complete, safe with strangers' files, the same every time, and right."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from builders.pages import DATE, HOSTILE, Parsed, page_data, true_audit, true_result
from sfra.auditing import findings
from sfra.auditing.result import ClassResult, Finding
from sfra.auditing.stored import parse_result
from sfra.auditing.verdict import conclude
from sfra.auditing.verdicts import KINDS, VERDICTS
from sfra.core.errors import InputError
from sfra.report import audit_page, find_audits, overview_page, read_audit
from sfra.report.figures.style import blend, contrast
from sfra.report.page.html import explanations

ROOT = Path(__file__).parents[2]
ADDRESS = re.compile(r"https?://[^\s\"'`)<]+")
NAMESPACES = ("http://www.w3.org/", "https://vega.github.io/", "https://github.com/vega/")


@pytest.fixture(scope="module")
def page() -> str:
    return audit_page(true_result(), date=DATE)


@pytest.fixture(scope="module")
def parsed(page: str) -> Parsed:
    return Parsed(page)


def test_a_page_says_the_verdict_in_words_with_its_numbers(parsed: Parsed) -> None:
    audit = true_audit()
    assert audit["statement"] in parsed.text
    assert f"ΔRS +{audit['delta_rs']:.2f} how much more than in a model that never saw the class" in parsed.text
    assert f"RS {audit['rs']:.2f} how much of the class comes back" in parsed.text
    assert parsed.text.index(audit["statement"]) < parsed.text.index("What comes back, and what it costs")
    assert parsed.text.index(audit["statement"]) < parsed.text.index("What to keep in mind")


def test_the_page_of_an_unusable_audit_names_cause_and_remedy_and_shows_no_score() -> None:
    cause = Finding("inputs-differ", "critical", 9.0, 1.0, "The images are in another range.", "divide by 255")
    mild = Finding("degenerate", "info", 0.0, 0.1, "There is no sign of recovery.")
    code, statement = conclude("recovered", [], [cause, mild])
    audit = replace(true_result(), verdict=code, statement=statement, findings=(cause, mild))
    alone = Parsed(audit_page(audit, date=DATE))
    control = Parsed(audit_page(replace(audit, verdict="recovered", findings=(mild,)), date=DATE))
    assert VERDICTS["unusable"].sentence in alone.text
    assert alone.text.count("The images are in another range. What to do: divide by 255.") == 1
    assert alone.all("svg") == []
    for number in ("Every reading", "What comes back, and what it costs", "no sign of recovery", "95 % interval"):
        assert number not in alone.text
        assert number in control.text
    rows = Parsed(overview_page([("one", audit)], date=DATE)).text
    assert f"{audit.rs:.2f}" not in rows
    assert alone.open == []


def test_the_page_of_a_class_that_never_went_shows_accuracies_and_no_score() -> None:
    told = {"verdict": "not-unlearned", "statement": VERDICTS["not-unlearned"].sentence, "findings": ()}
    audit = replace(true_result(), **told)
    alone, beside = Parsed(audit_page(audit, date=DATE)), Parsed(overview_page([("one", audit)], date=DATE))
    assert "What comes back, and what it costs" in alone.text
    for number in ("Every reading", "how much of the class comes back, and how little", "Relearning, epoch by epoch"):
        assert number not in alone.text
    assert f"{100 * audit.results[0].forget_after:.1f} %" in beside.text
    assert f"RS {audit.rs:.2f}" not in beside.text


def test_several_audits_are_counted_by_what_their_verdicts_say() -> None:
    audits = [("a", true_result()), ("b", replace(true_result(), verdict="blind"))]
    text = Parsed(overview_page(audits, date=DATE)).text
    assert f"blind 1 of 2: {KINDS['blind'].words}" in text


def test_a_verdict_that_rests_on_one_of_several_classes_says_so_beside_the_numbers_of_all() -> None:
    audit = true_result()
    together = replace(audit.results[0], verdict="generic")
    classes = (ClassResult(label=2, verdict="recovered", scores=(audit.results[0],)),)
    shown = replace(audit, verdict="recovered", classes=classes, results=(together, *audit.results[1:]))
    assert "The verdict rests on class 2, see class by class." in Parsed(audit_page(shown, date=DATE)).text
    alike = replace(shown, results=(replace(together, verdict="recovered"), *audit.results[1:]))
    assert "rests on" not in Parsed(audit_page(alike, date=DATE)).text


def test_a_verdict_that_rests_on_the_fresh_row_says_so_beside_the_numbers_of_the_released_one() -> None:
    first, *others = true_result().results
    fresh = replace(first, variant="reset-row", verdict="recovered", rs=0.777, delta_rs=0.666, forget_after=0.888)
    released = replace(first, verdict="not-recovered")
    audit = replace(true_result(), verdict="recovered-after-reset", results=(released, fresh, *others))
    says = "rests on the reading with a fresh forget row: RS 0.78, ΔRS +0.67, forget accuracy 88.8 %."
    assert says in Parsed(audit_page(audit, date=DATE)).text
    assert "rests on" not in Parsed(audit_page(replace(audit, verdict="not-recovered"), date=DATE)).text


def test_every_element_is_closed_and_there_is_one_main_heading(parsed: Parsed) -> None:
    assert parsed.open == []
    assert (
        len(parsed.all("h1")) == len(parsed.all("main")) == len(parsed.all("header")) == len(parsed.all("footer")) == 1
    )


def test_ids_are_unique_and_links_within_the_page_lead_somewhere(parsed: Parsed) -> None:
    ids = [attributes["id"] for _, attributes in parsed.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    links = [attributes["href"] or "" for attributes in parsed.all("a")]
    assert links
    assert {link for link in links if link.removeprefix("#") not in ids} == set()


def test_a_page_loads_nothing(page: str, parsed: Parsed) -> None:
    addresses = set(ADDRESS.findall(page))
    assert {found for found in addresses if not found.startswith(NAMESPACES)} == set()
    assert not [
        a for _, a in parsed.elements if (a.get("src") or a.get("href") or "").startswith(("http", "//", "file"))
    ]
    policies = [a["content"] or "" for a in parsed.all("meta") if a.get("http-equiv") == "Content-Security-Policy"]
    assert len(policies) == 1
    assert policies[0].startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe-eval" not in policies[0]


def test_the_policy_allows_the_scripts_of_the_page_and_no_other(page: str) -> None:
    scripts = re.findall(r"<script>(.*?)</script>", page, flags=re.DOTALL)
    digests = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    allowed = re.findall(r"sha256-([A-Za-z0-9+/=]+)", page.replace("&#43;", "+"))
    assert len(scripts) == 2
    assert digests == allowed


def test_the_same_audit_gives_the_same_bytes(page: str) -> None:
    assert audit_page(true_result(), date=DATE) == page
    assert audit_page(true_result(), date="2030-12-31") == page.replace(DATE, "2030-12-31")


def test_names_from_a_strangers_file_stay_text() -> None:
    plain = true_audit()
    names = [HOSTILE] * 6
    model = plain["model"] | {"source": HOSTILE}
    finding = plain["findings"][0] | {"message": HOSTILE, "code": HOSTILE}
    settings = plain["settings"] | {"proposal": HOSTILE}
    hostile = true_audit(class_names=names, model=model, findings=[finding], statement=HOSTILE, settings=settings)
    for row in [*hostile["traces"], *hostile["results"], *hostile["probes"]]:
        row["variant"] = HOSTILE
    page = audit_page(parse_result(hostile | {"variant": HOSTILE}, "hostile"), date=DATE)
    found, harmless = Parsed(page), Parsed(audit_page(true_result(findings=[]), date=DATE))
    assert HOSTILE in found.text
    assert found.all("img") == []
    assert not [name for _, attributes in found.elements for name in attributes if name.startswith("on")]
    assert len(found.all("script")) == len(harmless.all("script")) == 3
    rows = [row for some in page_data(page)["rows"].values() for row in some]
    assert any(HOSTILE in str(row.get("reading")) for row in rows)


def test_characters_that_no_chart_can_hold_are_replaced_in_its_data() -> None:
    page = audit_page(true_result(class_names=["a\x00b\ue0f1"] * 6), date=DATE)
    assert "a\N{REPLACEMENT CHARACTER}b\N{REPLACEMENT CHARACTER}" in json.dumps(page_data(page), ensure_ascii=False)


def test_a_page_carries_the_rows_of_its_charts_and_no_address(page: str) -> None:
    data = page_data(page)
    names = ("accuracy", "trajectory", "budget", "confusion", "acceptance")
    assert list(data["charts"]) == [f"audit-{name}" for name in names]
    for chart in data["charts"].values():
        for size in ("wide", "narrow"):
            assert set(chart[size]["uses"]) <= set(data["rows"])
            assert "url" not in json.dumps(chart[size])


def test_every_finding_has_an_explanation_in_the_package() -> None:
    assert set(explanations()) == set(findings.FINDINGS)
    kept = ROOT / "src" / "sfra" / "auditing" / "flags.md"
    same = kept.read_text(encoding="utf-8") == (ROOT / "docs" / "flags.md").read_text(encoding="utf-8")
    assert same, "cp docs/flags.md src/sfra/auditing/flags.md"


def test_every_finding_of_an_audit_leads_to_its_explanation() -> None:
    made = [
        {"code": code, "severity": "info", "measured": None, "threshold": None, "message": "m"}
        for code in findings.FINDINGS
    ]
    found = Parsed(audit_page(true_result(findings=made), date=DATE))
    anchors = {attributes.get("id") for attributes in found.all("article")}
    assert anchors == {f"flag-{code}" for code in findings.FINDINGS}


def test_tables_name_their_headings_and_charts_have_words(parsed: Parsed) -> None:
    assert all(attributes.get("scope") in ("col", "row") for attributes in parsed.all("th"))
    charts = [a for a in parsed.all("div") if (a.get("class") or "").startswith("chart")]
    assert charts
    assert all(a.get("aria-label") for a in charts)
    labelled = {a.get("for") for a in parsed.all("label")}
    controls = [*parsed.all("input"), *parsed.all("select")]
    assert {a["id"] for a in controls} <= labelled


def test_an_audit_without_data_says_that_nothing_was_measured() -> None:
    from builders.audits import FORGET, SMALL, hidden
    from sfra.auditing.audit import audit

    made = audit(hidden().head, FORGET, **SMALL)
    assert VERDICTS["not-measured"].meaning in Parsed(audit_page(made, date=DATE)).text


def test_a_sweep_is_shown_where_there_is_one(parsed: Parsed) -> None:
    point = {"kappa": 1.0, "scale": "kappa=1", "rs": 0.4, "reference_rs": 0.1, "delta_rs": 0.3, "retain_before": 1.0}
    point |= {"retain_after": 0.9, "forget_after": 0.4}
    sweep = {"points": [point], "best_rs": 0.4321, "area": 0.1, "rs_at_reference": 0.3, "level": 0.05}
    shown = Parsed(audit_page(true_result(sweep=sweep), date=DATE)).text
    for words in (
        "Highest RS 0.43.",
        "Area between model and reference (0: they relearn alike): +0.10.",
        "RS at each scale",
    ):
        assert words in shown
        assert words not in parsed.text


def test_no_box_beside_the_verdict_says_otherwise() -> None:
    back, not_back = (Parsed(audit_page(true_result(relearned=said), date=DATE)).text for said in (True, False))
    assert back == not_back


def test_the_verdicts_that_a_page_shows_are_explained_on_it_and_no_others(parsed: Parsed) -> None:
    terms = parsed.text[parsed.text.rindex(" Verdicts ") :]
    audit = true_result()
    shown = {audit.verdict, *(one.verdict for one in audit.results)}
    assert {word for word, verdict in VERDICTS.items() if f"{word}: {verdict.meaning}" in terms} == shown


@pytest.mark.parametrize("count", [1, 2])
def test_a_page_of_several_audits_begins_with_one_picture_over_all(count: int) -> None:
    page = overview_page([(f"audit {i}", true_result()) for i in range(count)], date=DATE)
    first = next(a for a in Parsed(page).all("div") if (a.get("class") or "").startswith("chart"))
    assert first["data-chart"] == "all-overview"
    assert page.index('data-chart="all-overview"') < page.index("<table")


def test_numbers_in_findings_have_a_true_minus_and_names_keep_their_hyphens() -> None:
    finding = true_audit()["findings"][0] | {"message": "bias -14.99 in the reset-row variant, 2-norm, (-.5)"}
    text = Parsed(audit_page(true_result(findings=[finding]), date=DATE)).text
    assert "bias −14.99 in the reset-row variant, 2-norm, (−.5)" in text


def test_several_audits_make_one_page_with_each_in_detail() -> None:
    found = Parsed(overview_page([("first one", true_result()), ("second", true_result())], date=DATE))
    assert found.open == []
    details = [a["id"] for a in found.all("details") if a.get("class") == "audit"]
    assert details == ["audit-0", "audit-1"]
    assert {"#audit-0", "#audit-1"} <= {a["href"] for a in found.all("a")}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "cannot read"),
        ('{"schema": "sfra.audit/1", "rs": NaN}', "NaN is not a number"),
        ("[1]", "is not the result of an audit"),
        ('{"schema": "sfra.audit/9"}', "is not the result of an audit"),
        ('{"schema": "sfra.audit/1"}', "is not what its schema promises"),
        ("\udcff", "cannot read"),
    ],
)
def test_a_file_that_is_no_audit_is_refused(tmp_path: Path, content: str, words: str) -> None:
    (tmp_path / "audit.json").write_bytes(content.encode(errors="surrogateescape"))
    with pytest.raises(InputError, match=words):
        read_audit(tmp_path)


@pytest.mark.parametrize(
    "changes",
    [
        {"rs": "high"},
        {"results": None},
        {"settings": {}},
        {"traces": [{}]},
        {"model": None},
    ],
)
def test_an_audit_with_damaged_content_is_refused_by_name(changes: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"the toy audit is not what its schema|the audit mine is damaged"):
        audit_page(true_result(**changes), date=DATE, label="mine")


def test_audits_are_found_in_files_folders_and_folders_of_folders(tmp_path: Path) -> None:
    for place in ("a", "b", "deep/b"):
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / "audit.json").write_text(json.dumps(true_audit()))
    assert [name for name, _ in find_audits([tmp_path])] == ["a", "b"]
    assert [name for name, _ in find_audits([tmp_path / "b", tmp_path / "deep" / "b"])] == ["b (1)", "b (2)"]
    with pytest.raises(InputError, match="there is no audit to report"):
        find_audits([tmp_path / "none"])


def test_text_stands_out_from_every_surface_in_both_themes(page: str) -> None:
    pairs = re.findall(r"--([a-z-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\)", page)
    assert {kind for kind, *_ in pairs} > set(KINDS)
    for theme in (1, 2):
        found = {pair[0]: pair[theme] for pair in pairs}
        tinted = {f"{kind} surface": blend((found["background"], found[kind]), 0.1) for kind in KINDS}
        surfaces = {name: found[name] for name in ("background", "surface")} | tinted
        wanted = [(text, on) for text in ("ink", "muted", "link") for on in surfaces]
        wanted += [(kind, on) for kind in KINDS for on in ("background", f"{kind} surface")]
        low = {pair: contrast(found[pair[0]], surfaces[pair[1]]) for pair in wanted}
        assert {pair: ratio for pair, ratio in low.items() if ratio < 4.5} == {}
