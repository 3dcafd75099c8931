"""RS over scales, method by method: what comes back of a model, beside its reference, as the head gets larger."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from sfra.bench.tables.names import count_methods, forget_of, method_name
from sfra.core.errors import InputError
from sfra.report.classes import Names, set_name
from sfra.report.figures_marks import marks_of
from sfra.report.figures_rows import in_order
from sfra.report.style import Chart, Style, altair, data, finish, score_axis

Row = Mapping[str, Any]


def sweep_figure(
    rows: Sequence[Row],
    *,
    canonical: float | None = None,
    subtitle: str = "",
    names: Names = None,
    style: Style | None = None,
) -> Chart:
    """Draw RS against the scale κ, a panel per method: every forget set, their mean, and that of the reference.

    Thin lines are forget sets, the bold one is their mean, the dashed one the mean RS of the retrained references at
    the same scales. A gap between the two over many scales does not hinge on the choice of one.

    Args:
        rows: ``{method, forget, kappa, rs, reference_rs}``; ``reference_rs`` may be None. Rows of one method, forget
            set and scale, such as those of several seeds, are averaged.
        canonical: The canonical scale, which is marked.
        subtitle: What the rows are of.
        names: Names of the data set's classes.
        style: Theme and size.
    """
    style = style or Style()
    if not rows:
        raise InputError(
            "there is nothing to draw: no audit swept the scales",
            expected="rows with method, forget, kappa and rs",
            got="no rows",
            do='audit with scale="sweep"',
        )
    lines, means = sweep_lines(rows), sweep_means(rows)
    lines = [line | {"forget": set_name(forget_of(line), names)} for line in lines] if names else lines
    methods = in_order(row["key"] for row in means)
    marked = "" if canonical is None else f" Vertical line: canonical, κ = {canonical:g}."
    dashed = "; dashed: mean of their retrained references" if any(m["kind"] == "reference" for m in means) else ""
    return finish(
        _draw(methods, lines, means, canonical, style),
        style,
        title="RS over scales, method by method",
        subtitle=[subtitle, f"Thin: each forget set; bold: mean{dashed}.{marked}"],
        description=_description(methods, means, canonical),
    )


def sweep_lines(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Average what a method, forget set and scale have in common: the points of the thin lines."""
    groups: dict[tuple[str, str, float], list[float]] = {}
    for row in rows:
        groups.setdefault((row["method"], str(row["forget"]), row["kappa"]), []).append(row["rs"])
    return [
        {"key": method, "method": method_name(method), "forget": forget, "kappa": kappa, "rs": fmean(values)}
        for (method, forget, kappa), values in sorted(groups.items())
    ]


def sweep_means(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Average over forget sets: a row per method, kind (``model`` or ``reference``) and scale."""
    references = [{**row, "rs": row["reference_rs"]} for row in rows if row.get("reference_rs") is not None]
    found = []
    for kind, some in (("model", list(rows)), ("reference", references)):
        groups: dict[tuple[str, float], list[float]] = {}
        for line in sweep_lines(some):
            groups.setdefault((line["key"], line["kappa"]), []).append(line["rs"])
        found += [
            {"key": key, "method": method_name(key), "kind": kind, "kappa": kappa, "rs": fmean(values)}
            for (key, kappa), values in sorted(groups.items())
        ]
    return found


def _draw(
    methods: Sequence[str],
    lines: Sequence[dict[str, Any]],
    means: Sequence[dict[str, Any]],
    canonical: float | None,
    style: Style,
) -> Any:
    columns = min(len(methods), 4 if style.size == "page" else 3)
    whole = 4 * 124 if style.size == "page" else 3 * 82
    width = min(220 if style.size == "page" else 150, whole // columns)
    panels = [
        _panel(
            name,
            [row for row in lines if row["key"] == name],
            [row for row in means if row["key"] == name],
            canonical,
            style,
            width=width,
            left=i % columns == 0,
            bottom=i + columns >= len(methods),
        )
        for i, name in enumerate(methods)
    ]
    return altair().concat(*panels, columns=columns, spacing={"row": 30, "column": 16}).properties(bounds="flush")


def _panel(
    name: str,
    lines: Sequence[dict[str, Any]],
    means: Sequence[dict[str, Any]],
    canonical: float | None,
    style: Style,
    *,
    width: int,
    left: bool,
    bottom: bool,
) -> Any:
    alt, colours = altair(), style.colours
    colour = marks_of([name])[name].colour(style)
    x, y = _axes([row["kappa"] for row in lines], style, left=left, bottom=bottom)
    model, reference = ([row for row in means if row["kind"] == kind] for kind in ("model", "reference"))
    layers = [
        alt.Chart(data(lines))
        .mark_line(strokeWidth=0.8, opacity=0.45, color=colour)
        .encode(x=x, y=y, detail="forget:N", tooltip=["method:N", "forget:N", "kappa:Q", "rs:Q"]),
        alt.Chart(data(model)).mark_line(strokeWidth=2.4, color=colour).encode(x=x, y=y),
    ]
    if reference:
        dashed = alt.Chart(data(reference)).mark_line(strokeWidth=1.4, strokeDash=[4, 2], color=colours.ink)
        layers.append(dashed.encode(x=x, y=y))
    if canonical is not None:
        layers.insert(0, alt.Chart(data([{"kappa": canonical}])).mark_rule(color=colours.muted).encode(x=x))
    title = alt.TitleParams(text=method_name(name), fontSize=style.font_size, offset=3, color=colour, frame="group")
    return alt.layer(*layers).properties(width=width, height=round(width * 0.72), title=title)


def _axes(kappas: Sequence[float], style: Style, *, left: bool, bottom: bool) -> tuple[Any, Any]:
    """Make the axes, which all panels share; only those at the edge have numbers."""
    alt = altair()
    low, high = min(kappas), max(kappas)
    ticks = [low, (low * high) ** 0.5, high] if high > low else [low]
    across = alt.Axis(values=ticks, format=".2~f", labels=bottom, domain=False, ticks=False, labelFlush=True)
    x = alt.X(
        "kappa:Q",
        scale=alt.Scale(type="log", domain=[low, high] if high > low else [low / 2, low * 2], nice=False),
        axis=across,
        title="scale κ" if bottom else None,
    )
    up = score_axis(labelOpacity=1 if left else 0, values=[0, 0.5, 1])  # unseen numbers keep titles at one height
    return x, alt.Y("rs:Q", scale=alt.Scale(domain=[0, 1], nice=False), axis=up, title="RS" if left else None)


def _description(methods: Sequence[str], means: Sequence[dict[str, Any]], canonical: float | None) -> str:
    kappas = sorted({row["kappa"] for row in means})
    text = f"RS of {count_methods(methods)} over {len(kappas)} scales from κ = {kappas[0]:.2f} to {kappas[-1]:.2f}."
    at = min(kappas, key=lambda kappa: abs(kappa - (canonical or kappas[len(kappas) // 2])))
    here = {row["method"]: row["rs"] for row in means if row["kind"] == "model" and row["kappa"] == at}
    listed = ", ".join(f"{name} {score:.2f}" for name, score in here.items())
    return f"{text} Means at κ = {at:.2f}: {listed}."
