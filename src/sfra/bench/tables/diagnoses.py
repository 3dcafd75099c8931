"""Tables of diagnostics: alignment, confidence before relearning, and the first step's effect on the margin."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from sfra.bench.rows import DiagnosisRow, Rows
from sfra.bench.tables import columns as c
from sfra.bench.tables.names import method_rank, place
from sfra.bench.tables.stages import MODEL, group, main_audits, mean, spread
from sfra.bench.tables.table import Column, Table, make_table

Line = dict[str, Any]
AVERAGE, WHOLE = -1, -2
"""Stand for a forget class where a line is of all single classes, or of a forget set as a whole."""


def alignment_table(rows: Rows, *, scale: str, rule: str) -> Table:
    """Show where the mean forget probe lies to the mean real sample, beside RS."""
    scored = group(main_audits(rows.audits, scale=scale, rule=rule), *MODEL)

    def line(same: Sequence[DiagnosisRow]) -> Line:
        first = same[0]
        audits = scored.get((first.dataset, first.backbone, first.method, tuple(sorted(first.forget_classes))), [])
        return {
            "rs": mean(row.rs for row in audits),
            "a_ip": mean(row.inner for row in same),
            "a_ip_std": spread(same, "inner"),
            "a_cos": mean(row.cosine for row in same),
            "a_cos_std": spread(same, "cosine"),
        }

    columns = (
        c.figure("rs", "RS"),
        Column(names=("a_ip", "a_ip_std"), heading="Inner product", style="spread", write=c.score),
        Column(names=("a_cos", "a_cos_std"), heading="Cosine", style="spread", write=c.score),
    )
    notes = (
        f"RS: s{c.reading(scale, rule)[1:]}",
        "Mean forget probe against mean real feature of the forget class; ± over the seeds of the audit.",
    )
    return _table("alignment", "Alignment", rows.diagnostics, scale, columns, line, notes)


def confidence_table(rows: Rows, *, scale: str, **_: str) -> Table:
    """Show how sure the released head is of correct retain samples, and of forget samples given to retain classes."""

    def line(same: Sequence[DiagnosisRow]) -> Line:
        return {
            "correct_retain_conf": mean(row.correct_confidence for row in same),
            "forget_assigned_conf": mean(row.assigned_confidence for row in same),
            "gap": mean(row.gap for row in same),
            "assigned": mean(row.assigned / row.forget_samples for row in same),
        }

    columns = (
        c.figure("correct_retain_conf", "Correct retain", c.fine),
        c.figure("forget_assigned_conf", "Assigned forget", c.fine),
        c.figure("gap", "Gap", c.fine),
        c.figure("assigned", "Assigned (%)", c.percent),
    )
    notes = (
        "Mean confidence before relearning: of retain samples that are right, and of forget samples that are given to "
        "retain classes; assigned: share of the forget samples that are. avg: over single forget classes.",
    )
    whole = [replace(row, forget_class=WHOLE) for row in rows.diagnostics]
    single = group([row for row in whole if len(row.forget_classes) == 1], "dataset", "backbone", "method")
    averaged = [
        replace(row, forget_class=AVERAGE, forget_classes=[])
        for same in single.values()
        if len({row.forget for row in same}) > 1
        for row in same
    ]
    return _table("confidence", "Confidence", [*whole, *averaged], scale, columns, line, notes)


def margin_table(rows: Rows, *, scale: str, **_: str) -> Table:
    """Show how well alignment stands in for what the first gradient step does to the margin."""
    means = {"a_ip": "inner", "alpha": "alpha_mean", "alpha_std": "alpha_std"}
    same_names = ("pearson", "spearman", "slope", "sign_agreement")

    def line(same: Sequence[DiagnosisRow]) -> Line:
        return {
            **{short: mean(row[name] for row in same) for short, name in means.items()},
            **{name: mean(row[name] for row in same) for name in same_names},
            **{name: mean(row[name] / row.competitors for row in same) for name in ("sufficient", "rising")},
        }

    columns = (
        c.figure("a_ip", "Inner product"),
        Column(names=("alpha", "alpha_std"), heading="α", style="spread", write=c.score),
        *(c.figure("pearson", "Pearson"), c.figure("spearman", "Spearman"), c.figure("slope", "Slope")),
        c.figure("sign_agreement", "Same sign (%)", c.percent),
        *(c.figure("sufficient", "Sufficient (%)", c.percent), c.figure("rising", "Rising (%)", c.percent)),
    )
    notes = (
        f"Scale {scale}. One gradient step on the forget probes: exact change of the margin through the weight against "
        "alignment, over bootstrap samples and competitors.",
        "Sufficient: share of the retain classes for which alignment alone guarantees a rise; rising: share over which "
        "the margin rises, bias included.",
    )
    return _table("margin", "Margin", rows.diagnostics, scale, columns, line, notes)


def _table(
    label: str,
    title: str,
    diagnostics: Iterable[DiagnosisRow],
    scale: str,
    columns: tuple[Column, ...],
    line: Callable[[Sequence[DiagnosisRow]], Line],
    notes: tuple[str, ...],
) -> Table:
    """Write a line for each model and forget class at one scale."""
    groups = group([row for row in diagnostics if row.scale == scale], *MODEL, "forget_class")
    return make_table(
        label,
        title,
        (*c.PLACE, c.METHOD, c.FORGET, *columns),
        [{**groups[k][0], "forget_class": _class_name(*k[3:]), **line(groups[k])} for k in sorted(groups, key=_rank)],
        notes=notes,
    )


def _class_name(forget: tuple[int, ...], label: int) -> str:
    whole = "+".join(map(str, forget))
    return "avg" if label == AVERAGE else whole if label == WHOLE or len(forget) == 1 else f"{label} of {whole}"


def _rank(key: tuple[Any, ...]) -> tuple[Any, ...]:
    dataset, backbone, method, forget, label = key
    return *place(dataset, backbone), method_rank(method), label == AVERAGE, len(forget), forget, label
