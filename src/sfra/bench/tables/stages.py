"""From rows to stages: what was measured of each model and forget set before and after each audit or control.

Means are those of :mod:`statistics`, whose sums are exact: the printed digits do not depend on the order of the rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any, TypeVar

from sfra.bench.rows import Row as TypedRow
from sfra.bench.tables.names import STAGES, Row, forget_of, method_rank, place

AnyRow = TypeVar("AnyRow", bound=Row)

MODEL = ("dataset", "backbone", "method", "forget")
"""What a line is about; several models of it, by their seeds, are averaged."""

PRA = "cosine"
"""The variant of PRA that tables show."""


@dataclass(frozen=True, kw_only=True)
class Stage(TypedRow):
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


def stages_of(
    audits: Iterable[Row], pra: Iterable[Row] = (), probes: Iterable[Row] = (), *, scale: str, rule: str
) -> list[Stage]:
    """List every stage that the rows tell of, in the order of the tables."""
    main = main_audits(audits, scale=scale, rule=rule)
    prototypes = [row for row in pra if row["variant"] == PRA]
    known = [row for row in main if row.get("retain_original") is not None]
    audited = group(main, *MODEL)
    others = [row for key, same in group(prototypes, *MODEL).items() if key not in audited for row in same]
    stages = [
        *_stages("original", [{**row, "method": "original"} for row in known], "{}_original"),
        *_stages("unlearned", [*main, *others], "{}_before"),
        *_stages("pra", prototypes, "{}_after", scored=True),
        *_stages("sfra", main, "{}_after", scored=True),
        *_stages("linear_probe", list(probes), "{}_accuracy"),
    ]
    return sorted(stages, key=lambda stage: stage.rank)


def _stages(variant: str, rows: Sequence[Row], name: str, *, scored: bool = False) -> Iterator[Stage]:
    """Average the rows of each model and forget set; ``name`` says which of their accuracies to read."""
    for (dataset, backbone, method, forget), same in group(rows, *MODEL).items():
        yield Stage(
            dataset=dataset,
            backbone=backbone,
            method=method,
            forget=forget,
            variant=variant,
            retain=mean(row.get(name.format("retain")) for row in same),
            forgotten=mean(row.get(name.format("forget")) for row in same),
            rs=mean(row.get("rs") for row in same) if scored else None,
            rs_std=spread(same) if scored else None,
            delta_rs=mean(row.get("delta_rs") for row in same) if scored else None,
        )


def select(audits: Iterable[AnyRow], *, scale: str, rule: str, variant: str | None = "released") -> list[AnyRow]:
    """Keep the audits of one scale and rule and, unless None, one treatment of the forget row."""
    chosen = (row for row in audits if (row["scale"], row["rule"]) == (scale, rule))
    return [row for row in chosen if variant is None or row["variant"] == variant]


def main_audits(audits: Iterable[AnyRow], *, scale: str, rule: str) -> list[AnyRow]:
    """Keep the audits that are no ablation, of one scale and rule."""
    return [row for row in select(audits, scale=scale, rule=rule) if row.get("audit", "main") == "main"]


def group(rows: Iterable[AnyRow], *names: str) -> dict[tuple[Any, ...], list[AnyRow]]:
    """Gather rows that agree in some of their values; a value that is not there counts as None."""
    groups: dict[tuple[Any, ...], list[AnyRow]] = {}
    for row in rows:
        key = tuple(forget_of(row) if name == "forget" else row.get(name) for name in names)
        groups.setdefault(key, []).append(row)
    return groups


def spread(rows: Sequence[Row], name: str = "rs") -> float | None:
    """Return the deviation over rows, or that of the only row over its own seeds."""
    return rows[0].get(f"{name}_std") if len(rows) == 1 else deviation(row.get(name) for row in rows)


def mean(values: Iterable[float | None]) -> float | None:
    """Average what is there; None when nothing is."""
    there = present(values)
    return fmean(there) if there else None


def deviation(values: Iterable[float | None]) -> float | None:
    """Compute the sample standard deviation (n - 1) of what is there; None for fewer than two."""
    there = present(values)
    return stdev(there) if len(there) > 1 else None


def present(values: Iterable[float | None]) -> list[float]:
    """Drop what is missing."""
    return [float(value) for value in values if value is not None]
