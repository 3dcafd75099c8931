"""The tables of a benchmark, made from its store alone."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sfra.bench.grid import open_store
from sfra.bench.plan import plan
from sfra.bench.protocol import Protocol, load_protocol
from sfra.bench.rows import Row, Rows, collect
from sfra.bench.tables import READINGS as READINGS
from sfra.bench.tables import Table, make_tables, to_markdown, write_tables
from sfra.core.files import write_text

ROWS = ("originals", "audits", "pra", "probes", "diagnostics", "failures")
"""Rows that are written, besides the tables."""

SHOWN = ("summary", "multi-class", "unlearning-quality", "failures")
"""Tables that are printed; all are written."""


@dataclass(frozen=True, kw_only=True)
class BenchReport:
    """Tables and the rows they are made of."""

    protocol: Protocol
    rows: Rows
    tables: tuple[Table, ...]

    def text(self) -> str:
        """Return the main tables in Markdown, and what is missing."""
        chosen = [table for table in self.tables if table.label in SHOWN and table.rows]
        return "\n\n".join([*(to_markdown(table).strip() for table in chosen), *self._missing()])

    def save(self, folder: str | Path) -> None:
        """Write every table as Markdown, CSV and LaTeX, ``tables.md`` with all, and the rows as CSV and JSON."""
        out = Path(folder)
        write_tables(self.tables, out / "tables")
        everything = "\n\n".join([*(to_markdown(one).strip() for one in self.tables), *self._missing()])
        write_text(out / "tables.md", f"# {self.protocol.name}\n\n{everything}\n")
        for name in ROWS:
            write_text(out / "rows" / f"{name}.csv", _csv(getattr(self.rows, name)))
        text = json.dumps(self.to_dict(), indent=1, ensure_ascii=False, allow_nan=False)
        write_text(out / "bench.json", text)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values."""
        return {
            "schema": "sfra.bench/1",
            "protocol": self.protocol.name,
            "description": self.protocol.description,
            "missing": self.rows.missing,
            "tables": [table.to_dict() for table in self.tables],
            "rows": {name: [dict(row) for row in getattr(self.rows, name)] for name in ROWS},
        }

    def _missing(self) -> list[str]:
        if not self.rows.missing:
            return []
        return [f"{self.rows.missing} results of the protocol are not there: they failed, or were not computed yet."]


def make_report(protocol: str | Path | Protocol, store: str | Path) -> BenchReport:
    """Make the tables of a protocol from a store; what is not there is left out, and said."""
    chosen = protocol if isinstance(protocol, Protocol) else load_protocol(protocol)
    rows = collect(plan(chosen), open_store(store))
    return BenchReport(protocol=chosen, rows=rows, tables=tuple(make_tables(rows)))


def _csv(rows: Sequence[Row]) -> str:
    """Write rows with the union of their columns; nested values as JSON."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    for row in rows:
        nested = {name: value for name, value in row.items() if isinstance(value, dict | list)}
        writer.writerow(row | {name: json.dumps(value, ensure_ascii=False) for name, value in nested.items()})
    return text.getvalue()
