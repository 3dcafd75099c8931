"""Which rows make which table, in which order, and what an empty one says."""

import statistics
from typing import Any

import pytest

from builders.rows import audit_row, failure_row, pra_row, probe_row
from sfra.bench.rows import Rows
from sfra.bench.tables import (
    Table,
    distributions_table,
    failures_table,
    missing_row_table,
    multi_class_table,
    per_class_table,
    probe_cost_table,
    scores_table,
    settings_table,
    summary_table,
    support_table,
    unlearning_quality_table,
)
from sfra.bench.tables.format import count, millions, percent, score, seconds, words
from sfra.bench.tables.from_rows import tables_of
from sfra.unlearn.quality import aus

READING: dict[str, Any] = {"scale": "native", "rule": "worst-case"}


def column(table: Table, name: str) -> list[str | None]:
    return [record[name] for record in table.records]


def test_a_summary_line_holds_mean_spread_range_and_independent_maxima() -> None:
    retain, forget = [0.91, 0.92, 0.96], [0.1, 0.7, 0.2]
    audits = [
        audit_row(forget=(c,), retain_after=r, forget_after=f, rs=rs, delta_rs=delta)
        for c, r, f, rs, delta in zip((0, 1, 2), retain, forget, (0.2, 0.8, 0.3), (0.15, -0.1, 0.1), strict=True)
    ]
    line = summary_table(audits, **READING).records[-1]
    assert line["variant"] == "sfra"
    assert line["retain_acc_mean"] == f"{100 * sum(retain) / 3:.2f}"
    assert line["retain_acc_std"] == f"{100 * statistics.stdev(retain):.2f}"
    assert [line[f"forget_acc_{name}"] for name in ("min", "mean", "max")] == ["10.00", "33.33", "70.00"]
    assert (line["rs_max"], line["delta_rs_max"], line["classes"]) == ("0.80", "0.15", "3")


def test_one_class_has_no_spread_and_no_reference_no_delta() -> None:
    line = summary_table([audit_row()], **READING).records[-1]
    assert line["retain_acc_std"] is None
    assert line["delta_rs_max"] is None
    assert line["rs_max"] == "0.50"


def test_the_summary_is_of_single_classes_main_audits_and_the_reading_asked_for() -> None:
    wanted = audit_row(rs=0.5)
    others = [
        audit_row(rs=0.9, forget=(1, 6)),
        audit_row(rs=0.9, audit="scores", score="entropy"),
        audit_row(rs=0.9, scale="canonical"),
        audit_row(rs=0.9, rule="source-free"),
        audit_row(rs=0.9, variant="reset-row"),
    ]
    prototypes = [pra_row(rs=0.4), pra_row(rs=0.9, variant="l2")]
    table = summary_table([*others, wanted], prototypes, **READING)
    assert column(table, "rs_max") == [None, None, "0.40", "0.50"]
    assert summary_table([*others, wanted], **READING | {"rule": "source-free"}).records[-1]["rs_max"] == "0.90"
    by_l2 = summary_table([wanted], prototypes, **READING, pra_variant="l2")
    assert "0.90" in column(by_l2, "rs_max")


def test_model_seeds_and_draws_of_support_are_averaged_before_classes_are_compared() -> None:
    audits = [audit_row(seed=s, rs=rs, retain_after=r) for s, rs, r in ((0, 0.2, 0.90), (1, 0.6, 0.92))]
    prototypes = [pra_row(support=s, rs=rs) for s, rs in enumerate((0.1, 0.2, 0.6))]
    table = summary_table(audits, prototypes, **READING)
    assert column(table, "rs_max") == [None, None, "0.30", "0.40"]
    assert (table.records[-1]["retain_acc_mean"], table.records[-1]["classes"]) == ("91.00", "1")
    line = per_class_table(audits, prototypes, **READING).records[-1]
    assert (line["rs"], line["rs_std"]) == ("0.40", f"{statistics.stdev([0.2, 0.6]):.2f}")


def test_methods_come_in_their_fixed_order_and_unknown_ones_after_them_by_name() -> None:
    names = ["zeta", "delete", "masked", "retrained", "salun", "alpha", "negative-gradient-plus", "negative-gradient"]
    table = summary_table([audit_row(name) for name in names], **READING)
    shown = list(dict.fromkeys(column(table, "method")))
    assert shown == [
        *("Original", "Retrained", "Negative Gradient", "Negative Gradient+", "SalUn", "DELETE"),
        *("alpha", "zeta", "Masked (control)"),
    ]


def test_the_order_of_the_rows_does_not_matter() -> None:
    audits = [
        audit_row(method, (c,), backbone=backbone, rs=c / 10)
        for method in ("salun", "retrained")
        for c in (10, 2, 0)
        for backbone in ("swin-t", "resnet18-small")
    ]
    for make in (summary_table, per_class_table, unlearning_quality_table, probe_cost_table):
        assert make(audits, **READING) == make(audits[::-1], **READING)
    classes = column(per_class_table(audits, **READING), "forget_class")
    assert classes[:3] == ["0", "2", "10"]  # as numbers, not as text


def test_the_stages_of_a_class_come_with_the_linear_probe_last() -> None:
    table = per_class_table([audit_row()], [pra_row()], [probe_row()], **READING)
    assert column(table, "variant") == ["original", "unlearned", "pra", "sfra", "linear_probe"]
    assert column(table, "forget_acc") == ["90.00", "0.00", "20.00", "40.00", "90.00"]
    assert column(table, "rs") == [None, None, "0.33", "0.50", None]


def test_a_model_with_controls_but_no_audit_is_shown_as_far_as_it_is_known() -> None:
    table = per_class_table([audit_row("salun")], [pra_row("delete")], [probe_row("finetune")], **READING)
    shown = list(zip(column(table, "method"), column(table, "variant"), strict=True))
    assert shown == [
        ("Original", "original"),
        ("Finetune", "linear_probe"),
        ("SalUn", "unlearned"),
        ("SalUn", "sfra"),
        ("DELETE", "unlearned"),
        ("DELETE", "pra"),
    ]


def test_unknown_accuracies_of_the_original_leave_its_line_out() -> None:
    table = summary_table([audit_row(retain_original=None, forget_original=None)], **READING)
    assert column(table, "method") == ["DELETE", "DELETE"]
    quality = unlearning_quality_table([audit_row(retain_original=None)], **READING).records[0]
    assert quality["aus"] is None


def test_several_classes_are_sorted_by_their_number() -> None:
    sets = [(1, 2, 3), (25, 58), (1, 6)]
    table = multi_class_table([audit_row(forget=f) for f in [*sets, (7,)]], **READING)
    assert column(table, "forget_classes") == ["1+6", "1+6", "1+6", "25+58", "25+58", "25+58"] + ["1+2+3"] * 3
    assert column(table, "num_forget")[-1] == "3"


def test_the_quality_of_unlearning_is_read_before_any_audit() -> None:
    audits = [audit_row(forget=(c,), retain_before=r, forget_before=f) for c, r, f in ((0, 0.90, 0.0), (1, 0.94, 0.2))]
    line = unlearning_quality_table(audits, **READING).records[0]
    expected = (aus(0.95, 0.90, 0.0) + aus(0.95, 0.94, 0.2)) / 2
    assert line["aus"] == f"{expected:.2f}"
    assert (line["retain_acc_original"], line["retain_acc_mean"]) == ("95.00", "92.00")
    assert (line["forget_acc_max"], line["models"], line["num_forget"]) == ("20.00", "2", "1")


def test_only_audits_that_differ_in_one_setting_are_compared() -> None:
    main = audit_row(rs=0.5)
    uniform = audit_row(rs=0.4, audit="proposals", proposal="uniform")
    gaussian_again = audit_row(rs=0.5, audit="proposals")
    elsewhere = audit_row(rs=0.1, audit="M", m=50)
    entropy = audit_row(rs=0.3, audit="scores", score="entropy")
    relu = audit_row(rs=0.2, audit="support", proposal="relu-gaussian")
    rows = [main, uniform, gaussian_again, elsewhere, entropy, relu]
    proposals = distributions_table(rows, **READING)
    assert column(proposals, "distribution") == ["gaussian", "uniform"]
    assert column(proposals, "rs_7") == ["0.50", "0.40"]
    scores = scores_table(rows, **READING)
    assert list(zip(column(scores, "score"), column(scores, "rs_7"), strict=True)) == [
        ("softmax", "0.50"),
        ("entropy", "0.30"),
    ]
    assert column(support_table(rows, **READING), "proposal") == ["gaussian", "relu-gaussian"]


def test_the_average_of_an_ablation_is_over_the_classes_that_are_there() -> None:
    rows = [
        audit_row(forget=(c,), rs=rs, score=name, audit="scores", rs_std=0.01)
        for c, name, rs in ((0, "softmax", 0.2), (1, "softmax", 0.6), (0, "energy", 0.3))
    ]
    table = scores_table(rows, **READING)
    assert column(table, "rs_avg") == ["0.40", "0.30"]
    assert column(table, "rs_1") == ["0.60", None]
    assert column(table, "rs_1_std") == ["0.01", None]


def test_an_ablation_is_read_from_its_own_audits_where_it_has_them() -> None:
    rows = [
        audit_row(rs=0.5),
        audit_row(rs=0.52, rs_std=0.02, audit="scores", varied={"score": "softmax"}),
        audit_row(rs=0.4, rs_std=0.03, audit="scores", score="energy", varied={"score": "energy"}),
        audit_row(rs=0.3, audit="proposals", proposal="uniform", varied={"proposal": "uniform"}),
    ]
    assert column(scores_table(rows, **READING), "rs_7") == ["0.52", "0.40"]
    assert column(scores_table(rows, **READING), "rs_7_std") == ["0.02", "0.03"]
    assert column(distributions_table(rows, **READING), "rs_7") == ["0.50", "0.30"]


def test_the_missing_row_stands_beside_the_released_one_of_the_same_audit() -> None:
    rows = [
        audit_row(rs=0.5),
        audit_row(rs=0.6, variant="reset-row"),
        audit_row(rs=0.5, audit="missing row"),
        audit_row(rs=0.7, audit="missing row", variant="restored-row", forget_before=0.03),
        audit_row(rs=0.1, audit="scores", score="energy", variant="reset-row"),
        audit_row("salun", rs=0.9),
    ]
    table = missing_row_table(rows, **READING)
    assert column(table, "row") == ["unlearned", "reset", "random"]
    assert column(table, "rs") == ["0.50", "0.60", "0.70"]
    assert column(table, "forget_acc_before") == ["0.00", "0.00", "3.00"]


def test_the_cost_of_probes_is_a_mean_over_forget_sets() -> None:
    rows = [audit_row(forget=(c,), probe_seconds=s, draws=d) for c, s, d in ((0, 2.0, 4e6), (1, 4.0, 6e6))]
    line = probe_cost_table(rows, **READING).records[0]
    assert (line["seconds"], line["seconds_std"], line["draws_m"]) == ("3.00", "1.41", "5.00")
    assert (line["n"], line["m"]) == ("1000", "10")


def test_settings_are_listed_once_with_their_forget_sets() -> None:
    rows = [audit_row(forget=(c,), rule=rule) for c in (7, 10, 0) for rule in ("worst-case", "source-free")]
    table = settings_table([*rows, audit_row(forget=(1, 6), m=20), audit_row(audit="M", m=99)])
    lines = [(r["setting"], r["m"], r["forget"]) for r in table.records]
    assert lines == [("single_class", "10", "0, 7, 10"), ("multi_class", "20", "1+6")]


def test_failures_are_listed_on_one_line_each() -> None:
    table = failures_table([failure_row("audit of delete 7", "error", "two\nlines\x1b[2J")])
    assert table.records == [{"label": "audit of delete 7", "kind": "error", "message": "two lines?[2J"}]
    assert failures_table([]).notes == ("Nothing failed.",)


@pytest.mark.parametrize(
    "make",
    [
        summary_table,
        per_class_table,
        multi_class_table,
        unlearning_quality_table,
        missing_row_table,
        distributions_table,
        scores_table,
        support_table,
        probe_cost_table,
    ],
)
def test_an_empty_table_says_what_is_missing_and_what_there_would_be(make: Any) -> None:
    table = make([], **READING)
    assert table.rows == ()
    (note,) = table.notes
    assert note.startswith("Nothing to show: no ")
    assert note.endswith("at scale native under rule worst-case; there are no audits at all.")
    (note,) = make([audit_row(rule="source-free"), audit_row(scale="canonical")], **READING).notes
    assert note.endswith("; there are: canonical/worst-case, native/source-free.")


def test_numbers_are_written_as_in_the_paper_and_missing_ones_not_at_all() -> None:
    assert (percent(0.12345), percent(1), percent(0.0)) == ("12.35", "100.00", "0.00")
    assert (score(0.995), score(-0.004), score(-0.216)) == ("0.99", "0.00", "-0.22")
    assert (count(500_000), millions(44_950_000), seconds(0.86), seconds(99.999)) == (
        "500000",
        "44.95",
        "0.86",
        "100.00",
    )
    for write in (percent, score, count, millions, seconds):
        assert write(None) is None
        assert write(float("nan")) is None
    assert words(None) is None


def test_the_reading_is_in_the_notes() -> None:
    notes = " ".join(summary_table([audit_row()], **READING).notes)
    assert "Scale native; rule worst-case (best epoch on the test data itself, an upper bound)." in notes


def test_a_benchmark_gets_every_table_once() -> None:
    rows = Rows(audits=[audit_row()], pra=[pra_row()], probes=[probe_row()])
    tables = tables_of(rows, **READING)
    assert len({table.label for table in tables}) == len(tables) == 16
    assert [table.label for table in tables if table.rows] == [
        *("summary", "per-class", "unlearning-quality", "probe-cost", "settings")
    ]
    assert all(table.rows or table.notes for table in tables)
