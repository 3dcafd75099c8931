"""What a chart holds: its rows, as they enter the picture."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from builders.rows import audit_row
from sfra.bench.rows import AuditRow
from sfra.report.figures import MARKS

METHODS = ("retrained", "finetune", "delete", "masked")


def rows_of(chart: Any, *fields: str) -> list[dict[str, Any]]:
    """Return every row of a chart that has all these fields."""
    datasets = chart.to_dict()["datasets"].values()
    return [row for rows in datasets for row in rows if all(field in row for field in fields)]


def many_audits(classes: int = 6, seeds: int = 1) -> list[AuditRow]:
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


ALL = tuple(name for name in MARKS if name != "original")
"""Every method that comes with the package, and the control."""


def full_audits(classes: int = 10, *, names: Sequence[str] = ALL) -> list[AuditRow]:
    """Audits of all methods whose scores crowd together near the top, as real ones do."""
    rng = np.random.default_rng(7)
    rows = []
    for i, method in enumerate(names):
        for label in range(classes):
            centre = 0.2 if method == "retrained" else 0.88 - 0.012 * i
            rs = float(np.clip(rng.normal(centre, 0.08), 0, 1))
            rows.append(
                audit_row(
                    method,
                    (label,),
                    scale="canonical",
                    rule="source-free",
                    rs=rs,
                    delta_rs=rs - 0.2,
                    forget_after=rs * 0.95,
                    forget_before=0.01 * (i % 3),
                )
            )
    return rows


def ablations(audits: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The same audits with other sizes of the probe set."""
    return [
        dict(row) | {"audit": name, name.lower(): size, "rs": min(1.0, row["rs"] * (0.6 + 0.1 * i))}
        for row in audits
        for name, sizes in (("M", (50, 200, 500)), ("N", (1000, 10_000, 500_000)))
        for i, size in enumerate(sizes)
    ]


def sweep_rows(names: Sequence[str] = ALL, classes: int = 10) -> list[dict[str, Any]]:
    """RS over nine scales that rises from 0 to 1, for each class at another place."""
    return [
        {"method": name, "forget": str(label), "kappa": 1.7 * 2.0 ** (step / 4)}
        | {"rs": _rise(step + i / 4 - label / 5), "reference_rs": _rise(step - 4 - label / 5)}
        for i, name in enumerate(names)
        for label in range(classes)
        for step in range(-4, 5)
    ]


def _rise(place: float) -> float:
    return 1 / (1 + math.exp(-1.5 * place))


def traces() -> list[dict[str, Any]]:
    """Two runs of each method whose curves end close together."""
    return [
        {"dataset": "cifar10", "backbone": "resnet18-small", "method": name, "forget": str(run)}
        | {"retain": [0.9 - 0.01 * e for e in range(10)]}
        | {"rs": [(0.80 + 0.015 * i - 0.02 * run) * (1 - 0.5**e) for e in range(10)]}
        for i, name in enumerate(ALL)
        for run in range(2)
    ]
