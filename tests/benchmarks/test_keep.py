"""What is committed of a store: rows, a slim archive and heads."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from reproduction import heads as committed_heads
from reproduction.heads import own_goals, protocol_groups, take_heads, write_heads
from reproduction.keep import (
    COLUMNS,
    busy,
    failed_rows,
    keep,
    known_records,
    merge,
    rows_of,
    selection_rows,
    to_csv,
)
from reproduction.rows import BASE, KEPT, METHOD_LIST
from sfra.bench.engine.cell import Cell, reachable
from sfra.bench.engine.packing import pack, unpack
from sfra.bench.engine.store import Failure, Store
from sfra.bench.plan import Goal, plan
from sfra.bench.protocol import load_protocol
from sfra.core.errors import InputError
from sfra.core.head import Head

MULTI = f"{BASE}-multi"
GROUP = (BASE, f"{BASE}-published")


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Store:
    store = Store(tmp_path_factory.mktemp("store"))
    unpack(KEPT / f"{BASE}.tar.xz", store)
    return store


def test_the_csv_files_hold_what_the_archive_holds(unpacked: Store) -> None:
    goals = {MULTI: dict(own_goals([BASE, MULTI]))[MULTI]}
    made = rows_of(goals, unpacked, list(known_records(KEPT / f"{BASE}.tar.xz")))
    for name in ("audits", "pra", "probes", "diagnostics", "models", "confusion"):
        lines = (KEPT / BASE / f"{name}.csv").read_text(encoding="utf-8").splitlines(keepends=True)
        committed = "".join([lines[0], *(line for line in lines[1:] if line.startswith(f"{MULTI},"))])
        assert to_csv(made[name], ("protocol", *COLUMNS[name])) == committed, name


def test_the_committed_heads_are_those_that_were_audited(unpacked: Store) -> None:
    heads = load_file(KEPT / BASE / "heads.safetensors")
    goals = [goal for goal in dict(own_goals([MULTI]))[MULTI] if goal.what == "audit"]
    audited = {goal.identity["method"]: goal.cell for goal in goals}
    for method in METHOD_LIST:
        report = json.loads((unpacked.folder(audited[method]) / "audit.json").read_text(encoding="utf-8"))
        head = Head(heads[f"{method}-1+6.weight"], heads[f"{method}-1+6.bias"])
        assert head.fingerprint == report["model"]["fingerprint"], method


def test_keeping_a_kept_store_gives_the_same_bytes(unpacked: Store, tmp_path: Path) -> None:
    for name in ("first", "second"):
        keep([MULTI], unpacked, tmp_path / name, [KEPT / f"{BASE}.tar.xz"])
    files = sorted(path.relative_to(tmp_path / "first") for path in (tmp_path / "first").rglob("*") if path.is_file())
    for path in files:
        assert (tmp_path / "first" / path).read_bytes() == (tmp_path / "second" / path).read_bytes(), path


def test_rows_of_an_earlier_sitting_stay_where_the_store_has_none_of_the_model(unpacked: Store, tmp_path: Path) -> None:
    keep([MULTI], unpacked, tmp_path)
    whole = {path: path.read_bytes() for path in (tmp_path / MULTI).iterdir()}
    part = Store(tmp_path / "part")
    goals = [goal for goal in plan(load_protocol(MULTI)) if goal.identity["method"] in ("retrained", "delete")]
    pack([goal.cell for goal in goals], unpacked, tmp_path / "part.tar")
    assert unpack(tmp_path / "part.tar", part) == len(goals)
    keep([MULTI], part, tmp_path)
    for path, content in whole.items():
        assert path.read_bytes() == content, path.name


def test_new_rows_of_a_model_replace_all_of_its_old_ones() -> None:
    old = [
        {"protocol": "p", "seed": "0", "method": method, "forget": "3", "rs": rs} for method, rs in ("a1", "a2", "b3")
    ]
    new = [{**old[0], "rs": "9"}]
    order = [("p", "0", "b", "3"), ("p", "0", "a", "3")]
    assert [(row["method"], row["rs"]) for row in merge(old, new, order)] == [("b", "3"), ("a", "9")]
    assert merge(old, [], order) == [old[2], *old[:2]]


def test_the_parts_of_a_choice_of_epoch_add_up_and_equal_seeds_have_no_noise() -> None:
    def rows(*curves: list[float]) -> dict[str, Any]:
        runs = [
            {"subject": "model", "scale": "native", "variant": "released", "retain": [1.0, 0.95, 0.5, 0.9], "rs": rs}
            for rs in curves
        ]
        (found,) = selection_rows({"trajectory": runs})
        return dict(found)

    same = rows([0.0, 0.6, 0.9, 0.2], [0.0, 0.6, 0.9, 0.2])
    assert (same["last"], same["best"], same["transferred"]) == (0.2, 0.6, 0.6)
    other = rows([0.0, 0.6, 0.9, 0.2], [0.0, 0.1, 0.9, 0.4])
    assert (other["last"], other["best"], other["transferred"]) == pytest.approx((0.3, 0.5, 0.15))
    assert rows([0.0, 0.6, 0.9, 0.2])["transferred"] is None


def test_time_in_which_something_is_computed_counts_once(unpacked: Store) -> None:
    some = next(iter(unpacked.records()))
    spans = [(0.0, 10.0), (2.0, 5.0), (8.0, 12.0), (20.0, 21.0)]
    assert busy([replace(some, seconds=end - start, finished=end) for start, end in spans]) == 13


def test_protocols_of_one_data_set_and_backbone_are_a_group_and_goals_count_once() -> None:
    names = [BASE, f"{BASE}-ablations", "cifar100-resnet18", "cifar10-vit-b-16"]
    assert protocol_groups(names) == {
        BASE: [BASE, f"{BASE}-ablations"],
        "cifar100-resnet18": ["cifar100-resnet18"],
        "cifar10-vit-b-16": ["cifar10-vit-b-16"],
    }
    keys = [goal.cell.key for _, goals in own_goals(names[:2]) for goal in goals]
    assert len(keys) == len(set(keys))


# failures


@pytest.fixture
def goals() -> list[Goal]:
    return [goal for goal in plan(load_protocol("digits-tiny")) if goal.identity["method"] == "delete"]


def fail(store: Store, cell: Cell, reason: str, message: str) -> None:
    store.write_failure(Failure(key=cell.key, kind=cell.kind, label=cell.label, reason=reason, message=message))


def test_goals_that_wait_for_a_failed_model_are_kept_with_its_reason(goals: list[Goal], tmp_path: Path) -> None:
    store = Store(tmp_path)
    (model,) = (one for one in reachable([goals[0].cell]).values() if one.kind == "unlearn")
    fail(store, model, "not-finite", "the training diverged\n  expected: a finite loss\n  got:      nan in epoch 3")
    waiting = [goal.what for goal in goals if model.key in reachable([goal.cell])]
    rows = list(failed_rows(goals, store))
    assert [row["what"] for row in rows] == waiting
    assert {(row["failed"], row["reason"]) for row in rows} == {("unlearn", "the training diverged: nan in epoch 3")}


def test_what_the_machine_could_not_do_is_no_failure_of_the_computation(goals: list[Goal], tmp_path: Path) -> None:
    store = Store(tmp_path)
    fail(store, goals[0].cell, "out-of-memory", "killed")
    assert list(failed_rows(goals, store)) == []


# heads


def put(store: Store, cell: Cell, value: float | None = None) -> None:
    draft = store.draft(cell)
    if value is not None:
        head = {"weight": torch.full((10, 4), value), "bias": torch.full((10,), -value)}
        save_file(head, draft / "head.safetensors")
    facts: dict[str, Any] = {"result": {"epoch": 3}, "seconds": 2.0, "finished": 9.0, "versions": {}}
    assert store.publish(cell, draft, facts | {"host": "h", "pid": 1, "device": "cpu"})


def features(protocol: str, method: str) -> Cell:
    wanted = {"method": method, "forget": "3", "audit": "main"}
    goals = dict(own_goals(GROUP))[protocol]
    (found,) = (g for g in goals if g.what == "audit" and wanted.items() <= g.identity.items())
    return found.cell.needs["test"]


def test_heads_and_facts_travel_under_the_name_of_their_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, first, second = Store(tmp_path / "store"), tmp_path / "a.tar.gz", tmp_path / "b.tar.gz"
    put(store, features(BASE, "retrained"), 1.0)
    put(store, features(GROUP[1], "scrub"), 2.0)
    put(store, features(BASE, "delete").needs["model"])
    assert take_heads(GROUP, store, first) == take_heads(GROUP, store, second) == 2
    assert first.read_bytes() == second.read_bytes()
    (record,) = known_records(first)
    assert (record.kind, record.settings["method"], record.seconds) == ("unlearn", "delete", 2.0)
    target = tmp_path / "heads.safetensors"
    write_heads([first], target)
    assert {name: float(value.flatten()[0]) for name, value in load_file(target).items()} == {
        "retrained-3.weight": 1.0,
        "retrained-3.bias": -1.0,
        "published-scrub-3.weight": 2.0,
        "published-scrub-3.bias": -2.0,
    }
    put(store, features(BASE, "delete"), 3.0)
    take_heads(GROUP, store, second)
    save_file({"retrained-4.weight": torch.zeros(10, 4), "retrained-3.weight": torch.zeros(10, 4)}, target)
    write_heads([second], target)
    kept = load_file(target)
    assert float(kept["retrained-3.weight"].sum()) == 40.0
    assert {name for name in kept if name.endswith(".weight")} == {
        f"{name}.weight" for name in ("retrained-3", "retrained-4", "delete-3", "published-scrub-3")
    }
    target.unlink()
    monkeypatch.setattr(committed_heads, "LARGEST", 200)
    write_heads([first], target)
    assert set(load_file(target)) == {"retrained-3.weight", "retrained-3.bias"}
    with pytest.raises(InputError, match="one group"):
        take_heads((*GROUP, "cifar100-resnet18"), store, first)
