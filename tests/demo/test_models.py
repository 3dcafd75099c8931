"""The demonstration's models: real digits, forgotten in different ways, chosen without the test split."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import sfra.demo.models as demo
from builders.demo import Made, read_models
from sfra import unlearn
from sfra.core.cpu import one_thread
from sfra.core.files import read_arrays
from sfra.demo.models import NamedModel, digits_tensors
from sfra.models.backbones import build


@pytest.fixture(scope="module")
def made(demo_made: Path) -> Made:
    """What the demonstration made; the test split could not be read meanwhile."""
    return read_models(demo_made)


@pytest.fixture(scope="module")
def models(made: Made) -> dict[str, NamedModel]:
    return {one.name: one for one in made.models}


def test_the_demo_has_an_original_a_reference_and_releases_of_every_kind(
    models: dict[str, NamedModel], made: Made
) -> None:
    roles = {name: made.role for name, made in models.items()}
    assert roles.pop("original") == "original"
    assert roles.pop("reference") == "reference"
    assert set(roles) == {"masked", "delete", "bad-teacher", "finetune", "retrained"}
    assert set(roles.values()) == {"release"}
    assert made.told == list(models)


def test_every_release_forgot_the_class_and_kept_the_rest_on_the_test_split(
    models: dict[str, NamedModel],
) -> None:
    test = digits_tensors("test")
    quality = {name: unlearn.measure(made.model, test, (7,)) for name, made in models.items()}
    original = quality.pop("original")
    assert original.forget > 0.95
    assert original.retain > 0.95
    for name, after in quality.items():
        assert after.forget < 0.15, name
        assert after.retain > original.retain - 0.1, name


def test_each_recipe_is_the_candidate_of_best_aus_on_the_validation_split(
    models: dict[str, NamedModel],
) -> None:
    train, validation = digits_tensors("train"), digits_tensors("validation")
    chosen = models["delete"]
    with one_thread():
        rivals = [
            method(models["original"].model, train, (7,), validation=validation).quality
            for method in demo.RECIPES["delete"]
        ]
    assert chosen.validation.aus == max(rival.aus for rival in rivals if rival)


def test_the_honest_release_is_another_run_than_the_reference(models: dict[str, NamedModel]) -> None:
    runs = [models[name] for name in ("original", "reference", "retrained")]
    weights = [made.model.state_dict()["classifier.weight"] for made in runs]
    assert len({made.recipe.get("seed") for made in runs}) == 3
    assert not any(torch.allclose(a, b, atol=1e-2) for a, b in zip(weights, weights[1:] + weights[:1], strict=True))


def test_a_saved_model_is_a_state_dict_of_its_architecture(models: dict[str, NamedModel], tmp_path: Path) -> None:
    made = models["masked"]
    path = made.save(tmp_path)
    assert path.name == "masked.safetensors"
    again = build(demo.ARCH, classes=10, seed=1)
    again.load_state_dict(read_arrays(path))
    images = digits_tensors("validation").images
    with torch.no_grad():
        assert torch.equal(again.eval()(images), made.model(images))
