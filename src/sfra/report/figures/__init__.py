"""Every figure: importing this package fills the registry, in the order of pages; Altair is imported at need."""

from sfra.report.figures.accuracy import audit_accuracy_figure, overview_figure
from sfra.report.figures.trajectory import audit_trajectory_figure

# isort: split
from sfra.report.figures.audit import (
    audit_acceptance_figure,
    audit_budget_figure,
    audit_confusion_figure,
    audit_sweep_figure,
)
from sfra.report.figures.benchmark import accuracy_figure, heatmap_figure, violin_figure
from sfra.report.figures.comparisons import comparison_figure, scatter_figure
from sfra.report.figures.curves import sensitivity_figure, sweep_figure, tradeoff_figure, with_main
from sfra.report.figures.diagnoses import alpha_figure, map_figure, margin_figure
from sfra.report.figures.registry import (
    FIGURES,
    Drawn,
    Figure,
    Planned,
    Setting,
    draw_all,
    figure,
    plan_audit,
    plan_audits,
    plan_setting,
)
from sfra.report.figures.style import MARKS, Chart, Style, marks_of

__all__ = [
    "FIGURES",
    "MARKS",
    "Chart",
    "Drawn",
    "Figure",
    "Planned",
    "Setting",
    "Style",
    "accuracy_figure",
    "alpha_figure",
    "audit_acceptance_figure",
    "audit_accuracy_figure",
    "audit_budget_figure",
    "audit_confusion_figure",
    "audit_sweep_figure",
    "audit_trajectory_figure",
    "comparison_figure",
    "draw_all",
    "figure",
    "heatmap_figure",
    "map_figure",
    "margin_figure",
    "marks_of",
    "overview_figure",
    "plan_audit",
    "plan_audits",
    "plan_setting",
    "scatter_figure",
    "sensitivity_figure",
    "sweep_figure",
    "tradeoff_figure",
    "violin_figure",
    "with_main",
]
