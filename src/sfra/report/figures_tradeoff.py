"""RS against the change of retain accuracy: what the audit brings back at which price, along the efficient epochs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean, stdev
from typing import Any

from sfra.bench.contents import Origin
from sfra.bench.tables.names import method_name
from sfra.core.errors import InputError
from sfra.report.figures_key import end_labels
from sfra.report.figures_marks import look
from sfra.report.figures_rows import in_order
from sfra.report.style import Chart, Style, altair, data, finish, score_axis

LARGEST_LOSS = 0.10
"""Largest loss of retain accuracy that is drawn; beyond it relearning counts as degenerate."""

FEW = 4
"""Most methods whose bands can be told apart."""

STEPS = 41
"""Places along the axis at which the curves are averaged."""


def tradeoff_rows(
    report: Mapping[str, Any], *, method: str, scale: str | None = None, variant: str | None = None
) -> list[dict[str, Any]]:
    """Read the trajectories of the audited model from the content of an ``audit.json``.

    An epoch is efficient if no other of its run has at least its RS and its retain accuracy, and more of one.

    Args:
        report: The content of an ``audit.json``.
        method: What the model was unlearned with; the file does not know.
        scale: Scale of the trajectories; that of the verdict if None.
        variant: Forget row of the trajectories; that of the verdict if None.

    Raises:
        InputError: The content is not that of an audit.
    """
    with Origin(what=f"the audit of {method}", do="audit again").reading():
        scale, variant = scale or report["scale"], variant or report["variant"]
        forget = "+".join(map(str, report["forget_classes"]))
        return [
            {"method": method, "forget": forget, "seed": run["seed"], **point}
            for run in report["traces"]
            if (run["subject"], run["scale"], run["variant"]) == ("model", scale, variant) and run["rs"] is not None
            for point in _points(run["retain"], run["rs"])
        ]


def _points(retain: Sequence[float], rs: Sequence[float]) -> Iterator[dict[str, Any]]:
    efficient = set(efficient_epochs(retain, rs))
    for epoch, (kept, score) in enumerate(zip(retain, rs, strict=True)):
        yield {"epoch": epoch, "retain_change": kept - retain[0], "rs": score, "efficient": epoch in efficient}


def efficient_epochs(retain: Sequence[float], rs: Sequence[float]) -> list[int]:
    """Return the Pareto-efficient epochs, the earliest of equal ones, from most to least retain accuracy.

    >>> efficient_epochs([0.9, 0.8, 0.7, 0.9], [0.0, 0.5, 0.4, 0.0])
    [0, 1]
    """
    best, found = float("-inf"), []
    for epoch in sorted(range(len(rs)), key=lambda e: (-retain[e], -rs[e], e)):
        if rs[epoch] > best:
            best = rs[epoch]
            found.append(epoch)
    return found


def tradeoff_figure(rows: Sequence[Mapping[str, Any]], *, subtitle: str = "", style: Style | None = None) -> Chart:
    """Draw, per method, the best RS that is reached while retain accuracy changes by no less than x.

    This is RS@ε as a curve over ε: for each run the staircase through its efficient epochs; the line is the mean over
    runs (forget sets and seeds), the band one standard deviation.

    Args:
        rows: As :func:`tradeoff_rows` makes them, of any number of audits.
        subtitle: What the rows are of.
        style: Theme and size.
    """
    style = style or Style()
    if not rows:
        raise InputError(
            "there is nothing to draw: no trajectory was measured",
            expected="rows of tradeoff_rows, made of audits with evaluation data",
            got="no rows",
        )
    curves = tradeoff_curves(rows)
    at = {row["key"]: row["rs"] for row in curves if abs(row["change"] + 0.02) < 1e-9}
    best = max(at, key=lambda name: at[name])
    spread = " ± standard deviation" if len(at) <= FEW else ""
    return finish(
        _draw(curves, style),
        style,
        title="RS against the change of retain accuracy",
        subtitle=[
            subtitle,
            f"Best RS of epochs that lose no more retain accuracy than x; mean{spread} over classes and seeds.",
        ],
        description=f"Best RS within a loss of retain accuracy, for {len(at)} methods. At a loss of at most 2 points "
        f"the mean RS is highest for {method_name(best)}, {at[best]:.2f}, and lowest {min(at.values()):.2f}.",
    )


def tradeoff_curves(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Average the staircases of the runs of each method: a row per method and change of retain accuracy."""
    changes = [-LARGEST_LOSS * i / (STEPS - 1) for i in range(STEPS)]
    curves = []
    for name in in_order(row["method"] for row in rows):
        runs: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
        for row in rows:
            if row["method"] == name and row["efficient"]:
                runs.setdefault((row.get("cell"), row["forget"], row["seed"]), []).append(row)
        curves += [_mean_point(name, change, [_within(run, change) for run in runs.values()]) for change in changes]
    return curves


def _within(run: Sequence[Mapping[str, Any]], change: float) -> float:
    """Return the best RS of the epochs that lose no more; a head that gains on retain counts as losing nothing."""
    return float(max((row["rs"] for row in run if row["retain_change"] >= change - 1e-9), default=0.0))


def _mean_point(name: str, change: float, values: Sequence[float]) -> dict[str, Any]:
    mean, std = fmean(values), stdev(values) if len(values) > 1 else None
    return {
        "key": name,
        "method": method_name(name),
        "change": change,
        "lost": -change,
        "rs": mean,
        "std": std,
        "low": max(0.0, mean - (std or 0.0)),
        "high": min(1.0, mean + (std or 0.0)),
        "runs": len(values),
    }


def _marked(curves: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Pick a few places of each curve for its symbol, others for each method, so that curves that meet stay apart."""
    return [row for i, row in enumerate(curves) if (i % STEPS + 3 * (i // STEPS)) % 12 == 6]


def _draw(curves: Sequence[dict[str, Any]], style: Style) -> Any:
    alt = altair()
    width, height = style.narrow, 190 if style.size == "column" else 290
    colour, shape, dash = look(curves, style)
    sign = "datum.value == 0 ? '0' : '−' + format(100 * datum.value, '.0f')"
    axis = alt.Axis(labelExpr=sign, values=[0, 0.02, 0.04, 0.06, 0.08, 0.1], domain=False, ticks=False)
    x = alt.X(
        "lost:Q",
        scale=alt.Scale(domain=[0, LARGEST_LOSS], nice=False),
        axis=axis,
        title="change of retain accuracy (percentage points)",
    )
    y = alt.Y("rs:Q", scale=alt.Scale(domain=[0, 1], nice=False), axis=score_axis(), title="RS")
    base = alt.Chart(data(curves)).encode(x=x, color=colour)
    marked = alt.Chart(data(_marked(curves))).encode(x=x, color=colour)
    few = len({row["key"] for row in curves}) <= FEW
    low = alt.Y("low:Q", scale=alt.Scale(domain=[0, 1], nice=False), axis=score_axis(), title="RS")
    band = base.mark_area(opacity=0.15, interpolate="step-after").encode(y=low, y2="high:Q")
    return alt.layer(
        *([band] if few else []),
        base.mark_line(strokeWidth=1.6, interpolate="step-after").encode(y=y, strokeDash=dash),
        marked.mark_point(filled=True, size=45, opacity=1).encode(
            y=y,
            shape=shape,
            tooltip=["method:N", *(alt.Tooltip(f"{n}:Q", format=".3f") for n in ("change", "rs", "std")), "runs:Q"],
        ),
        *end_labels(curves, "lost", "rs", (colour, shape), style, width=width, height=height),
    ).properties(width=width, height=height)
