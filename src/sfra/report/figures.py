"""All figures by name: of a benchmark, and of one audit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from sfra.errors import InputError
from sfra.report.figures_accuracy import accuracy_figure
from sfra.report.figures_audit import audit_accuracy_figure
from sfra.report.figures_heatmap import heatmap_figure
from sfra.report.figures_probes import audit_acceptance_figure, audit_confusion_figure
from sfra.report.figures_rows import Row
from sfra.report.figures_scatter import scatter_figure
from sfra.report.figures_sensitivity import sensitivity_figure
from sfra.report.figures_sweep import audit_sweep_figure
from sfra.report.figures_trajectory import audit_trajectory_figure
from sfra.report.figures_violin import violin_figure
from sfra.report.style import Chart, Style

BENCHMARK: Mapping[str, Callable[..., Any]] = {
    "accuracy": accuracy_figure,
    "violin": violin_figure,
    "heatmap-rs": partial(heatmap_figure, value="rs"),
    "heatmap-delta-rs": partial(heatmap_figure, value="delta_rs"),
    "scatter": scatter_figure,
    "sensitivity": sensitivity_figure,
}
"""Figures that are made of audit rows alone; each takes ``scale``, ``rule`` and ``style``."""

AUDIT: Mapping[str, Callable[..., Any]] = {
    "accuracy": audit_accuracy_figure,
    "trajectory": audit_trajectory_figure,
    "confusion": audit_confusion_figure,
    "acceptance": audit_acceptance_figure,
    "sweep": audit_sweep_figure,
}
"""Figures of one audit."""


def benchmark_figures(
    audits: Sequence[Row], *, scale: str = "canonical", rule: str = "source-free", style: Style | None = None
) -> tuple[dict[str, Chart], dict[str, str]]:
    """Draw every figure that the audits of one data set and backbone allow; name the others with their reason."""
    calls = {name: partial(figure, audits, scale=scale, rule=rule, style=style) for name, figure in BENCHMARK.items()}
    return _draw(calls)


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
