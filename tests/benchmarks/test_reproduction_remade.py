"""Models that were made more than once: what is equal in all makings is said, and what is not is named."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save

from reproduction.build import COMPARED
from reproduction.document import SENTENCES
from reproduction.document_beside import sentences_of
from reproduction.groups import models_of, own_goals
from reproduction.keep import COLUMNS, keep, known_records
from reproduction.remade import remade_rows
from reproduction.stored import KEPT, Kept, Row, read_kept
from sfra.bench.engine.cell import Cell
from sfra.bench.engine.packing import read_facts, unpack, write_archive
from sfra.bench.engine.store import Record, Store
from sfra.bench.plan import Goal

RATED = f"{COMPARED}-published"
LOSSES = [0.018847640603780746, 0.015423614531755447]
FIRST, SECOND = 1000.5, 9000.25


@cache
def goals() -> dict[str, list[Goal]]:
    return dict(own_goals([COMPARED, RATED]))


def model(method: str, forget: str, protocol: str = COMPARED) -> Cell:
    wanted = {"method": method, "forget": forget, "audit": "main"}
    (found,) = (g for g in goals()[protocol] if g.what == "audit" and wanted.items() <= g.identity.items())
    return found.cell.needs["test"].needs["model"]


def original() -> Cell:
    (found,) = {g.cell.needs["model"].key: g.cell for g in goals()[COMPARED] if g.what == "accuracy"}.values()
    return found.needs["model"]


def record(cell: Cell, finished: float, losses: Sequence[float] = LOSSES, **result: Any) -> Record:
    found: dict[str, Any] = {"validation": {"aus": 0.9}, "epoch": 2, "seconds": finished / 7} | result
    if cell.kind == "train":
        found |= {"losses": list(losses), "epoch": None}
    else:
        found["history"] = [{"epoch": i + 1, "loss": loss} for i, loss in enumerate(losses)]
    facts: dict[str, Any] = {"version": 1, "label": "", "settings": {}, "needs": {}, "versions": {}, "files": {}}
    facts |= {"host": "h", "pid": int(finished), "device": "cuda", "seconds": finished / 7}
    return Record(key=cell.key, kind=cell.kind, result=found, finished=finished, **facts)


def head(first: float = 1.0) -> dict[str, torch.Tensor]:
    weight = torch.linspace(0, 1, 40).reshape(10, 4)
    weight[0, 0] = first
    return {"weight": weight, "bias": torch.zeros(10)}


Heads = Mapping[str, dict[str, torch.Tensor]]


def rows(tmp_path: Path, *archives: tuple[Sequence[Record], Heads], stored: Sequence[Record] = ()) -> list[Row]:
    """Write archives and list what was made again according to them."""
    known = {}
    for i, (records, heads) in enumerate(archives):
        file = tmp_path / f"{i}.tar.gz"
        members = {f"heads/{name}.safetensors": save(value) for name, value in heads.items()}
        write_archive(file, members | {"heads/facts.json": json.dumps([asdict(one) for one in records]).encode()})
        known[file] = list(known_records(file))
    return list(remade_rows(COMPARED, goals(), known, stored))


# rows


def test_a_copy_of_a_making_is_no_second_one(tmp_path: Path) -> None:
    one = record(model("scrub", "3"), FIRST)
    other = replace(one, finished=SECOND)
    assert rows(tmp_path, ([one], {"scrub-3": head()}), ([one], {"scrub-3": head()}), stored=[one]) == []
    (row,) = rows(tmp_path, ([one], {}), ([one], {}), ([other], {}), ([other], {}))
    assert row["makings"] == 2


def test_a_model_that_is_the_same_when_made_again_is_equal_in_history_and_head(tmp_path: Path) -> None:
    cell = model("scrub", "3")
    first, second = ((record(cell, when), {"scrub-3": head()}) for when in (FIRST, SECOND))
    place = {"protocol": COMPARED, "seed": 0, "method": "scrub", "forget": "3"}
    assert rows(tmp_path, ([first[0]], first[1]), ([second[0]], second[1])) == [
        {**place, "makings": 2, "history": "yes", "head": "yes"}
    ]


@pytest.mark.parametrize(
    "changed",
    [
        {"losses": [LOSSES[0], LOSSES[1] + 2**-58]},
        {"losses": LOSSES[:1]},
        {"validation": {"aus": 0.9000000000000001}},
        {"epoch": 1},
    ],
)
def test_a_history_differs_with_the_last_digit_of_one_number(tmp_path: Path, changed: dict[str, Any]) -> None:
    cell = model("delete", "1")
    assert LOSSES[1] + 2**-58 != LOSSES[1]
    (row,) = rows(tmp_path, ([record(cell, FIRST)], {}), ([record(cell, SECOND, **changed)], {}))
    assert (row["history"], row["head"]) == ("no", None)


def test_the_losses_of_a_training_are_its_history(tmp_path: Path) -> None:
    found = {}
    for method, cell in (("retrained", model("retrained", "0")), ("original", original())):
        assert cell.kind == "train"
        for losses in (LOSSES, LOSSES[::-1]):
            (row,) = rows(tmp_path, ([record(cell, FIRST)], {}), ([record(cell, SECOND, losses)], {}))
            assert (row["method"], row["forget"]) == (method, "0" if method == "retrained" else "")
            found[method, losses == LOSSES] = row["history"]
    assert set(found.items()) == {
        ((method, same), "yes" if same else "no") for method in ("retrained", "original") for same in (True, False)
    }


@pytest.mark.parametrize(("before", "after"), [(1.0, 1.0 + 2**-23), (0.0, -0.0)])
def test_a_head_differs_with_one_bit(tmp_path: Path, before: float, after: float) -> None:
    cell = model("scrub", "3")
    bits = [head(value)["weight"].view(torch.int32) for value in (before, after)]
    assert sum(f"{int(bit) & 0xFFFFFFFF:b}".count("1") for bit in (bits[0] ^ bits[1]).flatten()) == 1
    first, second = (
        ([record(cell, FIRST)], {"scrub-3": head(before)}),
        ([record(cell, SECOND)], {"scrub-3": head(after)}),
    )
    (row,) = rows(tmp_path, first, second)
    assert (row["history"], row["head"]) == ("yes", "no")


def test_heads_of_one_making_are_not_compared_and_those_of_two_of_three_are(tmp_path: Path) -> None:
    cell = model("scrub", "3")
    first, second, third = (record(cell, when) for when in (FIRST, SECOND, 2 * SECOND))
    mine = {"scrub-3": head()}
    (row,) = rows(tmp_path, ([first], mine), ([first], mine), ([second], {}))
    assert (row["makings"], row["head"]) == (2, None)
    (row,) = rows(tmp_path, ([first], mine), ([second], {}), ([third], mine))
    assert (row["makings"], row["head"]) == (3, "yes")
    (row,) = rows(tmp_path, ([first], mine), ([second], {}), ([third], {"scrub-3": head(2.0)}))
    assert (row["makings"], row["head"]) == (3, "no")


def test_a_head_without_a_record_beside_it_is_of_no_known_making(tmp_path: Path) -> None:
    first, second = (
        [record(model(*name), when) for name in (("scrub", "3"), ("delete", "1"))] for when in (FIRST, SECOND)
    )
    mine = {"scrub-3": head()}
    found = rows(tmp_path, (first, mine), (second, mine), (first[1:], {"scrub-3": head(2.0)}))
    assert {row["method"]: row["head"] for row in found} == {"scrub": "yes", "delete": None}


def test_a_model_of_several_protocols_is_listed_once_under_the_first(tmp_path: Path) -> None:
    shared = dict(own_goals([COMPARED, f"{COMPARED}-ablations"]))
    key = model("scrub", "3").key
    assert [key in models_of(some) for some in shared.values()] == [True, True]
    made = [record(model("scrub", "3"), when) for when in (FIRST, SECOND)]
    assert [row["protocol"] for row in remade_rows(COMPARED, shared, {}, made)] == [COMPARED]


def test_a_head_belongs_to_the_model_and_protocol_that_its_name_says(tmp_path: Path) -> None:
    own, rated = model("scrub", "3"), model("scrub", "3", RATED)
    made = [[record(cell, when) for cell in (own, rated)] for when in (FIRST, SECOND)]
    first = {"scrub-3": head(1.0), "published-scrub-3": head(2.0), "scrub-4": head(4.0)}
    second = {"scrub-3": head(1.0), "published-scrub-3": head(3.0), "scrub-4": head(5.0)}
    found = rows(tmp_path, (made[0], first), (made[1], second))
    assert [(row["protocol"], row["head"]) for row in found] == [(COMPARED, "yes"), (RATED, "no")]


def test_what_the_store_knows_is_a_making_too_and_only_models_count(tmp_path: Path) -> None:
    cell = model("scrub", "3")
    masked = model("masked", "3")
    assert masked.kind == "mask"
    makings = [[record(one, when) for one in (cell, masked)] for when in (FIRST, SECOND)]
    assert [row["method"] for row in rows(tmp_path, (makings[0], {}), stored=makings[1])] == ["scrub"]


def test_keeping_writes_what_was_made_again(tmp_path: Path) -> None:
    protocol, committed = f"{COMPARED}-multi", KEPT / f"{COMPARED}.tar.xz"
    store = Store(tmp_path / "store")
    unpack(committed, store)
    wanted = {goal.cell.needs["test"].needs["model"].key for goal in dict(own_goals([protocol]))[protocol]
              if goal.what == "audit" and goal.identity["method"] == "scrub"}  # fmt: skip
    (fact,) = (one for one in read_facts(committed) if one["key"] in wanted)
    other = tmp_path / "later.tar.gz"
    write_archive(other, {"facts.jsonl": (json.dumps({**fact, "finished": fact["finished"] + 60}) + "\n").encode()})
    keep([protocol], store, tmp_path / "out", [committed, other])
    file = tmp_path / "out" / protocol / "remade.csv"
    assert file.read_text(encoding="utf-8").splitlines() == [
        ",".join(("protocol", *COLUMNS["remade"])),
        f"{protocol},0,scrub,1+6,2,yes,",
    ]
    (row,) = read_kept(protocol, tmp_path / "out").remade
    assert (row["forget"], row["makings"], row["history"], row["head"]) == ("1+6", 2, "yes", None)


# sentences


def again(method: str, forget: str, history: str = "yes", head: str | None = "yes", makings: float = 2) -> Row:
    place = {"protocol": COMPARED, "seed": 0.0, "method": method, "forget": forget}
    return {**place, "makings": makings, "history": history, "head": head}


def told(kept: Kept, *some: Row) -> str:
    return SENTENCES["remade"](replace(kept, remade=some))


def test_both_documents_say_it_in_the_same_words(other: Kept, kept: Kept) -> None:
    row = again("scrub", "3")
    text = told(other, row)
    assert sentences_of(other)["remade"](replace(kept, remade=[row])) == text
    for page in ("docs/reproduction.md", "docs/reproduction-cifar100.md", "benchmarks/reproduction/cifar100.md"):
        lines = [line for line in (KEPT.parent / page).read_text(encoding="utf-8").splitlines() if "<!-- text" in line]
        assert lines[lines.index("<!-- text coverage -->") + 1] == "<!-- text remade -->", page


def test_models_that_are_all_equal_are_counted(other: Kept) -> None:
    assert told(other, again("scrub", "3"), again("delete", "3"), again("salun", "0", head=None)) == (
        "Not all was computed in one sitting: three models were made in two. "
        "The losses of every epoch and the validation accuracies are equal to the last digit in all three. "
        "Heads of more than one making were kept of two models: they are equal bit for bit in both; "
        "not compared: SalUn of class 0. "
        "As far as this shows, audits and linear probes of different sittings are of the same models."
    )


def test_models_that_differ_are_counted_and_named(other: Kept) -> None:
    text = told(
        other,
        again("scrub", "3", "no", "no"),
        again("delete", "3", "yes", "no"),
        again("salun", "1+6", "no", None, makings=3),
        again("finetune", "0"),
        {**again("original", "", "no", None), "protocol": RATED},
    )
    assert text == (
        "Not all was computed in one sitting: five models were made in more than one. "
        "The losses of every epoch and the validation accuracies are equal to the last digit in two of five, not in "
        f"SCRUB of class 3, SalUn of class 1+6 and Original (`{RATED}`). "
        "Heads of more than one making were kept of three models: they are equal bit for bit in one of three, not in "
        f"SCRUB of class 3 and DELETE of class 3; not compared: SalUn of class 1+6 and Original (`{RATED}`). "
        "Where a model differs, audits and linear probes of different sittings may be of different models."
    )


@pytest.mark.parametrize(("history", "head"), [("no", "yes"), ("yes", "no"), ("no", None)])
def test_one_difference_is_enough_not_to_call_models_the_same(other: Kept, history: str, head: str | None) -> None:
    text = told(other, again("finetune", "0"), again("scrub", "3", history, head))
    assert text.endswith("may be of different models.")
    assert text.count("not in SCRUB of class 3") == 1


def test_a_single_model_and_heads_that_are_not_there_are_told(other: Kept) -> None:
    assert told(other, again("scrub", "3", head=None)) == (
        "Not all was computed in one sitting: one model was made in two. "
        "The losses of every epoch and the validation accuracies are equal to the last digit. "
        "Heads of more than one making were kept of no models. "
        "As far as this shows, audits and linear probes of different sittings are of the same models."
    )
    text = told(other, again("scrub", "3", "no"), again("delete", "3", "no"))
    assert "are not equal to the last digit, in SCRUB of class 3 and DELETE of class 3." in text


def test_heads_that_were_not_compared_are_named_unless_they_are_many(other: Kept) -> None:
    alone = [again("original", "", head=None), again("scrub", "3")]
    assert "they are equal bit for bit; not compared: Original. " in told(other, *alone)
    many = [again("scrub", "3"), *(again("delete", str(label), head=None) for label in range(6))]
    assert "they are equal bit for bit; of six models they were not compared. " in told(other, *many)
    assert "not compared" not in told(other, again("scrub", "3"))


def test_where_no_model_was_made_twice_nothing_is_concluded(other: Kept) -> None:
    assert told(other) == "No model was made twice, so these rows do not show whether one made again would be the same."
