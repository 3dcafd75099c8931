"""The main tables: recovery and quality of every method, cost and settings of the audits, and what failed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sfra.bench.rows import AuditRow, Rows
from sfra.bench.tables import columns as c
from sfra.bench.tables.names import forget_of, method_rank, place
from sfra.bench.tables.stages import PRA, Stage, deviation, group, main_audits, mean, present, stages_of
from sfra.bench.tables.table import Column, Table, make_table
from sfra.unlearn.quality import aus

Line = dict[str, Any]


def summary_table(rows: Rows, *, scale: str, rule: str) -> Table:
    """Aggregate over single forget classes: per method unlearned, after PRA and after SFRA.

    Retain accuracy mean ± sample standard deviation (n - 1), forget accuracy (min, mean, max), highest RS, highest ΔRS.
    """
    found = stages_of(rows.audits, rows.pra, scale=scale, rule=rule)
    groups = group([s for s in found if len(s.forget) == 1], "dataset", "backbone", "method", "variant")
    lines = [
        {
            **same[0],
            **_accuracies([s.retain for s in same], [s.forgotten for s in same]),
            "rs_max": max(present(s.rs for s in same), default=None),
            "delta_rs_max": max(present(s.delta_rs for s in same), default=None),
            "classes": len(same),
        }
        for same in sorted(groups.values(), key=lambda same: (*same[0].rank[:3], same[0].rank[-1]))
    ]
    best = c.figure("rs_max", "max RS"), c.figure("delta_rs_max", "max ΔRS")
    return make_table(
        "summary",
        "Recovery over single forget classes",
        (*c.PLACE, c.METHOD, c.STAGE, c.RETAIN_SPREAD, c.FORGET_RANGE, *best, c.CLASSES),
        lines,
        notes=(
            c.reading(scale, rule),
            "Maxima of RS and ΔRS are taken over the forget classes independently of each other.",
            *_averaging(rows),
        ),
    )


def per_class_table(rows: Rows, *, scale: str, rule: str) -> Table:
    """List every single forget class: unlearned, after PRA, after SFRA, and the linear probe."""
    found = stages_of(rows.audits, rows.pra, rows.probes, scale=scale, rule=rule)
    return make_table(
        "per-class",
        "Every forget class",
        (*c.PLACE, c.METHOD, c.FORGET, c.STAGE, *c.AFTER, c.DELTA),
        [_line(s) for s in found if len(s.forget) == 1],
        notes=(c.reading(scale, rule), *_averaging(rows)),
    )


def multi_class_table(rows: Rows, *, scale: str, rule: str) -> Table:
    """List every set of two or more forget classes."""
    found = stages_of(rows.audits, rows.pra, rows.probes, scale=scale, rule=rule)
    found.sort(key=lambda s: (*place(s.dataset, s.backbone), len(s.forget), s.forget, s.rank))
    number = Column(names=("num_forget",), heading="Classes", fold=True, title="")
    classes = Column(names=("forget_classes",), heading="Forget classes", numeric=False, fold=True, title="classes {}")
    return make_table(
        "multi-class",
        "Several classes forgotten at once",
        (*c.PLACE, number, classes, c.METHOD, c.STAGE, *c.AFTER, c.DELTA),
        [_line(s) for s in found if len(s.forget) > 1],
        notes=(c.reading(scale, rule), *_averaging(rows)),
    )


def unlearning_quality_table(rows: Rows, *, scale: str, rule: str) -> Table:
    """Show how well each method unlearned, before any audit: accuracies and their adaptive unlearning score."""
    groups: dict[tuple[str, str, int, str], list[AuditRow]] = {}
    for row in main_audits(rows.audits, scale=scale, rule=rule):
        groups.setdefault((row.dataset, row.backbone, len(forget_of(row)), row.method), []).append(row)
    ordered = sorted(groups, key=lambda key: (*place(key[0], key[1]), key[2], method_rank(key[3])))
    at_once = Column(names=("num_forget",), heading="Classes at once", fold=True, title="classes forgotten at once: {}")
    return make_table(
        "unlearning-quality",
        "Quality of unlearning",
        (
            *(*c.PLACE, at_once, c.METHOD, c.figure("retain_acc_original", "Original retain (%)", c.percent)),
            *(c.RETAIN_SPREAD, c.FORGET_RANGE, c.figure("aus", "AUS"), c.figure("models", "Models", c.count)),
        ),
        [_quality(groups[key]) for key in ordered],
        notes=("AUS = (1 - (original retain accuracy - retain accuracy)) / (1 + forget accuracy), mean over models.",),
    )


def probe_cost_table(rows: Rows, *, scale: str, rule: str) -> Table:
    """Show what it takes to draw the probes of one audit seed: raw draws and seconds, mean over forget sets."""
    groups = group(main_audits(rows.audits, scale=scale, rule=rule), "dataset", "backbone", "n", "m", "method")
    lines = []
    for key in sorted(groups, key=lambda k: (*place(k[0], k[1]), k[2], k[3], method_rank(k[4]))):
        same = groups[key]
        times = [mean(row.probe_seconds for row in one) for one in group(same, "forget").values()]
        cost = {"draws_m": mean(row.draws for row in same), "seconds": mean(times), "seconds_std": deviation(times)}
        lines.append({**same[0], **cost})
    time = Column(names=("seconds", "seconds_std"), heading="Time (s)", style="spread", write=c.seconds)
    return make_table(
        "probe-cost",
        "Cost of the probes",
        (*c.PLACE, c.METHOD, c.N, c.M, c.figure("draws_m", "Draws (M)", c.millions), time),
        lines,
        notes=(f"Probes alone, scale {scale}; mean ± standard deviation over forget sets.",),
    )


def settings_table(rows: Rows, **_: str) -> Table:
    """List the settings of the main audits, and the forget sets that each was used for."""
    names = ("setting", "dataset", "backbone", "n", "m", "proposal", "score", "assignment", "epochs", "seeds")
    main = [
        {**row, "setting": "single_class" if len(row.forget_classes) == 1 else "multi_class"}
        for row in rows.audits
        if row.audit == "main"
    ]
    groups = group(main, *names)
    lines = []
    for key in sorted(groups, key=lambda k: (k[0] != "single_class", *place(k[1], k[2]), str(k[3:]))):
        sets = sorted({forget_of(row) for row in groups[key]}, key=lambda forget: (len(forget), forget))
        lines.append({**groups[key][0], "forget": ", ".join("+".join(map(str, forget)) for forget in sets)})
    asked = (("single_class", "one class"), ("multi_class", "several classes"))
    folded = {"proposal": "Proposal", "score": "Score", "assignment": "Assignment"}
    return make_table(
        "settings",
        "Settings of the audits",
        (
            Column(names=("setting",), heading="Setting", numeric=False, words=asked),
            *(*c.PLACE, c.N, c.M),
            *(Column(names=(name,), heading=heading, numeric=False, fold=True) for name, heading in folded.items()),
            *(c.figure("epochs", "Epochs", c.count), c.figure("seeds", "Seeds", c.count)),
            Column(names=("forget",), heading="Forget classes", numeric=False, wide=True),
        ),
        lines,
    )


def failures_table(rows: Rows, **_: str) -> Table:
    """List what failed and why."""
    message = Column(names=("message",), heading="Message", numeric=False, wide=True)
    columns = (c.word("label", "What"), c.word("kind", "Kind"), message)
    return make_table("failures", "Failures", columns, rows.failures)


def _averaging(rows: Rows) -> tuple[str, ...]:
    """Say what the figures are means of; PRA only where there is any."""
    if not rows.pra:
        return ("Several models of a class are averaged.",)
    return (f"PRA: {PRA}.", "Several models of a class, and several draws of PRA's samples, are averaged.")


def _accuracies(retain: Sequence[float | None], forgotten: Sequence[float | None]) -> Line:
    there = present(forgotten)
    return {
        "retain_acc_mean": mean(retain),
        "retain_acc_std": deviation(retain),
        "forget_acc_min": min(there, default=None),
        "forget_acc_mean": mean(there),
        "forget_acc_max": max(there, default=None),
    }


def _line(stage: Stage) -> Line:
    name = "+".join(map(str, stage.forget))
    which = {"forget_class": name, "forget_classes": name, "num_forget": len(stage.forget)}
    return {**stage, **which, "retain_acc": stage.retain, "forget_acc": stage.forgotten}


def _quality(rows: Sequence[AuditRow]) -> Line:
    scores = [
        aus(row.retain_original, row.retain_before, row.forget_before)
        for row in rows
        if row.retain_original is not None
    ]
    return {
        **rows[0],
        **_accuracies([row.retain_before for row in rows], [row.forget_before for row in rows]),
        "num_forget": len(forget_of(rows[0])),
        "retain_acc_original": mean(row.retain_original for row in rows),
        "aus": mean(scores),
        "models": len(rows),
    }
