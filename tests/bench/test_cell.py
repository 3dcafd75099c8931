"""A cell's key is the hash of what determines it, and of nothing else."""

from __future__ import annotations

import hashlib
import pickle
from pathlib import Path
from typing import Any

import pytest

from sfra.bench.engine.cell import Cell, canonical, check_key, order, reachable
from sfra.bench.engine.task import find_task, modules_of, task
from sfra.core.errors import InputError


def make(kind: str = "toy", *, version: int = 1, **settings: object) -> Cell:
    return Cell(kind=kind, settings=settings, version=version)


def test_the_key_is_the_sha256_of_the_written_out_identity() -> None:
    below = make(a=1)
    cell = Cell(kind="toy", settings={"b": [1, 2], "a": None}, needs={"x": below}, version=4)
    text = '{"kind":"toy","needs":{"x":"' + below.key + '"},"settings":{"a":null,"b":[1,2]},"version":4}'
    assert cell.key == hashlib.sha256(text.encode()).hexdigest()
    assert canonical({"ε": [1, True, None, 0.1]}) == '{"\\u03b5":[1,true,null,0.1]}'


def test_the_order_of_names_tuples_and_labels_do_not_change_the_key() -> None:
    one = Cell(kind="toy", settings={"a": (1, 2), "b": {"c": 1, "d": 2}}, version=1, label="one")
    other = Cell(kind="toy", settings={"b": {"d": 2, "c": 1}, "a": [1, 2]}, version=1, label="other")
    assert one == other
    assert len({one, other}) == 1


def test_everything_that_determines_a_result_changes_the_key() -> None:
    x, y = make(a=1), make(a=2)
    needs = [Cell(kind="toy", needs={role: need}, version=1) for role, need in (("x", x), ("x", y), ("y", x))]
    cells = [make(), make("other"), make(version=2), make(a=0), make(a=False), make(a="0"), *needs]
    assert len({cell.key for cell in cells}) == len(cells)


def test_a_cell_keeps_its_settings_when_the_caller_changes_theirs() -> None:
    settings = {"layers": [1, 2]}
    cell = Cell(kind="toy", settings=settings, version=1)
    settings["layers"].append(3)
    assert cell.settings == {"layers": [1, 2]}


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"a": {"b": [1.0, float("nan")]}}, r"settings of toy\.a\.b\[1\] is not finite"),
        ({"a": {1: 2}}, "names must be text"),
        ({"a": Path("x")}, "is not plain JSON"),
    ],
)
def test_settings_that_json_cannot_say_exactly_are_refused_and_the_place_is_named(value: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        Cell(kind="toy", settings=value, version=1)


@pytest.mark.parametrize("kind", ["", "Train", "../train", "a.b", "a" * 41])
def test_a_kind_that_could_not_name_a_folder_is_refused(kind: str) -> None:
    with pytest.raises(InputError, match="wrong name for a kind"):
        make(kind)


@pytest.mark.parametrize("key", ["", "../../etc/passwd", "A" * 64, "a" * 64 + "\n"])
def test_only_64_hexadecimal_digits_are_a_key(key: str) -> None:
    with pytest.raises(InputError, match="64 hexadecimal digits"):
        check_key(key)


def test_a_chain_may_be_longer_than_the_stack_of_the_interpreter() -> None:
    cell = make()
    for step in range(1200):
        cell = Cell(kind="toy", settings={"step": step}, needs={"before": cell}, version=1)
    travelled = pickle.loads(pickle.dumps(order(cell)))
    assert (travelled.key, travelled.needs) == (cell.key, {"before": ("toy", cell.needs["before"].key)})
    assert len(reachable([cell, cell])) == 1201


def test_the_version_comes_from_the_registered_task() -> None:
    task("versioned", version=7)(make)
    assert Cell(kind="versioned").key == Cell(kind="versioned", version=7).key


def test_a_kind_without_a_task_and_a_second_task_of_one_kind_are_refused() -> None:
    with pytest.raises(InputError, match="no task computes this kind"):
        find_task("nobody")
    task("taken")(make)
    with pytest.raises(InputError, match=r"a task of this kind exists(.|\n)*test_cell.make"):
        task("taken")(canonical)


def test_tasks_of_the_main_program_cannot_be_found_by_other_processes() -> None:
    def local() -> None: ...

    local.__module__ = "__main__"
    task("homeless")(local)
    with pytest.raises(InputError, match="other processes can import"):
        modules_of(["homeless"])
