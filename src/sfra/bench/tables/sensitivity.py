"""Tables of audits with other numbers of probes, and of candidates to choose them from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sfra.bench.tables.columns import (
    BACKBONE,
    CLASSES,
    DATASET,
    FORGOTTEN,
    METHOD,
    RETAIN,
    RS,
    identity,
    nothing,
    reading,
)
from sfra.bench.tables.format import count, deviation, mean, percent, score
from sfra.bench.tables.names import Row, forget_of, method_name, method_rank, place
from sfra.bench.tables.stages import group, select, spread
from sfra.bench.tables.table import Cell, Column, Table

HELD = ("proposal", "score", "assignment", "epochs")
"""What must be equal, besides the size that is not varied."""

SIZES = {"m": ("M", "probes per class"), "n": ("N", "candidates per class")}


def sensitivity_table(audits: Sequence[Row], size: str, *, scale: str, rule: str) -> Table:
    """Show RS and accuracies for several values of ``m`` or of ``n``, all else equal.

    Only forget sets that were audited with every value of their method are averaged, so that lines can be compared.
    """
    other = "n" if size == "m" else "m"
    heading, words = SIZES[size]
    lines = _lines(select(audits, scale=scale, rule=rule), size, other)
    held = SIZES[other][0]
    columns = (
        *(DATASET, BACKBONE, Column(names=(other,), heading=held, fold=True, title=f"{held} = {{}}")),
        *(METHOD, Column(names=(size,), heading=heading), RETAIN, FORGOTTEN, RS, CLASSES),
    )
    notes = (
        reading(scale, rule),
        f"{heading}: {words}. Means over forget sets; ± over them, or over the seeds of the audit if there is one.",
    )
    return Table(
        title=f"Sensitivity to {heading}",
        label=f"sensitivity-{size}",
        columns=columns,
        rows=tuple(lines),
        notes=notes if lines else nothing(f"audits that differ in {heading} alone", audits, scale, rule),
    )


def _lines(rows: Sequence[Row], size: str, other: str) -> list[tuple[Cell, ...]]:
    lines: list[tuple[tuple[Any, ...], tuple[Cell, ...]]] = []
    for (dataset, backbone, held, method, *_), same in group(
        rows, "dataset", "backbone", other, "method", *HELD
    ).items():
        values = {forget: {row[size] for row in mine} for (forget,), mine in group(same, "forget").items()}
        most = set().union(*values.values())
        whole = [row for row in same if values[forget_of(row)] == most]
        if len(most) < 2 or not whole:
            continue
        for (value,), alike in group(whole, size).items():
            rank = (*place(dataset, backbone), held or 0, method_rank(method), value)
            start = (*identity(dataset, backbone), (count(held),), (method_name(method),), (count(value),))
            lines.append((rank, (*start, *_figures(alike))))
    return [line for _, line in sorted(lines, key=lambda one: one[0])]


def _figures(rows: Sequence[Row]) -> tuple[Cell, ...]:
    """Average over forget sets; the main audit and an ablation may be the same audit, which counts once."""
    once = list({(forget_of(row), row.get("seed")): row for row in rows}.values())
    sets = group(once, "forget").values()
    scores = [mean(row["rs"] for row in same) for same in sets]
    return (
        (percent(mean(mean(row["retain_after"] for row in same) for same in sets)),),
        (percent(mean(mean(row["forget_after"] for row in same) for same in sets)),),
        (score(mean(scores)), score(deviation(scores) if len(scores) > 1 else spread(once))),
        (count(len(scores)),),
    )
