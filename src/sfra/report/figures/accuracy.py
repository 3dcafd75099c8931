"""The picture that explains a verdict: what comes back in the model, in its reference and in controls; and of many."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any

from sfra.auditing.result import AuditResult
from sfra.auditing.verdicts import KINDS, VERDICTS
from sfra.core.errors import InputError
from sfra.report.figures.readings import forget_of, reading_of, verdict_score
from sfra.report.figures.registry import figure
from sfra.report.figures.style import LIGHT, Chart, Style, altair, chart, finish, layered, listed, numbers, score

MODEL, REFERENCE = "this model", "reference: never saw it"
CONTROLS = {"original": "control: original, only hidden", "self": "control: classes only hidden"}
ACCURACIES = ("forget_before", "forget_after", "retain_before", "retain_after")

STEP = 34
"""Height of a bar with the space around it."""


@figure("accuracy", title="What comes back, and what it costs", needs="audit", brief=True)
def audit_accuracy_figure(audit: AuditResult, *, style: Style = LIGHT) -> Chart:
    """Draw forget and retain accuracy before and after relearning: of the model, its references and its controls.

    A control is a class that is only hidden: it shows what comes back where nothing was forgotten. Of several
    references and hidden classes, bars are means and rings are each hidden class.
    """
    first = verdict_score(audit)
    rows = list(subjects(audit))
    panels = [
        _panel(audit, rows, which, style, names=which == "forget" or style.size == "column")
        for which in ("forget", "retain")
    ]
    put = altair().vconcat if style.size == "column" else altair().hconcat
    also = " Rings: each hidden class." if audit.controls else ""
    return finish(
        put(*panels, spacing=14 if style.size == "column" else 24),
        style,
        subtitle=[
            reading_of(audit),
            f"Bar: accuracy after relearning; upright line: before; thin line: 95 % interval.{also}",
        ],
        description=f"Forget accuracy goes from {first.forget_before:.1%} to {first.forget_after:.1%}, "
        f"retain accuracy from {first.retain_before:.1%} to {first.retain_after:.1%}.",
    )


def subjects(audit: AuditResult) -> Iterator[dict[str, Any]]:
    """Read the accuracies of the model, its references and its controls, a row each; ``each`` hidden class apart."""
    first = audit.results[0]
    intervals = {f"{which}_interval": getattr(first, f"{which}_after_interval") for which in ("forget", "retain")}
    yield {"subject": MODEL, **{name: getattr(first, name) for name in ACCURACIES}, **intervals}
    theirs = {name: getattr(first, f"reference_{name}") for name in ACCURACIES}
    if None not in theirs.values():
        yield {"subject": REFERENCE, **theirs}
    for control in audit.controls:
        scores = [one.score for one in control.hidden]
        means = {name: fmean(getattr(one, name) for one in scores) for name in ACCURACIES}
        yield {"subject": CONTROLS[control.kind], **means, "each": scores}


def _panel(audit: AuditResult, rows: Sequence[Mapping[str, Any]], which: str, style: Style, *, names: bool) -> Any:
    """Draw the bars of one kind of classes, with both numbers beside them."""
    alt, colours = altair(), style.colours
    width = style.width - 75 if style.size == "column" else style.width // 2 - 20
    tint = colours.forget if which == "forget" else colours.retain
    shown = [
        {"subject": row["subject"], "before": row[f"{which}_before"], "after": row[f"{which}_after"]}
        | {"low": ends[0], "high": ends[1], "text": f"{_percent(row[f'{which}_before'])} → {_percent(ends[2])} %"}
        for row in rows
        for after in [row[f"{which}_after"]]
        for ends in [(*(row.get(f"{which}_interval") or (after, after)), after)]
    ]
    rings = [
        {"subject": row["subject"], "after": getattr(one, f"{which}_after")}
        for row in rows
        for one in row.get("each", ())
        if which == "forget"
    ]
    y = listed("y", "subject", [row["subject"] for row in rows], labels=names, labelLimit=0)
    x = score("x", "after", None, format=".0%", values=[0, 0.5, 1])
    base = chart(shown).encode(y=y, x=x)
    solid = alt.condition(f"datum.subject == '{MODEL}'", alt.value(0.95), alt.value(0.45))
    tooltip = ["subject:N", *numbers("before", "after", format=".1%")]
    title = alt.TitleParams(
        text=f"accuracy on the forgotten {forget_of(audit)}" if which == "forget" else "accuracy on all other classes",
        fontSize=style.font_size,
        color=tint,
        offset=4,
    )
    return layered(
        base.mark_bar(size=16, color=tint).encode(opacity=solid, tooltip=tooltip),
        base.mark_rule(color=colours.ink, strokeWidth=1).encode(x="low:Q", x2="high:Q"),
        base.mark_tick(color=colours.ink, thickness=2.5, size=24, opacity=1).encode(x="before:Q"),
        chart(rings).mark_point(size=24, strokeWidth=1.2, opacity=1, color=colours.ink).encode(y=y, x=x),
        base.mark_text(align="left", dx=9, fontSize=style.font_size, fontWeight="bold", color=colours.ink).encode(
            x=alt.value(width), text="text:N"
        ),
        width=width,
        height=alt.Step(STEP - 6 if style.size == "column" else STEP),
        title=title,
    )


def _percent(share: float) -> str:
    return f"{100 * share:.1f}" if share else "0"


@figure("overview", title="What comes back in each model", needs="results")
def overview_figure(audits: Sequence[tuple[str, AuditResult]], *, style: Style = LIGHT) -> Chart:
    """Draw RS of each of several audits with its interval, beside its references and classes that are only hidden."""
    rows = [row for name, audit in audits for row in _marks(name, audit)]
    if not rows:
        raise InputError("there is nothing to draw: no audit measured anything")
    alt, colours = altair(), style.colours
    names = [name for name, _ in audits]
    y = listed("y", "audit", names, labelLimit=110 if style.size == "column" else 240)
    ticks: dict[str, Any] = {"values": [0, 0.5, 1]} if style.size == "column" else {}
    x = score("x", title="RS: 0 nothing comes back, 1 all of it at no cost", **ticks)
    tints = alt.Scale(domain=list(KINDS), range=[style.pick(one.light, one.dark) for one in KINDS.values()])
    verdicts = [
        {"audit": name, "kind": VERDICTS[audit.verdict].kind, "verdict": audit.verdict} for name, audit in audits
    ]
    width = style.width - 90 if style.size == "column" else style.width
    marks = {
        kind: chart([row for row in rows if row["mark"] == kind]).encode(y=y, x=x)
        for kind in dict.fromkeys(row["mark"] for row in rows)
    }
    colour = alt.Color("kind:N", legend=None, scale=tints)
    tooltip = ["audit:N", "mark:N", *numbers("rs")]
    looks: dict[str, dict[str, Any]] = {
        "hidden class": {"size": 30, "strokeWidth": 1, "color": colours.muted},
        "reference": {"shape": "diamond", "size": 90, "strokeWidth": 1.8, "color": colours.ink},
    }
    lines = marks["model"].mark_rule(strokeWidth=5, opacity=0.35, strokeCap="round")
    return finish(
        layered(
            lines.encode(x="low:Q", x2="high:Q", color=colour),
            marks["model"].mark_point(filled=True, size=95, opacity=1).encode(color=colour, tooltip=tooltip),
            *(
                marks[kind].mark_point(opacity=1, **looks[kind]).encode(tooltip=tooltip)
                for kind in looks
                if kind in marks
            ),
            chart(verdicts)
            .mark_text(align="left", dx=10, fontSize=style.font_size, fontWeight="bold")
            .encode(y=y, x=alt.value(width), text="verdict:N", color=colour),
            width=width,
            height=alt.Step(24 if len(names) <= 40 else 15),
        ),
        style,
        subtitle="Dot: RS of the model, with its 95 % interval. Diamond: a model that never saw the class, in the same "
        "audit. Rings: classes that are only hidden.",
        description=f"RS of {len(names)} audits: "
        + ", ".join(f"{row['audit']} {row['rs']:.2f}" for row in rows if row["mark"] == "model")
        + ".",
    )


def _marks(name: str, audit: AuditResult) -> Iterator[dict[str, Any]]:
    """Yield what stands in the line of an audit; nothing where no score means anything."""
    if not audit.scored:
        return
    first = audit.results[0]
    for control in audit.controls:
        yield from ({"audit": name, "mark": "hidden class", "rs": one.score.rs} for one in control.hidden)
    each = first.reference_rs_each or ((first.reference_rs,) if first.reference_rs is not None else ())
    yield from ({"audit": name, "mark": "reference", "rs": rs} for rs in each)
    low, high = first.rs_interval or (first.rs, first.rs)
    kind = VERDICTS[audit.verdict].kind
    yield {"audit": name, "mark": "model", "rs": first.rs, "low": low, "high": high, "kind": kind}
