"""Where direct labels go, so that they overlap neither each other nor what they name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np
from jaxtyping import Int

Number = float | int
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
        inside = [(label, box) for label, box in options if _within(box, width, height)] or options
        covered = [box for _, box in inside]
        costs = (
            100 * _meetings(covered, boxes)
            + 40 * _coverings(covered, () if centred else anchors)
            + 1.5 * _coverings(covered, obstacles)
            + np.array([(abs(label.x - x) + abs(label.y - y)) / font for label, _ in inside])
        )
        label, box = inside[int(costs.argmin())]
        placed.append(label)
        boxes.append(box)
    return placed


def _around(font: Number, centred: bool) -> list[tuple[Number, Number, str]]:
    """List offsets from the anchor: beside it, above and below, and further away."""
    near = [(8.0, 0.0, "left"), (-8.0, 0.0, "right")]
    steps = [sign * font * k / 2 for k in range(2, 17) for sign in (-1, 1)]
    if centred:
        return [(0.0, dy, "center") for dy in (0.0, *steps)]
    sides = [(sign * dx, side) for dx in (3.0, 20.0, 40.0, 60.0) for sign, side in ((1, "left"), (-1, "right"))]
    return near + [(dx, dy, side) for dy in steps for dx, side in sides]


def _option(x: Number, y: Number, text: str, side: str, dx: Number, dy: Number, font: Number) -> tuple[Label, Box]:
    length = len(text) * font * WIDE
    left = x + dx - length * {"left": 0.0, "center": 0.5, "right": 1.0}[side]
    box = (left - GAP, y + dy - font * 0.6, left + length + GAP, y + dy + font * 0.6)
    return Label(text=text, x=x + dx, y=y + dy, align=side, far=abs(dy) > 1.2 * font or abs(dx) > 10), box


def _within(box: Box, width: Number, height: Number) -> bool:
    return box[0] >= 0 and box[1] >= 0 and box[2] <= width and box[3] <= height


def _meetings(boxes: Sequence[Box], others: Sequence[Box]) -> Counts:
    """Count, for each box, which others it overlaps."""
    left, top, right, bottom = _sides(boxes)
    x0, y0, x1, y1 = np.array(others, dtype=float).reshape(-1, 4).T
    found: Counts = ((left < x1) & (x0 < right) & (top < y1) & (y0 < bottom)).sum(1)
    return found


def _coverings(boxes: Sequence[Box], points: Sequence[Point]) -> Counts:
    """Count, for each box, the points in it or within four pixels."""
    left, top, right, bottom = _sides(boxes)
    x, y = np.array(points, dtype=float).reshape(-1, 2).T
    found: Counts = ((left - 4 <= x) & (x <= right + 4) & (top - 4 <= y) & (y <= bottom + 4)).sum(1)
    return found


def _sides(boxes: Sequence[Box]) -> list[np.ndarray]:
    return [side[:, None] for side in np.array(boxes, dtype=float).reshape(-1, 4).T]
