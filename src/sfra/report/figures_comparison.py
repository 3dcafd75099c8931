"""Our RS beside the paper's: how far a benchmark agrees with printed numbers, and whether methods keep their order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import numpy as np

from sfra.bench.tables.names import method_name
from sfra.core.errors import InputError
from sfra.report.figures_key import key
from sfra.report.figures_labels import Point, place_labels
from sfra.report.figures_marks import look
from sfra.report.figures_rows import in_order
from sfra.report.figures_scatter import MOST_NAMES, named
from sfra.report.style import Chart, Style, altair, data, finish, score_axis

Row = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Sides:
    """What the two sides of a comparison are called."""

    title: str = "Our RS beside the paper's"
    told: str = "Our RS against the paper's"
    """Begins the description."""
    ours: str = "Ours"
    """Subject of the sentence on the mean difference."""
    here: str = "RS here"
    """Names the vertical axis."""
    there: str = "RS in the paper"
    """Names the horizontal axis."""


def comparison_figure(
    rows: Sequence[Row], *, subtitle: str = "", style: Style | None = None, sides: Sides | None = None
) -> Chart:
    """Draw our RS against the paper's on equal axes with the diagonal; Spearman's ρ is that of the rows given.

    Args:
        rows: ``{method, ours, paper}`` and, where there are several rows of a method, ``class``: these become small
            marks, and the named large one is their mean.
        subtitle: What the rows are of.
        style: Theme and size.
        sides: Names, where the other side is not the paper.
    """
    sides = sides or Sides()
    style = style or Style()
    pairs = [row for row in rows if row.get("ours") is not None and row.get("paper") is not None]
    if not pairs:
        raise InputError(
            "there is nothing to draw: no pair of our RS and the paper's",
            expected="rows with method, ours and paper",
            got=f"{len(rows)} rows",
        )
    points, means = comparison_rows(pairs)
    difference = fmean(row["ours"] - row["paper"] for row in means)
    single = len(points) == len(means)
    note = "" if single else " Small marks: classes; large: means."
    return finish(
        _draw([] if single else points, means, sides, style),
        style,
        title=sides.title,
        subtitle=[subtitle, f"{_agreement(points, means)}{note} Diagonal: equal."],
        description=f"{sides.told}, {len(means)} methods. {_agreement(points, means)} {sides.ours} is on average "
        f"{abs(difference):.2f} {'higher' if difference > 0 else 'lower'}.",
    )


def comparison_rows(rows: Sequence[Row]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the pairs, and the means of each method."""
    points: list[dict[str, Any]] = [
        {"key": row["method"], "method": method_name(row["method"]), "class": str(row.get("class", ""))}
        | {"ours": row["ours"], "paper": row["paper"]}
        for row in rows
    ]
    means = []
    for name in in_order(row["key"] for row in points):
        mine = [row for row in points if row["key"] == name]
        both = {side: fmean(row[side] for row in mine) for side in ("ours", "paper")}
        means.append({"key": name, "method": method_name(name), "pairs": len(mine), **both})
    return points, means


def rank_correlation(rows: Sequence[Row]) -> float | None:
    """Return Spearman's ρ of ours and the paper's, ties by their mean rank; None for fewer than three or equal values.

    >>> rank_correlation([{"ours": x, "paper": x * x} for x in (0.1, 0.5, 0.3)])
    1.0
    """
    from scipy.stats import spearmanr

    ours, paper = ([row[side] for row in rows] for side in ("ours", "paper"))
    if len(rows) < 3 or np.ptp(ours) == 0 or np.ptp(paper) == 0:
        return None
    return round(float(spearmanr(ours, paper).statistic), 9)


def _agreement(points: Sequence[Row], means: Sequence[Row]) -> str:
    """Say how far the order agrees: of the methods and, where there are classes, of all pairs."""
    parts = [
        f"{rho:.2f} over {len(rows)} {what}".replace("-", "−")
        for rows, what in ((means, "methods"), (points, "pairs"))
        if (rho := rank_correlation(rows)) is not None and (rows is means or len(points) > len(means))
    ]
    return (
        f"Spearman's ρ {', '.join(parts)}."
        if parts
        else f"{len(points)} pairs, too few or too equal for a correlation."
    )


def _draw(points: Sequence[dict[str, Any]], means: Sequence[dict[str, Any]], sides: Sides, style: Style) -> Any:
    alt, colours = altair(), style.colours
    side = style.narrow if style.size == "column" else 380
    colour, shape, _ = look(means, style)
    whole = alt.Scale(domain=[0, 1], nice=False)
    x = alt.X("paper:Q", scale=whole, axis=score_axis(), title=sides.there)
    y = alt.Y("ours:Q", scale=whole, axis=score_axis(), title=sides.here)
    ends = [{"paper": end, "ours": end} for end in (0, 1)]
    numbers = [alt.Tooltip(f"{name}:Q", format=".3f") for name in ("ours", "paper")]
    diagonal = alt.Chart(data(ends)).mark_line(color=colours.ink, strokeWidth=1, strokeDash=[4, 3]).encode(x=x, y=y)
    faint = alt.Chart(data(points)).mark_point(filled=True, size=26, opacity=0.35)
    strong = alt.Chart(data(means)).mark_point(
        filled=True, size=90, opacity=1, stroke=colours.background, strokeWidth=0.8
    )
    same = {"x": x, "y": y, "color": colour, "shape": shape}
    small = [faint.encode(**same, tooltip=["method:N", "class:N", *numbers])] if points else []
    large = strong.encode(**same, tooltip=["method:N", "pairs:Q", *numbers])
    written = _written(points, means, (colour, shape), side, style)
    return alt.layer(diagonal, *small, *written, large).properties(width=side, height=side)


def _written(
    points: Sequence[Row], means: Sequence[dict[str, Any]], look: tuple[Any, Any], side: int, style: Style
) -> list[Any]:
    """Write the names of the methods: at their marks or, where a column is too narrow for that, beside the plot."""
    if style.size == "column" and len(means) > MOST_NAMES:
        order = [row["method"] for row in sorted(means, key=lambda row: -row["ours"])]
        step = min(style.font_size + 5.0, side / len(order))
        return key(order, [step * (i + 0.5) for i in range(len(order))], look, style, x=side)

    def pixel(row: Row) -> Point:
        return row["paper"] * side, (1 - row["ours"]) * side

    anchors = [pixel(row) for row in means]
    diagonal: list[Point] = [(place, side - place) for place in range(0, side, 12)]
    labels = place_labels(
        anchors,
        [row["method"] for row in means],
        obstacles=[*diagonal, *(pixel(row) for row in points)],
        width=side,
        height=side,
        font=style.font_size,
    )
    return named(means, labels, anchors, look[0], style)
