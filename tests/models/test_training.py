"""The settings of a training: its schedules and its loss against torch's own, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.optim.lr_scheduler import MultiStepLR, OneCycleLR

import sfra.core.batches
import sfra.models.training.train
from builders.models import assert_weights, net, samples
from sfra.core.errors import InputError
from sfra.models.training.train import Training, rates, train


def optimizer(rate: float) -> torch.optim.SGD:
    return torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=rate)


@pytest.mark.parametrize(("epochs", "steps"), [(1, 1), (1, 3), (10, 1), (7, 13), (55, 196)])
def test_one_cycle_is_torchs_to_the_last_bit(epochs: int, steps: int) -> None:
    sgd = optimizer(0.2)
    cycle = OneCycleLR(sgd, max_lr=0.2, total_steps=epochs * steps, cycle_momentum=False)
    expected = []
    for _ in range(epochs * steps):
        expected.append(sgd.param_groups[0]["lr"])
        sgd.step()
        if len(expected) < epochs * steps:
            cycle.step()
    assert rates(Training(epochs=epochs, learning_rate=0.2), steps) == expected


@pytest.mark.parametrize(
    ("epochs", "milestones", "falls"),
    [(150, (40 / 150, 80 / 150, 120 / 150), [40, 80, 120]), (10, (1 / 3, 2 / 3), [3, 7]), (4, (), [])],
)
def test_steps_fall_where_torchs_do(epochs: int, milestones: tuple[float, ...], falls: list[int]) -> None:
    sgd = optimizer(0.1)
    schedule, expected = MultiStepLR(sgd, falls, gamma=0.2), []
    for _ in range(epochs):
        expected += [sgd.param_groups[0]["lr"]] * 3
        sgd.step()
        schedule.step()
    training = Training(epochs=epochs, learning_rate=0.1, schedule="steps", milestones=milestones, factor=0.2)
    assert rates(training, 3) == pytest.approx(expected, rel=1e-12)


def test_smoothing_nesterov_and_steps_are_those_of_a_plain_loop() -> None:
    """Full batches leave no order."""
    data, start = samples(), net(seed=3)
    training = Training(
        epochs=6,
        learning_rate=0.3,
        batch_size=999,
        momentum=0.8,
        weight_decay=0.01,
        schedule="steps",
        milestones=(0.5,),
        nesterov=True,
        label_smoothing=0.2,
    )
    model = net(seed=3)
    sgd = torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.8, weight_decay=0.01, nesterov=True)
    for epoch in range(6):
        sgd.param_groups[0]["lr"] = 0.3 if epoch < 3 else 0.03
        sgd.zero_grad()
        soft = 0.8 * nn.functional.one_hot(data.labels, 5).double() + 0.2 / 5
        loss = -(soft * model(data.images).log_softmax(1)).sum(1).mean()
        loss.backward()
        sgd.step()
    assert_weights(train(start, data, training=training), dict(model.named_parameters()))


@pytest.mark.parametrize(
    "wrong",
    [
        {"epochs": 0},
        {"learning_rate": 0.0},
        {"momentum": 1.0},
        {"weight_decay": -0.1},
        {"milestones": (0.5, 0.2)},
        {"milestones": (1.0,)},
        {"factor": 0.0},
        {"label_smoothing": 1.0},
        {"cutmix": -0.1},
        {"cutmix": 1.1},
        {"nesterov": True, "momentum": 0.0},
    ],
)
def test_a_setting_out_of_range_is_refused_by_name(wrong: dict[str, Any]) -> None:
    field, *_ = wrong
    with pytest.raises(InputError, match=rf"Training: {field} is out of range\n  expected: "):
        Training(**{"epochs": 1, "learning_rate": 0.1, **wrong})


@pytest.mark.parametrize("schedule", ["one-cycle", "steps"])
def test_a_training_without_end_is_refused_before_it_begins(monkeypatch: pytest.MonkeyPatch, schedule: Any) -> None:
    training = Training(epochs=4, learning_rate=0.1, schedule=schedule)
    monkeypatch.setattr(sfra.models.training.train, "MOST_STEPS", 12)
    assert len(rates(training, 3)) == 12
    with pytest.raises(InputError, match="is too long\n  expected: at most 12 steps\n  got:      4 epochs of 4 steps"):
        rates(training, 4)
