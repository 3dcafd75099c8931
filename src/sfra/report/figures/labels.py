"""Direct labels instead of legends: where they go, so that they overlap neither each other nor what they name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import numpy as np
from jaxtyping import Int

from sfra.report.figures.style import Number, Style, altair, chart, pixel

Point = tuple[Number, Number]
Box = tuple[Number, Number, Number, Number]
"""Left, top, right and bottom."""
Counts = Int[np.ndarray, " boxes"]

WIDE = 0.56
"""Mean width of a character of the font, in font sizes."""

GAP = 2.5
"""Free space at both ends of a label, in pixels."""


@dataclass(frozen=True, kw_only=True)
class Label:
    """A placed label: its anchor in pixels from the left and the top."""

    text: str
    x: Number
    y: Number
    align: str
    """``left``: the text starts at x; ``right``: it ends there; ``center``: it is centred there."""
    far: bool
    """Away from its point, so that a line should lead there."""


def spread_out(places: Sequence[Number], gap: Number, low: Number, high: Number) -> list[Number]:
    """Move numbers apart, as little as possible in squares, until neighbours are a gap apart; they keep their order.

    Without the gaps this is isotonic regression, by pooling neighbours that are in each other's way.

    >>> spread_out([5.0, 5.0, 20.0], 4.0, 0.0, 30.0)
    [3.0, 7.0, 20.0]
    """
    gap = min(gap, (high - low) / max(len(places) - 1, 1))
    order = sorted(range(len(places)), key=lambda i: (places[i], i))
    pools: list[list[Number]] = []
    for rank, i in enumerate(order):
        pools.append([places[i] - rank * gap])
        while len(pools) > 1 and fmean(pools[-2]) >= fmean(pools[-1]):
            later = pools.pop()
            pools[-1] += later
    last = high - gap * (len(places) - 1)
    free = [min(max(fmean(pool), low), last) for pool in pools for _ in pool]
    moved = list(places)
    for rank, i in enumerate(order):
        moved[i] = free[rank] + rank * gap
    return moved


def place_labels(
    anchors: Sequence[Point],
    texts: Sequence[str],
    *,
    obstacles: Sequence[Point] = (),
    width: Number,
    height: Number,
    font: Number,
    centred: bool = False,
) -> list[Label]:
    """Place a label next to each anchor: near if there is room, further away if not.

    Greedy, in the order given: of a fixed list of places around the anchor, the one that costs least; a label that is
    covered costs most, then an anchor, then an obstacle, then distance. Centred labels lie on their anchors instead,
    and move up or down where two would meet.
    """
    placed: list[Label] = []
    boxes: list[Box] = []
    for (x, y), text in zip(anchors, texts, strict=True):
        options = [_option(x, y, text, side, dx, dy, font) for dx, dy, side in _around(font, centred)]
        within = [
            (label, box)
            for label, box in options
            if box[0] >= 0 and box[1] >= 0 and box[2] <= width and box[3] <= height
        ]
        inside = within or options
        covered = [box for _, box in inside]
        costs = (
            100 * _covered(covered, boxes)
            + 40 * _covered(covered, () if centred else _around_points(anchors))
            + 1.5 * _covered(covered, _around_points(obstacles))
            + np.array([(abs(label.x - x) + abs(label.y - y)) / font for label, _ in inside])
        )
        label, box = inside[int(costs.argmin())]
        placed.append(label)
        boxes.append(box)
    return placed


def _around(font: Number, centred: bool) -> list[tuple[Number, Number, str]]:
    """List offsets from the anchor: beside it, above and below, and further away."""
    steps = [sign * font * k / 2 for k in range(2, 17) for sign in (-1, 1)]
    if centred:
        return [(0.0, dy, "center") for dy in (0.0, *steps)]
    sides = [(sign * dx, side) for dx in (3.0, 20.0, 40.0, 60.0) for sign, side in ((1, "left"), (-1, "right"))]
    return [(8.0, 0.0, "left"), (-8.0, 0.0, "right"), *((dx, dy, side) for dy in steps for dx, side in sides)]


def _option(x: Number, y: Number, text: str, side: str, dx: Number, dy: Number, font: Number) -> tuple[Label, Box]:
    length = len(text) * font * WIDE
    left = x + dx - length * {"left": 0.0, "center": 0.5, "right": 1.0}[side]
    box = (left - GAP, y + dy - font * 0.6, left + length + GAP, y + dy + font * 0.6)
    return Label(text=text, x=x + dx, y=y + dy, align=side, far=abs(dy) > 1.2 * font or abs(dx) > 10), box


def _covered(boxes: Sequence[Box], others: Sequence[Box]) -> Counts:
    """Count, for each box, which others it overlaps."""
    left, top, right, bottom = (side[:, None] for side in np.array(boxes, dtype=float).reshape(-1, 4).T)
    x0, y0, x1, y1 = np.array(others, dtype=float).reshape(-1, 4).T
    found: Counts = ((left < x1) & (x0 < right) & (top < y1) & (y0 < bottom)).sum(1)
    return found


def _around_points(points: Sequence[Point]) -> list[Box]:
    return [(x - 4, y - 4, x + 4, y + 4) for x, y in points]


def end_rows(ends: Mapping[str, Number], style: Style, *, height: Number, **more: Any) -> list[dict[str, Any]]:
    """Find where to name lines of scores: where they end, moved apart where they end together."""
    places = spread_out([(1 - value) * height for value in ends.values()], style.font_size + 1.0, 0.0, height)
    return [{"end": name, "at": place, **more} for name, place in zip(ends, places, strict=True)]


def end_names(rows: Sequence[Mapping[str, Any]], style: Style, colours: Mapping[str, str]) -> Any:
    """Write the names of :func:`end_rows` to the right of the plot."""
    alt = altair()
    colour = alt.Color("end:N", legend=None, scale=alt.Scale(domain=list(colours), range=list(colours.values())))
    text = chart(rows).mark_text(align="left", baseline="middle", dx=7, fontSize=style.font_size)
    return text.encode(x=alt.value("width"), y=pixel("y", "at"), text="end:N", color=colour)


def end_labels(
    rows: Sequence[Mapping[str, Any]],
    along: str,
    look: tuple[Any, Any],
    style: Style,
    *,
    width: Number,
    height: Number,
) -> list[Any]:
    """Write symbol and name of each method where its line of RS ends, moved apart where lines end together.

    Args:
        rows: The points of the lines, with ``method`` and ``rs``.
        along: Field along the axis; a line ends at its largest value.
        look: Colour and shape of the methods.
        style: Theme and size.
        width: Width of the plot.
        height: Height of the plot.
    """
    ends = {row["method"]: row for row in sorted(rows, key=lambda row: row[along])}
    level = [(1 - row["rs"]) * height for row in ends.values()]
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
    colour, shape = look
    rows = [
        {"method": name, "x": x, "to": x + 8, "symbol": x + 14, "text": x + 22, "at": at, "level": level}
        for name, at, level in zip(methods, places, levels or places, strict=True)
    ]
    base, y = chart(rows).encode(color=colour), pixel("y", "at")
    leads = base.mark_rule(strokeWidth=0.7, opacity=0.8)
    symbols = base.mark_point(filled=True, size=45, opacity=1)
    names = base.mark_text(align="left", baseline="middle", fontSize=style.font_size)
    led = [leads.encode(x=pixel("x", "x"), x2="to:Q", y=pixel("y", "level"), y2="at:Q")] if levels else []
    return [
        *led,
        symbols.encode(x=pixel("x", "symbol"), y=y, shape=shape),
        names.encode(x=pixel("x", "text"), y=y, text="method:N"),
    ]


MOST_NAMES = 5
"""Most methods whose names are written inside a figure of one column; the names of more stand beside it."""


def mark_names(
    means: Sequence[Mapping[str, Any]],
    anchors: Sequence[Point],
    obstacles: Sequence[Point],
    look: tuple[Any, Any],
    style: Style,
    *,
    width: Number,
    height: Number,
) -> list[Any]:
    """Name the large marks of a scatter: at their places or, where a column is too narrow for that, beside the plot."""
    if style.size == "column" and len(means) > MOST_NAMES:
        order = [row["method"] for row, _ in sorted(zip(means, anchors, strict=True), key=lambda pair: pair[1][1])]
        step = min(style.font_size + 5.0, height / len(order))
        return key(order, [step * (i + 0.5) for i in range(len(order))], look, style, x=width)
    texts = [row["method"] for row in means]
    labels = place_labels(anchors, texts, obstacles=obstacles, width=width, height=height, font=style.font_size)
    rows = [
        {"key": row["key"], "method": row["method"], "x": label.x, "y": label.y, "align": label.align, "far": label.far}
        | {"to_x": x, "to_y": y}
        for row, label, (x, y) in zip(means, labels, anchors, strict=True)
    ]
    at = {"x": pixel("x", "x"), "y": pixel("y", "y"), "color": look[0]}
    leads = chart([row for row in rows if row["far"]]).mark_rule(strokeWidth=0.7, opacity=0.8)
    halo = {"stroke": style.colours.background, "strokeWidth": 3, "strokeOpacity": 0.85}
    written = [
        chart(chosen)
        .mark_text(align=side, baseline="middle", fontSize=style.font_size, **around)
        .encode(**at, text="method:N")
        for around in (halo, {})
        for side in ("left", "right")
        if (chosen := [row for row in rows if row["align"] == side])
    ]
    return [leads.encode(**at, x2="to_x:Q", y2="to_y:Q"), *written]
