"""Heads travel: what is taken from a grid is what was audited, named after its model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from reproduction.groups import own_goals
from reproduction.heads import take_heads
from reproduction.keep import known_records, write_heads
from sfra.bench.engine.cell import Cell
from sfra.bench.engine.store import Store
from sfra.core.errors import InputError

GROUP = ("cifar10-resnet18", "cifar10-resnet18-published")


def put(store: Store, cell: Cell, head: dict[str, torch.Tensor] | None = None) -> None:
    draft = store.draft(cell)
    if head is not None:
        save_file(head, draft / "head.safetensors")
    facts: dict[str, Any] = {"result": {"epoch": 3}, "seconds": 2.0, "finished": 9.0, "versions": {}}
    facts |= {"host": "h", "pid": 1, "device": "cpu"}
    assert store.publish(cell, draft, facts)


def features(protocol: str, method: str, forget: str) -> Cell:
    goals = dict(own_goals(GROUP))[protocol]
    wanted = {"method": method, "forget": forget, "audit": "main"}
    (found,) = (g for g in goals if g.what == "audit" and wanted.items() <= g.identity.items())
    return found.cell.needs["test"]


def head(value: float) -> dict[str, torch.Tensor]:
    return {"weight": torch.full((10, 4), value), "bias": torch.full((10,), -value)}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = Store(tmp_path / "store")
    put(store, features(GROUP[0], "scrub", "3"), head(1.0))
    put(store, features(GROUP[1], "scrub", "3"), head(2.0))
    put(store, features(GROUP[0], "delete", "3").needs["model"])
    return store


def test_heads_come_home_under_the_name_of_their_model_and_protocol(store: Store, tmp_path: Path) -> None:
    archive = tmp_path / "heads.tar.gz"
    assert take_heads(GROUP, store, archive) == 2
    write_heads([archive], tmp_path / "heads.safetensors")
    found = load_file(tmp_path / "heads.safetensors")
    assert {name: float(value.flatten()[0]) for name, value in found.items()} == {
        "scrub-3.weight": 1.0,
        "scrub-3.bias": -1.0,
        "published-scrub-3.weight": 2.0,
        "published-scrub-3.bias": -2.0,
    }


def test_what_is_known_of_a_model_travels_even_when_its_head_is_not_there_yet(store: Store, tmp_path: Path) -> None:
    archive = tmp_path / "heads.tar.gz"
    take_heads(GROUP, store, archive)
    (record,) = known_records(archive)
    assert (record.kind, record.settings["method"], record.seconds) == ("unlearn", "delete", 2.0)


def test_the_same_heads_give_the_same_bytes_and_two_groups_are_refused(store: Store, tmp_path: Path) -> None:
    first, second = (tmp_path / name for name in ("a.tar.gz", "b.tar.gz"))
    for out in (first, second):
        take_heads(GROUP, store, out)
    assert first.read_bytes() == second.read_bytes()
    with pytest.raises(InputError, match=r"expected: one group\n  got: +cifar10-resnet18, cifar100-resnet18"):
        take_heads((*GROUP, "cifar100-resnet18"), store, first)
