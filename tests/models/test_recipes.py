"""Recipes: every file that is shipped can be used, and a mistake in one is named with its file."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

from sfra import data, unlearn
from sfra.core.errors import InputError
from sfra.data import Augment
from sfra.models import backbones, recipes
from sfra.models.recipes import check
from sfra.models.training.train import Training
from sfra.release import Preprocess

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
def test_a_shipped_recipe_can_be_used(name: str) -> None:
    recipe = recipes.load(name)
    assert recipe.name == name
    assert name.startswith(f"{recipe.dataset}-{recipe.backbone}")
    assert recipe.dataset in data.datasets()
    assert recipe.backbone in backbones.names()
    Training(**recipe.training)
    unlearn.Retrained(**recipe.training)
    if recipe.preprocess:
        assert Preprocess(**recipe.preprocess).size[0] % 8 == 0
    if recipe.augment is not None:
        Augment(**recipe.augment)
    for method, settings in recipe.methods.items():
        defaults = unlearn.describe(method).settings
        assert {key for key, value in settings.items() if value == defaults[key]} == set(), method
        unlearn.get(method)(**settings)
    assert "training" in recipe.sources
    groups = {"pretrained", "training", "preprocess", "augment", "methods"}
    assert set(recipe.sources) <= groups | set(unlearn.names())


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


def test_the_public_codes_rates_are_those_of_the_step_recipes() -> None:
    rates = {
        "finetune": 0.02,
        "negative-gradient": 5e-5,
        "negative-gradient-plus": 0.5,
        "random-label": 1e-7,
        "boundary-shrink": 1e-8,
        "learn-to-unlearn": 1e-5,
        "scrub": 1e-3,
        "bad-teacher": 1e-3,
        "salun": 1e-3,
        "delete": 1e-3,
    }
    hundred = rates | {"negative-gradient": 0.01, "scrub": 1e-4, "salun": 0.1}
    for dataset, expected in (("cifar10", rates), ("cifar100", hundred)):
        methods = recipes.load(f"{dataset}-resnet18-small-steps").methods
        made = {name: unlearn.get(name)(**methods.get(name, {})).learning_rate for name in expected}
        assert made == expected


def test_a_recipe_is_read_from_a_file_with_lists_as_tuples(tmp_path: Path) -> None:
    text = (
        GOOD + "[preprocess]\nsize = [8, 8]\n[augment]\n[methods.delete]\nlearning_rate = 1\n[sources]\ndelete = 'x'\n"
    )
    recipe = recipes.load(written(tmp_path, text))
    assert recipe == recipes.Recipe(
        name="mine",
        dataset="digits",
        backbone="small-cnn",
        pretrained=None,
        training={"epochs": 2, "learning_rate": 0.1},
        preprocess={"size": (8, 8)},
        augment={},
        methods={"delete": {"learning_rate": 1}},
        sources={"delete": "x"},
    )
    assert recipes.load(written(tmp_path, GOOD)).augment is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("dataset = ", "mine.toml is not a TOML file"),
        ("backbone = 'x'", r"mine\.toml: dataset is missing\n  expected: dataset, backbone, training"),
        (GOOD + "[method.delete]", r"mine\.toml: there is no key 'method'\n  expected: dataset, backbone, "),
        (
            "dataset = 3" + GOOD.replace('dataset = "digits"', ""),
            r"dataset is of the wrong kind\n  expected: text\n.*3",
        ),
        ("methods = 'all'" + GOOD, r"methods is of the wrong kind\n  expected: a table\n  got: +'all'"),
        (GOOD + "[methods]\ndelete = 3", r"methods\.delete is of the wrong kind\n  expected: a table\n  got: +3"),
        (GOOD + "[sources]\ndelete = 3", r"sources\.delete is of the wrong kind\n  expected: text\n  got: +3"),
        (GOOD + "epoch = 3", r"mine\.toml \[training\]: there is no setting 'epoch'\n  expected: epochs, "),
        (
            GOOD.replace("= 2", "= 2.5"),
            r"\[training\]: epochs is of the wrong kind\n  expected: a whole number\n.* 2\.5",
        ),
        (GOOD.replace("= 2", "= true"), r"\[training\]: epochs is of the wrong kind\n.*\n  got: +True"),
        (GOOD.replace("epochs = 2", ""), r"mine\.toml \[training\]: .*missing.*'epochs'"),
        (GOOD + "schedule = 'cosine'", r'schedule is of the wrong kind\n  expected: "one-cycle" or "steps"\n'),
        (
            GOOD + "milestones = ['a']",
            r"milestones is of the wrong kind\n  expected: a list of numbers\n  got: +\['a'\]",
        ),
        (
            GOOD + "[preprocess]\nsize = [8]",
            r"\[preprocess\]: size is of the wrong kind\n  expected: a list of 2 numbers",
        ),
        (
            GOOD.replace("= 2", "= " + "9" * 5000),
            r"mine\.toml cannot be used\n  expected: a recipe\n  got: +a number in it is too large: that of line 5; ",
        ),
        (
            GOOD.replace("0.1", "9" * 400),
            r"cannot be used\n  expected: a recipe\n  got: +a number in it is too large: training\.learning_rate; ",
        ),
        (GOOD + "#" * 2**15, r"mine\.toml cannot be used\n  expected: a recipe\n  got: +it has 32,[0-9]+ characters"),
        (
            GOOD + "x = " + "[" * 9000,
            r"mine\.toml cannot be used\n  expected: a recipe\n  got: +it is nested too deeply",
        ),
        (GOOD + "[augment]\ncrop = 99999999999", r"\[augment\]: images cannot be shifted by that\n  expected: at most"),
        (GOOD + "[augment]\ncrop = -1", r"mine\.toml \[augment\]: images cannot be shifted by that\n  expected: "),
        (
            GOOD + "[methods.delet]",
            r"there is no such unlearning method\n  expected: .*delete.*\n  got: +delet\n  do: +write delete",
        ),
        (
            GOOD + "[methods.delete]\nalpha = 1",
            r"\[methods\.delete\]: there is no setting 'alpha'\n  expected: .*epochs",
        ),
        (
            GOOD + "[methods.scrub]\ntemperature = 0",
            r"mine\.toml \[methods\.scrub\]: Scrub: temperature is out of range",
        ),
    ],
)
def test_a_mistake_is_named_with_its_file_and_place(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        recipes.load(written(tmp_path, text))


def test_a_recipe_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"no such recipe\n  expected: a \.toml file, or one of cifar10-.*\n  got: +cifar"
    ):
        recipes.load("cifar")
    with pytest.raises(InputError, match=r"there is no such file\n  got: +.*none\.toml"):
        recipes.load(tmp_path / "none.toml")


@pytest.mark.parametrize("module", [recipes, check])
def test_the_examples_in_the_documentation_run(module: object) -> None:
    outcome = doctest.testmod(module)  # type: ignore[arg-type]
    assert outcome.attempted > 0
    assert outcome.failed == 0
