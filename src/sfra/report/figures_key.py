"""The names of methods beside a plot, each with its symbol, so that the figure needs neither legend nor colour."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sfra.report.figures_labels import Number, spread_out
from sfra.report.style import Style, altair, data


def end_labels(
    rows: Sequence[Mapping[str, Any]],
    along: str,
    value: str,
    look: tuple[Any, Any],
    style: Style,
    *,
    width: Number,
    height: Number,
) -> list[Any]:
    """Write symbol and name of each method where its line ends, moved apart where lines end together.

    Args:
        rows: The points of the lines, with ``method``.
        along: Field along the axis; a line ends at its largest value.
        value: Field with the height of the line, in [0, 1].
        look: Colour and shape of the methods.
        style: Theme and size.
        width: Width of the plot.
        height: Height of the plot.
    """
    ends = {row["method"]: row for row in sorted(rows, key=lambda row: row[along])}
    level = [(1 - row[value]) * height for row in ends.values()]
    places = spread_out(level, style.font_size + 2.0, 0.0, height)
    return key(list(ends), places, look, style, x=width, levels=level)


def key(
    methods: Sequence[str],
    places: Sequence[Number],
    look: tuple[Any, Any],
    style: Style,
    *,
    x: Number,
    levels: Sequence[Number] | None = None,
) -> list[Any]:
    """Write names with their symbols to the right of x, at places from the top; thin lines lead there from levels."""
    alt = altair()
    colour, shape = look
    rows = [
        {"method": name, "x": x, "to": x + 8, "symbol": x + 14, "text": x + 22, "at": at, "level": level}
        for name, at, level in zip(methods, places, levels or places, strict=True)
    ]
    y = alt.Y("at:Q", scale=None, axis=None)
    base = alt.Chart(data(rows)).encode(color=colour)
    leads = base.mark_rule(strokeWidth=0.7, opacity=0.8).encode(
        x=alt.X("x:Q", scale=None, axis=None),
        x2="to:Q",
        y=alt.Y("level:Q", scale=None, axis=None),
        y2="at:Q",
    )
    symbols = base.mark_point(filled=True, size=45, opacity=1).encode(
        x=alt.X("symbol:Q", scale=None, axis=None), y=y, shape=shape
    )
    names = base.mark_text(align="left", baseline="middle", fontSize=style.font_size).encode(
        x=alt.X("text:Q", scale=None, axis=None), y=y, text="method:N"
    )
    return [*([leads] if levels else []), symbols, names]
