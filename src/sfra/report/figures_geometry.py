"""Where probes lie among real samples: a planar embedding in feature space and in logit space."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from sfra.core.errors import InputError
from sfra.report.classes import label_name
from sfra.report.figures_labels import Point, place_labels
from sfra.report.style import Chart, Style, altair, data, finish

MOST_POINTS = 1500
"""Most points of a panel; beyond it every k-th is shown, and the subtitle says so."""

MOST_NAMES = 20
"""Most retain classes whose names are written."""

GROUPS = ("retain, real", "retain, probe", "forget, real", "forget, probe")
"""What is told apart, in the order of the legend."""

DRAWN = ("retain, probe", "retain, real", "forget, probe", "forget, real")
"""The order in which it is drawn: what matters most lies on top."""


def embedding_figure(
    rows: Sequence[Mapping[str, Any]], *, forget: Sequence[int], subtitle: str = "", style: Style | None = None
) -> Chart:
    """Draw embedded samples and probes, one panel per space: the forget classes stand out, classes are named in place.

    Args:
        rows: ``{space, x, y, kind, label, name}``: the panel, the place, ``real`` or ``probe``, class and its name.
        forget: The forget classes.
        subtitle: What the rows are of.
        style: Theme and size.
    """
    style = style or Style()
    if not rows:
        raise InputError(
            "there is nothing to draw: no embedded points", expected="rows with space, x, y, kind, label and name"
        )
    spaces = list(dict.fromkeys(str(row["space"]) for row in rows))
    named = " and ".join(space.removesuffix("s") for space in spaces)
    side = style.width if style.size == "column" else min(style.width, (style.width + 130) // len(spaces))
    panels, shown = [], 0
    for space in spaces:
        mine = [row for row in rows if row["space"] == space]
        kept = _thin(mine, set(forget))
        shown += len(kept)
        panels.append(_panel(space, kept, class_rows(mine, forget), side, style))
    join = altair().vconcat if style.size == "column" else altair().hconcat
    kinds = {kind: sum(row["kind"] == kind for row in rows) for kind in ("real", "probe")}
    note = "" if shown == len(rows) else f"{shown} of {len(rows)} points shown. "
    return finish(
        join(*panels, spacing=14),
        style,
        title=f"Real samples and probes in {named} space",
        subtitle=[subtitle, f"{note}t-SNE: distances within a neighbourhood mean something, axes do not."],
        description=f"Planar embedding of {kinds['real']} real samples and {kinds['probe']} probes in "
        f"{named} space; forget class {_called(rows, forget)} stands out.",
    )


def _called(rows: Sequence[Mapping[str, Any]], forget: Sequence[int]) -> str:
    known = {row["label"]: str(row["name"]) for row in rows}
    names = [known.get(label, str(label)) for label in range(max(forget, default=-1) + 1)]
    return ", ".join(label_name(label, names) for label in forget)


def group_of(row: Mapping[str, Any], forget: Sequence[int]) -> str:
    """Say what a point is.

    >>> group_of({"label": 3, "kind": "probe"}, [3])
    'forget, probe'
    """
    return f"{'forget' if row['label'] in set(forget) else 'retain'}, {row['kind']}"


def class_rows(rows: Sequence[Mapping[str, Any]], forget: Sequence[int]) -> list[dict[str, Any]]:
    """Find where the names of classes go: amid their real samples, but above those of forget classes.

    Forget classes come first, retain ones only if they are few.
    """
    found: list[dict[str, Any]] = []
    classes = sorted({row["label"] for row in rows if row["kind"] == "real"})
    for label in sorted(classes, key=lambda label: label not in set(forget)):
        mine = [row for row in rows if row["label"] == label and row["kind"] == "real"]
        gone = label in set(forget)
        name = f"{mine[0]['name']} (forget)" if gone else str(mine[0]["name"])
        if gone or len(classes) <= MOST_NAMES:
            high = max(row["y"] for row in mine) if gone else median(row["y"] for row in mine)
            found.append({"x": median(row["x"] for row in mine), "y": high, "name": name, "above": gone})
    return found


def _thin(rows: Sequence[Mapping[str, Any]], forget: set[int]) -> list[dict[str, Any]]:
    """Keep every k-th point, in the order they are drawn."""
    step = -(-len(rows) // MOST_POINTS)
    kept = [dict(row) | {"group": group_of(row, sorted(forget))} for row in rows[::step]]
    return sorted(kept, key=lambda row: DRAWN.index(row["group"]))


def _panel(
    space: str, rows: Sequence[dict[str, Any]], classes: Sequence[dict[str, Any]], side: int, style: Style
) -> Any:
    alt, colours = altair(), style.colours
    domains = {}
    for axis in ("x", "y"):
        values = [row[axis] for row in rows]
        pad = 0.04 * (max(values) - min(values) or 1.0)
        domains[axis] = [min(values) - pad, max(values) + pad]
    at = {
        "x": alt.X("x:Q", scale=alt.Scale(domain=domains["x"], nice=False, zero=False), axis=None),
        "y": alt.Y("y:Q", scale=alt.Scale(domain=domains["y"], nice=False, zero=False), axis=None),
    }
    lines = [colours.retain, colours.muted, colours.ink, colours.forget]
    fills = ["transparent", "transparent", colours.forget, colours.forget]
    groups = {"domain": list(GROUPS)}
    legend = alt.Legend(columns=2 if style.size == "column" else 4)
    points = (
        alt.Chart(data(rows))
        .mark_point(size=22, opacity=0.6, strokeWidth=0.9)
        .encode(
            **at,
            stroke=alt.Stroke("group:N", scale=alt.Scale(**groups, range=lines), title=None, legend=legend),
            fill=alt.Fill(
                "group:N",
                scale=alt.Scale(**groups, range=fills),
                title=None,
            ),
            shape=alt.Shape("group:N", scale=alt.Scale(**groups, range=["circle", "cross"] * 2), title=None),
            tooltip=["name:N", "group:N"],
        )
    )
    frame = alt.Chart(data([{}])).mark_rect(fillOpacity=0, stroke=colours.grid)
    names = _names(classes, domains, side, style)
    return alt.layer(frame, points, *names).properties(
        width=side,
        height=side,
        title=alt.TitleParams(text=f"{space.removesuffix('s')} space", fontSize=style.font_size, offset=2),
    )


def _names(
    classes: Sequence[dict[str, Any]], domains: Mapping[str, Sequence[float]], side: int, style: Style
) -> list[Any]:
    """Write class names on a halo in the colour of the background, so that points beneath do not eat them."""
    alt, colours = altair(), style.colours

    def pixel(row: dict[str, Any]) -> Point:
        (left, right), (low, high) = domains["x"], domains["y"]
        up = style.font_size if row["above"] else 0
        return (row["x"] - left) / (right - left) * side, (high - row["y"]) / (high - low) * side - up

    size = style.font_size + 1
    anchors = [pixel(row) for row in classes]
    labels = place_labels(anchors, [row["name"] for row in classes], width=side, height=side, font=size, centred=True)
    rows = [{"name": label.text, "x": label.x, "y": label.y} for label in labels]
    at = {"x": alt.X("x:Q", scale=None, axis=None), "y": alt.Y("y:Q", scale=None, axis=None)}
    base = alt.Chart(data(rows)).encode(**at, text="name:N")
    mark = {"baseline": "middle", "fontSize": size, "fontWeight": "bold"}
    halo = base.mark_text(**mark, stroke=colours.background, strokeWidth=3, strokeOpacity=0.85)
    return [halo, base.mark_text(**mark, color=colours.ink)]
