"""Rows of a sweep over scales that is not there yet: curves by method, shifted by class, with verdicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from builders.second_group import GROUP
from reproduction.stored import Kept, Row
from sfra.attack.scale import KAPPA, SWEEP

SCALES = f"{GROUP}-scales"
KAPPAS = [float(f"{kappa:.5f}") for kappa in SWEEP]
"""As the rows have them."""

FLOOR = 0.38
BASE = {
    "retrained": [0.0, 0.02, 0.04, 0.10, 0.40, 0.60, 0.75, 0.85, 0.90],
    "masked": [0.10, 0.20, 0.50, 0.70, 0.80, 0.85, 0.90, 0.92, 0.94],
    "boundary-shrink": [0.20, 0.40, 0.60, 0.70, 0.77, 0.80, 0.80, 0.80, 0.80],
    "bad-teacher": [0.70, 0.80, 0.90, 0.94, 0.95, 0.95, 0.95, 0.95, 0.95],
    "salun": [0.60, 0.75, 0.88, 0.92, 0.94, 0.94, 0.94, 0.94, 0.94],
    "delete": [0.30, 0.40, 0.60, 0.70, 0.74, 0.75, 0.75, 0.75, 0.75],
}
LOST = [0.0, 0.01, 0.01, 0.02, 0.05, 0.08, 0.2, 0.3, 0.4]
"""Retain accuracy lost, by scale."""

SHIFT = {"0": -0.02, "40": 0.01, "50": 0.0}


def reading(method: str, forget: str, kappa: float | None, rs: float, **more: Any) -> dict[str, Any]:
    place = {"protocol": SCALES, "seed": 0.0, "method": method, "forget": forget, "audit": "main", "varied": None}
    scale = "native" if kappa is None else "canonical" if kappa == KAPPA else f"kappa={kappa:.4g}"
    at = {"scale": scale, "kappa": kappa, "variant": "released", "rule": "source-free", "rs": rs, "rs_std": 0.0}
    rest: dict[str, Any] = dict.fromkeys(("retain_before", "retain_after"), 0.76)
    rest |= {"delta_rs": 0.0, "reference_rs": 0.1, "forget_before": 0.5, "forget_after": 0.5, "epoch": 500.0}
    return {**place, **at, **rest, "floor": FLOOR, "verdict": "not-recovered", **more}


def sweep_of(curves: Mapping[str, Sequence[float]], shift: Mapping[str, float] = SHIFT) -> list[dict[str, Any]]:
    """Make the audits of a sweep: curves by method, each shifted by class; other rules and native scale say 1."""
    rows = []
    for method, curve in curves.items():
        for forget, by in shift.items():
            rows.append(reading(method, forget, None, 1.0))
            for kappa, rs in zip(KAPPAS, curve, strict=True):
                rows.append(reading(method, forget, kappa, min(1.0, max(0.0, round(rs + by, 5)))))
                rows += [reading(method, forget, kappa, 1.0, rule=rule) for rule in ("worst-case", "validation")]
    return rows


def judged(rows: Sequence[Row], lost: Sequence[float] = LOST) -> list[dict[str, Any]]:
    """Give the readings of a sweep verdicts of their own: by what is lost at a scale, the floor, and the reference."""
    plain = [row for row in rows if row["rule"] == "source-free" and row["kappa"] is not None]
    reference = {(row["forget"], row["kappa"]): row["rs"] for row in plain if row["method"] == "retrained"}

    def verdict(row: Row) -> str:
        if lost[KAPPAS.index(row["kappa"])] > 0.1:
            return "degenerate"
        if row["rs"] <= FLOOR:
            return "not-recovered"
        if row["method"] == "retrained":
            return "no-reference"
        return "recovered" if row["rs"] - reference.get((row["forget"], row["kappa"]), 0.0) > 0.1 else "generic"

    return [{**row, "verdict": verdict(row), "retain_after": 0.76 - lost[KAPPAS.index(row["kappa"])]} for row in plain]


FLAT = {
    **BASE,
    "retrained": [0.0, 0.02, 0.30, 0.35, 0.45, 0.60, 0.75, 0.85, 0.60],
    "masked": [0.02, 0.05, 0.32, 0.60, 0.65, 0.66, 0.90, 0.92, 0.94],
}
"""Curves whose control is above its floor at few scales; widest apart where every audit is degenerate."""


def flat_sweep() -> list[dict[str, Any]]:
    """Make a sweep with verdicts, in which the control of one class is nowhere above its reference."""
    rows = sweep_of(FLAT)
    same = {row["kappa"]: row["rs"] for row in rows if (row["method"], row["forget"]) == ("retrained", "50")
            and row["rule"] == "source-free"}  # fmt: skip
    near = {KAPPAS[1]: 0.03, KAPPAS[8]: 0.3}
    flat = [
        {**row, "rs": round(same[row["kappa"]] + near.get(row["kappa"], 0.0), 5)}
        if (row["method"], row["forget"]) == ("masked", "50") and row["kappa"] is not None
        else row
        for row in rows
    ]
    return judged(flat)


def covered(done: int) -> dict[str, Any]:
    return {"protocol": SCALES, "what": "audit", "done": float(done), "goals": 18.0, "seconds": 1.0}


def with_sweep(kept: Kept, rows: Sequence[Row]) -> Kept:
    done = len({(row["method"], row["forget"]) for row in rows})
    return replace(kept, audits=[*kept.audits, *rows], coverage=[*kept.coverage, covered(done)])


def grid(rows: Sequence[Row], method: str) -> np.ndarray[Any, Any]:
    """RS of a method as an array of classes and scales."""
    found = {(r["forget"], r["kappa"]): r["rs"] for r in rows if (r["method"], r["rule"]) == (method, "source-free")}
    return np.array([[found[forget, kappa] for kappa in KAPPAS] for forget in SHIFT])


def empty() -> Kept:
    return Kept(group=GROUP)
