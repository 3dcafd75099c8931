"""A group of protocols that is not computed to its end: what is there is told, what is missing is named."""

from __future__ import annotations

import re
import tarfile
from collections.abc import Callable
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save

from builders.second_group import GROUP, TEMPLATE, blocks, part
from reproduction import keep_heads
from reproduction.claims import our_numbers, paper_numbers, told
from reproduction.document_beside import refresh_beside, sentences_of, tables_of
from reproduction.draw import beside_figures
from reproduction.stored import PUBLISHED, Kept, Row
from reproduction.tables_beside import single_claims
from sfra.bench.protocol import load_protocol
from sfra.models import recipes

# claims


def test_claims_are_decided_as_far_as_there_are_numbers(kept: Kept, other: Kept) -> None:
    claims = single_claims()
    assert len(claims) == 12
    assert [claim.text for claim in claims if claim.lacking(paper_numbers())] == []
    without = part(kept, lambda row: row["method"] != "scrub")
    numbers = our_numbers(without, *PUBLISHED)
    undecided = [claim for claim in claims if claim.lacking(numbers)]
    assert {method for claim in undecided for method in claim.lacking(numbers)} == {"scrub"}
    assert all(told(claim, numbers) == "not computed: missing for SCRUB" for claim in undecided)
    assert len(undecided) == 7
    say = sentences_of(other)["held"]
    held = sum(claim.holds(numbers) for claim in claims if claim not in undecided)
    assert f"Of 12 lines, {held} hold in the paper's reading (numbers are missing for 7)" in say(without)
    assert "missing" not in say(kept)


def test_a_claim_on_forgotten_methods_is_not_held_where_there_are_none() -> None:
    (claim,) = (one for one in single_claims() if one.text.startswith("forget accuracy does not tell"))
    numbers = paper_numbers()
    left = replace(numbers, forget=dict.fromkeys(numbers.forget, 0.4))
    assert told(claim, numbers).startswith("held: ")
    assert told(claim, left) == "not held: no such method"


# rows that are not complete

LACKS: dict[str, Callable[[Row], bool]] = {
    "one class": lambda row: row["forget"] in ("", "30"),
    "one method": lambda row: row["method"] == "delete",
    "no references": lambda row: row["method"] != "retrained",
    "only references": lambda row: row["method"] == "retrained",
    "only the control": lambda row: row["method"] == "masked",
    "a ragged end": lambda row: row["forget"] == "0" or row["method"] == "retrained",
    "nothing": lambda row: False,
}


@pytest.mark.parametrize("lack", LACKS)
def test_every_block_can_be_made_of_incomplete_rows(kept: Kept, other: Kept, lack: str) -> None:
    some = part(kept, LACKS[lack])
    text = refresh_beside(TEMPLATE.read_text(encoding="utf-8"), some, other)
    assert "*The rows are incomplete.*" in blocks(text)["text", "coverage"]
    assert [name for (kind, name), content in blocks(text).items() if kind == "text" and not content] == []
    assert re.search(r"\b(None|nan|inf)\b", text) is None


@pytest.mark.parametrize(
    ("lack", "expected"),
    [
        ("one method", ["comparison", "comparison-canonical", "heatmap"]),
        ("only the control", ["heatmap"]),
        ("nothing", []),
    ],
)
def test_the_document_shows_the_figures_that_can_be_drawn(
    kept: Kept, other: Kept, lack: str, expected: list[str]
) -> None:
    some = part(kept, LACKS[lack])
    text = refresh_beside(TEMPLATE.read_text(encoding="utf-8"), some, other)
    assert re.findall(r"\(reproduction-cifar100/([a-z-]+)\.svg\)", text) == expected
    assert list(beside_figures(some, other)) == expected


@pytest.mark.parametrize("name", ["originals", "pra", "probes", "diagnostics", "models", "selection"])
def test_every_block_can_be_made_without_one_kind_of_rows(kept: Kept, other: Kept, name: str) -> None:
    nothing: dict[str, Any] = {name: []}
    text = refresh_beside(TEMPLATE.read_text(encoding="utf-8"), replace(kept, **nothing), other)
    assert [name for (kind, name), content in blocks(text).items() if kind == "text" and not content] == []
    assert re.search(r"\b(None|nan|inf)\b", text) is None


def test_what_is_missing_is_named_by_class_and_in_the_summary(kept: Kept, other: Kept) -> None:
    ragged = part(kept, lambda row: row["forget"] == "0" or (row["forget"], row["method"]) == ("10", "retrained"))
    counted = [
        {**row, "done": 13.0} if (row["what"], row["protocol"]) == ("audit", GROUP) else row for row in kept.coverage
    ]
    say, some = sentences_of(other), replace(ragged, coverage=counted)
    text = " ".join(say["coverage"](some).split())
    assert "all models are audited of 0; some of 10 (1 of 12); no model of 20, 30, 40, 50, 60, 70, 80 and 90." in text
    assert "107 audits" in text
    assert say["summary"](some).startswith("In short, in the reading of the verdict, from 13 of 120 audits:")
    assert "incomplete" not in say["coverage"](kept)
    assert "All 12 models of each forget class are audited: 0, 10, " in say["coverage"](kept)
    classes = {row["method"]: row["classes"] for row in tables_of(other)["rs-native"](some).records}
    assert (classes["Retrained"], classes["SCRUB"]) == ("2", "1")


def test_with_a_single_seed_nothing_is_said_of_other_seeds(kept: Kept, other: Kept) -> None:
    alone = replace(kept, selection=[{**row, "transferred": None} for row in kept.selection])
    assert "other seeds share" in sentences_of(other)["selection"](kept)
    assert "other seeds share" not in sentences_of(other)["selection"](alone)


def test_settings_are_those_of_the_protocol_and_the_recipe(kept: Kept, other: Kept) -> None:
    text = sentences_of(other)["settings"](kept)
    assert "N = 100,000, M = 50, 500 epochs and 3 seeds, N and M as published" in text
    protocol = load_protocol(GROUP)
    assert protocol.recipe is not None
    recipe = recipes.load(protocol.recipe)
    assert f"trained for {recipe.training['epochs']} epochs with a {recipe.training['schedule']} schedule" in text
    assert text.splitlines()[2:] == [f"- {name}: {source}" for name, source in recipe.sources.items()]


# heads


def archive(path: Path, names: list[str], *, classes: int) -> Path:
    with tarfile.open(path, "w:gz") as file:
        for i, name in enumerate(names):
            content = save({"weight": torch.full((classes, 8), float(i)), "bias": torch.zeros(classes)})
            member = tarfile.TarInfo(f"heads/{name}.safetensors")
            member.size = len(content)
            file.addfile(member, BytesIO(content))
    return path


def test_heads_that_are_too_many_are_left_out_from_the_least_important_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ["masked-0", "published-scrub-0", "scrub-0", "delete-10", "retrained-0", "retrained-10"]
    file, one = archive(tmp_path / "a.tar.gz", names, classes=10), 4 * (10 * 8 + 10)
    kept: dict[int, set[str]] = {}
    said: dict[int, str] = {}
    for room in (1, 2, 4, 5):
        monkeypatch.setattr(keep_heads, "LARGEST_HEADS", room * one)
        target = tmp_path / f"{room}.safetensors"
        keep_heads.write_heads([file], target)
        kept[room] = {name.rpartition(".")[0] for name in load_file(target)} if target.is_file() else set()
        said[room] = capsys.readouterr().out
    assert kept[1] == set()
    assert kept[2] == {"retrained-0", "retrained-10"}
    assert kept[4] == {"retrained-0", "retrained-10", "scrub-0", "delete-10"}
    assert kept[5] == {*kept[4], "published-scrub-0"}
    assert "2 kept, 3 of 0.0 MiB left out" in said[2]
    assert said[2].strip().endswith("delete-10, published-scrub-0, scrub-0")
    assert said[5] == ""
