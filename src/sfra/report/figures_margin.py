"""The first step of relearning: how α_j is distributed, and how well alignment approximates the margin's change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sfra.core.errors import InputError
from sfra.report.style import Chart, Style, altair, data, finish

BINS = 40
"""Bars of the histogram of raw values, of equal width from 0 to 2."""

MOST_POINTS = 1500
"""Most points that a scatter shows; the figures in its subtitle are of all."""

MOST_COMPETITORS = 20
"""Most competitors that get a line of their own: those whose median is furthest from 1."""


def alpha_rows(margin: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Read the histograms of ``α_j`` from the diagnosis of one forget class: rows {competitor, low, high, count}."""
    return [
        {"competitor": one["label"], "low": 2 * i / len(counts), "high": 2 * (i + 1) / len(counts), "count": count}
        for one in margin["competitors"]
        for counts in [one["alpha_histogram"]]
        for i, count in enumerate(counts)
    ]


def margin_rows(margin: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Read exact and approximate changes from the diagnosis of one forget class."""
    return [{"competitor": j, "exact": exact, "approximate": near} for j, exact, near in margin["points"]]


def alpha_figure(rows: Sequence[Mapping[str, Any]], *, subtitle: str = "", style: Style | None = None) -> Chart:
    """Draw the distribution of ``α_j`` over the forget probes: all competitors together, and each by its quantiles.

    Args:
        rows: ``{competitor, alpha}`` for each probe, or ``{competitor, low, high, count}`` for each bar of a histogram.
        subtitle: What the rows are of.
        style: Theme and size.
    """
    style = style or Style()
    if not rows:
        raise InputError("there is nothing to draw: no α_j", expected="rows with competitor and alpha, or bars")
    bars = _bars(rows)
    pooled, each = pooled_bars(bars), competitor_rows(bars)
    far = sorted(each, key=lambda row: -abs(row["median"] - 1))[:MOST_COMPETITORS]
    shown = [row for row in each if row in far]
    near = sum(row["share"] for row in pooled if row["low"] >= 0.5 - 1e-9 and row["high"] <= 1.5 + 1e-9)
    medians = [row["median"] for row in each]
    note = "" if len(shown) == len(each) else f" The {len(shown)} of {len(each)} whose median is furthest from 1."
    return finish(
        _draw_alpha(pooled, shown, style),
        style,
        title="Distribution of α over the forget probes",
        subtitle=[subtitle, f"Above: all competitors. Below: median, middle half and 5–95 % of each.{note}"],
        description=f"α_j of {len(each)} competitors: {near:.0%} of the values lie between 0.5 and 1.5; the medians of "
        f"the competitors range from {min(medians):.2f} to {max(medians):.2f}.",
    )


def _bars(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Count raw values into bars; bars stay as they are."""
    if "alpha" not in rows[0]:
        return [dict(row) for row in rows]
    bars = []
    for competitor in sorted({row["competitor"] for row in rows}, key=str):
        values = [row["alpha"] for row in rows if row["competitor"] == competitor]
        counts, edges = np.histogram(values, bins=BINS, range=(0.0, 2.0))
        bars += [
            {"competitor": competitor, "low": float(low), "high": float(high), "count": int(count)}
            for low, high, count in zip(edges, edges[1:], counts, strict=False)
        ]
    return bars


def pooled_bars(bars: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Add up the bars of all competitors; heights are shares of the total."""
    total = sum(bar["count"] for bar in bars)
    counts: dict[tuple[float, float], int] = {}
    for bar in bars:
        place = (round(bar["low"], 9), round(bar["high"], 9))
        counts[place] = counts.get(place, 0) + bar["count"]
    return [{"low": low, "high": high, "share": count / total} for (low, high), count in sorted(counts.items())]


def competitor_rows(bars: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return quantiles of each competitor, linear within a bar."""
    rows = []
    for competitor in dict.fromkeys(bar["competitor"] for bar in bars):
        mine = sorted((bar for bar in bars if bar["competitor"] == competitor), key=lambda bar: bar["low"])
        edges = np.array([mine[0]["low"], *(bar["high"] for bar in mine)])
        shares = np.concatenate([[0.0], np.cumsum([bar["count"] for bar in mine])])
        levels = {"p5": 0.05, "q1": 0.25, "median": 0.5, "q3": 0.75, "p95": 0.95}
        found = {name: float(np.interp(level * shares[-1], shares, edges)) for name, level in levels.items()}
        rows.append({"competitor": str(competitor), **found})
    return rows


def margin_figure(rows: Sequence[Mapping[str, Any]], *, subtitle: str = "", style: Style | None = None) -> Chart:
    """Draw the exact change of the margin against its approximation by alignment, on equal axes with the diagonal.

    Args:
        rows: ``{competitor, exact, approximate}``, one per bootstrap sample and competitor.
        subtitle: What the rows are of.
        style: Theme and size.
    """
    style = style or Style()
    if not rows:
        raise InputError("there is nothing to draw: no pairs of exact and approximate change", got="no rows")
    exact, near = (np.array([row[name] for row in rows], dtype=float) for name in ("exact", "approximate"))
    facts = f"{100 * (np.sign(exact) == np.sign(near)).mean():.0f} % agree in sign"
    if np.ptp(exact) > 0 and np.ptp(near) > 0:
        facts = f"Pearson {np.corrcoef(exact, near)[0, 1]:.2f}, {facts}"
    step = -(-len(rows) // MOST_POINTS)
    shown = [dict(row) for row in rows[::step]]
    count = f"{len(rows)} pairs" if step == 1 else f"{len(shown)} of {len(rows)} pairs"
    return finish(
        _draw_pairs(shown, style),
        style,
        title="Exact and approximate change of the margin",
        subtitle=[subtitle, f"{count}; {facts}. Diagonal: equal."],
        description=f"Exact against approximate change of the margin, {len(rows)} pairs: {facts}; exact from "
        f"{exact.min():.2g} to {exact.max():.2g}, approximate from {near.min():.2g} to {near.max():.2g}.",
    )


def _draw_alpha(pooled: Sequence[dict[str, Any]], each: Sequence[dict[str, Any]], style: Style) -> Any:
    alt, colours = altair(), style.colours
    unit = alt.Scale(domain=[0, 2], nice=False)
    axis = alt.Axis(values=[0, 0.5, 1, 1.5, 2], format=".1f", domain=False, ticks=False)
    x = alt.X("low:Q", scale=unit, axis=axis, title=None)
    one = alt.Chart(data([{"low": 1}])).mark_rule(color=colours.ink, strokeDash=[4, 3]).encode(x=x)
    bars = (
        alt.Chart(data(pooled))
        .mark_rect(color=colours.retain, stroke=colours.background, strokeWidth=0.5)
        .encode(
            x=x,
            x2="high:Q",
            y=alt.Y("share:Q", axis=alt.Axis(format=".0%", tickCount=4, domain=False, ticks=False), title="share"),
            y2=alt.datum(0),
            tooltip=["low:Q", "high:Q", alt.Tooltip("share:Q", format=".1%")],
        )
    )
    order = [row["competitor"] for row in each]
    y = alt.Y("competitor:N", sort=order, title="competitor", axis=alt.Axis(ticks=False, domain=False))
    base = alt.Chart(data(each)).encode(y=y)

    def at(name: str) -> Any:
        return alt.X(f"{name}:Q", scale=unit, axis=axis, title="α")

    lines = [
        base.mark_rule(color=colours.retain, strokeWidth=1).encode(x=at("p5"), x2="p95:Q"),
        base.mark_rule(color=colours.retain, strokeWidth=5, opacity=0.6).encode(x=at("q1"), x2="q3:Q"),
        base.mark_tick(color=colours.ink, thickness=2, size=12, orient="vertical").encode(
            x=at("median"),
            tooltip=["competitor:N", *(alt.Tooltip(f"{n}:Q", format=".2f") for n in ("q1", "median", "q3"))],
        ),
    ]
    top = alt.layer(bars, one).properties(width=style.width, height=90)
    here = one.encode(x=alt.X("low:Q", scale=unit, axis=axis, title="α"))
    return alt.vconcat(top, alt.layer(*lines, here).properties(width=style.width, height=alt.Step(16)), spacing=8)


def _draw_pairs(rows: Sequence[dict[str, Any]], style: Style) -> Any:
    alt, colours = altair(), style.colours
    values = [row[name] for row in rows for name in ("exact", "approximate")]
    low, high = min(0.0, *values), max(0.0, *values)
    pad = 0.04 * (high - low or 1.0)
    domain = [low - pad, high + pad]
    axis = alt.Axis(tickCount=5, domain=False, ticks=False)
    x = alt.X(
        "approximate:Q",
        scale=alt.Scale(domain=domain, nice=False),
        axis=axis,
        title="approximate change by alignment / learning rate",
    )
    y = alt.Y("exact:Q", scale=alt.Scale(domain=domain, nice=False), axis=axis, title="exact change / learning rate")
    diagonal = [{"approximate": end, "exact": end} for end in domain]
    side = min(style.width, 330)
    return alt.layer(
        alt.Chart(data(diagonal)).mark_line(color=colours.ink, strokeWidth=1, strokeDash=[4, 3]).encode(x=x, y=y),
        alt.Chart(data(rows))
        .mark_point(filled=True, size=14, opacity=0.35, color=colours.retain)
        .encode(
            x=x, y=y, tooltip=["competitor:N", *(alt.Tooltip(f"{n}:Q", format=".3g") for n in ("exact", "approximate"))]
        ),
    ).properties(width=side, height=side)
