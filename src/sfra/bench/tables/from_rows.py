"""All tables of a benchmark, from the rows of its store."""

from __future__ import annotations

from sfra.bench.rows import Rows
from sfra.bench.tables import (
    Table,
    alignment_table,
    confidence_table,
    distributions_table,
    failures_table,
    margin_table,
    missing_row_table,
    multi_class_table,
    per_class_table,
    probe_cost_table,
    scores_table,
    sensitivity_table,
    settings_table,
    summary_table,
    support_table,
    unlearning_quality_table,
)


def tables_of(rows: Rows, *, scale: str, rule: str, pra_variant: str = "cosine") -> list[Table]:
    """Make every table for one scale and selection rule; those without rows say what is missing.

    Args:
        rows: What the store holds, as :func:`sfra.bench.rows.collect` reads it.
        scale: ``native``, ``canonical`` or another scale of the audits.
        rule: ``source-free``, ``validation`` or ``worst-case``.
        pra_variant: ``cosine`` or ``l2``.
    """
    audits, pra, probes = rows.audits, rows.pra, rows.probes
    return [
        summary_table(audits, pra, scale=scale, rule=rule, pra_variant=pra_variant),
        per_class_table(audits, pra, probes, scale=scale, rule=rule, pra_variant=pra_variant),
        multi_class_table(audits, pra, probes, scale=scale, rule=rule, pra_variant=pra_variant),
        unlearning_quality_table(audits, scale=scale, rule=rule),
        missing_row_table(audits, scale=scale, rule=rule),
        distributions_table(audits, scale=scale, rule=rule),
        scores_table(audits, scale=scale, rule=rule),
        support_table(audits, scale=scale, rule=rule),
        sensitivity_table(audits, "m", scale=scale, rule=rule),
        sensitivity_table(audits, "n", scale=scale, rule=rule),
        alignment_table(rows.diagnostics, audits, scale=scale, rule=rule),
        margin_table(rows.diagnostics, scale=scale),
        confidence_table(rows.diagnostics, scale=scale),
        probe_cost_table(audits, scale=scale, rule=rule),
        settings_table(audits),
        failures_table(rows.failures),
    ]
