"""Tables of results, made of plain rows: as data, in Markdown, CSV and LaTeX."""

from sfra.bench.tables.ablations import distributions_table, missing_row_table, scores_table, support_table
from sfra.bench.tables.costs import failures_table, probe_cost_table, settings_table
from sfra.bench.tables.csv_file import to_csv
from sfra.bench.tables.diagnoses import alignment_table, confidence_table, margin_table
from sfra.bench.tables.latex import to_latex
from sfra.bench.tables.markdown import to_markdown
from sfra.bench.tables.results import (
    multi_class_table,
    per_class_table,
    summary_table,
    unlearning_quality_table,
)
from sfra.bench.tables.sensitivity import sensitivity_table
from sfra.bench.tables.table import MISSING, Column, Table
from sfra.bench.tables.write import write_tables

__all__ = [
    "MISSING",
    "Column",
    "Table",
    "alignment_table",
    "confidence_table",
    "distributions_table",
    "failures_table",
    "margin_table",
    "missing_row_table",
    "multi_class_table",
    "per_class_table",
    "probe_cost_table",
    "scores_table",
    "sensitivity_table",
    "settings_table",
    "summary_table",
    "support_table",
    "to_csv",
    "to_latex",
    "to_markdown",
    "unlearning_quality_table",
    "write_tables",
]
