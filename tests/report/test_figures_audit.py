from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

from builders.audits import FORGET, SMALL, C, compare, hidden, never_seen
from builders.charts import rows_of
from sfra.core.errors import InputError
from sfra.report import (
    Style,
    audit_acceptance_figure,
    audit_accuracy_figure,
    audit_confusion_figure,
    audit_sweep_figure,
    audit_trajectory_figure,
)
from sfra.report.figures import AUDIT, audit_figures

Report = dict[str, Any]


@pytest.fixture(scope="module")
def report() -> Report:
    settings = SMALL | {"epochs": 12, "seeds": 2, "scale": "sweep"}
    return compare(hidden(samples=20), never_seen(samples=20), **settings).to_dict()


def test_accuracies_are_those_of_the_verdict_for_model_and_reference(report: Report) -> None:
    shown = {
        (r["subject"], r["classes"], r["head"]): r["accuracy"] for r in rows_of(audit_accuracy_figure(report), "head")
    }
    assert shown["model", "forget", "released"] == report["forget"]["before"]
    assert shown["model", "forget", "relearned"] == report["forget"]["after"]
    assert shown["model", "retain", "released"] == report["retain"]["before"]
    assert shown["model", "retain", "relearned"] == report["retain"]["after"]
    assert shown["reference", "forget", "relearned"] == report["results"][0]["reference_forget_after"]
    assert len(shown) == 8


def test_trajectory_shows_every_seed_of_the_verdicts_scale_and_the_epoch_of_each_rule(report: Report) -> None:
    chart = audit_trajectory_figure(report)
    runs = [r for r in report["trajectory"] if (r["scale"], r["variant"]) == (report["scale"], report["variant"])]
    assert {run["seed"] for run in runs} == {0, 1}
    for run in runs:
        name = "RS" if run["subject"] == "model" else "RS of the reference"
        mine = [r for r in rows_of(chart, "curve", "epoch") if (r["curve"], r["seed"]) == (name, run["seed"])]
        assert [row["value"] for row in sorted(mine, key=lambda row: row["epoch"])] == run["rs"]
    chosen = {rule: row for row in rows_of(chart, "rule") for rule in row["rule"].split(" = ")}
    readings = [r for r in report["results"] if (r["scale"], r["variant"]) == (report["scale"], report["variant"])]
    assert {rule: (row["epoch"], row["rs"]) for rule, row in chosen.items()} == {
        r["rule"]: (r["epochs"][0], r["rs_seeds"][0]) for r in readings
    }


def test_confusion_shows_every_sample_once_for_each_head(report: Report) -> None:
    shown = rows_of(audit_confusion_figure(report), "answer", "count")
    for head, when in (("released", "before"), ("relearned", "after")):
        mine = {row["answer"]: row["count"] for row in shown if row["head"] == head}
        assert [mine[str(c)] for c in range(C)] == report["confusion"][when][0]
    assert {row["answer"] for row in shown if row["right"]} == {str(FORGET)}


def test_rare_answers_are_added_up_and_none_is_lost() -> None:
    counts = [[i + 1 for i in range(40)], [3] * 40]
    report = {
        "confusion": {"classes": [0, 5], "before": counts, "after": counts},
        "forget_classes": [0, 5],
        "scale": "native",
        "rule": "source-free",
        "variant": "released",
        "class_names": [f"c{i}" for i in range(40)],
    }
    shown = rows_of(audit_confusion_figure(report), "answer", "count")
    for forget, expected in (("c0 (0)", sum(counts[0])), ("c5 (5)", 120)):
        mine = [row for row in shown if (row["forget"], row["head"]) == (forget, "relearned")]
        assert sum(row["count"] for row in mine) == expected
        assert {"c0", "c5", "c39", "other 28"} <= {row["answer"] for row in mine}


def test_acceptance_is_that_of_the_first_seed_at_the_verdicts_scale(report: Report) -> None:
    entry = next(p for p in report["probes"] if (p["scale"], p["variant"]) == (report["scale"], report["variant"]))
    shown = rows_of(audit_acceptance_figure(report), "kind")
    assert {row["label"]: row["share"] for row in shown} == dict(enumerate(entry["acceptance"]))
    assert [row["label"] for row in shown if row["kind"].startswith("forget")] == [FORGET]


def test_a_class_without_draws_is_drawn_at_the_edge_of_a_logarithmic_axis(report: Report) -> None:
    changed = copy.deepcopy(report)
    for entry in changed["probes"]:
        entry["acceptance"][0], entry["conditional"] = 0.0, {"0": "tilting"}
    shown = next(row for row in rows_of(audit_acceptance_figure(changed), "rank") if row["label"] == 0)
    others = [share for share in changed["probes"][0]["acceptance"] if share > 0]
    assert (shown["kind"], shown["share"]) == ("retain, sampled conditionally", 0.0)
    assert shown["rank"] > len(others)
    assert 0 < shown["at"] < min(others)


def test_sweep_shows_model_and_reference_at_every_scale(report: Report) -> None:
    chart = audit_sweep_figure(report)
    for subject, field in (("model", "rs"), ("reference", "reference_rs")):
        shown = sorted((r["kappa"], r["rs"]) for r in rows_of(chart, "subject", "kappa") if r["subject"] == subject)
        expected = sorted((p["kappa"], p[field]) for p in report["sweep"]["points"])
        np.testing.assert_allclose(sorted(set(shown)), expected)
    assert any(row.get("text") == f"canonical, κ = {report['settings']['kappa']:g}" for row in rows_of(chart, "kappa"))


@pytest.mark.parametrize("style", [Style(size="column"), Style(theme="dark")])
def test_every_figure_of_an_audit_is_valid_and_described(report: Report, style: Style) -> None:
    drawn, left_out = audit_figures(report, style=style)
    assert set(drawn) == set(AUDIT)
    assert not left_out
    for chart in drawn.values():
        spec = chart.to_dict()
        assert any(character.isdigit() for character in spec["description"])
        assert spec["title"]["text"]


def test_an_audit_that_measured_nothing_leaves_out_what_needs_data(report: Report) -> None:
    bare = report | {"results": [], "confusion": None, "sweep": None, "verdict": "not-measured"}
    drawn, left_out = audit_figures(bare)
    assert set(drawn) == {"acceptance"}
    assert left_out["accuracy"] == "there is nothing to draw: the audit measured nothing"
    with pytest.raises(InputError, match=r"swept no scales\n(.*\n)*.*--scale sweep"):
        audit_sweep_figure(bare)
