"""One score against another: ΔRS against RS, and our RS beside the paper's."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean
from typing import Any

import numpy as np

from sfra.bench.tables.names import count_methods, method_name
from sfra.core.errors import InputError
from sfra.report.classes import Names, set_name
from sfra.report.figures.labels import MOST_NAMES, Point, mark_names
from sfra.report.figures.registry import figure
from sfra.report.figures.rows import Row, caption, classes, extremes, in_order, stages
from sfra.report.figures.style import LIGHT, Chart, Style, at, chart, finish, layered, look, numbers, score


@figure("scatter", title="ΔRS against RS", needs="audits")
def scatter_figure(
    audits: Sequence[Row],
    *,
    scale: str = "canonical",
    rule: str = "source-free",
    names: Names = None,
    style: Style = LIGHT,
) -> Chart:
    """Draw ΔRS against RS: small marks are forget sets, the large one the mean of a method, named beside it.

    The lines are ΔRS = 0, the retrained reference, and RS = 0.5. High RS at ΔRS near 0 is generic relearnability.
    """
    found = [stage for stage in stages(audits, scale=scale, rule=rule) if stage.variant == "sfra"]
    points: list[dict[str, Any]] = [
        {"key": s.method, "method": method_name(s.method), "forget": set_name(s.forget, names)}
        | {"rs": s.rs, "delta_rs": s.delta_rs}
        for s in found
        if s.rs is not None and s.delta_rs is not None
    ]
    if not points:
        raise InputError(
            "there is nothing to draw: no audit has a ΔRS",
            do="audit the retrained reference of the same forget classes too",
        )
    means = means_of(points, "rs", "delta_rs")
    generic = sum(row["rs"] >= 0.5 and row["delta_rs"] <= 0.1 for row in points)
    return finish(
        _draw_scatter(points, means, style),
        style,
        subtitle=[
            *caption(audits, scale, rule),
            f"Small marks: each of {classes(found)}; large: mean. ΔRS = 0: as the retrained reference.",
        ],
        description=f"ΔRS against RS of {count_methods(row['key'] for row in means)} over {classes(found)}. Mean ΔRS "
        f"ranges {extremes({row['key']: row['delta_rs'] for row in means})}; {generic} of {len(points)} points "
        "have RS of at least 0.5 but ΔRS of at most 0.1.",
    )


def means_of(points: Sequence[dict[str, Any]], *fields: str) -> list[dict[str, Any]]:
    """Average some fields over the points of each method, in the order of the tables."""
    found = []
    for name in in_order(row["key"] for row in points):
        mine = [row for row in points if row["key"] == name]
        means = {one: fmean(row[one] for row in mine) for one in fields}
        found.append({"key": name, "method": method_name(name), "sets": len(mine), **means})
    return found


def _draw_scatter(points: Sequence[dict[str, Any]], means: Sequence[dict[str, Any]], style: Style) -> Any:
    width = style.narrow if style.size == "column" and len(means) > MOST_NAMES else style.width
    height = width if style.size == "column" else round(style.width * 0.78)
    low = min(-0.2, math.floor(10 * min(row["delta_rs"] for row in points)) / 10)
    high = max(0.2, math.ceil(10 * max(row["delta_rs"] for row in points)) / 10)

    def place(row: Row) -> Point:
        return row["rs"] * width, (high - row["delta_rs"]) / (high - low) * height

    sign = "datum.value == 0 ? '0' : format(datum.value, '+.1f')"
    x, y = score("x"), at("y", "delta_rs", "ΔRS", (low, high), labelExpr=sign, tickCount=6)
    ink = style.colours.ink
    zero = place({"rs": 0, "delta_rs": 0})[1]
    lines = [
        chart([{"delta_rs": 0}]).mark_rule(color=ink, strokeWidth=1).encode(y=y),
        chart([{"rs": 0.5}]).mark_rule(color=ink, strokeWidth=1, strokeDash=[4, 3]).encode(x=x),
    ]
    along: list[Point] = [(dx, zero) for dx in range(0, width, 12)]
    along += [(width / 2, dy) for dy in range(0, height, 12)]
    large = 110 if style.size == "page" else 80
    tooltip = [*numbers("rs"), *numbers("delta_rs", format="+.3f")]
    marks = _marks(points, means, x, y, tooltip, style, large=large)
    named = mark_names(
        means,
        [place(row) for row in means],
        [*map(place, points), *along],
        look(means, style)[:2],
        style,
        width=width,
        height=height,
    )
    return layered(*lines, marks[0], *named, marks[1], width=width, height=height)


def _marks(
    points: Sequence[dict[str, Any]],
    means: Sequence[dict[str, Any]],
    x: Any,
    y: Any,
    tooltip: Sequence[Any],
    style: Style,
    *,
    large: int,
) -> tuple[Any, Any]:
    """Draw forget sets as small faint marks, means as large ones."""
    colour, shape, _ = look(means, style)
    same = {"x": x, "y": y, "color": colour, "shape": shape}
    edge = {"stroke": style.colours.background, "strokeWidth": 0.8}
    faint = chart(points).mark_point(filled=True, size=28, opacity=0.35)
    strong = chart(means).mark_point(filled=True, size=large, opacity=1, **edge)
    return (
        faint.encode(**same, tooltip=["method:N", "forget:N", *tooltip]),
        strong.encode(**same, tooltip=["method:N", "sets:Q", *tooltip]),
    )


def comparison_figure(rows: Sequence[Row], *, subtitle: str = "", style: Style = LIGHT) -> Chart:
    """Draw our RS against the paper's on equal axes with the diagonal; Spearman's ρ is that of the rows given.

    Args:
        rows: ``{method, ours, paper}`` and, where there are several rows of a method, ``class``: these become small
            marks, and the named large one is their mean.
        subtitle: What the rows are of.
        style: Theme and size.
    """
    points: list[dict[str, Any]] = [
        {"key": row["method"], "method": method_name(row["method"]), "forget": str(row.get("class", ""))}
        | {"ours": row["ours"], "paper": row["paper"]}
        for row in rows
        if row.get("ours") is not None and row.get("paper") is not None
    ]
    if not points:
        raise InputError(
            "there is nothing to draw: no pair of our RS and the paper's",
            expected="rows with method, ours and paper",
            got=f"{len(rows)} rows",
        )
    means = means_of(points, "ours", "paper")
    difference = fmean(row["ours"] - row["paper"] for row in means)
    single = len(points) == len(means)
    note = "" if single else " Small marks: classes; large: means."
    agreement = _agreement(points, means)
    return finish(
        _draw_comparison([] if single else points, means, style),
        style,
        title="Our RS beside the paper's",
        subtitle=[subtitle, f"{agreement}{note} Diagonal: equal."],
        description=f"Our RS against the paper's, {len(means)} methods. {agreement} Ours is on average "
        f"{abs(difference):.2f} {'higher' if difference > 0 else 'lower'}.",
    )


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
    few = f"{len(points)} pairs, too few or too equal for a correlation."
    return f"Spearman's ρ {', '.join(parts)}." if parts else few


def _draw_comparison(points: Sequence[dict[str, Any]], means: Sequence[dict[str, Any]], style: Style) -> Any:
    side = style.narrow if style.size == "column" else 380

    def place(row: Row) -> Point:
        return row["paper"] * side, (1 - row["ours"]) * side

    x, y = score("x", "paper", "RS in the paper"), score("y", "ours", "RS here")
    ends = chart([{"paper": end, "ours": end} for end in (0, 1)])
    line = ends.mark_line(color=style.colours.ink, strokeWidth=1, strokeDash=[4, 3]).encode(x=x, y=y)
    diagonal: list[Point] = [(across, side - across) for across in range(0, side, 12)]
    small, large = _marks(points, means, x, y, numbers("ours", "paper"), style, large=90)
    named = mark_names(
        means,
        [place(row) for row in means],
        [*diagonal, *map(place, points)],
        look(means, style)[:2],
        style,
        width=side,
        height=side,
    )
    return layered(line, *([small] if points else []), *named, large, width=side, height=side)
