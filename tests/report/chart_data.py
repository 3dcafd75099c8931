"""What a chart holds: its rows, as they enter the picture."""

from __future__ import annotations

from typing import Any

from table_rows import audit_row

METHODS = ("retrained", "finetune", "delete", "masked")


def rows_of(chart: Any, *fields: str) -> list[dict[str, Any]]:
    """Return every row of a chart that has all these fields."""
    datasets = chart.to_dict()["datasets"].values()
    return [row for rows in datasets for row in rows if all(field in row for field in fields)]


def many_audits(classes: int = 6, seeds: int = 1) -> list[dict[str, Any]]:
    """Audits of four methods whose scores differ from class to class in a known, uneven way."""
    rows = []
    for i, method in enumerate(METHODS):
        for label in range(classes):
            for seed in range(seeds):
                rs = (0.13 + 0.17 * i + 0.061 * label + 0.03 * seed * (label % 2)) % 1.0
                reference = (0.13 + 0.061 * label + 0.03 * seed * (label % 2)) % 1.0
                rows.append(
                    audit_row(
                        method,
                        (label,),
                        seed=seed,
                        scale="canonical",
                        rule="source-free",
                        rs=rs,
                        delta_rs=rs - reference,
                        forget_after=rs / 2,
                        forget_before=0.01 * i,
                        forget_original=0.9 + 0.01 * label,
                    )
                )
    return rows
