"""Every method forgets the class and keeps the others, on data where the original knows them all."""

from __future__ import annotations

from typing import Any

import pytest
from torch import nn

from builders.models import net, samples
from sfra import unlearn
from sfra.models.training.train import train

RECIPES: dict[str, dict[str, Any]] = {
    "bad-teacher": {"learning_rate": 3e-2, "epochs": 4, "retain_share": 1.0},
    "boundary-shrink": {"learning_rate": 3e-2, "epochs": 5},
    "delete": {"learning_rate": 3e-2, "epochs": 5},
    "finetune": {"learning_rate": 0.3, "epochs": 6, "weight_decay": 3e-2},
    "learn-to-unlearn": {"learning_rate": 3e-2, "epochs": 15, "iterations": 30, "adversarial_weight": 3.0},
    "negative-gradient": {"learning_rate": 3e-2, "epochs": 20},
    "negative-gradient-plus": {"learning_rate": 0.1, "epochs": 15, "alpha": 0.8},
    "random-label": {"learning_rate": 3e-2, "epochs": 8},
    "retrained": {"learning_rate": 0.1, "epochs": 10},
    "salun": {"learning_rate": 0.1, "epochs": 3},
    "scrub": {"learning_rate": 0.1, "epochs": 8, "max_epochs": 4},
    "masked": {},
}


def clusters(seed: int) -> unlearn.TensorData:
    return samples(40, seed=seed, spread=0.35)


@pytest.fixture(scope="module")
def original() -> nn.Module:
    return train(net(), clusters(0), epochs=15, learning_rate=0.1, batch_size=32)


def test_every_method_has_a_recipe_here() -> None:
    own = {name for name in unlearn.names() if unlearn.get(name).__module__.startswith("sfra.")}
    assert set(RECIPES) == own


@pytest.mark.parametrize("forget", [(3,), (1, 3)], ids=["one class", "two classes"])
@pytest.mark.parametrize("name", RECIPES)
def test_the_forget_classes_go_and_the_retain_classes_stay(
    original: nn.Module, name: str, forget: tuple[int, ...]
) -> None:
    test = clusters(2)
    before = unlearn.measure(original, test, forget)
    method = unlearn.get(name)(**{"batch_size": 16} | RECIPES[name])
    result = method(original, clusters(0), forget, validation=clusters(1))
    after = unlearn.measure(result.model, test, forget)
    assert before.forget > 0.9
    assert before.retain > 0.9
    assert after.forget < 0.15
    assert after.retain > before.retain - 0.1
