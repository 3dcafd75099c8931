"""The tables of a benchmark, made from its store alone."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sfra.bench import tables
from sfra.bench.grid import open_store
from sfra.bench.plan import plan
from sfra.bench.protocol import Protocol, load_protocol
from sfra.bench.rows import Row, Rows, collect
from sfra.bench.tables import Table
from sfra.bench.tables.from_rows import tables_of
from sfra.core.files import write_text

READINGS = (("canonical", "source-free"), ("native", "worst-case"))
"""Scale and rule of the tables: those of a verdict, and those that published tables are made with."""

OF_RESULTS = (
    *("summary", "per-class", "multi-class", "missing-row", "distributions", "scores", "support"),
    *("sensitivity-m", "sensitivity-n", "alignment", "margin"),
)
"""Tables whose figures depend on the reading."""

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
        return "\n\n".join([*(tables.to_markdown(table).strip() for table in chosen), *self._missing()])

    def save(self, folder: str | Path) -> None:
        """Write every table as Markdown, CSV and LaTeX, ``tables.md`` with all, and the rows as CSV and JSON."""
        out = Path(folder)
        tables.write_tables(self.tables, out / "tables")
        everything = "\n\n".join([*(tables.to_markdown(one).strip() for one in self.tables), *self._missing()])
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


def make_tables(rows: Rows) -> list[Table]:
    """Make every table that the rows are enough for: all in the first reading, those of results in the others too."""
    made = tables_of(rows, scale=READINGS[0][0], rule=READINGS[0][1])
    for scale, rule in READINGS[1:]:
        again = tables_of(rows, scale=scale, rule=rule)
        made += [replace(table, label=f"{table.label}-{scale}-{rule}") for table in again if table.label in OF_RESULTS]
    return [table for table in made if table.rows]


def _csv(rows: Sequence[Row]) -> str:
    """Write rows with the union of their columns; nested values as JSON."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _plain(value) for name, value in row.items()} for row in rows)
    return text.getvalue()


def _plain(value: object) -> object:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else value
