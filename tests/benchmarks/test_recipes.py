"""What a search chose gets into the recipe: settings and source; nothing else changes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from recipes import Row, write_recipe
from sfra.core.errors import InputError
from sfra.models import recipes

SHIPPED = Path(recipes.__file__).parent / "cifar10-resnet18-small.toml"
STILL: dict[str, object] = {"learning_rate": 0.3, "freeze_batch_norm": True}


def search(method: str, *tried: dict[str, object], best: int | None = 0) -> list[Row]:
    return [
        {"method": method, "settings": json.dumps(one), "forget": forget, "chosen": "yes" * (i == best)}
        for i, one in enumerate(tried)
        for forget in "03"
    ]


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    path = tmp_path / SHIPPED.name
    path.write_text(SHIPPED.read_text())
    return path


def test_the_chosen_settings_replace_the_old_ones_and_are_explained(recipe: Path) -> None:
    before = recipes.load(recipe)
    write_recipe(recipe, search("finetune", {"learning_rate": 0.002}, STILL, best=1))
    after = recipes.load(recipe)
    assert after.methods == before.methods | {"finetune": STILL}
    assert (after.training, after.preprocess, after.augment) == (before.training, before.preprocess, before.augment)
    told = "Best validation AUS of 2 candidates for classes 0 and 3 (benchmarks/recipes/cifar10-resnet18-small.csv)."
    assert after.sources == before.sources | {"finetune": told}
    text = recipe.read_text()
    write_recipe(recipe, search("finetune", {"learning_rate": 0.002}, STILL, best=1))
    assert recipe.read_text() == text


def test_a_setting_that_is_the_default_needs_no_line(recipe: Path) -> None:
    write_recipe(recipe, search("negative-gradient-plus", {"learning_rate": 0.01, "alpha": 0.95}))
    assert recipes.load(recipe).methods["negative-gradient-plus"] == {}


@pytest.mark.parametrize("rows", [search("scrub", STILL, best=None), search("scrub", {"speed": 3})])
def test_an_unfinished_search_or_an_unknown_setting_writes_nothing(recipe: Path, rows: list[Row]) -> None:
    with pytest.raises(InputError, match=r"search of scrub is not over|speed"):
        write_recipe(recipe, rows)
    assert recipe.read_text() == SHIPPED.read_text()
