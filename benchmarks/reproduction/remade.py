"""Models that were made more than once, in different sittings: are they the same?

A making is told by the time at which it finished. Archives often hold copies of one making; these are no second one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from reproduction.groups import models_of
from reproduction.heads import audited_models
from reproduction.keep_heads import read_heads
from sfra.bench.engine.store import Record
from sfra.bench.plan import Goal

HISTORY = ("history", "losses", "validation", "epoch")
"""What a record knows of how a model came to be; trainings have losses, unlearning a history."""


def remade_rows(
    group: str, goals: Mapping[str, Sequence[Goal]], known: Mapping[Path, Sequence[Record]], stored: Iterable[Record]
) -> Iterator[dict[str, Any]]:
    """List the models that were made more than once, and say whether all their makings are equal.

    Args:
        group: The protocol that the others are named after.
        goals: Those of each protocol.
        known: Archives, and the records in them.
        stored: Further records.
    """
    makings = _makings([*known.values(), stored])
    heads = _heads(group, goals, known, makings)
    for protocol, some in goals.items():
        for key, identity in models_of(some).items():
            if key in makings:
                records = list(makings.pop(key).values())
                equal = all(_history(one) == _history(records[0]) for one in records)
                found = {"makings": len(records), "history": _yes(equal), "head": _same(heads.get(key, {}))}
                yield {"protocol": protocol, **identity, **found}


def _makings(sources: Iterable[Iterable[Record]]) -> dict[str, dict[float, Record]]:
    """Arrange the records of models by key and by when they finished; those that were made once are left out."""
    found: dict[str, dict[float, Record]] = {}
    for records in sources:
        for record in records:
            if record.kind in ("train", "unlearn"):
                found.setdefault(record.key, {}).setdefault(record.finished, record)
    return {key: some for key, some in found.items() if len(some) > 1}


def _heads(
    group: str, goals: Mapping[str, Sequence[Goal]], known: Mapping[Path, Sequence[Record]], wanted: Iterable[str]
) -> dict[str, dict[float, set[bytes]]]:
    """Arrange the heads of wanted models by key and making; the record beside a head says which making it is of."""
    from safetensors.torch import save

    keys = {name: cell.needs["model"].key for name, cell in audited_models(group, goals).items()}
    found: dict[str, dict[float, set[bytes]]] = {key: {} for key in wanted}
    for file, records in known.items():
        finished = {record.key: record.finished for record in records if record.key in found}
        for name, head in read_heads([file]).items() if finished else ():
            key = keys.get(name, "")
            if key in finished:
                found[key].setdefault(finished[key], set()).add(save(head))
    return found


def _history(record: Record) -> list[Any]:
    return [record.result.get(name) for name in HISTORY]


def _same(heads: Mapping[float, set[bytes]]) -> str | None:
    return _yes(len(set().union(*heads.values())) == 1) if len(heads) > 1 else None


def _yes(equal: bool) -> str:
    return "yes" if equal else "no"
