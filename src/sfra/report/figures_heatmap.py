"""Method by forget class: RS and ΔRS as numbers in shaded cells."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from sfra.bench.tables.names import method_name
from sfra.bench.tables.table import MISSING
from sfra.core.errors import InputError
from sfra.report.classes import Names, set_name
from sfra.report.figures_colour import blend, contrast
from sfra.report.figures_rows import Row, caption, in_order, stages
from sfra.report.style import Chart, Style, altair, data, finish

TITLES = {"rs": "RS by method and forget class", "delta_rs": "ΔRS by method and forget class"}


def heatmap_figure(
    audits: Sequence[Row],
    value: Literal["rs", "delta_rs"] = "rs",
    *,
    scale: str = "canonical",
    rule: str = "source-free",
    names: Names = None,
    style: Style | None = None,
) -> Chart:
    """Draw a score of every method and forget set; ΔRS on a scale that is centred at 0.

    The number is in its cell, ΔRS with its sign, so that neither colour nor a legend is needed to read it.
    """
    style = style or Style()
    rows = heatmap_rows(audits, value, scale=scale, rule=rule, names=names, style=style)
    best = max(rows, key=lambda row: row["score"])
    name = "RS" if value == "rs" else "ΔRS"
    note = (
        "0: as in the retrained reference. Above 0: more came back."
        if value == "delta_rs"
        else "0: nothing came back; 1: all."
    )
    return finish(
        _draw(rows, style),
        style,
        title=TITLES[value],
        subtitle=[*caption(audits, scale, rule), note],
        description=f"{name} of {len({row['key'] for row in rows})} methods and "
        f"{len({row['forget'] for row in rows})} forget sets, from {min(row['score'] for row in rows):.2f} "
        f"to {best['score']:.2f} ({best['method']}, class {best['forget']}).",
    )


def heatmap_rows(
    audits: Sequence[Row],
    value: Literal["rs", "delta_rs"],
    *,
    scale: str,
    rule: str,
    names: Names = None,
    style: Style,
) -> list[dict[str, Any]]:
    """Return one row per cell: score, its text, the shade of the cell and the colour of the text."""
    found = [stage for stage in stages(audits, scale=scale, rule=rule) if stage.variant == "sfra"]
    shown = [stage for stage in found if value == "rs" or stage.method != "retrained"]  # the reference is 0 throughout
    known = [(stage, score) for stage in shown if (score := getattr(stage, value)) is not None]
    if not known:
        raise InputError(
            "there is nothing to draw: no audit has a ΔRS" if value == "delta_rs" else "no audit has an RS",
            do="audit the retrained reference of the same forget classes too",
        )
    limit = max(0.1, *(abs(score) for _, score in known)) if value == "delta_rs" else 1.0
    rows = []
    for stage, score in sorted(known, key=lambda pair: (len(pair[0].forget), pair[0].forget)):
        fill = _shade(score, value, limit, style)
        rows.append(
            {
                "key": stage.method,
                "method": method_name(stage.method),
                "forget": set_name(stage.forget, names),
                "score": score,
                "text": f"{score:z.2f}" if value == "rs" else signed(score),
                "fill": fill,
                "ink": max(("#ffffff", "#000000"), key=lambda colour: contrast(colour, fill)),
            }
        )
    return rows


def signed(value: float) -> str:
    """Write a difference with its sign, but zero without.

    >>> signed(0.123), signed(-0.5), signed(-0.001)
    ('+0.12', '−0.50', '0.00')
    """
    text = f"{value:+.2f}".replace("-", "−")
    return "0.00" if text[1:] == "0.00" else text


def _shade(score: float, value: str, limit: float, style: Style) -> str:
    colours = style.colours
    if value == "rs":
        return blend(colours.ramp, score)
    return blend(colours.diverging, 0.5 + score / limit / 2)


def _draw(rows: Sequence[dict[str, Any]], style: Style) -> Any:
    alt = altair()
    methods = [method_name(key) for key in in_order(row["key"] for row in rows)]
    sets = list(dict.fromkeys(row["forget"] for row in rows))
    words = any(not name.replace("+", "").isdigit() for name in sets)
    cell = min(52, max(27 if style.size == "column" else 36, style.width // len(sets)))
    axis = alt.Axis(domain=False, ticks=False, grid=False)
    base = alt.Chart(data(rows)).encode(
        y=alt.Y("method:N", sort=methods, scale=alt.Scale(domain=methods), title=None, axis=axis),
        x=alt.X(
            "forget:N",
            sort=sets,
            title="forget class" if not any("+" in name for name in sets) else "forget classes",
            axis=alt.Axis(**axis.to_dict(), orient="top", labelAngle=-45 if words else 0),
        ),
        tooltip=["method:N", "forget:N", alt.Tooltip("score:Q", format=".3f")],
    )
    tiles = base.mark_rect(stroke=style.colours.background, strokeWidth=1.5).encode(
        fill=alt.Fill("fill:N", scale=None, legend=None)
    )
    size = style.font_size if style.size == "page" else 8
    numbers = base.mark_text(fontSize=size).encode(text="text:N", color=alt.Color("ink:N", scale=None, legend=None))
    missing = alt.Chart(data(_gaps(rows, methods, sets))).mark_text(fontSize=size, color=style.colours.muted)
    gaps = missing.encode(y=base.encoding.y, x=base.encoding.x, text="text:N")
    return alt.layer(tiles, numbers, gaps).properties(width=alt.Step(cell), height=alt.Step(19 if size == 8 else 24))


def _gaps(rows: Sequence[dict[str, Any]], methods: Sequence[str], sets: Sequence[str]) -> list[dict[str, Any]]:
    """List the cells for which there is no audit; they show a dash, not nothing."""
    there = {(row["method"], row["forget"]) for row in rows}
    return [
        {"method": method, "forget": forget, "text": MISSING}
        for method in methods
        for forget in sets
        if (method, forget) not in there
    ]
