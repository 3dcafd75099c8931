"""Relearning, epoch by epoch: accuracies and RS of a run, and which epoch each rule takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import permutations, product
from typing import Any

from sfra.auditing.result import AuditResult
from sfra.core.errors import InputError
from sfra.report.figures.labels import WIDE, end_names, end_rows
from sfra.report.figures.readings import CURVES, reading_of, readings_of, rules_of, trace_rows, verdict_score
from sfra.report.figures.registry import figure
from sfra.report.figures.style import LIGHT, Chart, Style, altair, at, chart, finish, layered, numbers, score


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
