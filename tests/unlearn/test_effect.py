"""Every method forgets the class and keeps the others, on data where the original knows them all."""

from __future__ import annotations

from typing import Any

import pytest
from torch import nn

from sfra import unlearn
from sfra.train import train
from unlearning_toys import net, samples

RECIPES: dict[str, dict[str, Any]] = {
    "bad-teacher": {"learning_rate": 1e-2, "epochs": 15},
    "boundary-shrink": {"learning_rate": 1e-2},
    "delete": {"learning_rate": 3e-2},
    "finetune": {"learning_rate": 0.3, "epochs": 40, "weight_decay": 1e-2},
    "learn-to-unlearn": {"learning_rate": 1e-2, "iterations": 30},
    "negative-gradient": {"learning_rate": 1e-2, "epochs": 10},
    "negative-gradient-plus": {"learning_rate": 0.1, "alpha": 0.9},
    "random-label": {"learning_rate": 1e-2, "epochs": 10},
    "retrained": {"learning_rate": 0.1, "epochs": 15},
    "salun": {"learning_rate": 0.1},
    "scrub": {"learning_rate": 0.1, "epochs": 5},
}


@pytest.fixture(scope="module")
def original() -> nn.Module:
    return train(net(), samples(40), epochs=15, learning_rate=0.1, batch_size=32)


def test_every_method_has_a_recipe_here() -> None:
    assert set(RECIPES) == set(unlearn.names())


@pytest.mark.parametrize("forget", [(3,), (1, 3)], ids=["one class", "two classes"])
@pytest.mark.parametrize("name", RECIPES)
def test_the_forget_classes_go_and_the_retain_classes_stay(
    original: nn.Module, name: str, forget: tuple[int, ...]
) -> None:
    test = samples(40, seed=2)
    before = unlearn.measure(original, test, forget)
    method = unlearn.get(name)(**{"batch_size": 16} | RECIPES[name])
    result = method(original, samples(40), forget, validation=samples(40, seed=1))
    after = unlearn.measure(result.model, test, forget)
    assert before.forget > 0.9
    assert before.retain > 0.9
    assert after.forget < 0.15
    assert after.retain > before.retain - 0.1
