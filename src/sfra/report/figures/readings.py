"""What the figures of one audit read off its result: the verdict's score, curves, epochs of rules, confusion."""

from __future__ import annotations

from typing import Any

from sfra.auditing.result import AuditResult, RunTrace, Score
from sfra.auditing.rules import RULES
from sfra.core.errors import InputError
from sfra.report.classes import label_name

CURVES = ("retain accuracy", "forget accuracy", "RS", "RS of the reference")

MOST_EPOCHS = 120
"""Most epochs of a run that are all drawn; of more, evenly spaced ones and those that a rule takes."""


def verdict_score(audit: AuditResult) -> Score:
    """Return the score that the verdict rests on."""
    if not audit.results:
        raise InputError(
            "there is nothing to draw: the audit measured nothing",
            expected="an audit with evaluation data",
            got=f"verdict {audit.verdict}",
            do="audit again with labelled test data",
        )
    return audit.results[0]


def reading_of(audit: AuditResult) -> str:
    """Say what was audited and how it is read."""
    return f"Forget {forget_of(audit)}. Scale {audit.scale}; rule {audit.rule}; forget row: {audit.variant}."


def forget_of(audit: AuditResult) -> str:
    """Name the forget classes: ``classes 1, 6 and 8``."""
    *first, last = (label_name(label, audit.class_names) for label in audit.forget_classes)
    return f"classes {', '.join(first)} and {last}" if first else f"class {last}"


def readings_of(audit: AuditResult) -> dict[str, tuple[str, str]]:
    """Name the scales and forget rows whose curves can be looked at, the verdict's first; no scales of a sweep."""
    main = (audit.scale, audit.variant)
    others = [(one.scale, one.variant) for one in audit.results if one.scale in ("native", "canonical", audit.scale)]
    there = [place for place in dict.fromkeys([main, *others]) if traces_of(audit, *place)]
    return {f"{scale.replace('kappa=', 'κ = ')}, {variant}": (scale, variant) for scale, variant in there}


def trace_rows(audit: AuditResult, scale: str, variant: str, *, keep: set[int]) -> list[dict[str, Any]]:
    """Read the curves of a scale and forget row: a row per curve, seed and epoch."""
    runs = traces_of(audit, scale, variant)
    first = min((run.seed for run in runs), default=0)
    rows = []
    for run in runs:
        curves = {CURVES[2 if run.subject == "model" else 3]: run.rs}
        if run.subject == "model" and run.seed == first:
            curves |= {CURVES[0]: run.retain, CURVES[1]: run.forget}
        for name, values in curves.items():
            last = len(values or ()) - 1
            shown = {round(last * i / (MOST_EPOCHS - 1)) for i in range(MOST_EPOCHS)} if last > MOST_EPOCHS else None
            rows += [
                {"curve": name, "seed": run.seed, "first": run.seed == first, "epoch": epoch, "value": value}
                for epoch, value in enumerate(values or ())
                if shown is None or epoch in shown | keep
            ]
    return rows


def traces_of(audit: AuditResult, scale: str, variant: str, subject: str | None = None) -> list[RunTrace]:
    """Choose the measured runs of a scale and forget row, and of one subject if named."""
    return [
        run
        for run in audit.traces
        if (run.scale, run.variant) == (scale, variant) and run.rs and subject in (None, run.subject)
    ]


def rules_of(audit: AuditResult, scale: str, variant: str) -> list[dict[str, Any]]:
    """Read which epoch of the first seed each rule takes, and the RS it reads; rules that agree share a row."""
    mine, order = [one for one in audit.results if (one.scale, one.variant) == (scale, variant)], [*RULES]
    found: dict[tuple[int, str], dict[str, Any]] = {}
    for one in sorted(mine, key=lambda one: order.index(one.rule) if one.rule in RULES else len(order)):
        epoch, rs = one.epochs[0], one.rs_seeds[0]
        row = found.setdefault((epoch, f"{rs:.2f}"), {"rule": one.rule, "epoch": epoch, "rs": rs})
        row["rule"] += "" if row["rule"] == one.rule else f" = {one.rule}"
    return list(found.values())
