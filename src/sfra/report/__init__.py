"""Figures of benchmarks and audits, made of plain rows; Altair and its renderer are imported when one is drawn."""

from sfra.report.diagnoses import read_diagnoses, read_maps
from sfra.report.export import Exported, export_all, export_audit, export_bench, read_trajectories, render, save
from sfra.report.figures import AUDIT, BENCHMARK, audit_figures, benchmark_figures
from sfra.report.figures_accuracy import accuracy_figure
from sfra.report.figures_audit import audit_accuracy_figure
from sfra.report.figures_comparison import comparison_figure
from sfra.report.figures_geometry import embedding_figure
from sfra.report.figures_heatmap import heatmap_figure
from sfra.report.figures_margin import alpha_figure, alpha_rows, margin_figure, margin_rows
from sfra.report.figures_marks import MARKS, marks_of
from sfra.report.figures_probes import audit_acceptance_figure, audit_confusion_figure
from sfra.report.figures_scales import sweep_figure
from sfra.report.figures_scatter import scatter_figure
from sfra.report.figures_sensitivity import sensitivity_figure
from sfra.report.figures_sweep import audit_sweep_figure
from sfra.report.figures_tradeoff import tradeoff_figure, tradeoff_rows
from sfra.report.figures_trajectory import audit_trajectory_figure
from sfra.report.figures_violin import violin_figure
from sfra.report.style import Style

__all__ = [
    "AUDIT",
    "BENCHMARK",
    "MARKS",
    "Exported",
    "Style",
    "accuracy_figure",
    "alpha_figure",
    "alpha_rows",
    "audit_acceptance_figure",
    "audit_accuracy_figure",
    "audit_confusion_figure",
    "audit_figures",
    "audit_sweep_figure",
    "audit_trajectory_figure",
    "benchmark_figures",
    "comparison_figure",
    "embedding_figure",
    "export_all",
    "export_audit",
    "export_bench",
    "heatmap_figure",
    "margin_figure",
    "margin_rows",
    "marks_of",
    "read_diagnoses",
    "read_maps",
    "read_trajectories",
    "render",
    "save",
    "scatter_figure",
    "sensitivity_figure",
    "sweep_figure",
    "tradeoff_figure",
    "tradeoff_rows",
    "violin_figure",
]
