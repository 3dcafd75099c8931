"""Figures and pages of audits and benchmarks; Altair and its renderer are imported when something is drawn."""

from sfra.report.export import FORMATS, Exported, export_audits, export_bench, render, save
from sfra.report.figures import FIGURES, Setting, Style, draw_all, figure, plan_audit, plan_setting
from sfra.report.page import audit_page, bench_page, overview_page
from sfra.report.sources import Bench, find_audits, read_audit, read_bench

__all__ = [
    "FIGURES",
    "FORMATS",
    "Bench",
    "Exported",
    "Setting",
    "Style",
    "audit_page",
    "bench_page",
    "draw_all",
    "export_audits",
    "export_bench",
    "figure",
    "find_audits",
    "overview_page",
    "plan_audit",
    "plan_setting",
    "read_audit",
    "read_bench",
    "render",
    "save",
]
