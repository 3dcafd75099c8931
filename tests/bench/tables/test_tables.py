"""Which rows make which table, and in which order."""

import statistics
from typing import Any

import pytest

from builders.rows import audit_row, diagnosis_row, failure_row, pra_row, probe_row
from sfra.auditing.rules import RULES
from sfra.bench import tables
from sfra.bench.rows import AuditRow, Rows
from sfra.bench.tables import TABLES, Table, make_tables
from sfra.bench.tables.ablations import (
    distributions_table,
    missing_row_table,
    scores_table,
    sensitivity_table,
    support_table,
)
from sfra.bench.tables.columns import N, count, millions, percent, score, seconds
from sfra.bench.tables.diagnoses import alignment_table, confidence_table, margin_table
from sfra.bench.tables.results import (
    failures_table,
    multi_class_table,
    per_class_table,
    probe_cost_table,
    settings_table,
    summary_table,
    unlearning_quality_table,
)
from sfra.bench.tables.table import make_table, words
from sfra.unlearn.quality import aus

READING: dict[str, Any] = {"scale": "native", "rule": "worst-case"}


def audited(*audits: AuditRow, **others: Any) -> Rows:
    return Rows(audits=list(audits), **others)


def column(table: Table, name: str) -> list[str | None]:
    return [record[name] for record in table.records]


def test_a_summary_line_holds_mean_spread_range_and_independent_maxima() -> None:
    retain, forget = [0.91, 0.92, 0.96], [0.1, 0.7, 0.2]
    audits = [
        audit_row(forget=(c,), retain_after=r, forget_after=f, rs=rs, delta_rs=delta)
        for c, r, f, rs, delta in zip((0, 1, 2), retain, forget, (0.2, 0.8, 0.3), (0.15, -0.1, 0.1), strict=True)
    ]
    line = summary_table(audited(*audits), **READING).records[-1]
    assert line["variant"] == "sfra"
    assert line["retain_acc_mean"] == f"{100 * sum(retain) / 3:.2f}"
    assert line["retain_acc_std"] == f"{100 * statistics.stdev(retain):.2f}"
    assert [line[f"forget_acc_{name}"] for name in ("min", "mean", "max")] == ["10.00", "33.33", "70.00"]
    assert (line["rs_max"], line["delta_rs_max"], line["classes"]) == ("0.80", "0.15", "3")


def test_one_class_has_no_spread_and_no_reference_no_delta() -> None:
    line = summary_table(audited(audit_row()), **READING).records[-1]
    assert (line["retain_acc_std"], line["delta_rs_max"], line["rs_max"]) == (None, None, "0.50")


def test_the_summary_is_of_single_classes_main_audits_and_the_scale_and_rule_asked_for() -> None:
    audits = [
        audit_row(rs=0.9, forget=(1, 6)),
        audit_row(rs=0.9, audit="scores", score="entropy"),
        audit_row(rs=0.9, scale="canonical"),
        audit_row(rs=0.9, rule="source-free"),
        audit_row(rs=0.9, variant="reset-row"),
        audit_row(rs=0.5),
    ]
    rows = audited(*audits, pra=[pra_row(rs=0.4), pra_row(rs=0.8, variant="l2")])
    table = summary_table(rows, **READING)
    assert column(table, "rs_max") == [None, None, "0.40", "0.50"]
    assert f"Scale native; rule worst-case ({RULES['worst-case'].sentence})." in table.notes
    assert column(summary_table(rows, scale="native", rule="source-free"), "rs_max")[-1] == "0.90"


def test_model_seeds_and_draws_of_support_are_averaged_before_classes_are_compared() -> None:
    audits = [audit_row(seed=s, rs=rs, retain_after=r) for s, rs, r in ((0, 0.2, 0.90), (1, 0.6, 0.92))]
    rows = audited(*audits, pra=[pra_row(support=s, rs=rs) for s, rs in enumerate((0.1, 0.2, 0.6))])
    table = summary_table(rows, **READING)
    assert column(table, "rs_max") == [None, None, "0.30", "0.40"]
    assert (table.records[-1]["retain_acc_mean"], table.records[-1]["classes"]) == ("91.00", "1")
    line = per_class_table(rows, **READING).records[-1]
    assert (line["rs"], line["rs_std"]) == ("0.40", f"{statistics.stdev([0.2, 0.6]):.2f}")


def test_methods_come_in_their_fixed_order_and_unknown_ones_after_them_by_name() -> None:
    names = ["zeta", "delete", "masked", "retrained", "salun", "alpha", "negative-gradient-plus", "negative-gradient"]
    shown = column(summary_table(audited(*map(audit_row, names)), **READING), "method")
    known = ["Original", "Retrained", "Negative Gradient", "Negative Gradient+", "SalUn", "DELETE"]
    assert list(dict.fromkeys(shown)) == [*known, "alpha", "zeta", "Masked (control)"]


def test_the_order_of_the_rows_does_not_matter() -> None:
    audits = [
        audit_row(method, (c,), backbone=backbone, rs=c / 10)
        for method in ("salun", "retrained")
        for c in (10, 2, 0)
        for backbone in ("swin-t", "resnet18-small")
    ]
    for make in (summary_table, per_class_table, unlearning_quality_table, probe_cost_table):
        assert make(audited(*audits), **READING) == make(audited(*audits[::-1]), **READING)
    classes = column(per_class_table(audited(*audits), **READING), "forget_class")
    assert classes[:3] == ["0", "2", "10"]  # as numbers, not as text


def test_the_stages_of_a_class_come_with_the_linear_probe_last() -> None:
    table = per_class_table(audited(audit_row(), pra=[pra_row()], probes=[probe_row()]), **READING)
    assert column(table, "variant") == ["original", "unlearned", "pra", "sfra", "linear_probe"]
    assert column(table, "forget_acc") == ["90.00", "0.00", "20.00", "40.00", "90.00"]
    assert column(table, "rs") == [None, None, "0.33", "0.50", None]


def test_a_model_with_controls_but_no_audit_is_shown_as_far_as_it_is_known() -> None:
    rows = audited(audit_row("salun"), pra=[pra_row("delete")], probes=[probe_row("finetune")])
    table = per_class_table(rows, **READING)
    assert list(zip(column(table, "method"), column(table, "variant"), strict=True)) == [
        ("Original", "original"),
        ("Finetune", "linear_probe"),
        ("SalUn", "unlearned"),
        ("SalUn", "sfra"),
        ("DELETE", "unlearned"),
        ("DELETE", "pra"),
    ]


def test_unknown_accuracies_of_the_original_leave_its_line_out() -> None:
    rows = audited(audit_row(retain_original=None, forget_original=None))
    assert column(summary_table(rows, **READING), "method") == ["DELETE", "DELETE"]
    assert unlearning_quality_table(rows, **READING).records[0]["aus"] is None


def test_several_classes_are_sorted_by_their_number() -> None:
    table = multi_class_table(audited(*(audit_row(forget=f) for f in [(1, 2, 3), (25, 58), (1, 6), (7,)])), **READING)
    assert column(table, "forget_classes") == ["1+6"] * 3 + ["25+58"] * 3 + ["1+2+3"] * 3
    assert column(table, "num_forget")[-1] == "3"


def test_the_quality_of_unlearning_is_read_before_any_audit() -> None:
    audits = [audit_row(forget=(c,), retain_before=r, forget_before=f) for c, r, f in ((0, 0.90, 0.0), (1, 0.94, 0.2))]
    line = unlearning_quality_table(audited(*audits), **READING).records[0]
    assert line["aus"] == f"{(aus(0.95, 0.90, 0.0) + aus(0.95, 0.94, 0.2)) / 2:.2f}"
    assert (line["retain_acc_original"], line["retain_acc_mean"]) == ("95.00", "92.00")
    assert (line["forget_acc_max"], line["models"], line["num_forget"]) == ("20.00", "2", "1")


def test_only_audits_that_differ_in_one_setting_are_compared() -> None:
    rows = audited(
        audit_row(rs=0.5),
        audit_row(rs=0.4, audit="proposals", proposal="uniform"),
        audit_row(rs=0.5, audit="proposals"),
        audit_row(rs=0.1, audit="M", m=50),
        audit_row(rs=0.3, audit="scores", score="entropy"),
        audit_row(rs=0.2, audit="support", proposal="relu-gaussian"),
    )
    proposals, scores = distributions_table(rows, **READING), scores_table(rows, **READING)
    assert (column(proposals, "distribution"), column(proposals, "rs_7")) == (["gaussian", "uniform"], ["0.50", "0.40"])
    assert (column(scores, "score"), column(scores, "rs_7")) == (["softmax", "entropy"], ["0.50", "0.30"])
    assert column(support_table(rows, **READING), "proposal") == ["gaussian", "relu-gaussian"]


def test_the_average_of_an_ablation_is_over_the_classes_that_are_there() -> None:
    rows = [
        audit_row(forget=(c,), rs=rs, score=name, audit="scores", rs_std=0.01)
        for c, name, rs in ((0, "softmax", 0.2), (1, "softmax", 0.6), (0, "energy", 0.3))
    ]
    table = scores_table(audited(*rows), **READING)
    found = [column(table, name) for name in ("rs_avg", "rs_1", "rs_1_std")]
    assert found == [["0.40", "0.30"], ["0.60", None], ["0.01", None]]


def test_an_ablation_is_read_from_its_own_audits_where_it_has_them() -> None:
    rows = audited(
        audit_row(rs=0.5),
        audit_row(rs=0.52, rs_std=0.02, audit="scores", varied={"score": "softmax"}),
        audit_row(rs=0.4, rs_std=0.03, audit="scores", score="energy", varied={"score": "energy"}),
        audit_row(rs=0.3, audit="proposals", proposal="uniform", varied={"proposal": "uniform"}),
    )
    assert column(scores_table(rows, **READING), "rs_7") == ["0.52", "0.40"]
    assert column(scores_table(rows, **READING), "rs_7_std") == ["0.02", "0.03"]
    assert column(distributions_table(rows, **READING), "rs_7") == ["0.50", "0.30"]


def test_the_missing_row_stands_beside_the_released_one_of_the_same_audit() -> None:
    rows = audited(
        audit_row(rs=0.5),
        audit_row(rs=0.6, variant="reset-row"),
        audit_row(rs=0.5, audit="missing row"),
        audit_row(rs=0.7, audit="missing row", variant="restored-row", forget_before=0.03),
        audit_row(rs=0.1, audit="scores", score="energy", variant="reset-row"),
        audit_row("salun", rs=0.9),
    )
    table = missing_row_table(rows, **READING)
    assert column(table, "row") == ["unlearned", "reset", "random"]
    assert column(table, "rs") == ["0.50", "0.60", "0.70"]
    assert column(table, "forget_acc_before") == ["0.00", "0.00", "3.00"]


SIZES = [
    *(audit_row(forget=(c,), audit="M", m=m, rs=r) for c, m, r in ((7, 5, 0.2), (7, 10, 0.4), (8, 5, 0.4))),
    *(audit_row(forget=(c,), m=10, rs=r) for c, r in ((7, 0.4), (8, 0.9), (9, 0.0))),
]
"""Classes 7 and 8 with two numbers of probes, once as the main audit and once more as an ablation; 9 with one."""


def test_sizes_are_compared_over_the_forget_sets_that_have_all_of_them() -> None:
    records = sensitivity_table(audited(*SIZES), "m", **READING).records
    assert [(r["m"], r["n"], r["classes"], r["rs"]) for r in records] == [
        ("5", "1000", "2", "0.30"),
        ("10", "1000", "2", "0.65"),
    ]
    assert [r["rs_std"] for r in records] == [f"{statistics.stdev(two):.2f}" for two in ([0.2, 0.4], [0.4, 0.9])]


def test_audits_that_differ_in_more_than_their_size_are_not_compared() -> None:
    for change in ({"score": "entropy"}, {"n": 7}, {"epochs": 9}, {"rule": "validation"}):
        assert not sensitivity_table(audited(audit_row(m=5), audit_row(m=10, **change)), "m", **READING).rows


def test_one_forget_set_has_the_spread_of_the_audits_own_seeds() -> None:
    audits = [audit_row(n=n, audit="N", rs_std=0.03, retain_after=0.9) for n in (100, 200)]
    records = sensitivity_table(audited(*audits), "n", **READING).records
    assert [(r["n"], r["rs"], r["rs_std"], r["retain_acc"]) for r in records] == [
        (n, "0.50", "0.03", "90.00") for n in ("100", "200")
    ]


def test_the_cost_of_probes_is_a_mean_over_forget_sets() -> None:
    audits = [audit_row(forget=(c,), probe_seconds=s, draws=d) for c, s, d in ((0, 2.0, 4e6), (1, 4.0, 6e6))]
    line = probe_cost_table(audited(*audits), **READING).records[0]
    assert (line["seconds"], line["seconds_std"], line["draws_m"]) == ("3.00", "1.41", "5.00")
    assert (line["n"], line["m"]) == ("1000", "10")


def test_settings_are_listed_once_with_their_forget_sets() -> None:
    rows = [audit_row(forget=(c,), rule=rule) for c in (7, 10, 0) for rule in ("worst-case", "source-free")]
    table = settings_table(audited(*rows, audit_row(forget=(1, 6), m=20), audit_row(audit="M", m=99)))
    lines = [(r["setting"], r["m"], r["forget"]) for r in table.records]
    assert lines == [("single_class", "10", "0, 7, 10"), ("multi_class", "20", "1+6")]


def test_failures_are_listed_on_one_line_each() -> None:
    table = failures_table(Rows(failures=[failure_row("audit of delete 7", "error", "two\nlines\x1b[2J")]))
    assert table.records == [{"label": "audit of delete 7", "kind": "error", "message": "two lines?[2J"}]


def test_several_diagnosed_models_are_averaged_and_one_has_the_spread_of_its_own_seeds() -> None:
    one = Rows(diagnostics=[diagnosis_row(inner_std=0.125, cosine_std=0.25)])
    (alone,) = alignment_table(one, **READING).records
    assert (alone["a_ip"], alone["a_ip_std"], alone["a_cos_std"], alone["rs"]) == ("0.50", "0.12", "0.25", None)
    values = [0.1, 0.4, 0.9]
    several = [diagnosis_row(seed=seed, inner=value) for seed, value in enumerate(values)]
    rows = audited(audit_row(rs=0.25), audit_row(rs=0.75, seed=1), diagnostics=several)
    (line,) = alignment_table(rows, **READING).records
    assert (line["a_ip"], line["rs"]) == (f"{statistics.fmean(values):.2f}", "0.50")
    assert line["a_ip_std"] == f"{statistics.stdev(values):.2f}"


def test_classes_of_a_set_have_lines_of_their_own_but_one_confidence_and_no_average() -> None:
    pair = [diagnosis_row(forget=(1, 6), forget_class=label, inner=label / 10) for label in (6, 1)]
    records = alignment_table(Rows(diagnostics=pair), **READING).records
    assert [(r["forget_class"], r["a_ip"]) for r in records] == [("1 of 1+6", "0.10"), ("6 of 1+6", "0.60")]
    sure = confidence_table(Rows(diagnostics=[*pair, diagnosis_row(forget=(3,))]), scale="native").records
    assert [(r["forget_class"], r["assigned"]) for r in sure] == [("3", "90.00"), ("1+6", "90.00")]


def test_the_margin_table_holds_shares_of_the_retain_classes() -> None:
    rows = [diagnosis_row(sufficient=3, rising=9), diagnosis_row(seed=1, sufficient=0, rising=0, pearson=None)]
    found = Rows(diagnostics=[*rows, diagnosis_row(scale="canonical", pearson=0.1)])
    (line,) = margin_table(found, scale="native").records
    assert (line["sufficient"], line["rising"]) == (f"{100 * 3 / 18:.2f}", "50.00")
    names = ("pearson", "spearman", "slope", "sign_agreement")
    assert [line[name] for name in names] == ["0.90", "0.80", "1.10", "75.00"]


def test_numbers_are_written_as_in_the_paper_and_missing_ones_not_at_all() -> None:
    assert (percent(0.12345), percent(1), percent(0.0)) == ("12.35", "100.00", "0.00")
    assert (score(0.995), score(-0.004), score(-0.216)) == ("0.99", "0.00", "-0.22")
    assert (count(500_000), millions(44_950_000)) == ("500000", "44.95")
    assert (seconds(0.86), seconds(99.999)) == ("0.86", "100.00")
    for write in (percent, score, count, millions, seconds):
        assert (write(None), write(float("nan"))) == (None, None)
    assert words(None) is None


def test_a_report_has_every_table_that_there_are_rows_for_most_in_both_readings() -> None:
    tables = make_tables(audited(audit_row(), audit_row(scale="canonical", rule="source-free"), pra=[pra_row()]))
    assert [table.label for table in tables] == [
        *("summary", "per-class", "unlearning-quality", "probe-cost", "settings"),
        *("summary-native-worst-case", "per-class-native-worst-case"),
    ]
    assert not any(entry.make(Rows(), **READING).rows for entry in TABLES)


def test_a_new_table_is_a_function_and_an_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    def mine(rows: Rows, *, scale: str, rule: str) -> Table:
        return make_table("mine", "Mine", (N,), [{"n": len(rows.audits)}])

    monkeypatch.setattr(tables, "TABLES", (*TABLES, tables.Entry(mine)))
    made = {table.label: table for table in make_tables(audited(audit_row()))}
    assert (made["mine"].records, "mine-native-worst-case" in made) == ([{"n": "1"}], True)
