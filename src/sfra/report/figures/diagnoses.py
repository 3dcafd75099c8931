"""Figures of diagnostics: how α_j is distributed, how well alignment approximates the margin's change, and maps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

import numpy as np

from sfra.bench.tables.names import forget_name, forget_of, method_name
from sfra.core.errors import InputError
from sfra.report.classes import label_name
from sfra.report.figures.labels import Point, place_labels
from sfra.report.figures.registry import figure
from sfra.report.figures.rows import Row, where
from sfra.report.figures.style import LIGHT, Chart, Style, altair, at, chart, finish, layered, listed, numbers, pixel

MOST_POINTS = 1500
"""Most points of a scatter or of a panel of a map; beyond it every k-th is shown. Figures in words are of all."""

MOST_COMPETITORS = 20
"""Most competitors that get a line of their own: those whose median is furthest from 1."""

MOST_NAMES = 20
"""Most retain classes whose names are written."""

LEVELS = {"p5": 0.05, "q1": 0.25, "median": 0.5, "q3": 0.75, "p95": 0.95}

GROUPS = ("retain, real", "retain, probe", "forget, real", "forget, probe")
"""What a map tells apart, in the order of the legend."""

DRAWN = ("retain, probe", "retain, real", "forget, probe", "forget, real")
"""The order in which it is drawn: what matters most lies on top."""


def _single(diagnoses: Sequence[Row]) -> Sequence[Row]:
    """Keep single forget classes, if there are any."""
    if not diagnoses:
        raise InputError("there is nothing to draw: no model of this benchmark was diagnosed")
    return [row for row in diagnoses if len(forget_of(row)) == 1] or diagnoses


def _about(rows: Sequence[Row]) -> str:
    """Say what diagnoses or maps of one method are of."""
    sets = list(dict.fromkeys(row.get("forgotten") or forget_name(row) for row in rows))
    kind = "forget class" if len(sets) == 1 and "+" not in sets[0] else "forget classes"
    first = rows[0]
    return f"{where(rows)}. {method_name(first['method'])}, {kind} {', '.join(sets)}. Scale {first['scale']}."


def alpha_bars(diagnoses: Sequence[Row]) -> list[dict[str, Any]]:
    """Add up the histograms of ``α_j`` over diagnoses: a row per competitor and bar."""
    counts: Counter[tuple[Any, float, float]] = Counter()
    for row in diagnoses:
        for one in row["margin"]["competitors"]:
            bins = one["alpha_histogram"]
            for i, count in enumerate(bins):
                counts[one["label"], 2 * i / len(bins), 2 * (i + 1) / len(bins)] += count
    return [{"competitor": j, "low": low, "high": high, "count": n} for (j, low, high), n in sorted(counts.items())]


@figure("alpha", title="Distribution of α over the forget probes", needs="diagnoses")
def alpha_figure(diagnoses: Sequence[Row], *, style: Style = LIGHT) -> Chart:
    """Draw the distribution of ``α_j`` over the forget probes: all competitors together, and each by its quantiles.

    Args:
        diagnoses: Rows of one method with ``margin``; those of single forget classes are pooled.
        style: Theme and size.
    """
    mine = _single(diagnoses)
    bars = alpha_bars(mine)
    each = competitor_rows(bars)
    total = sum(bar["count"] for bar in bars)
    heights: Counter[tuple[float, float]] = Counter()
    for bar in bars:
        heights[round(bar["low"], 9), round(bar["high"], 9)] += bar["count"]
    pooled = [{"low": low, "high": high, "share": n / total} for (low, high), n in sorted(heights.items())]
    far = sorted(each, key=lambda row: -abs(row["median"] - 1))[:MOST_COMPETITORS]
    shown = [row for row in each if row in far]
    near = sum(row["share"] for row in pooled if row["low"] >= 0.5 - 1e-9 and row["high"] <= 1.5 + 1e-9)
    medians = [row["median"] for row in each]
    note = "" if len(shown) == len(each) else f" The {len(shown)} of {len(each)} whose median is furthest from 1."
    return finish(
        _draw_alpha(pooled, shown, style),
        style,
        subtitle=[_about(mine), f"Above: all competitors. Below: median, middle half and 5–95 % of each.{note}"],
        description=f"α_j of {len(each)} competitors: {near:.0%} of the values lie between 0.5 and 1.5; the medians of "
        f"the competitors range from {min(medians):.2f} to {max(medians):.2f}.",
    )


def competitor_rows(bars: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return quantiles of each competitor, linear within a bar."""
    rows = []
    for competitor in dict.fromkeys(bar["competitor"] for bar in bars):
        mine = sorted((bar for bar in bars if bar["competitor"] == competitor), key=lambda bar: bar["low"])
        edges = np.array([mine[0]["low"], *(bar["high"] for bar in mine)])
        shares = np.concatenate([[0.0], np.cumsum([bar["count"] for bar in mine])])
        found = {name: float(np.interp(level * shares[-1], shares, edges)) for name, level in LEVELS.items()}
        rows.append({"competitor": str(competitor), **found})
    return rows


def _draw_alpha(pooled: Sequence[dict[str, Any]], each: Sequence[dict[str, Any]], style: Style) -> Any:
    alt, colours = altair(), style.colours

    def across(field: str, title: str | None = "α") -> Any:
        return at("x", field, title, (0, 2), values=[0, 0.5, 1, 1.5, 2], format=".1f")

    one = chart([{"low": 1}]).mark_rule(color=colours.ink, strokeDash=[4, 3])
    bars = chart(pooled).mark_rect(color=colours.retain, stroke=colours.background, strokeWidth=0.5)
    bars = bars.encode(
        x=across("low", None),
        x2="high:Q",
        y=at("y", "share", "share", format=".0%", tickCount=4),
        y2=alt.datum(0),
        tooltip=[*numbers("low", "high"), *numbers("share", format=".1%")],
    )
    base = chart(each).encode(y=listed("y", "competitor", [row["competitor"] for row in each], "competitor"))
    ticks = base.mark_tick(color=colours.ink, thickness=2, size=12, orient="vertical")
    lines = [
        base.mark_rule(color=colours.retain, strokeWidth=1).encode(x=across("p5"), x2="p95:Q"),
        base.mark_rule(color=colours.retain, strokeWidth=5, opacity=0.6).encode(x=across("q1"), x2="q3:Q"),
        ticks.encode(x=across("median"), tooltip=["competitor:N", *numbers("q1", "median", "q3", format=".2f")]),
    ]
    top = layered(bars, one.encode(x=across("low", None)), width=style.width, height=90)
    below = layered(*lines, one.encode(x=across("low")), width=style.width, height=alt.Step(16))
    return alt.vconcat(top, below, spacing=8)


@figure("margin", title="Exact and approximate change of the margin", needs="diagnoses")
def margin_figure(diagnoses: Sequence[Row], *, style: Style = LIGHT) -> Chart:
    """Draw the exact change of the margin against its approximation by alignment, on equal axes with the diagonal.

    Args:
        diagnoses: Rows of one method with ``margin``; the first single forget class is drawn, since a correlation over
            several would be one between classes.
        style: Theme and size.
    """
    first = _single(diagnoses)[:1]
    rows = [{"competitor": j, "exact": exact, "approximate": near} for j, exact, near in first[0]["margin"]["points"]]
    if not rows:
        raise InputError("there is nothing to draw: no pairs of exact and approximate change", got="no rows")
    exact, near = (np.array([row[name] for row in rows], dtype=float) for name in ("exact", "approximate"))
    facts = f"{100 * (np.sign(exact) == np.sign(near)).mean():.0f} % agree in sign"
    if np.ptp(exact) > 0 and np.ptp(near) > 0:
        facts = f"Pearson {np.corrcoef(exact, near)[0, 1]:.2f}, {facts}"
    shown = rows[:: -(-len(rows) // MOST_POINTS)]
    count = f"{len(rows)} pairs" if len(shown) == len(rows) else f"{len(shown)} of {len(rows)} pairs"
    low, high = min(0.0, exact.min(), near.min()), max(0.0, exact.max(), near.max())
    pad = 0.04 * (high - low or 1.0)
    domain = (float(low - pad), float(high + pad))
    x = at("x", "approximate", "approximate change by alignment / learning rate", domain, tickCount=5)
    y = at("y", "exact", "exact change / learning rate", domain, tickCount=5)
    ends = chart([{"approximate": end, "exact": end} for end in domain])
    points = chart(shown).mark_point(filled=True, size=14, opacity=0.35, color=style.colours.retain)
    side = min(style.width, 330)
    return finish(
        layered(
            ends.mark_line(color=style.colours.ink, strokeWidth=1, strokeDash=[4, 3]).encode(x=x, y=y),
            points.encode(x=x, y=y, tooltip=["competitor:N", *numbers("exact", "approximate", format=".3g")]),
            width=side,
            height=side,
        ),
        style,
        subtitle=[_about(first), f"{count}; {facts}. Diagonal: equal."],
        description=f"Exact against approximate change of the margin, {len(rows)} pairs: {facts}; exact from "
        f"{exact.min():.2g} to {exact.max():.2g}, approximate from {near.min():.2g} to {near.max():.2g}.",
    )


@figure("map", title="Real samples and probes", needs="maps")
def map_figure(maps: Sequence[Row], *, style: Style = LIGHT) -> Chart:
    """Draw embedded samples and probes, one panel per space: the forget classes stand out, classes are named in place.

    Args:
        maps: The row of one model: what it is of, and ``points``: rows ``{space, x, y, kind, label, name}``, the
            panel, the place, ``real`` or ``probe``, class and its name.
        style: Theme and size.
    """
    if not maps:
        raise InputError("there is nothing to draw: no model of this benchmark has a map")
    found = maps[0]
    points: Sequence[Row] = found["points"]
    forget = forget_of(found)
    if not points:
        raise InputError("there is nothing to draw: the map has no points")
    spaces = list(dict.fromkeys(str(row["space"]) for row in points))
    named = " and ".join(space.removesuffix("s") for space in spaces)
    side = style.width if style.size == "column" else min(style.width, (style.width + 130) // len(spaces))
    panels, shown = [], 0
    for space in spaces:
        mine = [row for row in points if row["space"] == space]
        kept = _thinned(mine, forget)
        shown += len(kept)
        panels.append(_map_panel(space, kept, class_rows(mine, forget), side, style))
    join = altair().vconcat if style.size == "column" else altair().hconcat
    kinds = {kind: sum(row["kind"] == kind for row in points) for kind in ("real", "probe")}
    note = "" if shown == len(points) else f"{shown} of {len(points)} points shown. "
    names = {row["label"]: str(row["name"]) for row in points}
    known = [names.get(label, str(label)) for label in range(max(forget, default=-1) + 1)]
    gone = ", ".join(label_name(label, known) for label in forget)
    return finish(
        join(*panels, spacing=14),
        style,
        title=f"Real samples and probes in {named} space",
        subtitle=[_about([found]), f"{note}t-SNE: distances within a neighbourhood mean something, axes do not."],
        description=f"Planar embedding of {kinds['real']} real samples and {kinds['probe']} probes in "
        f"{named} space; forget class {gone} stands out.",
    )


def class_rows(rows: Sequence[Row], forget: Sequence[int]) -> list[dict[str, Any]]:
    """Find where the names of classes go: amid their real samples, but above those of forget classes.

    Forget classes come first, retain ones only if they are few.
    """
    found: list[dict[str, Any]] = []
    classes = sorted({row["label"] for row in rows if row["kind"] == "real"})
    for label in sorted(classes, key=lambda label: label not in forget):
        mine = [row for row in rows if row["label"] == label and row["kind"] == "real"]
        gone = label in forget
        name = f"{mine[0]['name']} (forget)" if gone else str(mine[0]["name"])
        if gone or len(classes) <= MOST_NAMES:
            high = max(row["y"] for row in mine) if gone else median(row["y"] for row in mine)
            found.append({"x": median(row["x"] for row in mine), "y": high, "name": name, "above": gone})
    return found


def _thinned(rows: Sequence[Row], forget: Sequence[int]) -> list[dict[str, Any]]:
    """Keep every k-th point and round its place to what can be seen, in the order they are drawn."""
    step = -(-len(rows) // MOST_POINTS)
    kept = [
        {"name": row["name"], "kind": row["kind"], "x": round(row["x"], 2), "y": round(row["y"], 2)}
        | {"group": f"{'forget' if row['label'] in forget else 'retain'}, {row['kind']}"}
        for row in rows[::step]
    ]
    return sorted(kept, key=lambda row: DRAWN.index(row["group"]))


def _map_panel(
    space: str, rows: Sequence[dict[str, Any]], classes: Sequence[dict[str, Any]], side: int, style: Style
) -> Any:
    alt, colours = altair(), style.colours
    domains = {}
    for axis in ("x", "y"):
        values = [row[axis] for row in rows]
        pad = 0.04 * (max(values) - min(values) or 1.0)
        domains[axis] = (min(values) - pad, max(values) + pad)
    lines = [colours.retain, colours.muted, colours.ink, colours.forget]
    fills = ["transparent", "transparent", colours.forget, colours.forget]
    legend = alt.Legend(columns=2 if style.size == "column" else 4)

    def by_group(channel: Any, values: Sequence[str], **more: Any) -> Any:
        return channel("group:N", scale=alt.Scale(domain=list(GROUPS), range=list(values)), title=None, **more)

    hidden: dict[str, Any] = {"grid": False, "labels": False}
    points = (
        chart(rows)
        .mark_point(size=22, opacity=0.6, strokeWidth=0.9)
        .encode(
            x=at("x", "x", None, domains["x"], **hidden),
            y=at("y", "y", None, domains["y"], **hidden),
            stroke=by_group(alt.Stroke, lines, legend=legend),
            fill=by_group(alt.Fill, fills),
            shape=by_group(alt.Shape, ["circle", "cross"] * 2),
            tooltip=["name:N", "group:N"],
        )
    )
    frame = chart([{}]).mark_rect(fillOpacity=0, stroke=colours.grid)
    title = alt.TitleParams(text=f"{space.removesuffix('s')} space", fontSize=style.font_size, offset=2)
    names = _map_names(classes, domains, side, style)
    return layered(frame, points, *names, width=side, height=side, title=title)


def _map_names(
    classes: Sequence[dict[str, Any]], domains: Mapping[str, Sequence[float]], side: int, style: Style
) -> list[Any]:
    """Write class names on a halo in the colour of the background, so that points beneath do not eat them."""
    (left, right), (low, high) = domains["x"], domains["y"]

    def place(row: dict[str, Any]) -> Point:
        up = style.font_size if row["above"] else 0
        return (row["x"] - left) / (right - left) * side, (high - row["y"]) / (high - low) * side - up

    size = style.font_size + 1
    texts = [row["name"] for row in classes]
    labels = place_labels([place(row) for row in classes], texts, width=side, height=side, font=size, centred=True)
    rows = [{"name": label.text, "x": label.x, "y": label.y} for label in labels]
    base = chart(rows).encode(x=pixel("x", "x"), y=pixel("y", "y"), text="name:N")
    mark = {"baseline": "middle", "fontSize": size, "fontWeight": "bold"}
    halo = base.mark_text(**mark, stroke=style.colours.background, strokeWidth=3, strokeOpacity=0.85)
    return [halo, base.mark_text(**mark, color=style.colours.ink)]
