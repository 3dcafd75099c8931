"""Tables of results, made of rows: as data, in Markdown, CSV and LaTeX."""

from sfra.bench.tables.latex import to_latex
from sfra.bench.tables.registry import READINGS, TABLES, make_tables
from sfra.bench.tables.table import MISSING, Column, Table, to_csv, to_markdown, write_tables

__all__ = [
    "MISSING",
    "READINGS",
    "TABLES",
    "Column",
    "Table",
    "make_tables",
    "to_csv",
    "to_latex",
    "to_markdown",
    "write_tables",
]
