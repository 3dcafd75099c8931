"""Every table of a benchmark: a function of the rows, and an entry here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from sfra.bench.rows import Rows
from sfra.bench.tables import ablations, diagnoses, results
from sfra.bench.tables.table import Column as Column
from sfra.bench.tables.table import Table as Table
from sfra.bench.tables.table import to_markdown as to_markdown
from sfra.bench.tables.table import write_tables as write_tables

READINGS = (("canonical", "source-free"), ("native", "worst-case"))
"""Scale and rule of the tables: those of a verdict, and those that published tables are made with."""


@dataclass(frozen=True)
class Entry:
    """A table of every report."""

    make: Callable[..., Table]
    """Takes the rows, and ``scale`` and ``rule`` by name."""
    once: bool = False
    """Made in the first reading only: its figures do not depend on it, or are not compared."""


TABLES = (
    Entry(results.summary_table),
    Entry(results.per_class_table),
    Entry(results.multi_class_table),
    Entry(results.unlearning_quality_table, once=True),
    Entry(ablations.missing_row_table),
    Entry(ablations.distributions_table),
    Entry(ablations.scores_table),
    Entry(ablations.support_table),
    Entry(partial(ablations.sensitivity_table, size="m")),
    Entry(partial(ablations.sensitivity_table, size="n")),
    Entry(diagnoses.alignment_table),
    Entry(diagnoses.margin_table),
    Entry(diagnoses.confidence_table, once=True),
    Entry(results.probe_cost_table, once=True),
    Entry(results.settings_table, once=True),
    Entry(results.failures_table, once=True),
)


def make_tables(rows: Rows) -> list[Table]:
    """Make every table that the rows are enough for: all in the first reading, most in the others too."""
    made = []
    for scale, rule in READINGS:
        first = (scale, rule) == READINGS[0]
        for entry in TABLES:
            if first or not entry.once:
                table = entry.make(rows, scale=scale, rule=rule)
                made.append(table if first else replace(table, label=f"{table.label}-{scale}-{rule}"))
    return [table for table in made if table.rows]
