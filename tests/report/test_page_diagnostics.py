"""The diagnostics on the page of an audit: a table each, with what the audit found."""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec

from builders.audits import FORGET, SMALL, C, compare, hidden, never_seen
from builders.pages import DATE, Parsed, true_result
from sfra.auditing.result import AuditResult
from sfra.diagnostics import diagnose
from sfra.report import audit_page
from sfra.report.page.diagnostics import MOST_CLASSES, diagnosis_tables

TITLES = ["Alignment", "Margin", "Confidence", "Trade-off", "Support"]


@cache
def diagnosed() -> AuditResult:
    return compare(hidden(), never_seen(), diagnostics=diagnose, **{**SMALL, "seeds": 2, "seed": 3})


def found() -> dict[str, Any]:
    return diagnosed().diagnostics or {}


def table(title: str) -> list[dict[str, str]]:
    found = next(one for one in diagnosis_tables(diagnosed()) if one["title"] == title)
    heads = [column["heading"] for column in found["columns"]]
    return [dict(zip(heads, row, strict=True)) for row in found["rows"]]


def test_a_page_names_its_diagnostics_and_has_a_table_of_each() -> None:
    text = Parsed(audit_page(diagnosed(), date=DATE)).text
    assert [one["title"] for one in diagnosis_tables(diagnosed())] == TITLES
    for raw in ("support.0.", "per_seed", "None", "[", "forget_class"):
        assert raw not in text[text.index("No score depends on this part") : text.index("How to repeat it")]


def test_an_audit_without_diagnostics_has_no_such_part() -> None:
    assert diagnosis_tables(true_result()) == []
    assert "Diagnostics" not in Parsed(audit_page(true_result(), date=DATE)).text


def test_the_tables_hold_what_the_audit_found() -> None:
    told = found()
    alignment = told["alignment"][0]
    assert table("Alignment") == [
        {
            "Forget class": f"class {FORGET}",
            "Inner product": f"{alignment['inner']:+.2f}".replace("-", "−"),
            "± seeds": f"{alignment['cosine_std']:.2f}",
            "Cosine": f"{alignment['cosine']:+.2f}".replace("-", "−"),
            "Seeds": "2",
        }
    ]
    totals = [float(row["In all"].replace("−", "-")) for row in table("Margin")]
    assert totals == sorted(round(row["total"], 2) for row in told["margin"][0]["competitors"])
    assert table("Confidence")[0]["Correct"] == str(told["confidence"]["correct"])
    assert len(table("Confidence")) == C
    budgets = {f"{100 * row['epsilon']:.1f} points": f"{row['rs']:.2f}" for row in told["tradeoff"]["budgets"]}
    assert {row["Retain budget ε"]: row["RS@ε"] for row in table("Trade-off")} == budgets
    assert [row["Seed"] for row in table("Support")] == ["3", "4"]


def test_of_many_classes_those_are_shown_that_matter_most() -> None:
    margin = found()["margin"][0]
    many = [margin["competitors"][0] | {"label": 10 + i, "total": -float(i)} for i in range(50)]
    diagnostics = found() | {"margin": [margin | {"competitors": many}]}
    changed = msgspec.structs.replace(diagnosed(), diagnostics=diagnostics)
    made = next(one for one in diagnosis_tables(changed) if one["title"] == "Margin")
    assert [row[0] for row in made["rows"]] == [f"class {59 - i}" for i in range(MOST_CLASSES)]
    assert f", {MOST_CLASSES} of 50" in made["notes"][0]
