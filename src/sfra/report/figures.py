"""All figures by name: of a benchmark, and of one audit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from sfra.attack.scale import KAPPA
from sfra.core.errors import InputError
from sfra.report.classes import Names
from sfra.report.diagnoses import diagnosis_figures, with_main
from sfra.report.figures_accuracy import accuracy_figure
from sfra.report.figures_audit import audit_accuracy_figure
from sfra.report.figures_heatmap import heatmap_figure
from sfra.report.figures_probes import audit_acceptance_figure, audit_confusion_figure
from sfra.report.figures_rows import Row, where
from sfra.report.figures_scales import sweep_figure
from sfra.report.figures_scatter import scatter_figure
from sfra.report.figures_sensitivity import sensitivity_figure
from sfra.report.figures_sweep import audit_sweep_figure
from sfra.report.figures_tradeoff import tradeoff_figure
from sfra.report.figures_trajectory import audit_trajectory_figure
from sfra.report.figures_violin import violin_figure
from sfra.report.style import Chart, Style

SIZES = "sensitivity"
"""The one figure of audit rows in which no forget set is named."""

BENCHMARK: Mapping[str, Callable[..., Any]] = {
    "accuracy": accuracy_figure,
    "violin": violin_figure,
    "heatmap-rs": partial(heatmap_figure, value="rs"),
    "heatmap-delta-rs": partial(heatmap_figure, value="delta_rs"),
    "scatter": scatter_figure,
    SIZES: sensitivity_figure,
}
"""Figures that are made of audit rows alone; each takes ``scale``, ``rule`` and ``style``, and those that tell forget
sets apart the ``names`` of the classes."""

AUDIT: Mapping[str, Callable[..., Any]] = {
    "accuracy": audit_accuracy_figure,
    "trajectory": audit_trajectory_figure,
    "confusion": audit_confusion_figure,
    "acceptance": audit_acceptance_figure,
    "sweep": audit_sweep_figure,
}
"""Figures of one audit."""


def benchmark_figures(
    audits: Sequence[Row],
    *,
    trajectories: Sequence[Row] = (),
    diagnoses: Sequence[Row] = (),
    maps: Sequence[Row] = (),
    scale: str = "canonical",
    rule: str = "source-free",
    names: Names = None,
    style: Style | None = None,
) -> tuple[dict[str, Chart], dict[str, str]]:
    """Draw every figure that the rows of one data set and backbone allow; name the others with their reason.

    Args:
        audits: Audit rows.
        trajectories: Rows of :func:`sfra.report.figures_tradeoff.tradeoff_rows`.
        diagnoses: Rows of :func:`sfra.report.diagnoses.read_diagnoses`.
        maps: Rows of :func:`sfra.report.diagnoses.read_maps`.
        scale: Scale of the audits.
        rule: Selection rule.
        names: Names of the data set's classes.
        style: Theme and size.
    """
    calls = {
        name: partial(figure, audits, scale=scale, rule=rule, names=names)
        for name, figure in BENCHMARK.items()
        if name != SIZES
    }
    calls[SIZES] = partial(sensitivity_figure, with_main(audits), scale=scale, rule=rule)
    over_scales = swept(audits, rule)
    if over_scales:
        place = f"{where(audits)}. Rule {rule}."
        calls["sweep"] = partial(sweep_figure, over_scales, canonical=KAPPA, subtitle=place, names=names)
    calls["tradeoff"] = partial(tradeoff_figure, trajectories, subtitle=f"{where(audits)}. Scale {scale}.")
    of_diagnoses, missing = diagnosis_figures(diagnoses, maps)
    drawn, left_out = _draw({name: partial(call, style=style) for name, call in (calls | of_diagnoses).items()})
    return drawn, left_out | missing


def swept(audits: Sequence[Row], rule: str) -> list[Row]:
    """Keep the main audits at every scale, if they swept the scales at all."""
    wanted = ("main", "released", rule)
    rows = [row for row in audits if (row.get("audit", "main"), row["variant"], row["rule"]) == wanted]
    known = [row for row in rows if row.get("kappa") is not None]
    return known if len({row["kappa"] for row in known}) > 2 else []


def audit_figures(report: Mapping[str, Any], *, style: Style | None = None) -> tuple[dict[str, Chart], dict[str, str]]:
    """Draw every figure that the content of an ``audit.json`` allows; name the others with their reason."""
    return _draw({name: partial(figure, report, style=style) for name, figure in AUDIT.items()})


def _draw(calls: Mapping[str, Callable[[], Any]]) -> tuple[dict[str, Chart], dict[str, str]]:
    drawn: dict[str, Chart] = {}
    left_out: dict[str, str] = {}
    for name, call in calls.items():
        try:
            drawn[name] = call()
        except InputError as problem:
            left_out[name] = problem.what
    return drawn, left_out
