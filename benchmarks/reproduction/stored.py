"""The committed rows, and the paper's printed ones, read back as plain records."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import Any

from sfra.bench.tables.names import BACKBONES, METHODS

Row = Mapping[str, Any]

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "reproduction"
PAPER = KEPT / "paper"

TEXT = (
    "protocol",
    "method",
    "forget",
    "audit",
    "varied",
    "scale",
    "variant",
    "rule",
    "verdict",
    "what",
    "name",
    "reason",
)
"""Columns that are never numbers, though they may look so."""

SCALES, RULES = ("native", "canonical"), ("worst-case", "validation", "source-free")
READINGS = tuple((scale, rule) for scale in SCALES for rule in RULES)

PUBLISHED = ("native", "worst-case")
"""The reading that the paper's tables are made with."""

VERDICT = ("canonical", "source-free")
"""The reading that a verdict rests on."""

WHAT = {
    "audit": "audits",
    "pra": "PRA",
    "linear-probe": "linear probes",
    "diagnostics": "diagnoses",
    "geometry": "maps",
}
"""Goals of a kind, for readers."""

ONE = {"audit": "audit", "pra": "PRA", "linear-probe": "linear probe", "diagnostics": "diagnosis", "geometry": "map"}
"""One goal of a kind."""

DRIFT = {"drift": "drift.json", "drift_audits": "drift-audits.json"}
"""Rows that are no tables of a store: accuracies and audits of networks whose batch-norm averages alone moved."""

METHOD_OF = {name: key for key, name in METHODS.items()}
METHOD_LIST = tuple(key for key in METHODS if key != "original")
"""The methods of the paper, in the order of every table."""


def read_csv(path: Path) -> list[dict[str, Any]]:
    """Read rows; an empty field is None, and what looks like a number is one, but for the columns of text."""
    if not path.is_file():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return [{name: _value(name, text) for name, text in row.items()} for row in csv.DictReader(file)]


def count_goals(what: str, number: int) -> str:
    """Count goals of a kind.

    >>> count_goals("audit", 1), count_goals("diagnostics", 3)
    ('1 audit', '3 diagnoses')
    """
    return f"{number} {(ONE if number == 1 else WHAT)[what]}"


@dataclass(frozen=True, kw_only=True)
class Kept:
    """The rows of one group of protocols."""

    group: str
    originals: Sequence[Row] = ()
    audits: Sequence[Row] = ()
    pra: Sequence[Row] = ()
    probes: Sequence[Row] = ()
    diagnostics: Sequence[Row] = ()
    models: Sequence[Row] = ()
    selection: Sequence[Row] = ()
    confusion: Sequence[Row] = ()
    coverage: Sequence[Row] = ()
    failures: Sequence[Row] = ()
    remade: Sequence[Row] = ()
    drift: Sequence[Row] = ()
    drift_audits: Sequence[Row] = ()

    def main(self, scale: str, rule: str, *, forget: str | None = None) -> list[Row]:
        """Keep the main audits of the group's own protocol in one reading, or those of a set of several classes."""
        own = self.group if forget is None else f"{self.group}-multi"
        return [row for row in self._main.get((own, scale, rule), ()) if forget is None or row["forget"] == forget]

    @cached_property
    def _main(self) -> dict[tuple[str, str, str], list[Row]]:
        """Index the main audits as released, as every table asks for them again and again."""
        found: dict[tuple[str, str, str], list[Row]] = {}
        for row in self.audits:
            if (row["audit"], row["variant"]) == ("main", "released"):
                found.setdefault((row["protocol"], row["scale"], row["rule"]), []).append(row)
        return found

    def by_class(self, scale: str, rule: str, value: str = "rs") -> dict[str, dict[str, float]]:
        """Arrange a value of the main audits by method and forget class; several seeds are averaged."""
        return arrange(self.main(scale, rule), value)


def read_kept(group: str, folder: Path = KEPT) -> Kept:
    """Read the rows of a group."""
    names = [one.name for one in fields(Kept) if one.name not in ("group", *DRIFT)]
    tables = {name: read_csv(folder / group / f"{name}.csv") for name in names}
    return Kept(group=group, **{name: _read_drift(folder / group / file) for name, file in DRIFT.items()}, **tables)


def _read_drift(path: Path) -> list[Row]:
    """Read what benchmarks/drift.py wrote: what passes leave that move only batch-norm averages."""
    return json.loads(path.read_text(encoding="utf-8"))["rows"] if path.is_file() else []


def own(rows: Sequence[Row], kept: Kept) -> list[Row]:
    """Keep the rows of the group's own protocol: single forget classes."""
    return [row for row in rows if row["protocol"] == kept.group]


def count_alarms(rows: Sequence[Row]) -> tuple[int, int]:
    """Count the retrained models among audits for which something came back, and all of them."""
    found = [row["verdict"] for row in rows if row["method"] == "retrained"]
    return sum(one != "not-recovered" for one in found), len(found)


def probed_models(kept: Kept) -> str:
    """Count the models of methods that have a linear probe among those that were audited; controls are not counted."""
    probed, audited = (
        len({(row["method"], row["forget"]) for row in rows if row["method"] in METHOD_LIST})
        for rows in (own(kept.probes, kept), kept.main(*PUBLISHED))
    )
    return f"{probed} of {audited}"


def diagnosed(kept: Kept, value: str, scale: str = "native") -> dict[str, dict[str, float]]:
    """Arrange a diagnostic by method and forget class."""
    return arrange([row for row in own(kept.diagnostics, kept) if row["scale"] == scale], value)


def arrange(rows: Sequence[Row], value: str) -> dict[str, dict[str, float]]:
    """Arrange a value of rows by method and forget set; rows that have both in common are averaged.

    >>> arrange([{"method": "a", "forget": "1", "rs": 0.25}, {"method": "a", "forget": "1", "rs": 0.75}], "rs")
    {'a': {'1': 0.5}}
    """
    found: dict[str, dict[str, list[float]]] = {}
    for row in rows:
        if row[value] is not None:
            found.setdefault(row["method"], {}).setdefault(row["forget"], []).append(row[value])
    return {method: {forget: fmean(same) for forget, same in some.items()} for method, some in found.items()}


def printed(variant: str, value: str, *, folder: Path = PAPER, backbone: str = "resnet18-small") -> dict[str, Any]:
    """Read a column of the paper's per-class table by method and forget class; accuracies as fractions.

    Args:
        variant: ``original``, ``unlearned``, ``pra``, ``sfra`` or ``linear_probe``.
        value: ``rs``, ``delta_rs``, ``retain_acc`` or ``forget_acc``.
        folder: Where the paper's tables are.
        backbone: One of ours.
    """
    rows = [
        {"method": METHOD_OF[row["method"]], "forget": str(row["forget"]), value: _scaled(row[value], value)}
        for row in paper_rows("per_class", folder=folder)
        if (row["backbone"], row["variant"]) == (BACKBONES[backbone], variant) and row["forget"] != "avg"
    ]
    return arrange(rows, value)


def paper_rows(name: str, *, folder: Path = PAPER) -> list[dict[str, Any]]:
    """Read a table of the paper; its column ``forget_class`` is called ``forget``."""
    with (folder / f"{name}.csv").open(newline="", encoding="utf-8") as file:
        rows = [
            {key.replace("forget_class", "forget"): text for key, text in row.items()} for row in csv.DictReader(file)
        ]
    own = ("dataset", "backbone", "proposal", "distribution", "score", "row", "setting")
    return [{key: text if key in own else _value(key, text) for key, text in row.items()} for row in rows]


def _scaled(value: float | None, name: str) -> float | None:
    return value / 100 if value is not None and name.endswith("_acc") else value


def _value(name: str, text: str) -> Any:
    if text == "" and name != "forget":
        return None
    if name in TEXT:
        return text
    try:
        return float(text)
    except ValueError:
        return text
