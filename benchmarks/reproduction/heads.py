"""What leaves a machine of a group's models, and what is kept: heads weigh kilobytes, models megabytes."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

from sfra.bench.engine.cell import Cell, reachable
from sfra.bench.engine.packing import pack, write_archive
from sfra.bench.engine.store import Store
from sfra.bench.plan import Goal, plan
from sfra.bench.protocol import load_protocol
from sfra.bench.tables.names import METHODS
from sfra.core.errors import InputError
from sfra.core.files import write_atomically

PROTOCOLS = (
    "cifar10-resnet18",
    "cifar10-resnet18-multi",
    "cifar10-resnet18-ablations",
    "cifar10-resnet18-published",
    "cifar10-resnet18-steps",
    "cifar10-resnet18-long-steps",
    "cifar10-resnet18-224",
    "cifar10-resnet18-224-ablations",
    "cifar10-resnet18-224-published",
    "cifar100-resnet18",
    "cifar100-resnet18-scales",
    "cifar100-resnet18-published",
    "cifar10-vit-small",
    "cifar10-swin-t-small",
    "tinyimagenet-resnet18",
)

SAME_MODELS = ("", "-multi", "-ablations")
"""Endings of protocols whose audits are of the same models, and are shown as one."""

LARGEST = 6 * 2**20
"""Bytes that the committed heads of a group may weigh."""

OF_FORGET, OF_OTHERS, OF_MANY = 100, 10, 2
"""Test samples of the forget class, and of every other one, that are kept of a model; of many classes fewer."""


def protocol_groups(protocols: Sequence[str]) -> dict[str, list[str]]:
    """Group protocols of the same data set and backbone under the one with the shortest name."""
    found: dict[tuple[str, str], list[str]] = {}
    for name in protocols:
        protocol = load_protocol(name)
        found.setdefault((protocol.dataset, protocol.backbone), []).append(name)
    return {min(names, key=len): names for names in found.values()}


@cache
def goals_of(protocol: str) -> list[Goal]:
    """Plan a protocol, once."""
    return plan(load_protocol(protocol))


def own_goals(protocols: Sequence[str]) -> Iterator[tuple[str, list[Goal]]]:
    """List the goals of each protocol that no earlier one has."""
    seen: set[str] = set()
    for name in protocols:
        goals = [goal for goal in goals_of(name) if goal.cell.key not in seen]
        seen |= {goal.cell.key for goal in goals}
        yield name, goals


def bring(goals: Sequence[tuple[str, Goal]], store: Store, out: Path, *, originals: bool = False) -> list[Path]:
    """Write what is done of some goals: their results, and heads and a few test features of all audited models.

    The store may go on computing. With ``originals`` there is ``GROUP-original.tar`` too, with which another machine
    goes on. ``sfra bench unpack`` reads both archives.
    """
    known, written = dict(protocol_groups(PROTOCOLS)), list[Path]()
    for name in dict.fromkeys(name for name, _ in goals):
        if not any(name in members for members in known.values()):
            known[name] = [name]
    for group, members in known.items():
        cells = [goal.cell for name, goal in goals if name in members and store.is_done(goal.cell)]
        if cells:
            kinds = ("results.tar.gz", "heads.tar.gz", "features.safetensors", "original.tar")
            results, heads, features, original = files = [out / f"{Path(group).stem}-{kind}" for kind in kinds]
            pack(cells, store, results)
            take_heads(members, store, heads)
            take_features(members, store, features)
            if originals:
                made = [one for one in reachable(cells).values() if one.kind == "train"]
                pack([], store, original, whole=[one for one in made if not one.settings["without"]])
            written += [file for file in files if file.exists()]
    return written


def take_heads(protocols: Sequence[str], store: Store, out: Path) -> int:
    """Write ``heads/METHOD-FORGET.safetensors`` of a group's audited models, and how each was made; count them."""
    folders = {name: store.folder(cell) for name, cell in audited(protocols, store)}
    cells = reachable(goal.cell for _, some in own_goals(protocols) for goal in some)
    made = [record for key in sorted(cells) if (record := store.record(cells[key]))]
    facts = [asdict(record) for record in made if record.kind in ("train", "unlearn")]
    heads = {f"heads/{one}.safetensors": (folders[one] / "head.safetensors").read_bytes() for one in sorted(folders)}
    write_archive(out, heads | {"heads/facts.json": json.dumps(facts, sort_keys=True).encode()})
    return len(heads)


def take_features(protocols: Sequence[str], store: Store, out: Path) -> int:
    """Write ``NAME.features`` and ``NAME.labels`` of the first test samples of each class; count the models."""
    from safetensors.torch import load_file, save

    from stored import kept_rows

    kept = dict[str, Any]()
    for name, cell in audited(protocols, store):
        found = load_file(store.folder(cell) / "features.safetensors")
        forget = [int(label) for label in name.rpartition("-")[2].split("+")]
        others = OF_MANY if int(found["labels"].max()) >= 20 else OF_OTHERS
        rows = kept_rows(found["labels"], forget, OF_FORGET, others)
        kept |= {f"{name}.features": found["features"][rows].half(), f"{name}.labels": found["labels"][rows]}
    write_atomically(out, save(kept))
    return len(kept) // 2


def audited(protocols: Sequence[str], store: Store) -> Iterator[tuple[str, Cell]]:
    """List the test features of every audited model of one group that are there, by the name of the model.

    Models of a protocol with models of its own have the end of its name before theirs: ``steps-delete-0``; those of a
    further seed have it there: ``seed-1-retrained-0``.
    """
    groups = protocol_groups(protocols)
    if len(groups) != 1:
        raise InputError("the heads of one group go into one file", expected="one group", got=", ".join(groups))
    ((group, members),) = groups.items()
    for protocol, some in own_goals(members):
        ending = protocol.removeprefix(group)
        start = "" if ending in SAME_MODELS else f"{ending.removeprefix('-')}-"
        for goal in some:
            if goal.what == "audit" and goal.identity["audit"] == "main" and store.is_done(goal.cell.needs["test"]):
                again = f"seed-{goal.identity['seed']}-" if goal.identity["seed"] else ""
                yield f"{start}{again}{goal.identity['method']}-{goal.identity['forget']}", goal.cell.needs["test"]


def write_heads(files: Sequence[Path], target: Path) -> None:
    """Put the heads of archives into one file, ``NAME.weight`` and ``NAME.bias`` each, as many as may be kept.

    Where all are too many, those of originals and retrained models go before those of the group's other models, and
    these before those of further protocols. A masked head is the original's with zeros and -15 in the place of the
    forget row and bias, and is never kept. Of heads of the same name, those of the first archive stay, and before
    those that the file has already.
    """
    from safetensors.torch import load, load_file, save

    heads: dict[str, dict[str, Any]] = {}
    for file in files:
        with tarfile.open(file) as archive:
            for member in archive:
                name = Path(member.name).stem
                stream = archive.extractfile(member) if member.name.endswith(".safetensors") else None
                if stream is not None and "heads/" in member.name and not name.startswith("masked"):
                    heads.setdefault(name, load(stream.read()))
    earlier: dict[str, dict[str, Any]] = {}
    for key, value in load_file(target).items() if target.exists() else ():
        name, _, part = key.rpartition(".")
        earlier.setdefault(name, {})[part] = value
    heads = earlier | heads
    kept, total = dict[str, Any](), 0
    for turn in range(3):
        mine = {name: head for name, head in heads.items() if _turn(name) == turn}
        total += sum(part.nbytes for head in mine.values() for part in head.values())
        if total > LARGEST:
            print(f"heads: {len(heads) - len(kept) // 2} of {len(heads)} left out", flush=True)
            break
        kept |= {f"{name}.{part}": value.contiguous() for name, head in mine.items() for part, value in head.items()}
    if kept:
        write_atomically(target, save(dict(sorted(kept.items()))))


def _turn(name: str) -> int:
    """Say which heads are kept first: references, the group's own models, those of further protocols."""
    method = name.rpartition("-")[0] or name
    return 0 if method in ("original", "retrained") else 1 if method in METHODS else 2
