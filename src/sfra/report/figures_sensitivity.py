"""How RS depends on the size of the probe set: M probes per class, chosen from pools of N candidates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from sfra.bench.tables.names import CONTROLS, count_methods, method_name
from sfra.bench.tables.stages import group, select, spread
from sfra.core.errors import InputError
from sfra.report.figures_key import end_labels
from sfra.report.figures_marks import look
from sfra.report.figures_rows import Row, caption, in_order, one_setting
from sfra.report.style import Chart, Style, altair, data, finish, score_axis

MEANING = {"M": "M, probes per class", "N": "N, candidates per class"}


def sensitivity_figure(
    audits: Sequence[Row], *, scale: str = "canonical", rule: str = "source-free", style: Style | None = None
) -> Chart:
    """Draw RS, mean ± standard deviation, against M and against N on logarithmic axes.

    The rows are those of the ablations named ``M`` and ``N``; where only one was run there is one panel.
    """
    style = style or Style()
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
    panels = [
        _panel(name, rows, style, style.narrow if alone else style.width // 2 - 55) for name, rows in shown.items()
    ]
    join = altair().vconcat if style.size == "column" else altair().hconcat
    return finish(
        join(*panels, spacing=16),
        style,
        title=f"RS against {' and '.join(shown)}",
        subtitle=[*caption(audits, scale, rule), _meaning(shown)],
        description=" ".join(_sentence(name, rows) for name, rows in shown.items()),
    )


def sensitivity_rows(audits: Sequence[Row], name: str, *, scale: str, rule: str) -> list[dict[str, Any]]:
    """Average the ablation ``M`` or ``N`` over forget sets and model seeds: a row per method and size."""
    one_setting(audits)
    chosen = [row for row in select(audits, scale=scale, rule=rule) if row.get("audit") == name]
    rows = []
    for (method, size), same in group(chosen, "method", name.lower()).items():
        mean, std = fmean(row["rs"] for row in same), spread(same)
        rows.append(
            {"key": method, "method": method_name(method), "size": size, "rs": mean, "std": std, "audits": len(same)}
            | {"low": max(0.0, mean - (std or 0.0)), "high": min(1.0, mean + (std or 0.0))}
        )
    order = in_order(row["key"] for row in rows)
    return sorted(rows, key=lambda row: (order.index(row["key"]), row["size"]))


def _panel(name: str, rows: Sequence[dict[str, Any]], style: Style, width: int) -> Any:
    alt = altair()
    height = 150 if style.size == "column" else 230
    sizes = sorted({row["size"] for row in rows})
    colour, shape, dash = look(rows, style)
    axis = alt.Axis(values=sizes, format="~s", domain=False, ticks=False, labelOverlap=True)
    x = alt.X(
        "at:Q",
        axis=axis,
        title=MEANING[name],
        scale=alt.Scale(type="log", domain=[sizes[0] / 1.15, sizes[-1] * 1.15], nice=False),
    )
    y = alt.Y("rs:Q", scale=alt.Scale(domain=[0, 1], nice=False), axis=score_axis(), title="RS")
    base = alt.Chart(data(_side_by_side(rows, sizes))).encode(x=x, color=colour)
    numbers = [alt.Tooltip(f"{field}:Q", format=".3f") for field in ("rs", "std")]
    return alt.layer(
        base.mark_rule(opacity=0.5).encode(
            y=alt.Y("low:Q", scale=alt.Scale(domain=[0, 1], nice=False), axis=score_axis(), title="RS"), y2="high:Q"
        ),
        base.mark_line(strokeWidth=1.6).encode(y=y, strokeDash=dash),
        base.mark_point(filled=True, size=45, opacity=1).encode(
            y=y, shape=shape, tooltip=["method:N", "size:Q", *numbers, "audits:Q"]
        ),
        *end_labels(rows, "size", "rs", (colour, shape), style, width=width, height=height),
    ).properties(width=width, height=height)


def _side_by_side(rows: Sequence[dict[str, Any]], sizes: Sequence[int]) -> list[dict[str, Any]]:
    """Move the methods apart along the axis, by 4 % of it in all, so that their error bars do not cover each other."""
    names = list(dict.fromkeys(row["key"] for row in rows))
    whole = sizes[-1] / sizes[0] if len(sizes) > 1 else 2.0
    shift = {name: whole ** (0.04 * (i / max(len(names) - 1, 1) - 0.5)) for i, name in enumerate(names)}
    return [row | {"at": row["size"] * shift[row["key"]]} for row in rows]


def _meaning(shown: Mapping[str, Sequence[Row]]) -> str:
    """Say what the marks are, and the bars if there are any."""
    barred = any(row["std"] for rows in shown.values() for row in rows)
    return "Mean ± standard deviation over models, or over audit seeds of one." if barred else "One model each."


def _sentence(name: str, rows: Sequence[dict[str, Any]]) -> str:
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
