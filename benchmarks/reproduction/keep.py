"""From a store to what is committed: rows as CSV, a slim archive for pages and figures, the heads of all models.

The models weigh gigabytes and stay behind. What is known of them (seconds, epoch, validation accuracies) comes from
the store or, where they were left on another machine, from archives that ``pack`` wrote or that hold
``heads/facts.json`` and ``heads/NAME.safetensors``.
"""

from __future__ import annotations

import csv
import io
import json
import tarfile
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from reproduction.failed import failed_rows
from reproduction.groups import groups_of, models_of, own_goals
from reproduction.keep_heads import megabytes
from reproduction.keep_heads import write_heads as write_heads
from reproduction.remade import remade_rows
from reproduction.selection import selection_rows
from reproduction.slim import slim_store
from sfra.bench.engine.cell import reachable
from sfra.bench.engine.packing import FACTS, pack
from sfra.bench.engine.store import Record, Store
from sfra.bench.plan import Goal
from sfra.bench.rows import OF_READING, collect
from sfra.core.files import write_atomically

Row = Mapping[str, Any]

IDENTITY = ("seed", "method", "forget")
COLUMNS: dict[str, tuple[str, ...]] = {
    "originals": ("seed", "label", "name", "samples", "hits"),
    "audits": (*IDENTITY, "audit", "varied", *OF_READING),
    "pra": (
        *(*IDENTITY, "variant", "support", "alpha", "rs", "delta_rs"),
        *("retain_before", "retain_after", "forget_before", "forget_after"),
    ),
    "probes": (*IDENTITY, "forget_accuracy", "retain_accuracy", "epoch"),
    "diagnostics": (
        *(*IDENTITY, "forget_class", "scale", "variant", "gain", "inner", "inner_std", "cosine", "cosine_std"),
        *("probe_norm", "feature_norm", "alpha_mean", "residual_min", "residual_max", "competitors", "sufficient"),
        *("rising", "pearson", "spearman", "slope", "sign_agreement", "correct_confidence", "assigned_confidence"),
        *("gap", "assigned", "forget_samples"),
    ),
    "models": (*IDENTITY, "seconds", "epoch", "epochs", "retain", "forget_accuracy", "aus", "settings"),
    "selection": (*IDENTITY, "scale", "seeds", "early", "last", "best", "transferred"),
    "confusion": (*IDENTITY, "label", "samples", "own", "other"),
    "coverage": ("what", "done", "goals", "seconds"),
    "failures": (*IDENTITY, "what", "audit", "varied", "failed", "reason"),
    "remade": (*IDENTITY, "makings", "history", "head"),
}
"""What each CSV holds, after the protocol."""


def keep(protocols: Sequence[str], store: Store, out: Path, models: Sequence[Path]) -> None:
    """Write ``GROUP/*.csv``, ``GROUP.tar.xz`` and ``GROUP/heads.safetensors`` for every group with results."""
    known = {file: list(known_records(file)) for file in models}
    for group, members in groups_of(protocols).items():
        goals = dict(own_goals(members))
        everything = [goal for some in goals.values() for goal in some]
        if not any(store.is_done(goal.cell) for goal in everything):
            continue
        cells = reachable(goal.cell for goal in everything)
        mine = {file: [r for r in records if r.key in cells] for file, records in known.items()}
        stored = [r for r in store.records() if r.key in cells]
        records = list({r.key: r for some in (*mine.values(), stored) for r in some}.values())
        made = list({r.key: r for r in records if r.kind in ("train", "unlearn")}.values())
        found = rows_of(goals, store, made)
        found["coverage"] += [{"protocol": group, **row} for row in busy_rows(records)]
        found["remade"] += remade_rows(group, goals, mine, stored)
        for name, rows in found.items():
            write_atomically(out / group / f"{name}.csv", to_csv(rows, ("protocol", *COLUMNS[name])).encode())
        with tempfile.TemporaryDirectory() as scratch:
            slim = slim_store(everything, store, sorted(made, key=lambda r: r.key), Path(scratch) / "store")
            pack([goal.cell for goal in everything], slim, out / f"{group}.tar.xz")
        size = (out / f"{group}.tar.xz").stat().st_size
        print(f"{group}: {len(records)} cells, archive of {megabytes(size)}", flush=True)
        write_heads([file for file in models if mine[file]], out / group / "heads.safetensors")


def rows_of(goals: Mapping[str, Sequence[Goal]], store: Store, models: Sequence[Record]) -> dict[str, list[Row]]:
    """Read every row of some protocols; each row names its protocol."""
    found: dict[str, list[Row]] = {name: [] for name in COLUMNS}
    unlisted = {record.key: record for record in models}
    for protocol, some in goals.items():
        rows = collect(some, store)
        parts: dict[str, Iterable[Row]] = {
            "originals": (one for row in rows.originals for one in _classes(row)),
            "audits": rows.audits,
            "pra": rows.pra,
            "probes": rows.probes,
            "diagnostics": rows.diagnostics,
            "models": list(_models(some, unlisted)),
            "selection": _of_audits(some, store, selection_rows),
            "confusion": _of_audits(some, store, confusion_rows),
            "coverage": _coverage(some, store),
            "failures": failed_rows(some, store),
        }
        for name, part in parts.items():
            found[name] += [{"protocol": protocol, **row} for row in part]
    return found


def to_csv(rows: Iterable[Row], columns: Sequence[str]) -> str:
    """Write rows; scores and accuracies with five decimals, everything else as it is.

    >>> print(to_csv([{"a": 0.1234567, "b": None}], ("a", "b")), end="")
    a,b
    0.12346,
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_plain(row.get(name)) for name in columns] for row in rows)
    return text.getvalue()


def known_records(file: Path) -> Iterator[Record]:
    """Read what an archive knows of cells that it does not hold."""
    with tarfile.open(file) as archive:
        for member in archive:
            stream = archive.extractfile(member) if Path(member.name).name in (FACTS, "facts.json") else None
            if stream is not None:
                text = stream.read().decode()
                facts = json.loads(text) if member.name.endswith(".json") else map(json.loads, text.splitlines())
                yield from (Record(**{one.name: fact[one.name] for one in fields(Record)}) for fact in facts)


def busy_rows(records: Sequence[Record]) -> Iterator[Row]:
    """Say how many cells each kind of device computed, and for how long it was at it."""
    for device in sorted({_device(record) for record in records}, reverse=True):
        mine = [record for record in records if _device(record) == device]
        yield {"what": f"all on {device}", "done": len(mine), "seconds": busy(mine)}


def _device(record: Record) -> str:
    return record.device.partition(":")[0]


def busy(records: Iterable[Record]) -> float:
    """Count the seconds during which at least one of some cells was being computed.

    Cells ran side by side, and sittings were apart, so neither their sum nor the time from first to last would do.
    """
    total, end = 0.0, float("-inf")
    for start, finish in sorted((record.finished - record.seconds, record.finished) for record in records):
        total += max(0.0, finish - max(start, end))
        end = max(end, finish)
    return round(total, 1)


def _classes(row: Row) -> Iterator[Row]:
    for label, (name, samples, hits) in enumerate(zip(row["class_names"], row["samples"], row["hits"], strict=True)):
        yield {"seed": row["seed"], "label": label, "name": name, "samples": samples, "hits": hits}


def confusion_rows(audit: Row) -> list[Row]:
    """Say, where several classes are forgotten, how often each is answered with itself and with another of them."""
    found, forget = audit["confusion"], audit["forget_classes"]
    if found is None or len(forget) < 2:
        return []
    return [
        {
            "label": label,
            "samples": sum(after),
            "own": after[label],
            "other": sum(after[other] for other in forget if other != label),
        }
        for label, after in zip(found["classes"], found["after"], strict=True)
    ]


def _of_audits(goals: Sequence[Goal], store: Store, read: Callable[[Row], list[Any]]) -> Iterator[Row]:
    for goal in goals:
        if goal.what == "audit" and goal.identity["audit"] == "main" and store.is_done(goal.cell):
            audit = json.loads((store.folder(goal.cell) / "audit.json").read_text(encoding="utf-8"))
            for row in read(audit):
                yield {**{name: goal.identity[name] for name in IDENTITY}, **row}


def _models(goals: Sequence[Goal], unlisted: dict[str, Record]) -> Iterator[Row]:
    """List the models of the goals, in their order and each once, as far as something is known of them."""
    for key, identity in models_of(goals).items():
        if key in unlisted:
            yield {**identity, **_facts(unlisted.pop(key))}


def _facts(record: Record) -> Row:
    found, quality = record.result, record.result["validation"]
    return {
        "seconds": round(record.seconds, 1),
        "epoch": found.get("epoch"),
        "epochs": (found.get("training") or found["settings"]).get("epochs"),
        "retain": quality.get("retain", quality.get("accuracy")),
        "forget_accuracy": quality.get("forget"),
        "aus": quality.get("aus"),
        "settings": record.settings.get("training") or record.settings["settings"],
    }


def _coverage(goals: Sequence[Goal], store: Store) -> Iterator[Row]:
    """Count what is done, of each kind, and the seconds that it took."""
    for what in dict.fromkeys(goal.what for goal in goals):
        mine = [goal for goal in goals if goal.what == what]
        done = [record for goal in mine if (record := store.record(goal.cell)) is not None]
        seconds = round(sum(record.seconds for record in done), 1)
        yield {"what": what, "done": len(done), "goals": len(mine), "seconds": seconds}


def _plain(value: object) -> object:
    if isinstance(value, float):
        return f"{value:.5f}".rstrip("0").rstrip(".") if value % 1 else str(int(value))
    if isinstance(value, list):
        return " ".join(map(str, value))
    if isinstance(value, dict):
        return " ".join(f"{name}={value[name]}" for name in sorted(value))
    return value
