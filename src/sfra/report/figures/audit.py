"""Figures of one audit, from its result: retain budgets, confusion, scales and draws."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sfra.auditing.result import AuditResult
from sfra.core.errors import InputError
from sfra.report.classes import label_name
from sfra.report.figures.labels import end_names, end_rows
from sfra.report.figures.readings import forget_of, reading_of, traces_of, verdict_score
from sfra.report.figures.registry import figure
from sfra.report.figures.rows import BUDGETS, best_within
from sfra.report.figures.style import (
    LIGHT,
    Chart,
    Style,
    altair,
    at,
    chart,
    finish,
    layered,
    listed,
    loss_axis,
    numbers,
    score,
)
from sfra.report.numbers import signed

HEADS = {"released": "before", "relearned": "after"}
"""The two heads that an audit compares, and what their accuracies are called."""

MOST_COLUMNS = 10
"""Most classes of a confusion that get a column; the others are added up."""

MOST_BARS = 30
"""Most classes whose share of the draws gets a bar with a name; more are drawn as a curve in order of size."""


@figure("budget", title="What comes back at which cost", needs="audit")
def audit_budget_figure(audit: AuditResult, *, style: Style = LIGHT) -> Chart:
    """Draw RS@ε over ε: the best RS of an epoch that loses at most ε of retain accuracy, of model and reference.

    Means over the seeds; the tooltip names the epoch of each.
    """
    verdict_score(audit)
    if not traces_of(audit, audit.scale, audit.variant, "model"):
        raise InputError("there is nothing to draw: the audit keeps no epochs")
    rows: list[dict[str, Any]] = []
    for subject in ("model", "reference"):
        runs = traces_of(audit, audit.scale, audit.variant, subject)
        for epsilon in BUDGETS if runs else ():
            best = [best_within(run.retain or (), run.rs or (), epsilon) for run in runs]
            found = {"rs": sum(rs for rs, _ in best) / len(best), "epoch": ", ".join(str(epoch) for _, epoch in best)}
            rows.append({"subject": subject, "epsilon": epsilon} | found)
    told = ", ".join(f"RS@{epsilon} {rs:.2f}" for epsilon, rs in audit.rs_at.items())
    alt, height = altair(), 140 if style.size == "column" else 200
    colour, shape = _subjects(style)
    x = loss_axis("epsilon", "retain budget ε (percentage points)")
    base = chart(rows).encode(x=x, y=score("y", title="RS@ε"), color=colour)
    tooltip = ["subject:N", alt.Tooltip("epsilon:Q", format=".2%", title="ε"), *numbers("rs"), "epoch:N"]
    ends = {row["subject"]: row["rs"] for row in rows}
    marked = [row for row in rows if any(abs(row["epsilon"] - float(one)) < 1e-9 for one in audit.rs_at)]
    dots = chart(marked).mark_point(filled=True, size=45, opacity=1)
    return finish(
        layered(
            base.mark_line(strokeWidth=1.8, interpolate="step-after"),
            base.mark_point(size=90, opacity=0).encode(tooltip=tooltip),
            dots.encode(x=x, y=score("y", title="RS@ε"), color=colour, shape=shape, tooltip=tooltip),
            end_names(end_rows(ends, style, height=height), style, _tints(style)),
            width=style.width,
            height=height,
        ),
        style,
        subtitle=[reading_of(audit), f"Best RS of an epoch that loses at most ε of retain accuracy. {told}."],
        description=f"Best RS within a loss of retain accuracy from 0 to {100 * BUDGETS[-1]:.0f} points: {told}.",
    )


def _tints(style: Style) -> dict[str, str]:
    return {"model": style.colours.forget, "reference": style.colours.ink}


def _subjects(style: Style) -> tuple[Any, Any]:
    """Give model and reference their colours and shapes."""
    alt, tints = altair(), _tints(style)
    return (
        alt.Color("subject:N", legend=None, scale=alt.Scale(domain=list(tints), range=list(tints.values()))),
        alt.Shape("subject:N", legend=None, scale=alt.Scale(domain=list(tints), range=["circle", "square"])),
    )


@figure("confusion", title="What samples of the class are taken for", needs="audit", brief=True)
def audit_confusion_figure(audit: AuditResult, *, style: Style = LIGHT) -> Chart:
    """Draw what samples of each forget class are taken for, by the released and by the relearned head.

    Shades and numbers are percentages of the samples of the class; the cell of the right answer is framed.
    """
    rows = confusion_rows(audit, style)
    right = {head: [row for row in rows if row["right"] and row["head"] == head] for head in HEADS}
    share = {
        head: sum(r["count"] for r in found) / max(sum(r["total"] for r in found), 1) for head, found in right.items()
    }
    alt, colours = altair(), style.colours
    columns = list(dict.fromkeys(row["answer"] for row in rows))
    lines = [f"{name}, {head}" for name in dict.fromkeys(row["forget"] for row in rows) for head in HEADS]
    cell = min(44, max(24, style.width // len(columns)))
    slanted = max(len(name) for name in columns) * style.font_size * 0.6 > cell
    base = chart(rows).encode(
        y=listed("y", "line", lines),
        x=listed("x", "answer", columns, "taken for", orient="top", labelAngle=-45 if slanted else 0),
        tooltip=["forget:N", "head:N", "answer:N", "count:Q", "total:Q"],
    )
    tiles = base.mark_rect(stroke=colours.background, strokeWidth=1.5).encode(fill=alt.Fill("fill:N", scale=None))
    frame = base.transform_filter("datum.right").mark_rect(fillOpacity=0, stroke=colours.forget, strokeWidth=2)
    texts = base.mark_text(fontSize=style.font_size - 1).encode(text="text:N", color=alt.Color("ink:N", scale=None))
    return finish(
        layered(tiles, frame, texts, width=alt.Step(cell), height=alt.Step(24)),
        style,
        subtitle=[
            reading_of(audit),
            "Percent of the samples of each forget class, first seed; framed: the right answer.",
        ],
        description=f"Of the forget samples the released head recognises {share['released']:.0%}, "
        f"the relearned one {share['relearned']:.0%}.",
    )


def confusion_rows(audit: AuditResult, style: Style) -> list[dict[str, Any]]:
    """Read the confusion: a row per forget class, head and answer; rare answers are added up as ``other``."""
    found, names = audit.confusion, audit.class_names
    if found is None or not found.before:
        raise InputError(
            "there is nothing to draw: the audit has no confusion", do="audit again with labelled test data"
        )
    width = len(found.before[0])
    weight = [sum(row[c] for row in (*found.before, *found.after)) for c in range(width)]
    chosen = set(found.classes) | set(sorted(range(width), key=lambda c: (-weight[c], c))[:MOST_COLUMNS])
    columns = [(str(names[c]) if names else str(c), [c]) for c in sorted(chosen)]
    if rest := [c for c in range(width) if c not in chosen]:
        columns.append((f"other {len(rest)}", rest))
    rows = []
    for head, when in HEADS.items():
        for label, counts in zip(found.classes, getattr(found, when), strict=True):
            name, total = label_name(label, names), sum(counts)
            for answer, members in columns:
                count = sum(counts[c] for c in members)
                share = count / total if total else 0.0
                text = f"{100 * share:.0f}" if count else ""
                cell = {"forget": name, "head": head, "line": f"{name}, {head}", "answer": answer, "count": count}
                rows.append(
                    cell | {"total": total, "text": text, "right": members == [label]} | style.shade("ramp", share)
                )
    return rows


@figure("sweep", title="The same audit at other scales", needs="audit")
def audit_sweep_figure(audit: AuditResult, *, style: Style = LIGHT) -> Chart:
    """Draw RS of model and reference over the scales of a sweep, with the canonical scale marked."""
    sweep = audit.sweep
    if sweep is None or not sweep.points:
        raise InputError("there is nothing to draw: the audit swept no scales", do="audit with --scale sweep")
    rows = [
        {"subject": subject, "kappa": point.kappa, "rs": value}
        for subject, field in (("model", "rs"), ("reference", "reference_rs"))
        for point in sweep.points
        if (value := getattr(point, field)) is not None
    ]
    area = (
        ""
        if sweep.area is None
        else f" Area between model and reference (0: they relearn alike): {signed(sweep.area)}."
    )
    kappas = sorted({row["kappa"] for row in rows})
    return finish(
        _draw_sweep(rows, kappas, audit.settings.get("kappa"), style),
        style,
        subtitle=[f"Forget {forget_of(audit)}. Rule {audit.rule}. Highest RS {sweep.best_rs:.2f}.{area}"],
        description=f"RS of the model over {len(kappas)} scales from κ = {kappas[0]:.2f} to {kappas[-1]:.2f}, "
        f"at most {sweep.best_rs:.2f}.{area}",
    )


def _draw_sweep(rows: Sequence[dict[str, Any]], kappas: Sequence[float], canonical: Any, style: Style) -> Any:
    alt, colours = altair(), style.colours
    height = 160 if style.size == "column" else 240
    colour, shape = _subjects(style)
    ticks = kappas[:: max(1, len(kappas) // 5)]
    x = at("x", "kappa", "scale κ", (kappas[0], kappas[-1]), scale="log", values=ticks, format=".2~f")
    base = chart(rows).encode(x=x, y=score("y"), color=colour)
    ends = {row["subject"]: row["rs"] for row in rows if row["kappa"] == kappas[-1]}
    layers = [
        base.mark_line(strokeWidth=1.8),
        base.mark_point(filled=True, size=45, opacity=1).encode(
            shape=shape, tooltip=["subject:N", *numbers("kappa", "rs")]
        ),
        end_names(end_rows(ends, style, height=height), style, _tints(style)),
    ]
    if isinstance(canonical, int | float) and kappas[0] <= canonical <= kappas[-1]:
        here = chart([{"kappa": canonical, "text": f"canonical, κ = {canonical:g}"}]).encode(x=x)
        text = here.mark_text(baseline="bottom", dy=-3, fontSize=style.font_size, color=colours.muted)
        rule = here.mark_rule(color=colours.muted, strokeDash=[4, 3])
        layers += [rule, text.encode(y=alt.value(0), text="text:N")]
    return layered(*layers, width=style.width, height=height)


@figure("acceptance", title="Which classes the synthetic probes fall into", needs="audit")
def audit_acceptance_figure(audit: AuditResult, *, style: Style = LIGHT) -> Chart:
    """Draw the share of draws that the head gives to each class; the dashed line is an equal share for all.

    More than 30 classes, or shares that differ more than a hundredfold, become points on a logarithmic axis.
    """
    place = (audit.scale, audit.variant)
    first = next((one for one in audit.probes if (one.scale, one.variant) == place), None)
    if first is None or not first.acceptance:
        raise InputError("there is nothing to draw: the audit tells nothing about its probes", got="no probes")
    rows: list[dict[str, Any]] = [
        {"label": label, "name": label_name(label, audit.class_names), "share": share}
        | {"kind": "forget" if label in audit.forget_classes else "retain"}
        for label, share in enumerate(first.acceptance)
    ]
    for row in rows:
        row["kind"] += ", sampled conditionally" if str(row["label"]) in first.conditional else ""
    shares = [row["share"] for row in rows]
    lowest = min(rows, key=lambda row: row["share"])
    note = f" {len(first.conditional)} sampled conditionally." if first.conditional else ""
    many = min(shares) < max(shares) / 100 or len(rows) > MOST_BARS
    return finish(
        (_draw_points if many else _draw_bars)(rows, style),
        style,
        subtitle=[
            reading_of(audit),
            f"{first.retain:,} retain and {first.forget:,} forget probes out of {first.draws:,} draws. "
            f"Dashed: an equal share, {100 / len(rows):.3g} %.{note}",
        ],
        description=f"Share of the draws that each of {len(rows)} classes wins, from {lowest['share']:.2g} "
        f"({lowest['name']}) to {max(shares):.2g}.{note}",
    )


def _kinds(rows: Sequence[dict[str, Any]], style: Style) -> dict[str, Any]:
    alt, colours = altair(), style.colours
    kinds = [f"{who}{how}" for who in ("retain", "forget") for how in ("", ", sampled conditionally")]
    there = [kind for kind in kinds if any(row["kind"] == kind for row in rows)]
    tints = [colours.forget if kind.startswith("forget") else colours.retain for kind in there]
    fills = ["transparent" if kind.endswith("conditionally") else tint for kind, tint in zip(there, tints, strict=True)]
    return {
        "fill": alt.Fill("kind:N", title=None, scale=alt.Scale(domain=there, range=fills)),
        "stroke": alt.Stroke("kind:N", title=None, scale=alt.Scale(domain=there, range=tints)),
    }


def _draw_bars(rows: Sequence[dict[str, Any]], style: Style) -> Any:
    x = at("x", "share", "share of draws", format=".0%", tickCount=5)
    y = listed("y", "name", [row["name"] for row in rows], "class")
    bars = chart(rows).mark_bar(size=11, strokeWidth=1.2)
    equal = chart([{"share": 1 / len(rows)}]).mark_rule(color=style.colours.ink, strokeDash=[4, 3]).encode(x=x)
    tooltip = ["name:N", "kind:N", *numbers("share", format=".2%")]
    drawn = bars.encode(x=x, y=y, **_kinds(rows, style), tooltip=tooltip)
    return layered(drawn, equal, width=style.width, height=altair().Step(17))


def _draw_points(rows: Sequence[dict[str, Any]], style: Style) -> Any:
    """Draw many classes in order of their share; a class that won no draw stands at the lower edge."""
    least = min((row["share"] for row in rows if row["share"] > 0), default=1e-9) / 3
    ranked = sorted(rows, key=lambda row: -row["share"])
    placed = [row | {"rank": i + 1, "at": max(row["share"], least)} for i, row in enumerate(ranked)]
    placed.sort(key=lambda row: row["kind"].startswith("forget"))
    high = 2 * max(row["at"] for row in placed)
    decades = [10.0**k for k in range(-12, 1) if least <= 10.0**k]
    y = at("y", "at", "share of draws", (least, high), scale="log", format="~e", values=decades)
    domain = (0, len(rows) + 1)
    x = at("x", "rank", "classes, most frequent first", domain, grid=False, tickMinStep=1)
    points = chart(placed).mark_point(size=30, opacity=1, strokeWidth=1.2)
    equal = chart([{"at": 1 / len(rows)}]).mark_rule(color=style.colours.ink, strokeDash=[4, 3]).encode(y=y)
    tooltip = ["name:N", "kind:N", *numbers("share", format=".2e")]
    drawn = points.encode(x=x, y=y, **_kinds(rows, style), tooltip=tooltip)
    return layered(drawn, equal, width=style.width, height=150 if style.size == "column" else 220)
