"""What a search chose gets into the recipe: settings, source, candidates; and nothing else changes."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from choose import merge, read_rows, write_recipe
from recipes import COLUMNS
from sfra.core.errors import InputError
from sfra.models import recipes

SHIPPED = Path(recipes.__file__).parent / "cifar10-resnet18-small.toml"


def candidates(
    path: Path, method: str, tried: dict[str, dict[str, Any]], best: str | None, forgets: str = "03"
) -> Path:
    rows = [
        {
            "method": method,
            "settings": json.dumps(one),
            "forget": forget,
            "aus": "0.9",
            "chosen": "yes" * (name == best),
        }
        for name, one in tried.items()
        for forget in forgets
    ]
    path.parent.mkdir(exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return path


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    path = tmp_path / "cifar10-resnet18-small.toml"
    path.write_text(SHIPPED.read_text())
    return path


RATES = {"slow": {"learning_rate": 0.002}, "still": {"learning_rate": 0.3, "freeze_batch_norm": True}}


def test_the_chosen_settings_replace_the_old_ones_and_are_explained(recipe: Path, tmp_path: Path) -> None:
    before = recipes.load(recipe)
    searches = [
        candidates(tmp_path / "a" / "x.csv", "finetune", RATES, "still"),
        candidates(tmp_path / "b" / "x.csv", "delete", RATES, "slow", forgets="5"),
    ]
    write_recipe(recipe, read_rows(searches))
    after = recipes.load(recipe)
    assert "delete" not in before.methods
    assert after.methods == before.methods | {"finetune": RATES["still"], "delete": RATES["slow"]}
    assert (after.training, after.preprocess, after.augment) == (before.training, before.preprocess, before.augment)
    told = "Best validation AUS of 2 candidates for {} (benchmarks/recipes/cifar10-resnet18-small.csv)."
    sources = {"finetune": told.format("classes 0 and 3"), "delete": told.format("class 5")}
    assert after.sources == before.sources | sources


def test_a_setting_that_is_the_default_needs_no_line(recipe: Path, tmp_path: Path) -> None:
    tried = {"published": {"learning_rate": 0.01, "alpha": 0.95}}
    search = candidates(tmp_path / "x.csv", "negative-gradient-plus", tried, "published")
    write_recipe(recipe, read_rows([search]))
    assert recipes.load(recipe).methods["negative-gradient-plus"] == {}


def test_writing_twice_gives_the_same_bytes(recipe: Path, tmp_path: Path) -> None:
    found = read_rows([candidates(tmp_path / "x.csv", "salun", RATES, "still")])
    assert write_recipe(recipe, found) == write_recipe(recipe, found) == recipe.read_text()


@pytest.mark.parametrize("best", [None, "unknown setting"])
def test_nothing_is_written_when_a_search_is_unfinished_or_its_choice_no_setting(
    recipe: Path, tmp_path: Path, best: str | None
) -> None:
    tried = {"unknown setting": {"speed": 3}} if best else RATES
    search = candidates(tmp_path / "x.csv", "scrub", tried, best)
    with pytest.raises(InputError, match=r"search of scrub is not over(.|\n)*got: +0|speed"):
        write_recipe(recipe, read_rows([search]))
    assert recipe.read_text() == SHIPPED.read_text()


def test_candidates_of_all_searches_are_kept_in_one_file(tmp_path: Path) -> None:
    together = candidates(tmp_path / "all.csv", "delete", RATES, "slow")
    first = together.read_text().splitlines()
    again = candidates(tmp_path / "x.csv", "scrub", RATES, "still")
    merge(together, [again])
    assert together.read_text().splitlines() == [*first, *again.read_text().splitlines()[1:]]
    merge(together, [candidates(tmp_path / "y.csv", "delete", {"one": {}}, "one", forgets="7")])
    rows = read_rows([together])
    assert [row["settings"] for row in rows["delete"]] == ["{}"], "a new search of a method replaces the old"
    assert len(rows["scrub"]) == 4
