"""Write tables to files, in every format."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from sfra.bench.tables.csv_file import to_csv
from sfra.bench.tables.latex import to_latex
from sfra.bench.tables.markdown import to_markdown
from sfra.bench.tables.table import Table
from sfra.core.files import write_text

FORMATS = {".md": to_markdown, ".csv": to_csv, ".tex": to_latex}


def write_tables(tables: Iterable[Table], folder: str | Path) -> list[Path]:
    """Write ``<label>.md``, ``.csv`` and ``.tex`` of each table, each file whole or not at all; return them."""
    written = []
    for table in tables:
        for suffix, render in FORMATS.items():
            target = Path(folder) / f"{table.label}{suffix}"
            write_text(target, render(table))
            written.append(target)
    return written
