"""Recipes: every file that is shipped can be used, and a mistake in one is named with its file."""

from __future__ import annotations

from pathlib import Path

import pytest

from sfra import data
from sfra.core.errors import InputError
from sfra.models import backbones, recipes
from sfra.models.training.train import Training

GOOD = """
dataset = "digits"
backbone = "small-cnn"
[training]
epochs = 2
learning_rate = 0.1
"""
PAPER = [(d, b) for d in ("cifar10", "cifar100", "tiny-imagenet") for b in ("resnet18-small", "vit-b-16", "swin-t")]


def written(folder: Path, text: str) -> Path:
    path = folder / "mine.toml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("name", recipes.names())
def test_a_shipped_recipe_names_its_data_its_backbone_and_its_source(name: str) -> None:
    recipe = recipes.load(name)
    assert recipe.name == name
    assert name.startswith(f"{recipe.dataset}-{recipe.backbone}")
    assert recipe.dataset in data.datasets()
    assert recipe.backbone in backbones.names()
    assert "training" in recipe.sources


def test_every_setting_of_the_paper_and_the_demo_has_a_recipe() -> None:
    for dataset, backbone in [*PAPER, ("digits", "small-cnn"), ("digits", "small-mlp")]:
        recipe = recipes.find(dataset, backbone)
        assert recipe is not None, (dataset, backbone)
        assert recipe.name == f"{dataset}-{backbone}"
    assert recipes.find("digits", "vit-b-16") is None


def test_the_step_recipes_fall_every_forty_of_150_epochs() -> None:
    for dataset in ("cifar10", "cifar100", "tiny-imagenet"):
        training = recipes.load(f"{dataset}-resnet18-small-steps").training
        assert [round(share * training["epochs"], 9) for share in training["milestones"]] == [40, 80, 120]
        assert training["batch_size"] == (64 if dataset == "tiny-imagenet" else 128)
        assert (training["learning_rate"], training["weight_decay"], training["factor"]) == (0.1, 5e-4, 0.1)


def test_a_recipe_keeps_what_its_file_gives_with_lists_as_tuples_and_numbers_as_floats(tmp_path: Path) -> None:
    text = GOOD.replace("0.1", "1") + "[preprocess]\nsize = [8, 8]\n[augment]\n[methods.delete]\nepochs = 1\n"
    recipe = recipes.load(written(tmp_path, text))
    assert recipe == recipes.Recipe(
        name="mine",
        dataset="digits",
        backbone="small-cnn",
        training={"epochs": 2, "learning_rate": 1.0},
        preprocess={"size": (8, 8)},
        augment={},
        methods={"delete": {"epochs": 1}},
    )
    assert isinstance(recipe.training["learning_rate"], float)
    assert recipes.load(written(tmp_path, GOOD)).augment is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("dataset = ", r"mine\.toml cannot be read"),
        (GOOD + "#" * 2**15, r"mine\.toml cannot be read"),
        ("backbone = 'x'", r"mine\.toml: .*missing.*`dataset`"),
        (GOOD + "[method.delete]", r"mine\.toml: there is no setting 'method'\n  expected: .*dataset, backbone, "),
        (GOOD + "epoch = 3", r"mine\.toml \[training\]: there is no setting 'epoch'\n  expected: epochs, "),
        (GOOD.replace("= 2", "= 2.5"), r"\[training\]: Expected `int`, got `float` for `epochs`"),
        (GOOD + "[preprocess]\nsize = [8]", r"mine\.toml \[preprocess\]: Expected `array` of length 2"),
        (GOOD + "[augment]\ncrop = -1", r"mine\.toml \[augment\]: images cannot be shifted by that\n  expected: "),
    ],
)
def test_a_mistake_is_named_with_its_file_and_place(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        recipes.load(written(tmp_path, text))


def test_a_recipe_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"unknown recipe\n  expected: a \.toml file, or one of cifar10-.*"):
        recipes.load("cifar")
    with pytest.raises(InputError, match=r"the file does not exist\n  got: +.*none\.toml"):
        recipes.load(tmp_path / "none.toml")


def test_settings_from_a_command_line_are_checked_alike() -> None:
    assert recipes.make_settings(Training, {"epochs": 1, "learning_rate": 1}, where="x").factor == 0.1
    with pytest.raises(InputError, match=r"x: Training: epochs is out of range\n  expected: at least 1"):
        recipes.make_settings(Training, {"epochs": 0, "learning_rate": 1}, where="x")
