"""What figures take from the rows of a benchmark: one data set and backbone, one reading, averaged as in the tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sfra.bench.tables.columns import reading
from sfra.bench.tables.names import backbone_name, dataset_name, method_name, method_rank
from sfra.bench.tables.stages import Stage, main_audits, stages_of
from sfra.core.errors import InputError
from sfra.report.figures.style import Number

Row = Mapping[str, Any]

BUDGETS = [i / 400 for i in range(41)]
"""Retain budgets ε at which RS@ε is drawn: 0 to 10 points; relearning that loses more counts as degenerate."""


def stages(audits: Sequence[Row], *, scale: str, rule: str, single: bool = False) -> list[Stage]:
    """Return the stages of the main audits under one reading, in the order of the tables.

    Args:
        audits: Rows of one data set and backbone.
        scale: Scale of the audits.
        rule: Selection rule.
        single: Keep single forget classes only, if there are any; else all sets are kept.

    Raises:
        InputError: There is nothing to draw, or there are several data sets or backbones.
    """
    one_setting(audits)
    if not main_audits(audits, scale=scale, rule=rule):
        there = sorted({f"{row['scale']}/{row['rule']}" for row in audits if row.get("audit", "main") == "main"})
        raise InputError(
            f"there is nothing to draw: no main audit at scale {scale} under rule {rule}",
            expected="rows of a benchmark with that scale and rule",
            got=", ".join(there) or "no main audits at all",
            do="choose another scale or rule, or finish the benchmark",
        )
    found = stages_of(audits, scale=scale, rule=rule)
    return [stage for stage in found if len(stage.forget) == 1] or found if single else found


def one_setting(rows: Iterable[Row]) -> None:
    """Refuse rows of more than one data set or backbone: their means would mix what cannot be compared."""
    settings = sorted({(str(row.get("dataset")), str(row.get("backbone"))) for row in rows})
    if len(settings) > 1:
        raise InputError(
            "a figure shows one data set and backbone",
            got=", ".join("/".join(setting) for setting in settings),
            do="draw one figure for each, as sfra.report.export_bench does",
        )


def where(rows: Sequence[Row]) -> str:
    """Name the data set and backbone of rows for a subtitle."""
    return ", ".join(
        name(str(rows[0][key]))
        for key, name in (("dataset", dataset_name), ("backbone", backbone_name))
        if rows and rows[0].get(key)
    )


def caption(rows: Sequence[Row], scale: str, rule: str) -> list[str]:
    """Write the subtitle of a figure: what it is about and how the audits were read."""
    return [f"{where(rows)}. {reading(scale, rule)}" if where(rows) else reading(scale, rule)]


def best_within(retain: Sequence[Number], rs: Sequence[Number], epsilon: Number) -> tuple[Number, int]:
    """Return RS@ε of a run, the best RS of an epoch that loses at most ε of retain accuracy, and its first epoch.

    >>> best_within([0.9, 0.88, 0.7], [0.0, 0.5, 0.8], 0.05)
    (0.5, 1)
    """
    kept = [epoch for epoch in range(len(rs)) if retain[0] - retain[epoch] <= epsilon + 1e-9]
    best = max(kept, key=lambda epoch: (rs[epoch], -epoch))
    return rs[best], best


def in_order(methods: Iterable[str]) -> list[str]:
    """Sort methods as the tables do, each once."""
    return sorted(set(methods), key=method_rank)


def classes(stages: Iterable[Stage]) -> str:
    """Say over how many forget sets a figure goes.

    >>> classes([])
    '0 forget classes'
    """
    sets = {stage.forget for stage in stages}
    kind = "forget class" if all(len(forget) == 1 for forget in sets) else "forget set"
    return f"{len(sets)} {kind}{'' if len(sets) == 1 else 'es' if kind.endswith('class') else 's'}"


def extremes(values: Mapping[str, float], digits: int = 2) -> str:
    """Name the methods with the highest and the lowest of some values, for a text alternative.

    >>> extremes({"delete": 0.9, "finetune": 0.2})
    'from 0.20 (Finetune) to 0.90 (DELETE)'
    """
    low, high = min(values, key=lambda name: values[name]), max(values, key=lambda name: values[name])
    return f"from {values[low]:.{digits}f} ({method_name(low)}) to {values[high]:.{digits}f} ({method_name(high)})"
