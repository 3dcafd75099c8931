"""Forget accuracy of each method: of the original, after unlearning, and after the audit."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Any

from sfra.bench.tables.names import method_name
from sfra.bench.tables.stages import Stage
from sfra.report.classes import Names, set_name
from sfra.report.figures_rows import Row, caption, classes, extremes, in_order, stages
from sfra.report.style import Chart, Style, altair, data, finish

WHEN = ("original", "unlearned", "relearned")
"""The states of a model, in order of time."""

_STAGE = {"unlearned": "unlearned", "sfra": "relearned"}


def accuracy_figure(
    audits: Sequence[Row],
    *,
    scale: str = "canonical",
    rule: str = "source-free",
    names: Names = None,
    style: Style | None = None,
) -> Chart:
    """Draw the forget accuracy of the original, the unlearned and the relearned model, method by method.

    The large marks are means over the single forget classes, the small ones each class after the audit.
    """
    style = style or Style()
    found = stages(audits, scale=scale, rule=rule, single=True)
    rows = accuracy_rows(found)
    relearned = {row["key"]: row["accuracy"] for row in rows if row["state"] == "relearned"}
    return finish(
        _draw(rows, _class_rows(found, names), style),
        style,
        title="Forget accuracy before and after the audit",
        subtitle=[*caption(audits, scale, rule), f"Mean over {classes(found)}; small ticks: each, relearned."],
        description=f"Mean forget accuracy per method over {classes(found)}. After the audit it ranges, in percent, "
        f"{extremes({name: 100 * value for name, value in relearned.items()}, 0)}.",
    )


def accuracy_rows(stages: Sequence[Stage]) -> list[dict[str, Any]]:
    """Average the forget accuracy over forget sets: one row per method and state."""
    original = {stage.forget: stage.forgotten for stage in stages if stage.variant == "original"}
    rows = []
    for name in in_order(stage.method for stage in stages if stage.variant in _STAGE):
        mine = [stage for stage in stages if stage.method == name and stage.variant in _STAGE]
        values = {
            "original": [original.get(forget) for forget in sorted({stage.forget for stage in mine})],
            **{
                state: [stage.forgotten for stage in mine if stage.variant == variant]
                for variant, state in _STAGE.items()
            },
        }
        rows += [_row(name, state, values[state]) for state in WHEN]
    return [row for row in rows if row["accuracy"] is not None]


def _row(name: str, state: str, values: Sequence[float | None]) -> dict[str, Any]:
    there = [value for value in values if value is not None]
    return {
        "key": name,
        "method": method_name(name),
        "state": state,
        "accuracy": fmean(there) if there else None,
        "classes": len(there),
    }


def _class_rows(stages: Sequence[Stage], names: Names) -> list[dict[str, Any]]:
    return [
        {"method": method_name(s.method), "forget": set_name(s.forget, names), "accuracy": s.forgotten}
        for s in stages
        if s.variant == "sfra" and s.forgotten is not None
    ]


def _draw(rows: Sequence[dict[str, Any]], single: Sequence[dict[str, Any]], style: Style) -> Any:
    alt, colours = altair(), style.colours
    order = list(dict.fromkeys(row["method"] for row in rows))
    step = 19 if style.size == "column" else 24
    y = alt.Y(
        "method:N", sort=order, title=None, scale=alt.Scale(domain=order), axis=alt.Axis(labelPadding=12, ticks=False)
    )
    axis = alt.Axis(format=".0%", values=[0, 0.25, 0.5, 0.75, 1], domain=False, ticks=False)
    x = alt.X("accuracy:Q", scale=alt.Scale(domain=[0, 1], nice=False), axis=axis, title="forget accuracy")
    states = {"domain": list(WHEN)}
    points = (
        alt.Chart(data(rows))
        .mark_point(opacity=1, strokeWidth=1.6)
        .encode(
            y=y,
            x=x,
            stroke=alt.Stroke(
                "state:N", scale=alt.Scale(**states, range=[colours.muted, colours.ink, colours.forget]), title=None
            ),
            fill=alt.Fill(
                "state:N",
                scale=alt.Scale(**states, range=[colours.background, colours.background, colours.forget]),
                title=None,
            ),
            size=alt.Size("state:O", scale=alt.Scale(**states, type="ordinal", range=_sizes(style)), title=None),
            shape=alt.Shape("state:N", scale=alt.Scale(**states, range=["diamond", "circle", "circle"]), title=None),
            tooltip=["method:N", "state:N", alt.Tooltip("accuracy:Q", format=".1%"), "classes:Q"],
        )
    )
    ticks = (
        alt.Chart(data(single))
        .mark_tick(color=colours.forget, opacity=0.55, thickness=1.2, size=step * 0.45)
        .encode(y=y, x=x, tooltip=["method:N", "forget:N", alt.Tooltip("accuracy:Q", format=".1%")])
    )
    bars = alt.Chart(data(_spans(rows))).mark_rule(color=colours.forget, strokeWidth=2).encode(y=y, x=x, x2="end:Q")
    return alt.layer(bars, ticks, points).properties(width=style.width, height=alt.Step(step))


def _sizes(style: Style) -> list[int]:
    """Give the states their sizes: the mark of the original is seen around that of a model that came back wholly."""
    return [330, 75, 75] if style.size == "page" else [230, 50, 50]


def _spans(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Join what unlearning left and what came back, where both are known."""
    known = {(row["method"], row["state"]): row["accuracy"] for row in rows}
    return [
        {"method": name, "accuracy": value, "end": known[name, "relearned"]}
        for (name, state), value in known.items()
        if state == "unlearned" and (name, "relearned") in known
    ]
