"""ΔRS against RS: what comes back, and how much of it a model that never saw the class would give back too."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean
from typing import Any

from sfra.bench.tables.names import count_methods, method_name
from sfra.core.errors import InputError
from sfra.report.classes import Names, set_name
from sfra.report.figures_heatmap import signed
from sfra.report.figures_key import key
from sfra.report.figures_labels import Label, Number, Point, place_labels
from sfra.report.figures_marks import look
from sfra.report.figures_rows import Row, caption, classes, extremes, in_order, stages
from sfra.report.style import Chart, Style, altair, data, finish, score_axis

MOST_NAMES = 5
"""Most methods whose names are written inside a figure of one column; the names of more stand beside it."""


def scatter_figure(
    audits: Sequence[Row],
    *,
    scale: str = "canonical",
    rule: str = "source-free",
    names: Names = None,
    style: Style | None = None,
) -> Chart:
    """Draw ΔRS against RS: small marks are forget sets, the large one the mean of a method, named beside it.

    The lines are ΔRS = 0, the retrained reference, and RS = 0.5. High RS at ΔRS near 0 is generic relearnability.
    """
    style = style or Style()
    points, means = scatter_rows(audits, scale=scale, rule=rule, names=names)
    found = [stage for stage in stages(audits, scale=scale, rule=rule) if stage.variant == "sfra"]
    generic = sum(row["rs"] >= 0.5 and row["delta_rs"] <= 0.1 for row in points)
    return finish(
        _draw(points, means, style),
        style,
        title="ΔRS against RS",
        subtitle=[
            *caption(audits, scale, rule),
            f"Small marks: each of {classes(found)}; large: mean. ΔRS = 0: as the retrained reference.",
        ],
        description=f"ΔRS against RS of {count_methods(row['key'] for row in means)} over {classes(found)}. Mean ΔRS "
        f"ranges {extremes({row['key']: row['delta_rs'] for row in means})}; {generic} of {len(points)} points "
        "have RS of at least 0.5 but ΔRS of at most 0.1.",
    )


def scatter_rows(
    audits: Sequence[Row], *, scale: str, rule: str, names: Names = None
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return a row per method and forget set, and the means of each method."""
    points: list[dict[str, Any]] = [
        {"key": s.method, "method": method_name(s.method), "forget": set_name(s.forget, names)}
        | {"rs": s.rs, "delta_rs": s.delta_rs}
        for s in stages(audits, scale=scale, rule=rule)
        if s.variant == "sfra" and s.rs is not None and s.delta_rs is not None
    ]
    if not points:
        raise InputError(
            "there is nothing to draw: no audit has a ΔRS",
            do="audit the retrained reference of the same forget classes too",
        )
    means = []
    for name in in_order(row["key"] for row in points):
        mine = [row for row in points if row["key"] == name]
        score, delta = fmean(row["rs"] for row in mine), fmean(row["delta_rs"] for row in mine)
        text = f"{method_name(name)}: RS {score:.2f}, ΔRS {signed(delta)}"
        means.append(
            {"key": name, "method": method_name(name), "rs": score, "delta_rs": delta, "sets": len(mine), "text": text}
        )
    return points, means


def _draw(points: Sequence[dict[str, Any]], means: Sequence[dict[str, Any]], style: Style) -> Any:
    alt, colours = altair(), style.colours
    crowded = style.size == "column" and len(means) > MOST_NAMES
    width = style.narrow if crowded else style.width
    height = width if style.size == "column" else round(style.width * 0.78)
    low = min(-0.2, math.floor(10 * min(row["delta_rs"] for row in points)) / 10)
    high = max(0.2, math.ceil(10 * max(row["delta_rs"] for row in points)) / 10)
    colour, shape, _ = look(means, style)
    span = alt.Scale(domain=[low, high], nice=False, zero=False)
    sign = "datum.value == 0 ? '0' : format(datum.value, '+.1f')"
    axis = alt.Axis(labelExpr=sign, domain=False, ticks=False, tickCount=6)
    y = alt.Y("delta_rs:Q", scale=span, axis=axis, title="ΔRS")
    x = alt.X("rs:Q", scale=alt.Scale(domain=[0, 1], nice=False), axis=score_axis(), title="RS")
    lines = [
        alt.Chart(data([{"delta_rs": 0}])).mark_rule(color=colours.ink, strokeWidth=1).encode(y=y),
        alt.Chart(data([{"rs": 0.5}])).mark_rule(color=colours.ink, strokeWidth=1, strokeDash=[4, 3]).encode(x=x),
    ]
    faint = (
        alt.Chart(data(points))
        .mark_point(filled=True, size=28, opacity=0.35)
        .encode(x=x, y=y, color=colour, shape=shape, tooltip=_tooltip("forget:N"))
    )
    strong = (
        alt.Chart(data(means))
        .mark_point(
            filled=True, size=110 if style.size == "page" else 80, opacity=1, stroke=colours.background, strokeWidth=0.8
        )
        .encode(x=x, y=y, color=colour, shape=shape, tooltip=_tooltip("sets:Q"))
    )

    def pixel(row: dict[str, Any]) -> Point:
        return row["rs"] * width, (high - row["delta_rs"]) / (high - low) * height

    if crowded:
        return alt.layer(*lines, faint, strong, *_beside(means, (colour, shape), style, width, height)).properties(
            width=width, height=height
        )
    labels = place_labels(
        [pixel(row) for row in means],
        [row["method"] for row in means],
        obstacles=[*(pixel(row) for row in points), *_along(width, height, low, high)],
        width=width,
        height=height,
        font=style.font_size,
    )
    written = named(means, labels, [pixel(row) for row in means], colour, style)
    return alt.layer(*lines, faint, *written, strong).properties(width=width, height=height)


def _beside(
    means: Sequence[dict[str, Any]], look: tuple[Any, Any], style: Style, width: Number, height: Number
) -> list[Any]:
    """Name the methods beside the plot, the highest ΔRS first."""
    names = [row["method"] for row in sorted(means, key=lambda row: -row["delta_rs"])]
    step = min(style.font_size + 5.0, height / len(names))
    return key(names, [step * (i + 0.5) for i in range(len(names))], look, style, x=width)


def _along(width: Number, height: Number, low: Number, high: Number) -> list[Point]:
    """List points on the two lines, which labels should not cover."""
    zero = high / (high - low) * height
    return [(x, zero) for x in range(0, int(width), 12)] + [(width / 2, y) for y in range(0, int(height), 12)]


def _tooltip(last: str) -> list[Any]:
    alt = altair()
    return ["method:N", last, alt.Tooltip("rs:Q", format=".3f"), alt.Tooltip("delta_rs:Q", format="+.3f")]


def named(
    means: Sequence[dict[str, Any]],
    labels: Sequence[Label],
    pixels: Sequence[Point],
    colour: Any,
    style: Style,
) -> list[Any]:
    """Write the names, and lead to those that had to go further away."""
    alt = altair()
    rows = [
        {"key": row["key"], "method": row["method"], "x": label.x, "y": label.y, "align": label.align, "far": label.far}
        | {"to_x": x, "to_y": y}
        for row, label, (x, y) in zip(means, labels, pixels, strict=True)
    ]
    at = {"x": alt.X("x:Q", scale=None, axis=None), "y": alt.Y("y:Q", scale=None, axis=None)}
    leads = (
        alt.Chart(data([row for row in rows if row["far"]]))
        .mark_rule(strokeWidth=0.7, opacity=0.8)
        .encode(**at, x2="to_x:Q", y2="to_y:Q", color=colour)
    )
    halo = {"stroke": style.colours.background, "strokeWidth": 3, "strokeOpacity": 0.85}
    texts = [
        alt.Chart(data(chosen))
        .mark_text(align=side, baseline="middle", fontSize=style.font_size, **around)
        .encode(**at, text="method:N", color=colour)
        for around in (halo, {})
        for side in ("left", "right")
        if (chosen := [row for row in rows if row["align"] == side])
    ]
    return [leads, *texts]
