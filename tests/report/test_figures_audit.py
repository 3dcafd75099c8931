from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest
import torch

from builders.audits import FORGET, SMALL, C, compare, hidden, never_seen
from builders.charts import rows_of
from sfra.auditing.result import AuditResult, Confusion
from sfra.core.errors import InputError
from sfra.core.metrics import rs_at_budget
from sfra.report import Style, draw_all, plan_audit
from sfra.report.figures import (
    audit_acceptance_figure,
    audit_accuracy_figure,
    audit_budget_figure,
    audit_confusion_figure,
    audit_sweep_figure,
    audit_trajectory_figure,
    overview_figure,
)
from sfra.report.figures.accuracy import ACCURACIES


@pytest.fixture(scope="module")
def audit() -> AuditResult:
    settings = SMALL | {"epochs": 12, "seeds": 2, "scale": "sweep"}
    return compare(hidden(samples=20), never_seen(samples=20), **settings)


@pytest.mark.parametrize("size", ["page", "column"])
def test_accuracies_are_those_of_the_verdict_for_model_reference_and_control(audit: AuditResult, size: Any) -> None:
    figure = audit_accuracy_figure(audit, style=Style(size=size))
    forget, retain = figure.to_dict()["hconcat" if size == "page" else "vconcat"]
    data = figure.to_dict()["datasets"]
    first, [control] = audit.results[0], audit.controls

    def bars(panel: dict[str, Any]) -> dict[str, tuple[float, float]]:
        return {row["subject"]: (row["before"], row["after"]) for row in data[panel["layer"][0]["data"]["name"]]}

    scores = [one.score for one in control.hidden]
    assert len(scores) > 1
    hidden = {name: sum(getattr(one, name) for one in scores) / len(scores) for name in ACCURACIES}
    for panel, which in ((forget, "forget"), (retain, "retain")):
        before, after = f"{which}_before", f"{which}_after"
        expected = {
            "this model": (getattr(first, before), getattr(first, after)),
            "reference: never saw it": (getattr(first, f"reference_{before}"), getattr(first, f"reference_{after}")),
            "control: classes only hidden": pytest.approx((hidden[before], hidden[after])),
        }
        assert bars(panel) == expected
    rings = [row["after"] for row in rows_of(figure, "after") if "before" not in row]
    assert rings == [one.forget_after for one in scores]


def test_accuracies_without_a_reference_are_of_the_model_and_its_controls(audit: AuditResult) -> None:
    theirs = dict.fromkeys((f"reference_{name}" for name in ACCURACIES), None)
    alone = msgspec.structs.replace(audit, results=(msgspec.structs.replace(audit.results[0], **theirs),))
    shown = {row["subject"] for row in rows_of(audit_accuracy_figure(alone), "before")}
    assert shown == {"this model", "control: classes only hidden"}


def test_overview_has_a_line_for_each_audit_with_its_references_controls_and_verdict(audit: AuditResult) -> None:
    broken = msgspec.structs.replace(audit, verdict="unusable")
    rows = rows_of(overview_figure([("a", audit), ("b", broken)]), "audit")
    [model] = [row for row in rows if row.get("mark") == "model"]
    assert (model["audit"], model["rs"], (model["low"], model["high"])) == ("a", audit.rs, audit.rs_interval)
    assert [row["rs"] for row in rows if row.get("mark") == "reference"] == [audit.reference_rs]
    hidden = [one.score.rs for one in audit.controls[0].hidden]
    assert [row["rs"] for row in rows if row.get("mark") == "hidden class"] == hidden
    told = {row["audit"]: row["verdict"] for row in rows if "verdict" in row}
    assert told == {"a": audit.verdict, "b": "unusable"}
    with pytest.raises(InputError, match="no audit measured anything"):
        overview_figure([("b", broken)])


def test_trajectory_shows_every_seed_and_reading_and_the_epoch_of_each_rule(audit: AuditResult) -> None:
    figure = audit_trajectory_figure(audit)
    places = {(r.scale, r.variant) for r in audit.results if r.scale in ("native", "canonical")}
    assert len(places) == 3
    assert {row["reading"] for row in rows_of(figure, "reading")} == {", ".join(place) for place in places}
    for run in audit.traces:
        if (run.scale, run.variant) in places:
            name = "RS" if run.subject == "model" else "RS of the reference"
            key = (f"{run.scale}, {run.variant}", name, run.seed)
            mine = [r for r in rows_of(figure, "curve", "epoch") if (r["reading"], r["curve"], r["seed"]) == key]
            assert tuple(row["value"] for row in sorted(mine, key=lambda row: row["epoch"])) == run.rs
    for place in places:
        rows = [row for row in rows_of(figure, "rule") if row["reading"] == ", ".join(place)]
        chosen = {rule: (row["epoch"], row["rs"]) for row in rows for rule in row["rule"].split(" = ")}
        scores = [one for one in audit.results if (one.scale, one.variant) == place]
        assert chosen == {one.rule: (one.epochs[0], one.rs_seeds[0]) for one in scores}


def test_a_long_trajectory_is_thinned_but_keeps_the_epochs_of_the_rules(audit: AuditResult) -> None:
    long = tuple(i / 1000 for i in range(1001))
    traces = [msgspec.structs.replace(run, retain=long, forget=long, rs=long) for run in audit.traces]
    results = [msgspec.structs.replace(one, epochs=(333, 333)) for one in audit.results]
    changed = msgspec.structs.replace(audit, traces=tuple(traces), results=tuple(results))
    rows = rows_of(audit_trajectory_figure(changed), "curve", "epoch", "first")
    epochs = {row["epoch"] for row in rows}
    assert {0, 333, 1000} <= epochs
    assert len(epochs) < 200


def test_the_budget_curve_is_the_mean_over_seeds_of_rs_at_that_budget(audit: AuditResult) -> None:
    rows = rows_of(audit_budget_figure(audit), "epsilon", "subject")
    for subject in ("model", "reference"):
        place = (subject, audit.scale, audit.variant)
        runs = [run for run in audit.traces if (run.subject, run.scale, run.variant) == place]
        shown = {row["epsilon"]: row["rs"] for row in rows if row["subject"] == subject}
        for epsilon in (0.0, 0.01, 0.05, 0.1):
            each = [rs_at_budget(torch.tensor(run.retain), torch.tensor(run.forget), epsilon) for run in runs]
            assert shown[epsilon] == pytest.approx(sum(each) / len(each), abs=1e-6)
    told = {row["epsilon"]: row["rs"] for row in rows if row["subject"] == "model"}
    assert {epsilon: told[float(epsilon)] for epsilon in audit.rs_at} == pytest.approx(audit.rs_at, abs=1e-6)


def test_without_a_reference_all_layers_of_the_budget_share_one_scale_of_colours(audit: AuditResult) -> None:
    """Two scales make the browser warn on its console."""
    alone = msgspec.structs.replace(audit, traces=tuple(run for run in audit.traces if run.subject == "model"))
    layers = audit_budget_figure(alone).to_dict()["layer"]
    tints = [layer["encoding"]["color"]["scale"] for layer in layers if "color" in layer["encoding"]]
    assert len(tints) > 1
    assert all(one == tints[0] for one in tints)


def test_confusion_shows_every_sample_once_for_each_head(audit: AuditResult) -> None:
    shown = rows_of(audit_confusion_figure(audit), "answer", "count")
    assert audit.confusion is not None
    for head, counts in (("released", audit.confusion.before), ("relearned", audit.confusion.after)):
        mine = {row["answer"]: row["count"] for row in shown if row["head"] == head}
        assert tuple(mine[str(c)] for c in range(C)) == counts[0]
    assert {row["answer"] for row in shown if row["right"]} == {str(FORGET)}


def test_rare_answers_are_added_up_and_none_is_lost(audit: AuditResult) -> None:
    counts = (tuple(range(1, 41)), (3,) * 40)
    names = tuple(f"c{i}" for i in range(40))
    confusion = Confusion(classes=(0, 5), before=counts, after=counts)
    many = msgspec.structs.replace(audit, confusion=confusion, class_names=names, forget_classes=(0, 5))
    shown = rows_of(audit_confusion_figure(many), "answer", "count")
    for forget, expected in (("c0 (0)", sum(counts[0])), ("c5 (5)", 120)):
        mine = [row for row in shown if (row["forget"], row["head"]) == (forget, "relearned")]
        assert sum(row["count"] for row in mine) == expected
        assert {"c0", "c5", "c39", "other 28"} <= {row["answer"] for row in mine}


def test_acceptance_is_that_of_the_first_seed_at_the_verdicts_scale(audit: AuditResult) -> None:
    entry = next(p for p in audit.probes if (p.scale, p.variant) == (audit.scale, audit.variant))
    shown = rows_of(audit_acceptance_figure(audit), "kind")
    assert {row["label"]: row["share"] for row in shown} == dict(enumerate(entry.acceptance))
    assert [row["label"] for row in shown if row["kind"].startswith("forget")] == [FORGET]


def test_a_class_without_draws_is_drawn_at_the_edge_of_a_logarithmic_axis(audit: AuditResult) -> None:
    probes = [
        msgspec.structs.replace(one, acceptance=(0.0, *one.acceptance[1:]), conditional={"0": "tilting"})
        for one in audit.probes
    ]
    changed = msgspec.structs.replace(audit, probes=tuple(probes))
    shown = next(row for row in rows_of(audit_acceptance_figure(changed), "rank") if row["label"] == 0)
    others = [share for share in probes[0].acceptance if share > 0]
    assert (shown["kind"], shown["share"]) == ("retain, sampled conditionally", 0.0)
    assert shown["rank"] > len(others)
    assert 0 < shown["at"] < min(others)


def test_sweep_shows_model_and_reference_at_every_scale(audit: AuditResult) -> None:
    figure = audit_sweep_figure(audit)
    assert audit.sweep is not None
    for subject, field in (("model", "rs"), ("reference", "reference_rs")):
        shown = sorted((r["kappa"], r["rs"]) for r in rows_of(figure, "subject", "kappa") if r["subject"] == subject)
        expected = sorted((p.kappa, getattr(p, field)) for p in audit.sweep.points)
        np.testing.assert_allclose(sorted(set(shown)), expected)
    assert any(row.get("text") == f"canonical, κ = {audit.settings['kappa']:g}" for row in rows_of(figure, "kappa"))


@pytest.mark.parametrize("style", [Style(size="column"), Style(theme="dark"), Style(theme="auto")])
def test_every_figure_of_an_audit_is_valid_titled_and_described(audit: AuditResult, style: Style) -> None:
    planned = plan_audit(audit)
    drawn = draw_all(planned, style=style)
    assert drawn.left_out == {}
    for name, made in drawn.charts.items():
        spec = made.to_dict()
        assert any(character.isdigit() for character in spec["description"])
        assert spec["title"]["text"] == planned[name].figure.title


def test_an_audit_that_measured_nothing_leaves_out_what_needs_data(audit: AuditResult) -> None:
    bare = msgspec.structs.replace(audit, results=(), confusion=None, sweep=None, verdict="not-measured")
    drawn = draw_all(plan_audit(bare))
    assert set(drawn.charts) == {"acceptance"}
    assert drawn.left_out["accuracy"] == "there is nothing to draw: the audit measured nothing"
    with pytest.raises(InputError, match=r"swept no scales\n(.*\n)*.*--scale sweep"):
        audit_sweep_figure(bare)
