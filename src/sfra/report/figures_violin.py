"""RS over forget classes per method: every class, the median, the middle half and, for five or more, the density."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from sfra.bench.tables.names import count_methods, method_name
from sfra.report.classes import Names, set_name
from sfra.report.figures_marks import look
from sfra.report.figures_rows import Row, caption, classes, extremes, in_order, stages
from sfra.report.style import Chart, Style, altair, data, finish, score_axis

FEWEST = 5
"""Points below which a density would show the bandwidth, not the data."""

GRID = 81
"""Places between 0 and 1 at which a density is drawn."""

HALF = 0.4
"""Largest half-width of a violin, where rows are 1 apart."""


def violin_figure(
    audits: Sequence[Row],
    *,
    scale: str = "canonical",
    rule: str = "source-free",
    names: Names = None,
    style: Style | None = None,
) -> Chart:
    """Draw how RS spreads over single forget classes, method by method.

    A mark is a class, the bar the middle half, the stroke across it the median. With five or more classes whose RS
    differ, a violin shows their density; all violins have the same greatest width.
    """
    style = style or Style()
    found = [stage for stage in stages(audits, scale=scale, rule=rule, single=True) if stage.variant == "sfra"]
    values: dict[str, list[float]] = {}
    for stage in found:
        if stage.rs is not None:
            values.setdefault(stage.method, []).append(stage.rs)
    methods = in_order(values)
    summary = [summary_row(name, i, values[name]) for i, name in enumerate(methods)]
    points = [
        {"row": methods.index(s.method), "method": method_name(s.method), "forget": set_name(s.forget, names)}
        | {"key": s.method, "rs": s.rs}
        for s in found
        if s.rs is not None
    ]
    outlines = [row for i, name in enumerate(methods) for row in density_rows(name, i, values[name])]
    return finish(
        _draw(summary, points, outlines, style),
        style,
        title="RS over forget classes",
        subtitle=[
            *caption(audits, scale, rule),
            f"Mark: one of {classes(found)}; bar: middle half; stroke: median{'; shape: density' if outlines else ''}.",
        ],
        description=f"Relearning score RS of {count_methods(methods)} over {classes(found)}. The median ranges "
        f"{extremes({row['key']: row['median'] for row in summary})}.",
    )


def summary_row(name: str, row: int, values: Sequence[float]) -> dict[str, Any]:
    """Return median and quartiles (linear interpolation) of a method.

    >>> summary_row("delete", 0, [0.0, 1.0])["median"]
    0.5
    """
    low, median, high = (float(value) for value in np.quantile(np.asarray(values), [0.25, 0.5, 0.75]))
    return {
        "key": name,
        "method": method_name(name),
        "row": row,
        "median": median,
        "q1": low,
        "q3": high,
        "classes": len(values),
    }


def density_rows(name: str, row: int, values: Sequence[float]) -> list[dict[str, Any]]:
    """Outline the density of RS within [0, 1]; nothing for few or equal values.

    A Gaussian kernel with Scott's bandwidth, reflected at 0 and 1: no mass lies where RS cannot.
    """
    points = np.asarray(values, dtype=float)
    if len(points) < FEWEST or np.ptp(points) == 0:
        return []
    width = float(points.std(ddof=1)) * len(points) ** -0.2
    mirrored = np.concatenate([points, -points, 2 - points])
    grid = np.linspace(0, 1, GRID)
    density = np.exp(-0.5 * ((grid[:, None] - mirrored) / width) ** 2).sum(1) / (
        len(points) * width * np.sqrt(2 * np.pi)
    )
    half = HALF * density / density.max()
    return [
        {"key": name, "method": method_name(name), "rs": float(x), "low": row - float(h), "high": row + float(h)}
        for x, h in zip(grid, half, strict=True)
    ]


def _draw(
    summary: Sequence[dict[str, Any]],
    points: Sequence[dict[str, Any]],
    outlines: Sequence[dict[str, Any]],
    style: Style,
) -> Any:
    alt, colours = altair(), style.colours
    names = [row["method"] for row in summary]
    colour, shape, _ = look(summary, style)
    axis = alt.Axis(
        values=list(range(len(names))),
        labelExpr=f"{_texts(names)}[datum.value]",
        grid=False,
        ticks=False,
        domain=False,
        title=None,
        labelPadding=9,
    )
    place = alt.Scale(domain=[len(names) - 0.4, -0.6], nice=False, zero=False)
    y = alt.Y("row:Q", scale=place, axis=axis)
    x = alt.X("rs:Q", scale=alt.Scale(domain=[0, 1], nice=False), axis=score_axis(), title="RS")
    violins = (
        alt.Chart(data(outlines))
        .mark_area(opacity=0.25)
        .encode(x=x, y=alt.Y("low:Q", scale=place, axis=axis), y2="high:Q", color=colour)
    )
    middle = alt.Chart(data(summary)).encode(y=y, color=colour)
    half = middle.mark_rule(strokeWidth=5, opacity=0.45).encode(x=alt.X("q1:Q", title="RS"), x2="q3:Q")
    median = middle.mark_tick(thickness=2.5, size=19, orient="vertical").encode(
        x=alt.X("median:Q", title="RS"),
        color=alt.value(colours.ink),
        tooltip=["method:N", *(alt.Tooltip(f"{name}:Q", format=".3f") for name in ("median", "q1", "q3")), "classes:Q"],
    )
    dots = (
        alt.Chart(data(points))
        .mark_point(filled=True, size=32, opacity=0.85)
        .encode(
            x=x, y=y, color=colour, shape=shape, tooltip=["method:N", "forget:N", alt.Tooltip("rs:Q", format=".3f")]
        )
    )
    layers = [violins, half, median, dots] if outlines else [half, median, dots]
    return alt.layer(*layers).properties(width=style.width, height=len(names) * (20 if style.size == "column" else 26))


def _texts(names: Sequence[str]) -> str:
    """Write names as a Vega expression, quotes and all."""
    return json.dumps(list(names), ensure_ascii=False)
