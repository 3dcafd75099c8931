"""Figures of a benchmark by method: forget accuracy, RS over forget classes, and scores in shaded cells."""

from __future__ import annotations

import json
from collections.abc import Sequence
from statistics import fmean
from typing import Any, Literal

import numpy as np

from sfra.bench.tables.names import count_methods, method_name
from sfra.bench.tables.stages import Stage
from sfra.bench.tables.table import MISSING
from sfra.core.errors import InputError
from sfra.report.classes import Names, set_name
from sfra.report.figures.registry import figure
from sfra.report.figures.rows import Row, caption, classes, extremes, in_order, stages
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
    look,
    numbers,
    score,
)
from sfra.report.numbers import signed

FEWEST = 5
"""Points below which a density would show the bandwidth, not the data."""

GRID = 81
"""Places between 0 and 1 at which a density is drawn."""

HALF = 0.4
"""Largest half-width of a violin, where rows are 1 apart."""


@figure("violin", title="RS over forget classes", needs="audits")
def violin_figure(
    audits: Sequence[Row],
    *,
    scale: str = "canonical",
    rule: str = "source-free",
    names: Names = None,
    style: Style = LIGHT,
) -> Chart:
    """Draw how RS spreads over single forget classes, method by method.

    A mark is a class, the bar the middle half, the stroke across it the median. With five or more classes whose RS
    differ, a violin shows their density; all violins have the same greatest width.
    """
    found = [
        stage
        for stage in stages(audits, scale=scale, rule=rule, single=True)
        if stage.variant == "sfra" and stage.rs is not None
    ]
    methods = in_order(stage.method for stage in found)
    values = {name: [float(stage.rs or 0) for stage in found if stage.method == name] for name in methods}
    summary = [summary_row(name, i, values[name]) for i, name in enumerate(methods)]
    points = [
        {"row": methods.index(s.method), "method": method_name(s.method), "forget": set_name(s.forget, names)}
        | {"key": s.method, "rs": s.rs}
        for s in found
    ]
    outlines = [row for i, name in enumerate(methods) for row in density_rows(name, i, values[name])]
    shape = "; shape: density" if outlines else ""
    return finish(
        _draw_violins(summary, points, outlines, style),
        style,
        subtitle=[
            *caption(audits, scale, rule),
            f"Mark: one of {classes(found)}; bar: middle half; stroke: median{shape}.",
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
    quantiles = {"median": median, "q1": low, "q3": high}
    return {"key": name, "method": method_name(name), "row": row, "classes": len(values)} | quantiles


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
    density = np.exp(-0.5 * ((grid[:, None] - mirrored) / width) ** 2).sum(1)
    half = HALF * density / density.max()
    return [
        {"key": name, "method": method_name(name), "rs": float(x), "low": row - float(h), "high": row + float(h)}
        for x, h in zip(grid, half, strict=True)
    ]


def _draw_violins(
    summary: Sequence[dict[str, Any]],
    points: Sequence[dict[str, Any]],
    outlines: Sequence[dict[str, Any]],
    style: Style,
) -> Any:
    alt = altair()
    names = [row["method"] for row in summary]
    colour, shape, _ = look(summary, style)
    text = f"{json.dumps(names, ensure_ascii=False)}[datum.value]"
    axis: dict[str, Any] = {"values": list(range(len(names))), "labelExpr": text, "grid": False, "labelPadding": 9}
    domain = (len(names) - 0.4, -0.6)
    y = at("y", "row", None, domain, **axis)
    middle = chart(summary).encode(y=y, color=colour)
    median = middle.mark_tick(thickness=2.5, size=19, orient="vertical").encode(
        x=alt.X("median:Q", title="RS"),
        color=alt.value(style.colours.ink),
        tooltip=["method:N", *numbers("median", "q1", "q3"), "classes:Q"],
    )
    dots = chart(points).mark_point(filled=True, size=32, opacity=0.85)
    violins = chart(outlines).mark_area(opacity=0.25)
    shown = violins.encode(x=score("x"), y=at("y", "low", None, domain, **axis), y2="high:Q", color=colour)
    return layered(
        *([shown] if outlines else []),
        middle.mark_rule(strokeWidth=5, opacity=0.45).encode(x=alt.X("q1:Q", title="RS"), x2="q3:Q"),
        median,
        dots.encode(x=score("x"), y=y, color=colour, shape=shape, tooltip=["method:N", "forget:N", *numbers("rs")]),
        width=style.width,
        height=len(names) * (20 if style.size == "column" else 26),
    )


STATES = {"original": "original", "unlearned": "unlearned", "relearned": "sfra"}
"""The states of a model, in order of time, and the stage of the tables that each is."""


@figure("accuracy", title="Forget accuracy before and after the audit", needs="audits")
def accuracy_figure(
    audits: Sequence[Row],
    *,
    scale: str = "canonical",
    rule: str = "source-free",
    names: Names = None,
    style: Style = LIGHT,
) -> Chart:
    """Draw the forget accuracy of the original, the unlearned and the relearned model, method by method.

    The large marks are means over the single forget classes, the small ones each class after the audit.
    """
    found = stages(audits, scale=scale, rule=rule, single=True)
    rows = accuracy_rows(found)
    single = [
        {"method": method_name(s.method), "forget": set_name(s.forget, names), "accuracy": s.forgotten}
        for s in found
        if s.variant == "sfra" and s.forgotten is not None
    ]
    relearned = {row["key"]: 100 * row["accuracy"] for row in rows if row["state"] == "relearned"}
    return finish(
        _draw_accuracy(rows, single, style),
        style,
        subtitle=[*caption(audits, scale, rule), f"Mean over {classes(found)}; small ticks: each, relearned."],
        description=f"Mean forget accuracy per method over {classes(found)}. After the audit it ranges, in percent, "
        f"{extremes(relearned, 0)}.",
    )


def accuracy_rows(stages: Sequence[Stage]) -> list[dict[str, Any]]:
    """Average the forget accuracy over forget sets: one row per method and state."""
    original = {stage.forget: stage.forgotten for stage in stages if stage.variant == "original"}
    rows = []
    for name in in_order(stage.method for stage in stages if stage.variant in ("unlearned", "sfra")):
        mine = [stage for stage in stages if stage.method == name]
        for state, variant in STATES.items():
            known = [stage.forgotten for stage in mine if stage.variant == variant]
            values = [original.get(forget) for forget in {s.forget for s in mine}] if state == "original" else known
            there = [value for value in values if value is not None]
            if there:
                mean = {"accuracy": fmean(there), "classes": len(there)}
                rows.append({"key": name, "method": method_name(name), "state": state} | mean)
    return rows


def _draw_accuracy(rows: Sequence[dict[str, Any]], single: Sequence[dict[str, Any]], style: Style) -> Any:
    alt, colours = altair(), style.colours
    step = 19 if style.size == "column" else 24
    y = listed("y", "method", list(dict.fromkeys(row["method"] for row in rows)), labelPadding=12, grid=False)
    x = score("x", "accuracy", "forget accuracy", format=".0%", values=[0, 0.25, 0.5, 0.75, 1])

    def by_state(channel: Any, values: Sequence[Any], kind: str = "N") -> Any:
        return channel(f"state:{kind}", scale=alt.Scale(domain=list(STATES), range=list(values)), title=None)

    sizes = [330, 75, 75] if style.size == "page" else [230, 50, 50]  # the original's is seen around the relearned
    points = (
        chart(rows)
        .mark_point(opacity=1, strokeWidth=1.6)
        .encode(
            y=y,
            x=x,
            stroke=by_state(alt.Stroke, [colours.muted, colours.ink, colours.forget]),
            fill=by_state(alt.Fill, [colours.background, colours.background, colours.forget]),
            size=by_state(alt.Size, sizes, "O"),
            shape=by_state(alt.Shape, ["diamond", "circle", "circle"]),
            tooltip=["method:N", "state:N", *numbers("accuracy", format=".1%"), "classes:Q"],
        )
    )
    ticks = chart(single).mark_tick(color=colours.forget, opacity=0.55, thickness=1.2, size=step * 0.45)
    known = {(row["method"], row["state"]): row["accuracy"] for row in rows}
    spans = [
        {"method": name, "accuracy": value, "end": known[name, "relearned"]}
        for (name, state), value in known.items()
        if state == "unlearned" and (name, "relearned") in known
    ]
    bars = chart(spans).mark_rule(color=colours.forget, strokeWidth=2).encode(y=y, x=x, x2="end:Q")
    tooltip = ["method:N", "forget:N", *numbers("accuracy", format=".1%")]
    each = ticks.encode(y=y, x=x, tooltip=tooltip)
    return layered(bars, each, points, width=style.width, height=alt.Step(step))


@figure("heatmap-rs", title="RS by method and forget class", needs="audits", on_page=False)
def rs_heatmap_figure(audits: Sequence[Row], **options: Any) -> Chart:
    """Draw RS of every method and forget set."""
    return heatmap_figure(audits, "rs", **options)


@figure("heatmap-delta-rs", title="ΔRS by method and forget class", needs="audits", on_page=False)
def delta_heatmap_figure(audits: Sequence[Row], **options: Any) -> Chart:
    """Draw ΔRS of every method and forget set."""
    return heatmap_figure(audits, "delta_rs", **options)


def heatmap_figure(
    audits: Sequence[Row],
    value: Literal["rs", "delta_rs"] = "rs",
    *,
    scale: str = "canonical",
    rule: str = "source-free",
    names: Names = None,
    style: Style = LIGHT,
) -> Chart:
    """Draw a score of every method and forget set; ΔRS on a scale that is centred at 0.

    The number is in its cell, ΔRS with its sign, so that neither colour nor a legend is needed to read it.
    """
    rows = heatmap_rows(audits, value, scale=scale, rule=rule, names=names, style=style)
    best = max(rows, key=lambda row: row["score"])
    name = "RS" if value == "rs" else "ΔRS"
    same = "0: as in the retrained reference. Above 0: more came back."
    return finish(
        _draw_cells(rows, style),
        style,
        title=f"{name} by method and forget class",
        subtitle=[*caption(audits, scale, rule), "0: nothing came back; 1: all." if value == "rs" else same],
        description=f"{name} of {len({row['key'] for row in rows})} methods and "
        f"{len({row['forget'] for row in rows})} forget sets, from {min(row['score'] for row in rows):.2f} "
        f"to {best['score']:.2f} ({best['method']}, class {best['forget']}).",
    )


def heatmap_rows(
    audits: Sequence[Row],
    value: Literal["rs", "delta_rs"],
    *,
    scale: str,
    rule: str,
    names: Names = None,
    style: Style = LIGHT,
) -> list[dict[str, Any]]:
    """Return one row per cell: score, its text, the shade of the cell and the colour of the text."""
    found = [stage for stage in stages(audits, scale=scale, rule=rule) if stage.variant == "sfra"]
    shown = [stage for stage in found if value == "rs" or stage.method != "retrained"]  # the reference is 0 throughout
    known = [(stage, got) for stage in shown if (got := getattr(stage, value)) is not None]
    if not known:
        raise InputError(
            f"there is nothing to draw: no audit has {'a ΔRS' if value == 'delta_rs' else 'an RS'}",
            do="audit the retrained reference of the same forget classes too",
        )
    limit = max(0.1, *(abs(got) for _, got in known))
    return [
        {"key": stage.method, "method": method_name(stage.method), "forget": set_name(stage.forget, names)}
        | {"score": got, "text": f"{got:z.2f}" if value == "rs" else signed(got)}
        | (style.shade("ramp", got) if value == "rs" else style.shade("diverging", 0.5 + got / limit / 2))
        for stage, got in sorted(known, key=lambda pair: (len(pair[0].forget), pair[0].forget))
    ]


def _draw_cells(rows: Sequence[dict[str, Any]], style: Style) -> Any:
    alt = altair()
    methods = [method_name(key) for key in in_order(row["key"] for row in rows)]
    sets = list(dict.fromkeys(row["forget"] for row in rows))
    words = any(not name.replace("+", "").isdigit() for name in sets)
    cell = min(52, max(27 if style.size == "column" else 36, style.width // len(sets)))
    title = "forget classes" if any("+" in name for name in sets) else "forget class"
    at_cell = {
        "y": listed("y", "method", methods),
        "x": listed("x", "forget", sets, title, orient="top", labelAngle=-45 if words else 0),
    }
    base = chart(rows).encode(**at_cell, tooltip=["method:N", "forget:N", *numbers("score")])
    tiles = base.mark_rect(stroke=style.colours.background, strokeWidth=1.5)
    size = style.font_size if style.size == "page" else 8
    texts = base.mark_text(fontSize=size)
    there = {(row["method"], row["forget"]) for row in rows}
    holes = [{"method": m, "forget": f, "text": MISSING} for m in methods for f in sets if (m, f) not in there]
    gaps = chart(holes).mark_text(fontSize=size, color=style.colours.muted)
    return layered(
        tiles.encode(fill=alt.Fill("fill:N", scale=None, legend=None)),
        texts.encode(text="text:N", color=alt.Color("ink:N", scale=None, legend=None)),
        gaps.encode(**at_cell, text="text:N"),
        width=alt.Step(cell),
        height=alt.Step(19 if size == 8 else 24),
    )
