"""Take the heads of a grid's models home: kilobytes each, where the models weigh megabytes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from reproduction.groups import PARTS, groups_of, own_goals
from sfra.bench.engine.cell import Cell, reachable
from sfra.bench.engine.packing import write_archive
from sfra.bench.engine.store import Store
from sfra.bench.plan import Goal
from sfra.core.errors import InputError


def take_heads(protocols: Sequence[str], store: Store, out: Path) -> int:
    """Write ``heads/METHOD-FORGET.safetensors`` of every audited model, and what is known of how each was made.

    Args:
        protocols: Those of one group, the one that the others are named after among them.
        store: Where the models are.
        out: ``.tar.gz`` to write.

    Returns:
        How many heads there are.

    Raises:
        InputError: The protocols are of several groups.
    """
    groups = groups_of(protocols)
    if len(groups) != 1:
        raise InputError("the heads of one group go into one file", expected="one group", got=", ".join(groups))
    (group,) = groups
    own = dict(own_goals(groups[group]))
    goals = [goal for some in own.values() for goal in some]
    audited = audited_models(group, own)
    heads = {name: store.folder(cell) / "head.safetensors" for name, cell in audited.items() if store.is_done(cell)}
    made = [cell for cell in reachable(goal.cell for goal in goals).values() if cell.kind in ("train", "unlearn")]
    known = [record for cell in made if (record := store.record(cell)) is not None]
    facts = [asdict(record) for record in sorted(known, key=lambda record: record.key)]
    members = {f"heads/{name}.safetensors": path.read_bytes() for name, path in sorted(heads.items())}
    write_archive(out, members | {"heads/facts.json": json.dumps(facts, sort_keys=True).encode()})
    return len(heads)


def audited_models(group: str, goals: Mapping[str, Sequence[Goal]]) -> dict[str, Cell]:
    """Name the test features of each audited model, as ``delete-0``: their cell holds its head.

    Models of a protocol that stands alone in its group, such as one of other rates, have the end of its name before
    theirs: ``steps-delete-0``.

    Args:
        group: The protocol that the others are named after.
        goals: Those of each protocol.
    """
    return {
        f"{_place(protocol, group)}{goal.identity['method']}-{goal.identity['forget']}": goal.cell.needs["test"]
        for protocol, some in goals.items()
        for goal in some
        if goal.what == "audit" and goal.identity["audit"] == "main"
    }


def _place(protocol: str, group: str) -> str:
    ending = protocol.removeprefix(group)
    return "" if ending in PARTS else f"{ending.removeprefix('-')}-"
