"""From a store to rows: plain records that tables, figures and pages are made of."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from sfra.auditing.result import read_result
from sfra.bench.contents import KINDS, origin_of
from sfra.bench.engine.cell import reachable
from sfra.bench.engine.store import Store
from sfra.bench.plan import Goal

Row = dict[str, Any]

OF_AUDIT = ("proposal", "score", "assignment", "n", "m", "epochs", "seeds")
"""Settings of an audit that its rows carry."""

OF_READING = (
    "scale",
    "kappa",
    "variant",
    "rule",
    "rs",
    "rs_std",
    "delta_rs",
    "reference_rs",
    "retain_before",
    "retain_after",
    "forget_before",
    "forget_after",
    "floor",
    "verdict",
    "epoch",
)
"""What a reading of an audit says, carried over as it is."""


@dataclass(frozen=True, kw_only=True)
class Rows:
    """Everything that a store holds for a protocol, as far as it is done."""

    originals: list[Row] = field(default_factory=list)
    """Accuracy of each original on the test split, per class."""
    audits: list[Row] = field(default_factory=list)
    """One per audit, scale, variant and rule."""
    pra: list[Row] = field(default_factory=list)
    """One per model, variant and draw of support samples."""
    probes: list[Row] = field(default_factory=list)
    """One linear probe per model."""
    diagnostics: list[Row] = field(default_factory=list)
    """One per diagnosed model, scale and forget class."""
    maps: list[Row] = field(default_factory=list)
    """One per model with a map; its points are in a file of the cell."""
    failures: list[Row] = field(default_factory=list)
    """Cells that failed, with their reason."""
    missing: int = 0
    """Goals that are not done."""


def collect(goals: Sequence[Goal], store: Store) -> Rows:
    """Read what is done; nothing is computed, nothing written."""
    known = {goal.cell.key: store.record(goal.cell) for goal in goals}
    results = {key: record.result for key, record in known.items() if record is not None}
    done = [goal for goal in goals if goal.cell.key in results]

    def rows_of(what: str, read: Callable[[Goal, Mapping[str, Any]], Iterator[Row]]) -> list[Row]:
        chosen = (goal for goal in done if goal.what == what)
        return [row for goal in chosen for row in _checked(goal, store, read(goal, results[goal.cell.key]))]

    originals = rows_of("accuracy", _original)
    before = {(row["dataset"], row["backbone"], row["seed"]): row for row in originals}
    return Rows(
        originals=originals,
        audits=rows_of("audit", lambda goal, _: _audit(goal, store, before)),
        pra=_with_delta(rows_of("pra", _pra)),
        probes=rows_of("linear-probe", _probe),
        diagnostics=rows_of("diagnostics", _diagnosis),
        maps=rows_of("geometry", _map),
        failures=list(_failures(goals, store)),
        missing=len(goals) - len(done),
    )


def join(parts: Sequence[Rows]) -> Rows:
    """Put the rows of protocols that share a store together; what several of them have in common counts once.

    >>> one = Rows(probes=[{"method": "delete"}])
    >>> join([one, Rows(probes=[{"method": "delete"}, {"method": "salun"}])]).probes
    [{'method': 'delete'}, {'method': 'salun'}]
    """
    names = [one.name for one in fields(Rows) if one.name != "missing"]
    rows = {name: _once([row for part in parts for row in getattr(part, name)]) for name in names}
    return Rows(**rows, missing=sum(part.missing for part in parts))


def accuracy(hits: Sequence[int], samples: Sequence[int], classes: Iterable[int]) -> float | None:
    """Compute the accuracy over some classes; None if they have no samples.

    >>> accuracy([9, 5, 8], [10, 10, 10], [0, 2])
    0.85
    """
    chosen = list(classes)
    total = sum(samples[c] for c in chosen)
    return sum(hits[c] for c in chosen) / total if total else None


def _checked(goal: Goal, store: Store, rows: Iterator[Row]) -> list[Row]:
    """Read the rows of a goal; a cell that says something else than its kind does is named."""
    origin = origin_of(store, goal.cell)
    with origin.reading():
        found = list(rows)
        json.dumps(found, allow_nan=False)
    for row in found:
        origin.check(row, KINDS[goal.what])
    return found


def _original(goal: Goal, found: Mapping[str, Any]) -> Iterator[Row]:
    overall = accuracy(found["hits"], found["samples"], range(len(found["hits"])))
    told = {name: found[name] for name in ("hits", "samples", "class_names", "model")}
    yield {**goal.identity, "accuracy": overall, **told}


def _audit(goal: Goal, store: Store, before: Mapping[tuple[Any, ...], Row]) -> Iterator[Row]:
    """Read an audit; a model without a reference is the reference itself, and ΔRS is 0."""
    report = read_result(store.folder(goal.cell) / "audit.json")
    identity = _identity(goal)
    shared = {
        **identity,
        **_original_accuracies(identity, before),
        **{name: report["settings"][name] for name in OF_AUDIT},
        "cell": goal.cell.key,
        "seconds": report["seconds"],
        "findings": [finding["code"] for finding in report["findings"]],
    }
    for reading in report["results"]:
        probes = [p for p in report["probes"] if (p["scale"], p["variant"]) == (reading["scale"], reading["variant"])]
        yield {
            **shared,
            **{name: reading[name] for name in OF_READING},
            **({} if "reference" in goal.cell.needs else {"delta_rs": 0.0, "reference_rs": reading["rs"]}),
            "probe_seconds": _mean([p["seconds"] for p in probes]),
            "draws": _mean([p["draws"] for p in probes]),
            "support": probes[0]["support"] if probes else None,
        }


def _pra(goal: Goal, found: Mapping[str, Any]) -> Iterator[Row]:
    for row in found["rows"]:
        yield _identity(goal) | row | _identity(goal)


def _probe(goal: Goal, found: Mapping[str, Any]) -> Iterator[Row]:
    yield _identity(goal) | dict(found) | _identity(goal)


def _diagnosis(goal: Goal, found: Mapping[str, Any]) -> Iterator[Row]:
    settings = {name: value for name, value in found.items() if name != "rows"}
    whose = _identity(goal) | {"cell": goal.cell.key}
    for row in found["rows"]:
        yield whose | settings | row | whose


def _map(goal: Goal, found: Mapping[str, Any]) -> Iterator[Row]:
    whose = _identity(goal) | {"cell": goal.cell.key}
    yield whose | dict(found) | whose


def _once(rows: Sequence[Row]) -> list[Row]:
    return list({json.dumps(row, sort_keys=True): row for row in rows}.values())


def _with_delta(rows: Sequence[Row]) -> list[Row]:
    """Add ΔRS: the reference with the same variant and the same draw of samples."""

    def place(row: Row) -> tuple[Any, ...]:
        return tuple(row[name] for name in ("dataset", "backbone", "seed", "forget", "variant", "support"))

    reference = {place(row): row["rs"] for row in rows if row["method"] == "retrained"}
    return [row | {"delta_rs": row["rs"] - reference[place(row)] if place(row) in reference else None} for row in rows]


def _identity(goal: Goal) -> Row:
    return {**goal.identity, "forget_classes": [int(label) for label in str(goal.identity["forget"]).split("+")]}


def _original_accuracies(identity: Row, before: Mapping[tuple[Any, ...], Row]) -> Row:
    row = before.get((identity["dataset"], identity["backbone"], identity["seed"]))
    if row is None:
        return {"retain_original": None, "forget_original": None}
    gone = set(identity["forget_classes"])
    kept = [label for label in range(len(row["hits"])) if label not in gone]
    return {
        "retain_original": accuracy(row["hits"], row["samples"], kept),
        "forget_original": accuracy(row["hits"], row["samples"], gone),
    }


def _failures(goals: Sequence[Goal], store: Store) -> Iterator[Row]:
    failures = store.failures()
    for key, cell in reachable(goal.cell for goal in goals).items():
        failure = failures.get(key)
        if failure is not None:
            yield {
                "label": cell.label,
                "kind": failure.reason,
                "message": failure.message,
                "attempts": failure.attempts,
            }


def _mean(values: Sequence[int | float]) -> float | None:
    return sum(values) / len(values) if values else None
