"""Figures of one audit, from its result: accuracies, epochs, retain budgets, confusion, scales and draws."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import permutations, product
from typing import Any

from sfra.auditing.result import AuditResult, RunTrace, Score
from sfra.auditing.rules import RULES
from sfra.core.errors import InputError
from sfra.report.classes import label_name
from sfra.report.figures.labels import WIDE, end_names, end_rows
from sfra.report.figures.registry import figure
from sfra.report.figures.rows import BUDGETS, best_within, signed
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

HEADS = {"released": "before", "relearned": "after"}
"""The two heads that an audit compares, and what their accuracies are called."""

CURVES = ("retain accuracy", "forget accuracy", "RS", "RS of the reference")

MOST_EPOCHS = 120
"""Most epochs of a run that are all drawn; of more, evenly spaced ones and those that a rule takes."""

MOST_COLUMNS = 10
"""Most classes of a confusion that get a column; the others are added up."""

MOST_BARS = 30
"""Most classes whose share of the draws gets a bar with a name; more are drawn as a curve in order of size."""


@figure("accuracy", title="Accuracy before and after relearning", needs="audit", on_page=False)
def audit_accuracy_figure(audit: AuditResult, *, style: Style = LIGHT) -> Chart:
    """Draw retain and forget accuracy of the released and the relearned head, and of the reference if there is one."""
    first = verdict_score(audit)
    rows = [
        {"subject": subject, "classes": classes, "head": head, "bar": f"{classes}, {head}", "accuracy": accuracy}
        | {"text": f"{accuracy:.1%}"}
        for subject, prefix in (("model", ""), ("reference", "reference_"))
        for classes in ("forget", "retain")
        for head, when in HEADS.items()
        if (accuracy := getattr(first, f"{prefix}{classes}_{when}")) is not None
    ]
    subjects = list(dict.fromkeys(row["subject"] for row in rows))
    width = style.width if len(subjects) == 1 else style.width // 2 - 10
    panels = [_accuracy_panel(name, [row for row in rows if row["subject"] == name], width, style) for name in subjects]
    return finish(
        altair().hconcat(*panels, spacing=20),
        style,
        subtitle=reading_of(audit),
        description=f"Forget accuracy goes from {first.forget_before:.1%} to {first.forget_after:.1%}, "
        f"retain accuracy from {first.retain_before:.1%} to {first.retain_after:.1%}.",
    )


def _accuracy_panel(subject: str, rows: Sequence[Mapping[str, Any]], width: int, style: Style) -> Any:
    alt, colours = altair(), style.colours
    order = [f"{classes}, {head}" for classes in ("forget", "retain") for head in HEADS]
    y = listed("y", "bar", order, labels=subject == "model")
    base = chart(rows).encode(y=y, x=score("x", "accuracy", "accuracy", format=".0%", values=[0, 0.5, 1]))
    tints = alt.Scale(domain=["forget", "retain"], range=[colours.forget, colours.retain])
    bars = base.mark_bar(size=15, strokeWidth=1.5).encode(
        fill=alt.Fill("classes:N", legend=None, scale=tints),
        stroke=alt.Stroke("classes:N", legend=None, scale=tints),
        fillOpacity=alt.condition("datum.head == 'relearned'", alt.value(0.9), alt.value(0.12)),
    )
    texts = [
        base.transform_filter(test)
        .mark_text(align=side, dx=shift, fontSize=style.font_size, color=ink, fontWeight="bold")
        .encode(text="text:N")
        for test, side, shift, ink in (
            ("datum.accuracy < 0.75", "left", 5, colours.ink),
            ("datum.accuracy >= 0.75 && datum.head == 'relearned'", "right", -5, colours.background),
            ("datum.accuracy >= 0.75 && datum.head != 'relearned'", "right", -5, colours.ink),
        )
    ]
    title = alt.TitleParams(text=subject, fontSize=style.font_size, offset=2)
    return layered(bars, *texts, width=width, height=alt.Step(22), title=title)


@figure("trajectory", title="Relearning, epoch by epoch", needs="audit", brief=True)
def audit_trajectory_figure(audit: AuditResult, *, style: Style = LIGHT) -> Chart:
    """Draw retain accuracy, forget accuracy and RS over the epochs, and which epoch each selection rule takes.

    Strong lines are the first seed, faint ones RS of the others; the thin dashed line is RS of the reference. Where the
    audit has other scales or forget rows, a reader of a page can choose them.
    """
    verdict_score(audit)
    readings = readings_of(audit)
    if not readings:
        raise InputError("there is nothing to draw: the audit keeps no epochs")
    chosen = {name: rules_of(audit, *place) for name, place in readings.items()}
    rows = [
        {"reading": name} | row
        for name, place in readings.items()
        for row in trace_rows(audit, *place, keep={row["epoch"] for row in chosen[name]})
    ]
    first = next(iter(chosen.values()))
    seeds = " Strong: first seed; faint: RS of the others." if audit.settings["seeds"] > 1 else ""
    takes = ", ".join(f"{row['rule']} takes epoch {row['epoch']} (RS {row['rs']:.2f})" for row in first)
    return finish(
        _draw_trajectory(rows, chosen, style),
        style,
        subtitle=[reading_of(audit), f"Vertical lines: the epoch that each rule takes.{seeds}"],
        description="Retain accuracy, forget accuracy and RS over "
        f"{max(row['epoch'] for row in rows)} epochs: {takes}.",
    )


def readings_of(audit: AuditResult) -> dict[str, tuple[str, str]]:
    """Name the scales and forget rows whose curves can be looked at, the verdict's first; no scales of a sweep."""
    main = (audit.scale, audit.variant)
    others = [(one.scale, one.variant) for one in audit.results if one.scale in ("native", "canonical", audit.scale)]
    there = [place for place in dict.fromkeys([main, *others]) if traces_of(audit, *place)]
    return {f"{scale}, {variant}": (scale, variant) for scale, variant in there}


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


def _draw_trajectory(
    rows: Sequence[dict[str, Any]], chosen: Mapping[str, Sequence[dict[str, Any]]], style: Style
) -> Any:
    alt, colours = altair(), style.colours
    height = 160 if style.size == "column" else 250
    last = max(row["epoch"] for row in rows)
    there = [name for name in CURVES if any(row["curve"] == name for row in rows)]
    tints = dict(zip(CURVES, (colours.retain, colours.forget, colours.ink, colours.muted), strict=True))
    dashes = dict(zip(CURVES, ([1, 0], [6, 2], [1, 0], [2, 2]), strict=True))
    colour = alt.Color("curve:N", legend=None, scale=alt.Scale(domain=there, range=[tints[name] for name in there]))
    dash = alt.StrokeDash("curve:N", legend=None, scale=alt.Scale(domain=there, range=[dashes[name] for name in there]))
    x = at("x", "epoch", "epoch", (0, last), tickCount=6, tickMinStep=1, format="d")
    y = score("y", "value", "accuracy, RS")
    rules, ends = [], []
    for name, some in chosen.items():
        rules += rule_labels([row | {"reading": name} for row in some], last, style)
        values = {row["curve"]: row["value"] for row in rows if row["reading"] == name and row["first"]}  # the last
        ends += end_rows(values, style, height=height, reading=name)
    strong = chart([row for row in rows if row["first"]]).mark_line(strokeWidth=1.8)
    faint = chart([row for row in rows if not row["first"]]).mark_line(strokeWidth=0.8, opacity=0.35)
    lines = {"x": x, "y": y, "color": colour, "strokeDash": dash, "detail": "seed:N"}
    layers = [
        *_rules(rules, x, y, style),
        faint.encode(**lines),
        strong.encode(**lines),
        end_names(ends, style, {name: tints[name] for name in there}),
    ]
    if len(chosen) > 1:
        layers = [layer.transform_filter("datum.reading == curves") for layer in layers]
        menu = alt.binding_select(options=list(chosen), name="Curves ")
        layers[0] = layers[0].add_params(alt.param(name="curves", value=next(iter(chosen)), bind=menu))
    pointed = _pointed_at(layers[-2], there, x, style)
    return layered(*layers, pointed, width=style.width, height=height)


def _pointed_at(lines: Any, there: Sequence[str], x: Any, style: Style) -> Any:
    """Show all values of the epoch that is pointed at."""
    alt = altair()
    near = alt.selection_point(name="near", fields=["epoch"], nearest=True, on="pointermove", empty=False)
    seen = alt.condition("near.epoch && near.epoch[0] == datum.epoch", alt.value(0.8), alt.value(0))
    rules = lines.transform_pivot("curve", value="value", groupby=["reading", "epoch"])
    rules = rules.mark_rule(color=style.colours.muted, strokeWidth=1)
    rules.encoding = alt.Undefined
    return rules.encode(x=x, opacity=seen, tooltip=["epoch:Q", *numbers(*there)]).add_params(near)


def _rules(rows: Sequence[dict[str, Any]], x: Any, y: Any, style: Style) -> list[Any]:
    """Mark the epochs that rules take: a line and a dot on RS, named above the plot, one line of text for each."""
    alt, colours = altair(), style.colours
    above = alt.Y("at:Q", scale=None, axis=None)
    names = [
        chart(mine)
        .mark_text(align=side, baseline="middle", dx=3 if side == "left" else -3, fontSize=style.font_size)
        .encode(x=x, y=above, text="text:N", color=alt.value(colours.ink))
        for side in ("left", "right")
        if (mine := [row for row in rows if row["side"] == side])
    ]
    lines = chart(rows).mark_rule(color=colours.muted, strokeWidth=1)
    dots = chart(rows).mark_point(filled=True, size=70, opacity=1, color=colours.ink)
    return [lines.encode(x=x, y=above, y2=alt.value("height")), dots.encode(x=x, y=y), *names]


def rule_labels(chosen: Sequence[Mapping[str, Any]], last: int, style: Style) -> list[dict[str, Any]]:
    """Place the names of the rules above the plot, each beside its line, so that no line runs through a name.

    Of all orders and sides, of which a few rules have few, the one in which least is crossed and least sticks out.
    """
    rows = [
        {**row, "value": row["rs"], "text": f"{row['rule']}: epoch {row['epoch']}, RS {row['rs']:.2f}"}
        | {"place": style.width * row["epoch"] / max(last, 1)}
        for row in chosen
    ]
    options = [
        [row | {"side": side, "at": -11.0 - i * (style.font_size + 2)} for i, (row, side) in enumerate(pairs)]
        for order in permutations(rows)
        for sides in product(("left", "right"), repeat=len(rows))
        for pairs in [list(zip(order, sides, strict=True))]
    ]
    return min(options, key=lambda option: _disorder(option, style))


def _disorder(rows: Sequence[Mapping[str, Any]], style: Style) -> float:
    """Weigh names that are crossed by the line of another rule, names that stick out, and names on the left."""
    cost = 0.0
    for row in rows:
        length = len(row["text"]) * style.font_size * WIDE
        left = row["place"] - (length if row["side"] == "right" else 0)
        crossing = (other for other in rows if other["at"] < row["at"])
        cost += 1000 * sum(left < other["place"] < left + length for other in crossing)
        cost += max(0.0, -30 - left, left + length - style.width) + (row["side"] == "right")
    return cost


@figure("budget", title="RS within a retain budget", needs="audit")
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
    colour, shape = _subjects(rows, style)
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


def _subjects(rows: Sequence[Mapping[str, Any]], style: Style) -> tuple[Any, Any]:
    """Give model and reference their colours and shapes."""
    alt, tints, shapes = altair(), _tints(style), {"model": "circle", "reference": "square"}
    there = list(dict.fromkeys(row["subject"] for row in rows))
    return (
        alt.Color("subject:N", legend=None, scale=alt.Scale(domain=there, range=[tints[name] for name in there])),
        alt.Shape("subject:N", legend=None, scale=alt.Scale(domain=there, range=[shapes[name] for name in there])),
    )


@figure("confusion", title="What forget samples are taken for", needs="audit", brief=True)
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


@figure("sweep", title="RS over scales", needs="audit")
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
        subtitle=[f"{forget_of(audit)}. Rule {audit.rule}. Highest RS {sweep.best_rs:.2f}.{area}"],
        description=f"RS of the model over {len(kappas)} scales from κ = {kappas[0]:.2f} to {kappas[-1]:.2f}, "
        f"at most {sweep.best_rs:.2f}.{area}",
    )


def _draw_sweep(rows: Sequence[dict[str, Any]], kappas: Sequence[float], canonical: Any, style: Style) -> Any:
    alt, colours = altair(), style.colours
    height = 160 if style.size == "column" else 240
    colour, shape = _subjects(rows, style)
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


@figure("acceptance", title="Share of draws per class", needs="audit")
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
            f"Dashed: an equal share, {1 / len(rows):.2%}.{note}",
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
    return f"{forget_of(audit)}. Scale {audit.scale}; rule {audit.rule}; forget row: {audit.variant}."


def forget_of(audit: AuditResult) -> str:
    """Name the forget classes: ``Forget classes 1, 6 and 8``."""
    *first, last = (label_name(label, audit.class_names) for label in audit.forget_classes)
    return f"Forget classes {', '.join(first)} and {last}" if first else f"Forget class {last}"
