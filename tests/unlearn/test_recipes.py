"""The methods of a recipe: every table that is shipped makes its method, and a mistake in one is named."""

from __future__ import annotations

import pytest

from sfra import unlearn
from sfra.core.errors import InputError
from sfra.models import recipes

RATES = {
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
"""Of the public code, for CIFAR-10."""


@pytest.mark.parametrize("name", recipes.names())
def test_the_tables_of_a_shipped_recipe_change_the_defaults_of_their_methods(name: str) -> None:
    recipe = recipes.load(name)
    unlearn.check_recipe(recipe)
    unlearn.make_method("retrained", recipe.training)
    for method, settings in recipe.methods.items():
        defaults = unlearn.describe(method).settings
        assert {key for key, value in settings.items() if value == defaults[key]} == set(), method
    groups = {"pretrained", "training", "preprocess", "augment", "methods"}
    assert set(recipe.sources) <= groups | set(unlearn.names())


@pytest.mark.parametrize(
    ("dataset", "others"), [("cifar10", {}), ("cifar100", {"negative-gradient": 0.01, "scrub": 1e-4, "salun": 0.1})]
)
def test_the_public_codes_rates_are_those_of_the_step_recipes(dataset: str, others: dict[str, float]) -> None:
    methods = recipes.load(f"{dataset}-resnet18-small-steps").methods
    made = {name: unlearn.make_method(name, methods.get(name, {})).learning_rate for name in RATES}
    assert made == RATES | others


@pytest.mark.parametrize(
    ("methods", "message"),
    [
        ({"delet": {}}, "unknown unlearning method"),
        ({"delete": {"alpha": 1}}, r"mine \[methods\.delete\]: there is no setting 'alpha'\n  expected: .*epochs"),
        ({"delete": {"epochs": "3"}}, r"mine \[methods\.delete\]: Expected `int`, got `str` for `epochs`"),
        ({"scrub": {"temperature": 0}}, r"mine \[methods\.scrub\]: Scrub: temperature is out of range"),
    ],
)
def test_a_mistake_in_a_table_is_named_with_its_place(methods: dict[str, dict[str, object]], message: str) -> None:
    recipe = recipes.Recipe(name="mine", dataset="digits", backbone="small-cnn", training={}, methods=methods)
    with pytest.raises(InputError, match=message):
        unlearn.check_recipe(recipe)
