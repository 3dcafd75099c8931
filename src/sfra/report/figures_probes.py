"""One audit: what forget samples are taken for, and how draws spread over the classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sfra.core.errors import InputError
from sfra.report.classes import Names, label_name
from sfra.report.figures_audit import reading_of
from sfra.report.figures_colour import blend, contrast
from sfra.report.style import Chart, Style, altair, data, finish

MOST_COLUMNS = 10
"""Most classes of a confusion that get a column; the others are added up."""

MOST_BARS = 30
"""Most classes whose acceptance gets a bar with a name; more are drawn as a curve in order of size."""


def audit_confusion_figure(report: Mapping[str, Any], *, style: Style | None = None) -> Chart:
    """Draw what samples of each forget class are taken for, by the released and by the relearned head.

    Shades and numbers are percentages of the samples of the class; the cell of the right answer is framed.
    """
    style = style or Style()
    rows = confusion_rows(report, style)
    right = {head: [row for row in rows if row["right"] and row["head"] == head] for head in ("released", "relearned")}
    share = {head: sum(r["count"] for r in found) / sum(r["total"] for r in found) for head, found in right.items()}
    return finish(
        _draw_confusion(rows, style),
        style,
        title="What forget samples are taken for",
        subtitle=[reading_of(report), "Percent of the samples of each forget class; framed: the right answer."],
        description=f"Of the forget samples the released head recognises {share['released']:.0%}, "
        f"the relearned one {share['relearned']:.0%}.",
    )


def confusion_rows(report: Mapping[str, Any], style: Style) -> list[dict[str, Any]]:
    """Read the confusion: a row per forget class, head and answer; rare answers are added up as ``other``."""
    confusion = report.get("confusion")
    if not confusion:
        raise InputError(
            "there is nothing to draw: the audit has no confusion", do="audit again with labelled test data"
        )
    width = len(confusion["before"][0])
    weight = [sum(row[c] for when in ("before", "after") for row in confusion[when]) for c in range(width)]
    chosen = set(confusion["classes"]) | set(sorted(range(width), key=lambda c: (-weight[c], c))[:MOST_COLUMNS])
    columns = [(_short_name(c, report.get("class_names")), [c]) for c in sorted(chosen)]
    if rest := [c for c in range(width) if c not in chosen]:
        columns.append((f"other {len(rest)}", rest))
    rows = []
    for head, when in (("released", "before"), ("relearned", "after")):
        for label, counts in zip(confusion["classes"], confusion[when], strict=True):
            for answer, members in columns:
                count, total = sum(counts[c] for c in members), sum(counts)
                fill = blend(style.colours.ramp, count / total if total else 0.0)
                rows.append(
                    {
                        "forget": label_name(label, report.get("class_names")),
                        "head": head,
                        "answer": answer,
                        "count": count,
                        "total": total,
                    }
                    | {"text": f"{100 * count / total:.0f}" if count else "", "right": members == [label], "fill": fill}
                    | {"ink": max(("#ffffff", "#000000"), key=lambda c: contrast(c, fill))}
                )
    return rows


def audit_acceptance_figure(report: Mapping[str, Any], *, style: Style | None = None) -> Chart:
    """Draw the share of draws that the head gives to each class; the dashed line is an equal share for all.

    More than 30 classes, or shares that differ more than a hundredfold, become points on a logarithmic axis.
    """
    style = style or Style()
    rows = acceptance_rows(report)
    shares = [row["share"] for row in rows]
    lowest = min(rows, key=lambda row: row["share"])
    conditional = sum(row["kind"].endswith("conditionally") for row in rows)
    note = f" {conditional} sampled conditionally." if conditional else ""
    log = min(shares) < max(shares) / 100
    return finish(
        (_draw_points if log or len(rows) > MOST_BARS else _draw_bars)(rows, style),
        style,
        title="Share of draws per class",
        subtitle=[reading_of(report), f"Dashed: an equal share, {1 / len(rows):.2%}.{note}"],
        description=f"Share of the draws that each of {len(rows)} classes wins, from {lowest['share']:.2g} "
        f"({lowest['name']}) to {max(shares):.2g}.{note}",
    )


def acceptance_rows(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Read the acceptance of the verdict's scale and variant, first seed: a row per class."""
    place = (report["scale"], report["variant"])
    found = [entry for entry in report.get("probes") or [] if (entry["scale"], entry["variant"]) == place]
    if not found:
        raise InputError("there is nothing to draw: the audit tells nothing about its probes", got="no probes")
    first = found[0]
    rows, names = [], report.get("class_names")
    for label, share in enumerate(first["acceptance"]):
        kind = "forget" if label in report["forget_classes"] else "retain"
        if str(label) in first["conditional"]:
            kind += ", sampled conditionally"
        rows.append({"label": label, "name": label_name(label, names), "share": share, "kind": kind})
    return rows


def _short_name(label: int, names: Names) -> str:
    """Name a class over a narrow column."""
    return str(names[label]) if names else str(label)


def _draw_confusion(rows: Sequence[dict[str, Any]], style: Style) -> Any:
    alt, colours = altair(), style.colours
    columns = list(dict.fromkeys(row["answer"] for row in rows))
    cell = min(44, max(24, style.width // len(columns)))
    long = max(len(name) for name in columns) * style.font_size * 0.6 > cell
    labelled = [row | {"line": f"{row['forget']}, {row['head']}"} for row in rows]
    forgets = list(dict.fromkeys(row["forget"] for row in rows))
    order = [f"{name}, {head}" for name in forgets for head in ("released", "relearned")]
    plain = {"domain": False, "ticks": False, "grid": False}
    base = alt.Chart(data(labelled)).encode(
        y=alt.Y("line:N", sort=order, title=None, axis=alt.Axis(**plain)),
        x=alt.X(
            "answer:N",
            sort=columns,
            title="taken for",
            axis=alt.Axis(**plain, orient="top", labelAngle=-45 if long else 0),
        ),
        tooltip=["forget:N", "head:N", "answer:N", "count:Q", "total:Q"],
    )
    tiles = base.mark_rect(stroke=colours.background, strokeWidth=1.5).encode(fill=alt.Fill("fill:N", scale=None))
    frame = base.transform_filter("datum.right").mark_rect(fillOpacity=0, stroke=colours.forget, strokeWidth=2)
    numbers = base.mark_text(fontSize=style.font_size - 1).encode(text="text:N", color=alt.Color("ink:N", scale=None))
    return alt.layer(tiles, frame, numbers).properties(width=alt.Step(cell), height=alt.Step(24))


def _kinds(rows: Sequence[dict[str, Any]], style: Style) -> tuple[Any, Any]:
    alt, colours = altair(), style.colours
    kinds = [f"{who}{how}" for who in ("retain", "forget") for how in ("", ", sampled conditionally")]
    there = [kind for kind in kinds if any(row["kind"] == kind for row in rows)]
    tints = [colours.forget if kind.startswith("forget") else colours.retain for kind in there]
    fills = ["transparent" if kind.endswith("conditionally") else tint for kind, tint in zip(there, tints, strict=True)]
    return (
        alt.Fill("kind:N", title=None, scale=alt.Scale(domain=there, range=fills)),
        alt.Stroke("kind:N", title=None, scale=alt.Scale(domain=there, range=tints)),
    )


def _draw_bars(rows: Sequence[dict[str, Any]], style: Style) -> Any:
    alt, colours = altair(), style.colours
    fill, stroke = _kinds(rows, style)
    axis = alt.Axis(format=".0%", tickCount=5, domain=False, ticks=False)
    x = alt.X("share:Q", axis=axis, title="share of draws", scale=alt.Scale(zero=True))
    y = alt.Y("name:N", sort=[row["name"] for row in rows], title="class", axis=alt.Axis(domain=False, ticks=False))
    bars = alt.Chart(data(rows)).mark_bar(size=11, strokeWidth=1.2)
    tooltip = ["name:N", "kind:N", alt.Tooltip("share:Q", format=".2%")]
    equal = alt.Chart(data([{"share": 1 / len(rows)}])).mark_rule(color=colours.ink, strokeDash=[4, 3])
    return alt.layer(bars.encode(x=x, y=y, fill=fill, stroke=stroke, tooltip=tooltip), equal.encode(x=x)).properties(
        width=style.width, height=alt.Step(17)
    )


def _draw_points(rows: Sequence[dict[str, Any]], style: Style) -> Any:
    """Draw many classes in order of their share; a class that won no draw stands at the lower edge."""
    alt, colours = altair(), style.colours
    fill, stroke = _kinds(rows, style)
    least = min((row["share"] for row in rows if row["share"] > 0), default=1e-9) / 3
    ranked = sorted(rows, key=lambda row: -row["share"])
    placed = [row | {"rank": i + 1, "at": max(row["share"], least)} for i, row in enumerate(ranked)]
    placed.sort(key=lambda row: row["kind"].startswith("forget"))
    low = min(least, *(row["at"] for row in placed))
    scale = alt.Scale(type="log", domain=[low, 2 * max(row["at"] for row in placed)], nice=False)
    decades = [10.0**k for k in range(-12, 1) if low <= 10.0**k]
    axis = alt.Axis(format="~e", values=decades, domain=False, ticks=False)
    y = alt.Y("at:Q", scale=scale, axis=axis, title="share of draws")
    x = alt.X(
        "rank:Q",
        scale=alt.Scale(domain=[0, len(rows) + 1], nice=False),
        axis=alt.Axis(domain=False, ticks=False, grid=False, tickMinStep=1),
        title="classes, most frequent first",
    )
    points = alt.Chart(data(placed)).mark_point(size=30, opacity=1, strokeWidth=1.2)
    tooltip = ["name:N", "kind:N", alt.Tooltip("share:Q", format=".2e")]
    equal = alt.Chart(data([{"at": 1 / len(rows)}])).mark_rule(color=colours.ink, strokeDash=[4, 3])
    return alt.layer(points.encode(x=x, y=y, fill=fill, stroke=stroke, tooltip=tooltip), equal.encode(y=y)).properties(
        width=style.width, height=150 if style.size == "column" else 220
    )
