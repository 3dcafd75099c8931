"""Rows that are not there yet, made out of the committed ones, and the paper's numbers as its files have them."""

from __future__ import annotations

import csv
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from statistics import fmean
from typing import Any

from reproduction.build import COMPARED
from reproduction.stored import METHOD_LIST, PAPER, Kept
from sfra.bench.tables import Table
from sfra.bench.tables.names import METHODS

ABLATIONS, RATED, STEPPED, LONG = (
    f"{COMPARED}-{ending}" for ending in ("ablations", "published", "steps", "long-steps")
)
RATED_METHODS = [m for m in METHOD_LIST if m not in ("retrained", "delete", "negative-gradient-plus")]
THREE, TEN = ["0", "3", "7"], [str(k) for k in range(10)]


def cells(table: Table) -> dict[str, dict[str, str | None]]:
    """Read a table by its first column and CSV name."""
    return {str(row[0][0]): {name: cell[0] for name, cell in zip(table.names, row, strict=True)} for row in table.rows}


@cache
def paper_file(table: str) -> list[dict[str, str]]:
    """Read a table of the paper as it is in its file."""
    with (PAPER / f"{table}.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@cache
def _per_class() -> dict[tuple[str, ...], dict[str, str]]:
    place = ("backbone", "method", "forget_class", "variant")
    return {tuple(row[name] for name in place): row for row in paper_file("per_class")}


def paper_value(method: str, forget: str, variant: str = "sfra", column: str = "rs") -> float:
    """Read a printed number of one model."""
    return float(_per_class()["ResNet-18", METHODS[method], forget, variant][column])


def paper_mean(method: str, forget: Sequence[str], variant: str = "sfra", column: str = "rs") -> float:
    """Average a printed number over classes."""
    return fmean(paper_value(method, one, variant, column) for one in forget)


def varied(
    kept: Kept, audit: str, level: str, *, forget: Iterable[str], methods: Sequence[str] = METHOD_LIST
) -> list[dict[str, Any]]:
    """Make an ablation's rows out of the main audits': RS of each method is drawn nearer to a number of its own."""
    wanted, made = set(forget), []
    for row in kept.audits:
        main = (row["protocol"], row["audit"], row["variant"]) == (COMPARED, "main", "released")
        if main and row["scale"] in ("native", "canonical") and row["forget"] in wanted and row["method"] in methods:
            draw = (7 * METHOD_LIST.index(row["method"]) + 3 * sum(map(ord, level)) + int(row["forget"])) % 11 / 11
            variant = "restored-row" if audit == "missing row" else "released"
            place = {"protocol": ABLATIONS, "audit": audit, "varied": level, "variant": variant}
            made.append({**row, **place, "rs": 0.5 * row["rs"] + 0.5 * draw, "rs_std": 0.25 * draw})
    return made


def with_rows(kept: Kept, rows: Sequence[Mapping[str, Any]], *, done: int = 35) -> Kept:
    """Add rows of ablations, and say how many audits they are."""
    covered = {"protocol": ABLATIONS, "what": "audit", "done": float(done), "goals": 583.0, "seconds": 1.0}
    return replace(kept, audits=[*kept.audits, *rows], coverage=[*kept.coverage, covered])


def in_world(
    kept: Kept,
    protocol: str,
    *,
    forget: Collection[str],
    methods: Collection[str],
    toward: float,
    goals: int | None = None,
    changed: Mapping[str, Any] | None = None,
) -> Kept:
    """Add audits and PRA of another protocol: RS goes from ours toward the paper's, by a share of the way."""
    audits = []
    for row in kept.audits:
        main = (row["protocol"], row["audit"], row["variant"]) == (COMPARED, "main", "released")
        if main and row["forget"] in forget and row["method"] in methods:
            own, paper = row["rs"], row["rs"]
            if row["method"] in METHOD_LIST:
                paper = paper_value(row["method"], row["forget"])
            audits.append({**row, "protocol": protocol, "rs": own + toward * (paper - own), **(changed or {})})
    pra = [
        {**row, "protocol": protocol, "rs": 0.5 * row["rs"]}
        for row in kept.pra
        if row["protocol"] == COMPARED and row["forget"] in forget and row["method"] in methods
    ]
    done = len({(row["method"], row["forget"]) for row in audits})
    covered = {
        "protocol": protocol,
        "what": "audit",
        "done": float(done),
        "goals": float(goals or done),
        "seconds": 1.0,
    }
    return replace(kept, audits=[*kept.audits, *audits], pra=[*kept.pra, *pra], coverage=[*kept.coverage, covered])


def stepped(kept: Kept, toward: float, **more: Any) -> Kept:
    """Add the models of the step schedule."""
    wanted = {"forget": THREE, "methods": METHOD_LIST} | more
    return in_world(kept, STEPPED, toward=toward, **wanted)


def in_full(kept: Kept, toward: float, **more: Any) -> Kept:
    """Add the models of the full step schedule."""
    wanted = {"forget": THREE, "methods": METHOD_LIST} | more
    return in_world(kept, LONG, toward=toward, **wanted)


def rated(kept: Kept, toward: float, **more: Any) -> Kept:
    """Add the models of the paper's rates."""
    wanted = {"forget": TEN, "methods": RATED_METHODS} | more
    return in_world(kept, RATED, toward=toward, **wanted)


def own_world(kept: Kept) -> Kept:
    """Leave out what other rates and other schedules have."""
    parts: dict[str, Any] = {
        name: [row for row in getattr(kept, name) if row["protocol"] not in (RATED, STEPPED, LONG)]
        for name in ("audits", "pra", "diagnostics", "originals", "coverage", "failures")
    }
    return replace(kept, **parts)


def our_mean(kept: Kept, protocol: str, method: str, forget: Sequence[str], value: str = "rs") -> float:
    """Average a value of a protocol's models, in the reading of the paper, over classes."""
    place = (protocol, "main", "released", "native", "worst-case", method)
    names = ("protocol", "audit", "variant", "scale", "rule", "method")
    rows = [row for row in kept.audits if tuple(row[name] for name in names) == place and row["forget"] in forget]
    assert len(rows) == len(forget)
    return fmean(row[value] for row in rows)
