"""A colour, a shape and a dash for each method, the same in every figure; no two methods share a shape."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sfra.report.style import Style, altair

X_SHAPE = "M-.9,-.5L-.5,-.9L0,-.4L.5,-.9L.9,-.5L.4,0L.9,.5L.5,.9L0,.4L-.5,.9L-.9,.5L-.4,0Z"
STAR = "M0,-1L.29,-.31L1,-.31L.45,.14L.65,.9L0,.45L-.65,.9L-.45,.14L-1,-.31L-.29,-.31Z"
HEXAGON = "M-.5,-.87L.5,-.87L1,0L.5,.87L-.5,.87L-1,0Z"
HOURGLASS = "M-.85,-.9L.85,-.9L.2,0L.85,.9L-.85,.9L-.2,0Z"
PENTAGON = "M0,-1L.95,-.31L.59,.81L-.59,.81L-.95,-.31Z"


@dataclass(frozen=True, kw_only=True)
class Mark:
    """How a method is drawn, everywhere."""

    light: str
    """Colour on a light background."""
    dark: str
    """Colour on a dark background."""
    shape: str
    """Name of a Vega symbol, or its outline as an SVG path."""
    dash: tuple[int, ...]
    """Lengths of strokes and gaps of a line."""

    def colour(self, style: Style) -> str:
        """Return the colour for a theme."""
        return self.light if style.theme == "light" else self.dark


MARKS = {
    name: Mark(light=light, dark=dark, shape=shape, dash=dash)
    for name, light, dark, shape, dash in (
        ("original", "#4a4a4a", "#c8c8c8", "circle", (1, 0)),
        ("retrained", "#000000", "#ffffff", "square", (6, 2)),
        ("finetune", "#0072b2", "#56b4e9", "triangle-up", (1, 0)),
        ("negative-gradient", "#d55e00", "#ff8a3d", "triangle-down", (4, 2)),
        ("negative-gradient-plus", "#882255", "#e58bb5", "triangle-right", (8, 2, 2, 2)),
        ("random-label", "#00795b", "#3dd6a8", "diamond", (2, 2)),
        ("boundary-shrink", "#aa3fa0", "#e69fe0", "cross", (10, 2)),
        ("learn-to-unlearn", "#8a5a00", "#e0b050", "triangle-left", (6, 2, 2, 2, 2, 2)),
        ("scrub", "#332288", "#a99cf0", X_SHAPE, (1, 0)),
        ("bad-teacher", "#1b8599", "#6ad5e8", STAR, (4, 1, 1, 1)),
        ("salun", "#737300", "#d6d65c", HEXAGON, (8, 4)),
        ("delete", "#c0143c", "#ff7a8f", HOURGLASS, (1, 0)),
        ("masked", "#767676", "#9a9a9a", PENTAGON, (2, 3)),
    )
}
"""The look of the methods that come with the package and of its controls."""

SPARE = (("#5c4033", "#d7b9a8"), ("#005f73", "#8fd3dd"), ("#6a1b9a", "#d3a6ee"), ("#4f6d00", "#b7d96a"))
"""Colours of other methods, on light and dark."""


def marks_of(methods: Iterable[str]) -> dict[str, Mark]:
    """Return the look of each method; others than ours get one of their own, by their name.

    The name decides where among the spare looks the search starts, so that a method keeps its look whatever else is
    in the figure, unless another one was there first.

    >>> marks_of(["delete", "mine"])["mine"].light not in {mark.light for mark in MARKS.values()}
    True
    """
    names = sorted(set(methods))
    found = {name: MARKS[name] for name in names if name in MARKS}
    looks = [(*pair, mark.shape, mark.dash) for mark in MARKS.values() for pair in SPARE]
    for name in (name for name in names if name not in MARKS):
        start = int.from_bytes(hashlib.sha256(name.encode()).digest()[:4])
        light, dark, shape, dash = looks.pop(start % len(looks)) if looks else (*SPARE[0], "circle", (1, 0))
        found[name] = Mark(light=light, dark=dark, shape=shape, dash=dash)
    return found


def look(rows: Sequence[Mapping[str, Any]], style: Style) -> tuple[Any, Any, Any]:
    """Make the encodings of the methods of rows (``key`` and ``method``): colour, shape and dash; no legend."""
    alt = altair()
    names = dict(sorted((row["key"], row["method"]) for row in rows))
    marks = marks_of(names)
    ranges = [
        [m.colour(style) for m in marks.values()],
        [m.shape for m in marks.values()],
        [m.dash for m in marks.values()],
    ]
    ordered = [names[key] for key in marks]
    made = [
        channel("method:N", legend=None, scale=alt.Scale(domain=ordered, range=values))
        for channel, values in zip((alt.Color, alt.Shape, alt.StrokeDash), ranges, strict=True)
    ]
    return made[0], made[1], made[2]
