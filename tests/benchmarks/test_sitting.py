"""A sitting: parts with their minutes, a run that ends in time, and the way home and on to another machine."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import pytest
from safetensors.torch import load_file

import reproduce
from builders.bench import in_this_process
from reproduce import compute, wanted
from reproduction.heads import PROTOCOLS, bring
from reproduction.parts import PARTS, find, minutes, seconds
from sfra.bench.engine.cell import Cell, reachable
from sfra.bench.engine.packing import unpack
from sfra.bench.engine.store import Store
from sfra.core.errors import InputError

REHEARSAL = "rehearsal"


def asked(store: Path, limit: float | None = None, only: str | None = None) -> argparse.Namespace:
    return argparse.Namespace(
        parts=[REHEARSAL], store=store, minutes=limit, only=only, device="cpu", workers=1, measuring=0
    )


def kinds(store: Path) -> dict[str, int]:
    return {path.name: len(list(path.iterdir())) for path in sorted((store / "cells").glob("*"))}


def test_every_part_has_goals_of_known_protocols_and_fits_into_a_sitting() -> None:
    for name, part in PARTS.items():
        goals = part.goals()
        assert goals, name
        assert {protocol for protocol, _ in goals} <= {*PROTOCOLS, "digits-tiny"}, name
        ((_, alone),) = minutes({name: part})
        assert 0 < alone < 28, name


def test_what_an_earlier_part_makes_or_a_store_holds_costs_nothing() -> None:
    (_, first), (_, again) = minutes({"one": PARTS["large-7"], "two": PARTS["large-7"]})
    (_, other) = list(minutes(find(["large-7", "large-9"])))
    ((_, alone),) = minutes(find(["large-9"]))
    assert (again, first > 0) == (0, True)
    assert other[1] < alone
    assert list(minutes(find(["large-9"]), lambda _: True)) == [("large-9", 0)]


def test_a_training_costs_its_epochs_and_an_audit_does_not_depend_on_them() -> None:
    cells = reachable(goal.cell for _, goal in PARTS["large-9"].goals()).values()
    trained = [cell for cell in cells if cell.kind == "train"]
    assert {seconds(cell) for cell in trained} == {70 * 3.8}
    longer = Cell(kind="train", settings={**trained[0].settings, "training": {"epochs": 7}})
    assert seconds(longer) == pytest.approx(7 * 3.8)


def test_an_unknown_part_is_answered_with_those_that_there_are() -> None:
    with pytest.raises(InputError, match=r"no such part[\s\S]*large-7"):
        find(["large-8"])


def test_a_run_that_has_no_time_starts_no_training(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert compute(asked(tmp_path / "store", limit=1e-3)) == 1
    assert kinds(tmp_path / "store") == {}
    assert "0 of 13 goals done" in capsys.readouterr().out


def test_a_run_ends_when_its_time_is_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reproduce, "seconds", lambda _: 0.0)
    began = time.monotonic()
    assert compute(asked(tmp_path / "store", limit=0.05)) == 1
    assert time.monotonic() - began < 20


def test_measurements_have_workers_of_their_own(tmp_path: Path) -> None:
    told = asked(tmp_path / "store", only="what=pra,method=delete")
    told.device, told.measuring = "cpu:0", 1
    assert compute(told) == 0
    devices = {(record.kind, record.device) for record in Store(tmp_path / "store").records()}
    assert devices == {("train", "cpu:0"), ("unlearn", "cpu:0"), ("features", "cpu:0"), ("pra", "cpu")}


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with one reading of one model, and the original's accuracy."""
    store = tmp_path_factory.mktemp("begun") / "store"
    with in_this_process():
        compute(asked(store, only="what=pra,method=delete"))
        compute(asked(store, only="what=accuracy"))
    return store


def test_another_machine_goes_on_from_what_was_brought(
    begun: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    there, out = tmp_path / "there", tmp_path / "out"
    files = bring(wanted(asked(begun)), Store(begun, read_only=True), out, originals=True)
    assert sorted(files) == sorted(out.iterdir())
    assert sum(unpack(out / f"digits-tiny-{what}", Store(there)) for what in ("results.tar.gz", "original.tar")) == 3
    assert kinds(there) == {"features": 1, "pra": 1, "train": 1}
    capsys.readouterr()
    with in_this_process():
        compute(asked(there, only="what=pra"))
    assert "written original" not in capsys.readouterr().out
    assert kinds(there)["pra"] == 4


def test_heads_and_a_few_test_features_of_each_model_come_home(begun: Path, tmp_path: Path) -> None:
    bring(wanted(asked(begun)), Store(begun, read_only=True), tmp_path)
    kept = load_file(tmp_path / "digits-tiny-features.safetensors")
    assert set(kept) == {"delete-3.features", "delete-3.labels"}
    counts = kept["delete-3.labels"].bincount().tolist()
    assert counts == [10, 10, 10, 45, 10, 10, 10, 10, 10, 10]
    assert (tmp_path / "digits-tiny-heads.tar.gz").exists()
