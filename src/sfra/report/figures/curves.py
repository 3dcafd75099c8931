"""Curves of a benchmark, method by method: RS over retain budgets, over the size of the probe set, and over scales."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean, stdev
from typing import Any

from sfra.bench.tables.names import CONTROLS, count_methods, forget_of, method_name
from sfra.bench.tables.stages import group, select, spread
from sfra.core.errors import InputError
from sfra.report.classes import Names, set_name
from sfra.report.figures.labels import end_labels
from sfra.report.figures.registry import figure
from sfra.report.figures.rows import BUDGETS, Row, best_within, caption, in_order, one_setting, where
from sfra.report.figures.style import (
    LIGHT,
    Chart,
    Style,
    altair,
    at,
    chart,
    finish,
    layered,
    look,
    loss_axis,
    marks_of,
    numbers,
    score,
)

FEW = 4
"""Most methods whose bands can be told apart."""


@figure("tradeoff", title="RS against the change of retain accuracy", needs="traces")
def tradeoff_figure(traces: Sequence[Row], *, scale: str = "canonical", style: Style = LIGHT) -> Chart:
    """Draw, per method, the best RS that is reached while retain accuracy falls by no more than x: RS@ε over ε.

    The line is the mean over runs (forget sets and seeds), the band one standard deviation.

    Args:
        traces: ``{method, retain, rs}``, a row per run, with the curves over its epochs.
        scale: Scale of the audits.
        style: Theme and size.
    """
    if not traces:
        raise InputError("there is nothing to draw: no trajectory was measured", do="audit with evaluation data")
    curves = tradeoff_rows(traces)
    at_two = {row["key"]: row["rs"] for row in curves if abs(row["lost"] - 0.02) < 1e-9}
    best = max(at_two, key=lambda name: at_two[name])
    spread = " ± standard deviation" if len(at_two) <= FEW else ""
    return finish(
        _draw_tradeoff(curves, style),
        style,
        subtitle=[
            f"{where(traces)}. Scale {scale}.",
            f"Best RS of epochs that lose no more retain accuracy than x; mean{spread} over classes and seeds.",
        ],
        description=f"Best RS within a loss of retain accuracy, for {len(at_two)} methods. At a loss of at most 2 "
        f"points the mean RS is highest for {method_name(best)}, {at_two[best]:.2f}; the lowest is "
        f"{min(at_two.values()):.2f}.",
    )


def tradeoff_rows(traces: Sequence[Row]) -> list[dict[str, Any]]:
    """Average RS@ε over the runs of each method: a row per method and budget."""
    rows = []
    for name in in_order(row["method"] for row in traces):
        runs = [row for row in traces if row["method"] == name]
        for epsilon in BUDGETS:
            values = [best_within(run["retain"], run["rs"], epsilon)[0] for run in runs]
            mean, std = fmean(values), stdev(values) if len(values) > 1 else None
            band = {"low": max(0.0, mean - (std or 0.0)), "high": min(1.0, mean + (std or 0.0))}
            same = {"key": name, "method": method_name(name), "lost": epsilon, "runs": len(runs)}
            rows.append(same | {"rs": mean, "std": std} | band)
    return rows


def _draw_tradeoff(curves: Sequence[dict[str, Any]], style: Style) -> Any:
    width, height = style.narrow, 190 if style.size == "column" else 290
    colour, shape, dash = look(curves, style)
    x = loss_axis("lost", "change of retain accuracy (percentage points)", sign="−")
    base = chart(curves).encode(x=x, color=colour)
    band = base.mark_area(opacity=0.15, interpolate="step-after").encode(y=score("y", "low"), y2="high:Q")
    few = len({row["key"] for row in curves}) <= FEW
    steps = len(BUDGETS)  # symbols stand at other places for each method, so that curves that meet stay apart
    marked = [row for i, row in enumerate(curves) if (i % steps + 3 * (i // steps)) % 12 == 6]
    dots = chart(marked).mark_point(filled=True, size=45, opacity=1)
    tooltip = ["method:N", *numbers("lost", "rs", "std"), "runs:Q"]
    return layered(
        *([band] if few else []),
        base.mark_line(strokeWidth=1.6, interpolate="step-after").encode(y=score("y"), strokeDash=dash),
        dots.encode(x=x, y=score("y"), color=colour, shape=shape, tooltip=tooltip),
        *end_labels(curves, "lost", (colour, shape), style, width=width, height=height),
        width=width,
        height=height,
    )


MEANING = {"M": "M, probes per class", "N": "N, candidates per class"}
HELD = (
    *("dataset", "backbone", "seed", "method", "forget", "scale", "rule", "variant"),
    *("proposal", "score", "assignment", "epochs"),
)
"""What audits that differ in M or N alone have in common, besides the other of the two."""


def with_main(audits: Sequence[Row]) -> list[Row]:
    """Count the main audit of a model among its ablations of M and N, where these leave its own size out."""
    added: list[Row] = []
    for name, size in (("M", "m"), ("N", "n")):
        held = [*HELD, "n" if size == "m" else "m"]
        sizes: dict[tuple[Any, ...], set[Any]] = {}
        for row in audits:
            if row.get("audit") == name:
                sizes.setdefault(tuple(row.get(one) for one in held), set()).add(row[size])
        for row in audits:
            known = sizes.get(tuple(row.get(one) for one in held), ())
            if row.get("audit", "main") == "main" and known and row[size] not in known:
                added.append({**row, "audit": name})
    return [*audits, *added]


@figure("sensitivity", title="RS against the size of the probe set", needs="audits")
def sensitivity_figure(
    audits: Sequence[Row], *, scale: str = "canonical", rule: str = "source-free", style: Style = LIGHT
) -> Chart:
    """Draw RS, mean ± standard deviation, against M and against N on logarithmic axes.

    The rows are those of the ablations named ``M`` and ``N``, and the main audit where they leave its size out; where
    only one was run there is one panel.
    """
    found = {name: sensitivity_rows(audits, name, scale=scale, rule=rule) for name in MEANING}
    shown = {name: rows for name, rows in found.items() if rows}
    if not shown:
        raise InputError(
            f"there is nothing to draw: no audit varies M or N at scale {scale} under rule {rule}",
            expected="rows of an ablation named M or N",
            got=", ".join(sorted({str(row.get("audit")) for row in audits})) or "no rows",
            do="run a protocol with these ablations, such as digits-ablations",
        )
    alone = len(shown) == 1 or style.size == "column"
    width = style.narrow if alone else style.width // 2 - 55
    join = altair().vconcat if style.size == "column" else altair().hconcat
    barred = any(row["std"] for rows in shown.values() for row in rows)
    return finish(
        join(*(_size_panel(name, rows, style, width) for name, rows in shown.items()), spacing=16),
        style,
        title=f"RS against {' and '.join(shown)}",
        subtitle=[
            *caption(audits, scale, rule),
            "Mean ± standard deviation over models, or over audit seeds of one." if barred else "One model each.",
        ],
        description=" ".join(_size_sentence(name, rows) for name, rows in shown.items()),
    )


def sensitivity_rows(audits: Sequence[Row], name: str, *, scale: str, rule: str) -> list[dict[str, Any]]:
    """Average the ablation ``M`` or ``N`` over forget sets and model seeds: a row per method and size."""
    one_setting(audits)
    chosen = [row for row in select(with_main(audits), scale=scale, rule=rule) if row.get("audit") == name]
    rows = []
    for (method, size), same in group(chosen, "method", name.lower()).items():
        mean, std = fmean(row["rs"] for row in same), spread(same)
        rows.append(
            {"key": method, "method": method_name(method), "size": size, "rs": mean, "std": std, "audits": len(same)}
            | {"low": max(0.0, mean - (std or 0.0)), "high": min(1.0, mean + (std or 0.0))}
        )
    order = in_order(row["key"] for row in rows)
    return sorted(rows, key=lambda row: (order.index(row["key"]), row["size"]))


def _size_panel(name: str, rows: Sequence[dict[str, Any]], style: Style, width: int) -> Any:
    height = 150 if style.size == "column" else 230
    sizes = sorted({row["size"] for row in rows})
    colour, shape, dash = look(rows, style)
    methods = list(dict.fromkeys(row["key"] for row in rows))  # moved apart by 4 % of the axis, to tell bars apart
    whole = sizes[-1] / sizes[0] if len(sizes) > 1 else 2.0
    shift = {one: whole ** (0.04 * (i / max(len(methods) - 1, 1) - 0.5)) for i, one in enumerate(methods)}
    apart = [row | {"at": row["size"] * shift[row["key"]]} for row in rows]
    domain = (sizes[0] / 1.15, sizes[-1] * 1.15)
    x = at("x", "at", MEANING[name], domain, scale="log", values=sizes, format="~s", labelOverlap=True)
    base = chart(apart).encode(x=x, color=colour)
    tooltip = ["method:N", "size:Q", *numbers("rs", "std"), "audits:Q"]
    return layered(
        base.mark_rule(opacity=0.5).encode(y=score("y", "low"), y2="high:Q"),
        base.mark_line(strokeWidth=1.6).encode(y=score("y"), strokeDash=dash),
        base.mark_point(filled=True, size=45, opacity=1).encode(y=score("y"), shape=shape, tooltip=tooltip),
        *end_labels(rows, "size", (colour, shape), style, width=width, height=height),
        width=width,
        height=height,
    )


def _size_sentence(name: str, rows: Sequence[dict[str, Any]]) -> str:
    """Compare the smallest size with the largest: the mean of the methods, and the control, which have both."""
    low, high = (end(row["size"] for row in rows) for end in (min, max))
    methods, control = ([row for row in rows if (row["key"] in CONTROLS) == apart] for apart in (False, True))
    sides = {f"the mean RS of {count_methods(row['key'] for row in methods)}": methods, "that of the control": control}
    told = []
    for side, some in sides.items():
        ends = [[row["rs"] for row in some if row["size"] == size] for size in (low, high)]
        if all(ends):
            told.append(f"{side} goes from {fmean(ends[0]):.2f} to {fmean(ends[1]):.2f}")
    return f"From {name} = {low:,} to {high:,} {' and '.join(told)}." if told else ""


@figure("sweep", title="RS over scales, method by method", needs="audits")
def swept_audits_figure(
    audits: Sequence[Row], *, rule: str = "source-free", names: Names = None, style: Style = LIGHT
) -> Chart:
    """Draw RS over scales of the main audits, if these swept the scales at all."""
    wanted = ("main", "released", rule)
    rows = [row for row in audits if (row.get("audit", "main"), row["variant"], row["rule"]) == wanted]
    known = [row for row in rows if row.get("kappa") is not None]
    canonical = next((row["kappa"] for row in known if row["scale"] == "canonical"), None)
    swept = known if len({row["kappa"] for row in known}) > 2 else []
    subtitle = f"{where(audits)}. Rule {rule}."
    return sweep_figure(swept, canonical=canonical, subtitle=subtitle, names=names, style=style)


def sweep_figure(
    rows: Sequence[Row],
    *,
    canonical: float | None = None,
    subtitle: str = "",
    names: Names = None,
    style: Style = LIGHT,
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
    if not rows:
        raise InputError("there is nothing to draw: no audit swept the scales", do='audit with scale="sweep"')
    lines, means = sweep_lines(rows), sweep_means(rows)
    lines = [line | {"forget": set_name(forget_of(line), names)} for line in lines] if names else lines
    methods = in_order(row["key"] for row in means)
    marked = "" if canonical is None else f" Vertical line: canonical, κ = {canonical:g}."
    dashed = "; dashed: mean of their retrained references" if any(m["kind"] == "reference" for m in means) else ""
    return finish(
        _draw_sweep(methods, lines, means, canonical, style),
        style,
        title="RS over scales, method by method",
        subtitle=[subtitle, f"Thin: each forget set; bold: mean{dashed}.{marked}"],
        description=_sweep_sentence(methods, means, canonical),
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


def _draw_sweep(
    methods: Sequence[str],
    lines: Sequence[dict[str, Any]],
    means: Sequence[dict[str, Any]],
    canonical: float | None,
    style: Style,
) -> Any:
    columns = min(len(methods), 4 if style.size == "page" else 3)
    whole = 4 * 124 if style.size == "page" else 3 * 82
    width = min(220 if style.size == "page" else 150, whole // columns)
    panels = []
    for i, name in enumerate(methods):
        mine, averages = ([row for row in some if row["key"] == name] for some in (lines, means))
        axes = _sweep_axes([row["kappa"] for row in mine], left=i % columns == 0, bottom=i + columns >= len(methods))
        panels.append(_sweep_panel(name, mine, averages, canonical, axes, style, width))
    return altair().concat(*panels, columns=columns, spacing={"row": 30, "column": 16}, bounds="flush")


def _sweep_panel(
    name: str,
    lines: Sequence[dict[str, Any]],
    means: Sequence[dict[str, Any]],
    canonical: float | None,
    axes: Mapping[str, Any],
    style: Style,
    width: int,
) -> Any:
    alt, colours, mark = altair(), style.colours, marks_of([name])[name]
    colour = style.pick(mark.light, mark.dark)
    model, reference = ([row for row in means if row["kind"] == kind] for kind in ("model", "reference"))
    tooltip = ["method:N", "forget:N", *numbers("kappa", "rs")]
    thin = chart(lines).mark_line(strokeWidth=0.8, opacity=0.45, color=colour)
    layers = [
        thin.encode(**axes, detail="forget:N", tooltip=tooltip),
        chart(model).mark_line(strokeWidth=2.4, color=colour).encode(**axes),
    ]
    if reference:
        dashed = chart(reference).mark_line(strokeWidth=1.4, strokeDash=[4, 2], color=colours.ink)
        layers.append(dashed.encode(**axes))
    if canonical is not None:
        layers.insert(0, chart([{"kappa": canonical}]).mark_rule(color=colours.muted).encode(x=axes["x"]))
    title = alt.TitleParams(text=method_name(name), fontSize=style.font_size, offset=3, color=colour, frame="group")
    return layered(*layers, width=width, height=round(width * 0.72), title=title)


def _sweep_axes(kappas: Sequence[float], *, left: bool, bottom: bool) -> dict[str, Any]:
    """Make the axes, which all panels share; only those at the edge have numbers."""
    low, high = min(kappas), max(kappas)
    ticks = [low, (low * high) ** 0.5, high] if high > low else [low]
    domain = (low, high) if high > low else (low / 2, low * 2)
    title = "scale κ" if bottom else None
    across: dict[str, Any] = {"values": ticks, "format": ".2~f", "labels": bottom, "labelFlush": True}
    # unseen numbers keep the titles of panels at one height
    up: dict[str, Any] = {"labelOpacity": 1 if left else 0, "values": [0, 0.5, 1]}
    return {
        "x": at("x", "kappa", title, domain, scale="log", **across),
        "y": score("y", title="RS" if left else None, **up),
    }


def _sweep_sentence(methods: Sequence[str], means: Sequence[dict[str, Any]], canonical: float | None) -> str:
    kappas = sorted({row["kappa"] for row in means})
    text = f"RS of {count_methods(methods)} over {len(kappas)} scales from κ = {kappas[0]:.2f} to {kappas[-1]:.2f}."
    near = min(kappas, key=lambda kappa: abs(kappa - (canonical or kappas[len(kappas) // 2])))
    here = {row["method"]: row["rs"] for row in means if row["kind"] == "model" and row["kappa"] == near}
    listed = ", ".join(f"{name} {score:.2f}" for name, score in here.items())
    return f"{text} Means at κ = {near:.2f}: {listed}."
