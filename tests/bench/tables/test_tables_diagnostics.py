"""Tables of diagnostics and of M and N: the paper's own figures printed again, and means taken by hand."""

from __future__ import annotations

import csv
import statistics
from pathlib import Path
from typing import Any

import pytest

from builders.rows import audit_row, diagnosis_row
from sfra.bench.rows import Rows
from sfra.bench.tables import alignment_table, confidence_table, margin_table, sensitivity_table
from sfra.bench.tables.from_rows import tables_of
from sfra.bench.tables.names import METHODS

GOLDEN = Path(__file__).parents[3] / "reproduction" / "paper"
ID = {name: key for key, name in METHODS.items()}
READING: dict[str, Any] = {"scale": "native", "rule": "worst-case"}


def printed(name: str) -> list[dict[str, str]]:
    with (GOLDEN / f"{name}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def plain(text: str | None) -> str | None:
    return "0.00" if text == "-0.00" else text


def test_the_alignment_is_printed_as_in_the_paper() -> None:
    rows = printed("alignment")
    found = [
        diagnosis_row(ID[r["method"]], (int(r["forget_class"]),), inner=float(r["a_ip"]), cosine=float(r["a_cos"]))
        for r in rows
    ]
    audits = [audit_row(ID[r["method"]], (int(r["forget_class"]),), rs=float(r["rs"])) for r in rows]
    records = alignment_table(found[::-1], audits, **READING).records
    assert len(records) == len(rows) == 110
    for ours, theirs in zip(records, rows, strict=True):
        assert {name: ours[name] for name in theirs} == {name: plain(text) for name, text in theirs.items()}


def test_the_confidence_is_printed_as_in_the_paper() -> None:
    rows = printed("confidence")
    names = {"correct_retain_conf": "correct_confidence", "forget_assigned_conf": "assigned_confidence", "gap": "gap"}
    found = [
        diagnosis_row(
            "bad-teacher", (int(r["forget_class"]),), **{name: float(r[text]) for text, name in names.items()}
        )
        for r in rows
        if r["forget_class"] != "avg"
    ]
    records = confidence_table(found, scale="native").records
    assert [record["forget_class"] for record in records] == [row["forget_class"] for row in rows]
    for ours, theirs in zip(records, rows, strict=True):
        assert {name: ours[name] for name in theirs} == theirs


def test_several_models_are_averaged_and_one_has_the_spread_of_its_own_seeds() -> None:
    (alone,) = alignment_table([diagnosis_row(inner_std=0.125, cosine_std=0.25)], [], **READING).records
    assert (alone["a_ip"], alone["a_ip_std"], alone["a_cos_std"], alone["rs"]) == ("0.50", "0.12", "0.25", None)
    values = [0.1, 0.4, 0.9]
    several = [diagnosis_row(seed=seed, inner=value) for seed, value in enumerate(values)]
    (line,) = alignment_table(several, [audit_row(rs=0.25), audit_row(rs=0.75, seed=1)], **READING).records
    assert line["a_ip"] == f"{statistics.fmean(values):.2f}"
    assert line["a_ip_std"] == f"{statistics.stdev(values):.2f}"
    assert line["rs"] == "0.50"


def test_classes_of_a_set_have_lines_of_their_own_but_one_confidence_and_no_average() -> None:
    pair = [diagnosis_row(forget=(1, 6), forget_class=label, inner=label / 10) for label in (6, 1)]
    records = alignment_table(pair, [], **READING).records
    assert [(r["forget_class"], r["a_ip"]) for r in records] == [("1 of 1+6", "0.10"), ("6 of 1+6", "0.60")]
    sure = confidence_table([*pair, diagnosis_row(forget=(3,))], scale="native").records
    assert [(r["forget_class"], r["assigned"]) for r in sure] == [("3", "90.00"), ("1+6", "90.00")]


def test_the_margin_table_holds_shares_of_the_retain_classes() -> None:
    rows = [diagnosis_row(sufficient=3, rising=9), diagnosis_row(seed=1, sufficient=0, rising=0, pearson=None)]
    (line,) = margin_table([*rows, diagnosis_row(scale="canonical", pearson=0.1)], scale="native").records
    assert (line["sufficient"], line["rising"]) == (f"{100 * 3 / 18:.2f}", "50.00")
    assert (line["pearson"], line["spearman"], line["slope"], line["sign_agreement"]) == (
        *("0.90", "0.80", "1.10"),
        "75.00",
    )


def test_diagnostics_of_another_scale_are_named_where_none_can_be_shown() -> None:
    (note,) = margin_table([diagnosis_row(scale="canonical")], scale="native").notes
    assert note == "Nothing to show: no diagnostics at scale native; there are: canonical."
    (note,) = confidence_table([], scale="native").notes
    assert note.endswith("there are: none at all.")


SIZES = [
    *(audit_row(forget=(c,), audit="M", m=m, rs=r) for c, m, r in ((7, 5, 0.2), (7, 10, 0.4), (8, 5, 0.4))),
    *(audit_row(forget=(c,), m=10, rs=r) for c, r in ((7, 0.4), (8, 0.9), (9, 0.0))),
]
"""Classes 7 and 8 with two numbers of probes, once as the main audit and once more as an ablation; 9 with one."""


def test_sizes_are_compared_over_the_forget_sets_that_have_all_of_them() -> None:
    records = sensitivity_table(SIZES, "m", **READING).records
    assert [(r["m"], r["n"], r["classes"]) for r in records] == [("5", "1000", "2"), ("10", "1000", "2")]
    assert [r["rs"] for r in records] == ["0.30", "0.65"]
    assert [r["rs_std"] for r in records] == [
        f"{statistics.stdev([0.2, 0.4]):.2f}",
        f"{statistics.stdev([0.4, 0.9]):.2f}",
    ]


@pytest.mark.parametrize("change", [{"score": "entropy"}, {"n": 7}, {"epochs": 9}, {"rule": "validation"}])
def test_audits_that_differ_in_more_than_their_size_are_not_compared(change: dict[str, Any]) -> None:
    table = sensitivity_table([audit_row(m=5), audit_row(m=10, **change)], "m", **READING)
    assert not table.rows
    assert table.notes[0].startswith("Nothing to show: no audits that differ in M alone at scale native")


def test_one_forget_set_has_the_spread_of_the_audits_own_seeds() -> None:
    rows = [audit_row(n=n, audit="N", rs=0.5, rs_std=0.03, retain_after=0.9, forget_after=0.1) for n in (100, 200)]
    records = sensitivity_table(rows, "n", **READING).records
    assert [(r["n"], r["m"], r["rs"], r["rs_std"]) for r in records] == [
        (n, "10", "0.50", "0.03") for n in ("100", "200")
    ]
    assert {(r["retain_acc"], r["forget_acc"]) for r in records} == {("90.00", "10.00")}


def test_a_benchmark_gets_the_tables_of_its_diagnostics() -> None:
    rows = Rows(audits=[*SIZES, audit_row(n=500, audit="N")], diagnostics=[diagnosis_row()])
    there = {table.label for table in tables_of(rows, **READING) if table.rows}
    assert {"alignment", "margin", "confidence", "sensitivity-m", "sensitivity-n"} <= there
