"""One audit, epoch by epoch: accuracies and RS, and which epoch each selection rule takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import permutations, product
from typing import Any

from sfra.report.figures_audit import headline, reading_of
from sfra.report.figures_labels import WIDE, spread_out
from sfra.report.style import Chart, Style, altair, data, finish, score_axis

RULES = ("source-free", "validation", "worst-case")
"""Selection rules, the headline first."""


def audit_trajectory_figure(report: Mapping[str, Any], *, style: Style | None = None) -> Chart:
    """Draw retain accuracy, forget accuracy and RS over the epochs, and which epoch each selection rule chose.

    Strong lines are the first seed, faint ones the others; the thin dashed line is RS of the reference.
    """
    style = style or Style()
    headline(report)
    rows, chosen = trajectory_rows(report), rule_rows(report)
    listed = ", ".join(f"{row['rule']} takes epoch {row['epoch']} (RS {row['rs']:.2f})" for row in chosen)
    return finish(
        _draw_trajectory(rows, chosen, style),
        style,
        title="Relearning, epoch by epoch",
        subtitle=[reading_of(report), "Vertical lines: the epoch that each selection rule takes."],
        description="Retain accuracy, forget accuracy and RS over "
        f"{max(row['epoch'] for row in rows)} epochs: {listed}.",
    )


def trajectory_rows(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Read the curves of the verdict's scale and variant: a row per curve, seed and epoch."""
    runs = [r for r in report["traces"] if (r["scale"], r["variant"]) == (report["scale"], report["variant"])]
    first = min(run["seed"] for run in runs)
    names = {"retain": "retain accuracy", "forget": "forget accuracy", "rs": "RS"}
    rows = []
    for run in runs:
        curves = names if run["subject"] == "model" else {"rs": "RS of the reference"}
        for field, name in curves.items():
            for epoch, value in enumerate(run[field] or []):
                rows.append({"curve": name, "seed": run["seed"], "first": run["seed"] == first} | _at(epoch, value))
    return rows


def rule_rows(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Read which epoch of the first seed each rule chose, and RS there; rules that agree share a row."""
    place = (report["scale"], report["variant"])
    found: dict[int, dict[str, Any]] = {}
    for reading in sorted(report["results"], key=lambda row: RULES.index(row["rule"]) if row["rule"] in RULES else 3):
        if (reading["scale"], reading["variant"]) != place:
            continue
        row = found.setdefault(
            reading["epochs"][0], {"rule": "", "epoch": reading["epochs"][0], "rs": reading["rs_seeds"][0]}
        )
        row["rule"] = " = ".join(part for part in (row["rule"], reading["rule"]) if part)
    return list(found.values())


def _at(epoch: int, value: float) -> dict[str, Any]:
    return {"epoch": epoch, "value": value}


def _draw_trajectory(rows: Sequence[dict[str, Any]], chosen: Sequence[dict[str, Any]], style: Style) -> Any:
    alt, colours = altair(), style.colours
    height = 160 if style.size == "column" else 250
    last = max(row["epoch"] for row in rows)
    names = ["retain accuracy", "forget accuracy", "RS", "RS of the reference"]
    there = [name for name in names if any(row["curve"] == name for row in rows)]
    tints = dict(zip(names, (colours.retain, colours.forget, colours.ink, colours.muted), strict=True))
    dashes = dict(zip(names, ([1, 0], [6, 2], [1, 0], [2, 2]), strict=True))
    colour = alt.Color("curve:N", legend=None, scale=alt.Scale(domain=there, range=[tints[name] for name in there]))
    dash = alt.StrokeDash("curve:N", legend=None, scale=alt.Scale(domain=there, range=[dashes[name] for name in there]))
    axis = alt.Axis(domain=False, ticks=False, tickCount=6, tickMinStep=1, format="d")
    x = alt.X("epoch:Q", scale=alt.Scale(domain=[0, last], nice=False), axis=axis, title="epoch")
    y = alt.Y("value:Q", scale=alt.Scale(domain=[0, 1], nice=False), axis=score_axis(), title="accuracy, RS")
    curves = [
        alt.Chart(data([row for row in rows if row["first"] == first]))
        .mark_line(strokeWidth=1.8 if first else 0.8, opacity=1 if first else 0.35)
        .encode(x=x, y=y, color=colour, strokeDash=dash, detail="seed:N")
        for first in (False, True)
        if any(row["first"] == first for row in rows)
    ]
    ends = {row["curve"]: row["value"] for row in rows if row["first"] and row["epoch"] == last}
    places = spread_out([(1 - value) * height for value in ends.values()], style.font_size + 1.0, 0.0, height)
    ended = [{"curve": name, "at": place} for name, place in zip(ends, places, strict=True)]
    at = {"x": alt.value("width"), "y": alt.Y("at:Q", scale=None, axis=None)}
    text = alt.Chart(data(ended)).mark_text(align="left", baseline="middle", dx=7, fontSize=style.font_size)
    return alt.layer(
        *_rules(chosen, x, y, last, style), *curves, text.encode(**at, text="curve:N", color=colour)
    ).properties(width=style.width, height=height)


def _rules(chosen: Sequence[dict[str, Any]], x: Any, y: Any, last: int, style: Style) -> list[Any]:
    """Mark the chosen epochs: a line and a dot on RS, named above the plot, one line of text for each."""
    alt, colours = altair(), style.colours
    rows = rule_labels(chosen, last, style)
    base = alt.Chart(data(rows)).encode(x=x)
    names = [
        alt.Chart(data(mine))
        .mark_text(align=side, baseline="middle", dx=3 if side == "left" else -3, fontSize=style.font_size)
        .encode(x=x, y=alt.Y("at:Q", scale=None, axis=None), text="text:N", color=alt.value(colours.ink))
        for side in ("left", "right")
        if (mine := [row for row in rows if row["side"] == side])
    ]
    lines = base.mark_rule(color=colours.muted, strokeWidth=1).encode(
        y=alt.Y("at:Q", scale=None, axis=None), y2=alt.value("height")
    )
    dots = base.mark_point(filled=True, size=70, opacity=1, color=colours.ink).encode(y=y)
    return [lines, dots, *names]


def rule_labels(chosen: Sequence[Mapping[str, Any]], last: int, style: Style) -> list[dict[str, Any]]:
    """Place the names of the rules above the plot, each beside its line, so that no line runs through a name.

    Of all orders and sides, of which a few rules have few, the one in which least is crossed and least sticks out.
    """
    rows = [
        {**row, "value": row["rs"], "text": f"{row['rule']}: epoch {row['epoch']}, RS {row['rs']:.2f}"}
        | {"place": style.width * row["epoch"] / last}
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
