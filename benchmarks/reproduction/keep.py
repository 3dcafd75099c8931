"""From a store to what is committed: rows as CSV, and the heads of the models.

The models weigh gigabytes and stay behind. What is known of them (seconds, epoch, validation accuracies) comes from
the store or, where they were left on another machine, from archives that ``pack`` or ``take_heads`` wrote.
"""

from __future__ import annotations

import csv
import io
import json
import tarfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from statistics import fmean
from typing import Any

from reproduction.heads import own_goals, protocol_groups, write_heads
from sfra.auditing.rules import RETAIN_FLOOR
from sfra.bench.engine.cell import reachable
from sfra.bench.engine.packing import FACTS
from sfra.bench.engine.store import Record, Store
from sfra.bench.plan import Goal
from sfra.bench.rows import OF_READING, collect
from sfra.core.files import write_atomically

Row = Mapping[str, Any]

ACCURACIES = ("retain_before", "retain_after", "forget_before", "forget_after")
DIAGNOSED = (
    *("forget_class", "scale", "variant", "gain", "inner", "inner_std", "cosine", "cosine_std", "probe_norm"),
    *("feature_norm", "alpha_mean", "residual_min", "residual_max", "competitors", "sufficient", "rising", "pearson"),
    *("spearman", "slope", "sign_agreement", "correct_confidence", "assigned_confidence", "gap", "assigned"),
    "forget_samples",
)
IDENTITY = ("seed", "method", "forget")
COLUMNS: dict[str, tuple[str, ...]] = {
    "originals": ("seed", "label", "name", "samples", "hits"),
    "audits": (*IDENTITY, "audit", "varied", *OF_READING),
    "pra": (*IDENTITY, "variant", "support", "alpha", "rs", "delta_rs", *ACCURACIES),
    "probes": (*IDENTITY, "forget_accuracy", "retain_accuracy", "epoch"),
    "diagnostics": (*IDENTITY, *DIAGNOSED),
    "models": (*IDENTITY, "seconds", "epoch", "epochs", "retain", "forget_accuracy", "aus", "settings"),
    "selection": (*IDENTITY, "scale", "seeds", "early", "last", "best", "transferred"),
    "confusion": (*IDENTITY, "label", "samples", "own", "other"),
    "coverage": ("what", "done", "goals", "seconds"),
    "failures": (*IDENTITY, "what", "audit", "varied", "failed", "reason"),
}
"""What each CSV file holds, after the protocol."""

FILES = {
    "accuracy": "originals",
    "audit": "audits",
    "pra": "pra",
    "linear-probe": "probes",
    "diagnostics": "diagnostics",
}
"""Where the rows of a kind of goal are."""

OF_ITSELF = ("raised", "not-finite", "not-json")
"""Reasons of failures that lie in the computation; memory, time limits and crashes are the machine's."""

EARLY = 100
"""An epoch on the way: the length of an audit with default settings."""


def keep(protocols: Sequence[str], store: Store, out: Path, models: Sequence[Path] = ()) -> None:
    """Write ``GROUP/*.csv`` and ``GROUP/heads.safetensors`` for every group with results.

    Rows and heads that are kept already stay where the store has none of the same model, so that each sitting may
    begin with an empty store; so do rows of the coverage that tell of more than the store has.
    """
    known = {file: list(known_records(file)) for file in models}
    for group, members in protocol_groups(protocols).items():
        goals = dict(own_goals(members))
        everything = [goal for some in goals.values() for goal in some]
        if not any(store.is_done(goal.cell) for goal in everything):
            continue
        cells = reachable(goal.cell for goal in everything)
        mine = {file: [one for one in some if one.key in cells] for file, some in known.items()}
        stored = [one for one in store.records() if one.key in cells]
        records = list({one.key: one for some in (*mine.values(), stored) for one in some}.values())
        made = [one for one in records if one.kind in ("train", "unlearn")]
        found = rows_of(goals, store, made)
        found["coverage"] += [{"protocol": group, **row} for row in _busy_rows(records)]
        order = [(name, *_identity(goal)) for name, some in goals.items() for goal in some]
        texts = {name: to_csv(rows, ("protocol", *COLUMNS[name])) for name, rows in found.items()}
        files = {name: out / group / f"{name}.csv" for name in texts}
        old = {name: read_csv(file.read_text(encoding="utf-8")) for name, file in files.items() if file.exists()}
        new = {name: read_csv(text) for name, text in texts.items()}
        most = {_named(row): int(row["done"]) for row in old.get("coverage", [])}
        new["coverage"] = [row for row in new["coverage"] if int(row["done"]) >= most.get(_named(row), 0)]
        merged = {name: merge(old.get(name, []), rows, order) for name, rows in new.items()}
        for row in merged["coverage"]:
            known_ = {
                one for one in map(_named, merged.get(FILES.get(row["what"], ""), ())) if one[0] == row["protocol"]
            }
            row["done"] = str(max(int(row["done"]), len(known_)))
        for name, rows in merged.items():
            write_atomically(files[name], to_csv(rows, ("protocol", *COLUMNS[name])).encode())
        print(f"{group}: {len(records)} cells", flush=True)
        write_heads([file for file in models if mine[file]], out / group / "heads.safetensors")


def read_csv(text: str) -> list[dict[str, str]]:
    """Read rows as they are written."""
    return list(csv.DictReader(io.StringIO(text)))


def merge(
    old: Sequence[Mapping[str, str]], new: Sequence[dict[str, str]], order: Sequence[tuple[str, ...]]
) -> list[dict[str, str]]:
    """Add to new rows the old ones of what none of them is about, in the order of the goals.

    >>> merge([{"method": "a", "rs": "1"}, {"method": "b", "rs": "2"}], [{"method": "a", "rs": "3"}], [])
    [{'method': 'a', 'rs': '3'}, {'method': 'b', 'rs': '2'}]
    """
    fresh = {_named(row) for row in new}
    stay = [dict(row) for row in old if _named(row) not in fresh]
    place = {one: number for number, one in reversed(list(enumerate(order)))}
    every = [*new, *stay]
    return sorted(every, key=lambda row: place.get(_named(row)[:4], len(place))) if stay else every


def _named(row: Mapping[str, str]) -> tuple[str, ...]:
    """Return what a row is about."""
    names = ("protocol", *IDENTITY, "audit", "varied", *(("what",) if "done" in row or "failed" in row else ()))
    return tuple(row.get(name, "") for name in names)


def _identity(goal: Goal) -> tuple[str, ...]:
    return tuple(str(goal.identity.get(name, "")) for name in IDENTITY)


def known_records(file: Path) -> Iterator[Record]:
    """Read what an archive knows of cells that it does not hold."""
    with tarfile.open(file) as archive:
        for member in archive:
            stream = archive.extractfile(member) if Path(member.name).name in (FACTS, "facts.json") else None
            if stream is not None:
                text = stream.read().decode()
                facts = json.loads(text) if member.name.endswith(".json") else map(json.loads, text.splitlines())
                yield from (Record(**{one.name: fact[one.name] for one in fields(Record)}) for fact in facts)


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
    """Write rows; scores and accuracies with five decimals, everything else as it is."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_plain(row.get(name)) for name in columns] for row in rows)
    return text.getvalue()


def _plain(value: object) -> object:
    if isinstance(value, float):
        return f"{value:.5f}".rstrip("0").rstrip(".") if value % 1 else str(int(value))
    if isinstance(value, list):
        return " ".join(map(str, value))
    if isinstance(value, dict):
        return " ".join(f"{name}={value[name]}" for name in sorted(value))
    return value


def _classes(row: Row) -> Iterator[Row]:
    for label, (name, samples, hits) in enumerate(zip(row["class_names"], row["samples"], row["hits"], strict=True)):
        yield {"seed": row["seed"], "label": label, "name": name, "samples": samples, "hits": hits}


def _models(goals: Sequence[Goal], unlisted: dict[str, Record]) -> Iterator[Row]:
    """List the models of the goals, in their order and each once, as far as something is known of them."""
    for goal in goals:
        for need in (goal.cell, *goal.cell.needs.values()):
            named = need.kind == "features" and (goal.what == "accuracy" or "test" in goal.cell.needs)
            record = unlisted.pop(need.needs["model"].key, None) if named else None
            if record is not None:
                found, quality = record.result, record.result["validation"]
                yield {
                    **{name: goal.identity.get(name, "") for name in IDENTITY},
                    "seconds": round(record.seconds, 1),
                    "epoch": found.get("epoch"),
                    "epochs": (found.get("training") or found["settings"]).get("epochs"),
                    "retain": quality.get("retain", quality.get("accuracy")),
                    "forget_accuracy": quality.get("forget"),
                    "aus": quality.get("aus"),
                    "settings": record.settings.get("training") or record.settings["settings"],
                }


def _of_audits(goals: Sequence[Goal], store: Store, read: Callable[[Row], list[Any]]) -> Iterator[Row]:
    for goal in goals:
        if goal.what == "audit" and goal.identity["audit"] == "main" and store.is_done(goal.cell):
            audit = json.loads((store.folder(goal.cell) / "audit.json").read_text(encoding="utf-8"))
            for row in read(audit):
                yield {**{name: goal.identity[name] for name in IDENTITY}, **row}


def selection_rows(audit: Row) -> list[Row]:
    """Split what choosing an epoch on the test data adds, at native and canonical scale, over the seeds of an audit.

    ``last`` is the mean RS of the last epochs, ``best`` that of the best epochs. ``transferred`` applies the best
    epoch of each seed to every other seed: ``transferred - last`` is a better epoch that all seeds share, ``best -
    transferred`` is what choosing took from the noise of the single seed.
    """
    found: list[Row] = []
    for scale in ("native", "canonical"):
        wanted = ("model", scale, "released")
        runs = [run for run in audit[traces_key(audit)] if (run["subject"], run["scale"], run["variant"]) == wanted]
        runs = [run for run in runs if run["rs"] is not None]
        best = [best_epoch(run["retain"], run["rs"]) for run in runs]
        moved = [run["rs"][epoch] for i, epoch in enumerate(best) for j, run in enumerate(runs) if i != j]
        if runs:
            ends = {
                "early": fmean(run["rs"][min(EARLY, len(run["rs"]) - 1)] for run in runs),
                "last": fmean(run["rs"][-1] for run in runs),
                "best": fmean(run["rs"][epoch] for run, epoch in zip(runs, best, strict=True)),
                "transferred": fmean(moved) if moved else None,
            }
            found.append({"scale": scale, "seeds": len(runs), **ends})
    return found


def best_epoch(retain: Sequence[float], rs: Sequence[float]) -> int:
    """Return the epoch of highest RS among those that keep the retain accuracy, the earliest of equals."""
    allowed = [epoch for epoch, kept in enumerate(retain) if kept >= RETAIN_FLOOR * retain[0]]
    return max(allowed, key=lambda epoch: (rs[epoch], -epoch))


def confusion_rows(audit: Row) -> list[Row]:
    """Say, where several classes are forgotten, how often each is answered with itself and with another of them."""
    found, forget = audit["confusion"], audit["forget_classes"]
    if found is None or len(forget) < 2:
        return []
    rows: list[Row] = []
    for label, after in zip(found["classes"], found["after"], strict=True):
        other = sum(after[one] for one in forget if one != label)
        rows.append({"label": label, "samples": sum(after), "own": after[label], "other": other})
    return rows


def _coverage(goals: Sequence[Goal], store: Store) -> Iterator[Row]:
    """Count what is done, of each kind, and the seconds that it took."""
    for what in dict.fromkeys(goal.what for goal in goals):
        mine = [goal for goal in goals if goal.what == what]
        done = [record for goal in mine if (record := store.record(goal.cell)) is not None]
        seconds = round(sum(record.seconds for record in done), 1)
        yield {"what": what, "done": len(done), "goals": len(mine), "seconds": seconds}


def _busy_rows(records: Sequence[Record]) -> Iterator[Row]:
    """Say how many cells each kind of device computed, and the seconds in which it computed any."""
    kinds = [one.device.partition(":")[0] for one in records]
    for device in sorted(set(kinds), reverse=True):
        mine = [one for one, kind in zip(records, kinds, strict=True) if kind == device]
        yield {"what": f"all on {device}", "done": len(mine), "seconds": busy(mine)}


def busy(records: Iterable[Record]) -> float:
    """Count the seconds in which at least one of some cells was being computed."""
    total, end = 0.0, float("-inf")
    for start, finish in sorted((record.finished - record.seconds, record.finished) for record in records):
        total += max(0.0, finish - max(start, end))
        end = max(end, finish)
    return round(total, 1)


def failed_rows(goals: Sequence[Goal], store: Store) -> Iterator[Row]:
    """List the goals that cannot be computed: the kind of the cell that failed, and its reason."""
    failures = {key: one for key, one in store.failures().items() if one.reason in OF_ITSELF}
    for goal in goals:
        cause = next((failures[key] for key in reachable([goal.cell]) if key in failures), None)
        if cause is not None and not store.is_done(goal.cell):
            identity = {name: goal.identity.get(name) for name in (*IDENTITY, "audit", "varied")}
            what, *more = [line.strip() for line in cause.message.strip().splitlines()]
            got = [line.removeprefix("got:").strip() for line in more if line.startswith("got:")]
            yield {**identity, "what": goal.what, "failed": cause.kind, "reason": ": ".join([what, *got])}


def traces_key(audit: Row) -> str:
    """Return what an ``audit.json`` calls its traces; version 1 of the schema called them ``trajectory``."""
    return "traces" if "traces" in audit else "trajectory"
