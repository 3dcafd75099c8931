"""One audit over scales: RS of model and reference as the proposal meets the head at other sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sfra.core.errors import InputError
from sfra.report.figures_audit import forget_of
from sfra.report.figures_labels import spread_out
from sfra.report.style import Chart, Style, altair, data, finish, score_axis


def audit_sweep_figure(report: Mapping[str, Any], *, style: Style | None = None) -> Chart:
    """Draw RS of model and reference over the scales of a sweep, with the canonical scale marked."""
    style = style or Style()
    sweep = report.get("sweep")
    if not sweep or not sweep["points"]:
        raise InputError(
            "there is nothing to draw: the audit swept no scales", got="sweep: null", do="audit with --scale sweep"
        )
    rows = sweep_rows(sweep)
    area = "" if sweep.get("area") is None else f" Area between the two, read like an ROC curve: {sweep['area']:+.2f}."
    kappas = [point["kappa"] for point in sweep["points"]]
    return finish(
        _draw_sweep(rows, report["settings"].get("kappa"), style),
        style,
        title="RS over scales",
        subtitle=[f"{forget_of(report)}. Rule source-free.{area}"],
        description=f"RS of the model over {len(kappas)} scales from κ = {min(kappas):.2f} to {max(kappas):.2f}, "
        f"at most {sweep['best_rs']:.2f}.{area}",
    )


def sweep_rows(sweep: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Read the points of a sweep: a row per subject and scale."""
    return [
        {"subject": subject, "kappa": point["kappa"], "rs": point[field]}
        for subject, field in (("model", "rs"), ("reference", "reference_rs"))
        for point in sweep["points"]
        if point.get(field) is not None
    ]


def _draw_sweep(rows: Sequence[dict[str, Any]], canonical: float | None, style: Style) -> Any:
    alt, colours = altair(), style.colours
    height = 160 if style.size == "column" else 240
    there = list(dict.fromkeys(row["subject"] for row in rows))
    kappas = sorted({row["kappa"] for row in rows})
    tints = {"model": colours.forget, "reference": colours.ink}
    colour = alt.Color("subject:N", legend=None, scale=alt.Scale(domain=there, range=[tints[name] for name in there]))
    shape = alt.Shape("subject:N", legend=None, scale=alt.Scale(domain=there, range=["circle", "square"][: len(there)]))
    axis = alt.Axis(values=kappas[:: max(1, len(kappas) // 5)], format=".2~f", domain=False, ticks=False)
    x = alt.X(
        "kappa:Q", scale=alt.Scale(type="log", domain=[kappas[0], kappas[-1]], nice=False), axis=axis, title="scale κ"
    )
    y = alt.Y("rs:Q", scale=alt.Scale(domain=[0, 1], nice=False), axis=score_axis(), title="RS")
    base = alt.Chart(data(rows)).encode(x=x, y=y, color=colour)
    ends = [row for row in rows if row["kappa"] == kappas[-1]]
    places = spread_out([(1 - row["rs"]) * height for row in ends], style.font_size + 1.0, 0.0, height)
    ended = [row | {"at": place} for row, place in zip(ends, places, strict=True)]
    names = alt.Chart(data(ended)).mark_text(align="left", baseline="middle", dx=7, fontSize=style.font_size)
    layers = [
        base.mark_line(strokeWidth=1.8),
        base.mark_point(filled=True, size=45, opacity=1).encode(
            shape=shape, tooltip=["subject:N", *(alt.Tooltip(f"{n}:Q", format=".3f") for n in ("kappa", "rs"))]
        ),
        names.encode(x=alt.value("width"), y=alt.Y("at:Q", scale=None, axis=None), text="subject:N", color=colour),
    ]
    if canonical is not None and kappas[0] <= canonical <= kappas[-1]:
        here = alt.Chart(data([{"kappa": canonical, "text": f"canonical, κ = {canonical:g}"}])).encode(x=x)
        layers += [
            here.mark_rule(color=colours.muted, strokeDash=[4, 3]),
            here.mark_text(baseline="bottom", dy=-3, fontSize=style.font_size, color=colours.muted).encode(
                y=alt.value(0), text="text:N"
            ),
        ]
    return alt.layer(*layers).properties(width=style.width, height=height)
