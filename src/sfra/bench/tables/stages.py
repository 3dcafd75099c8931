"""From rows to stages: per model and forget set, what was measured of it before and after each audit or control."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sfra.bench.tables.format import deviation, mean
from sfra.bench.tables.names import STAGES, Row, forget_of, method_rank, place


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One model at one stage, averaged over model seeds and, for PRA, over draws of support samples."""

    dataset: str
    backbone: str
    method: str
    forget: tuple[int, ...]
    variant: str
    """``original``, ``unlearned``, ``pra``, ``sfra`` or ``linear_probe``."""
    retain: float | None
    """Retain accuracy."""
    forgotten: float | None
    """Forget accuracy."""
    rs: float | None = None
    rs_std: float | None = None
    """Over model seeds and draws; of a single audit, over its own seeds."""
    delta_rs: float | None = None

    @property
    def rank(self) -> tuple[Any, ...]:
        """Place in a table: data set, backbone, method, forget set, stage."""
        where = place(self.dataset, self.backbone)
        return *where, method_rank(self.method), (len(self.forget), self.forget), STAGES.index(self.variant)


def select(audits: Iterable[Row], *, scale: str, rule: str, variant: str | None = "released") -> list[Row]:
    """Keep the audits of one scale and rule and, unless None, one treatment of the forget row."""
    return [
        row
        for row in audits
        if row["scale"] == scale and row["rule"] == rule and (variant is None or row["variant"] == variant)
    ]


def main_audits(audits: Iterable[Row], *, scale: str, rule: str) -> list[Row]:
    """Keep the audits that are no ablation, of one scale and rule."""
    return [row for row in select(audits, scale=scale, rule=rule) if row.get("audit", "main") == "main"]


def stages_of(
    audits: Iterable[Row],
    pra: Iterable[Row] = (),
    probes: Iterable[Row] = (),
    *,
    scale: str,
    rule: str,
    pra_variant: str = "cosine",
) -> list[Stage]:
    """List every stage that the rows tell of, in the order of the tables."""
    main = main_audits(audits, scale=scale, rule=rule)
    prototypes = [row for row in pra if row["variant"] == pra_variant]
    known = [row for row in main if row.get("retain_original") is not None]
    stages = [
        *_stages("original", [{**row, "method": "original"} for row in known], "original"),
        *_stages("unlearned", [*main, *_without_audit(prototypes, main)], "before"),
        *_stages("pra", prototypes, "after", scored=True),
        *_stages("sfra", main, "after", scored=True),
        *_stages("linear_probe", list(probes), "accuracy"),
    ]
    return sorted(stages, key=lambda stage: stage.rank)


def group(rows: Iterable[Row], *names: str) -> dict[tuple[Any, ...], list[Row]]:
    """Gather rows that agree in some of their values; a value that is not there counts as None."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        key = tuple(forget_of(row) if name == "forget" else row.get(name) for name in names)
        groups.setdefault(key, []).append(row)
    return groups


def spread(rows: Sequence[Row]) -> float | None:
    """Return the deviation of RS over rows, or that of the only row over its own seeds."""
    return rows[0].get("rs_std") if len(rows) == 1 else deviation(row.get("rs") for row in rows)


def _without_audit(rows: Iterable[Row], audits: Iterable[Row]) -> list[Row]:
    """Keep the rows of models that no audit tells of."""
    names = ("dataset", "backbone", "method", "forget")
    audited = group(audits, *names)
    return [row for key, same in group(rows, *names).items() if key not in audited for row in same]


def _stages(variant: str, rows: Sequence[Row], when: str, *, scored: bool = False) -> Iterator[Stage]:
    """Average the rows of each model and forget set; ``when`` says which of their accuracies to read."""
    retain, forgotten = (
        ("retain_accuracy", "forget_accuracy") if when == "accuracy" else (f"retain_{when}", f"forget_{when}")
    )
    for (dataset, backbone, method, forget), same in group(rows, "dataset", "backbone", "method", "forget").items():
        yield Stage(
            dataset=dataset,
            backbone=backbone,
            method=method,
            forget=forget,
            variant=variant,
            retain=mean(row.get(retain) for row in same),
            forgotten=mean(row.get(forgotten) for row in same),
            rs=mean(row.get("rs") for row in same) if scored else None,
            rs_std=spread(same) if scored else None,
            delta_rs=mean(row.get("delta_rs") for row in same) if scored else None,
        )
