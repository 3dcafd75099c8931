"""The conformance tests notice a method that breaks the rules: each rule, with a method that breaks it."""

from __future__ import annotations

import runpy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from sfra import unlearn
from sfra.models.training.train import logits
from sfra.unlearn import Task, registry

conformance = runpy.run_path(str(Path(__file__).with_name("test_conformance.py")))


settings = dataclass(frozen=True, kw_only=True)


@settings
class Honest(unlearn.StepMethod):
    """Descend on the forget data under labels drawn from the task's generator."""

    needs: ClassVar[tuple[str, ...]] = ("forget",)
    epochs: int = 1
    batch_size: int = 8
    learning_rate: float = 0.1

    def plan(self, task: Task) -> Callable[[int], Iterator[Tensor]]:
        def epoch_losses(epoch: int) -> Iterator[Tensor]:
            for images, labels in task.batches(task.forget):
                yield self.loss(task, images, labels)

        return epoch_losses

    def loss(self, task: Task, images: Tensor, labels: Tensor) -> Tensor:
        return cross_entropy(logits(task.student, images), task.random_retain_labels(len(labels)))


def moves_the_original(self: Honest, task: Task, images: Tensor, labels: Tensor) -> Tensor:
    logits(task.original.train(), images)
    return Honest.loss(self, task, images, labels)


def stands_still(self: Honest, task: Task, images: Tensor, labels: Tensor) -> Tensor:
    return 0 * Honest.loss(self, task, images, labels)


def reads_everything(self: Honest, task: Task, images: Tensor, labels: Tensor) -> Tensor:
    task.forget.samples.take(torch.arange(10))
    return Honest.loss(self, task, images, labels)


def draws_from_elsewhere(self: Honest, task: Task, images: Tensor, labels: Tensor) -> Tensor:
    weights = torch.rand(len(labels), generator=torch.Generator().manual_seed(torch.Generator().seed()))
    return (weights * cross_entropy(logits(task.student, images), labels, reduction="none")).mean()


def seeds_the_world(self: Honest, task: Task, images: Tensor, labels: Tensor) -> Tensor:
    np.random.seed(task.seed)  # noqa: NPY002
    return Honest.loss(self, task, images, labels)


def wants_tensors(self: Honest, task: Task, images: Tensor, labels: Tensor) -> Tensor:
    return cross_entropy(task.student(images), task.random_retain_labels(len(labels)))


def trains_the_statistics(self: Honest, task: Task, images: Tensor, labels: Tensor) -> Tensor:
    task.student.train()
    return Honest.loss(self, task, images, labels)


IDENTICAL = "test_the_callers_model_stays_bit_identical_and_a_new_one_comes_back"
NEVER_MOVES = "test_the_original_that_a_method_learns_from_never_moves"
DECLARED = "test_a_method_reads_only_the_training_data_that_it_declares"
SEEDED = "test_the_seed_alone_decides_and_the_global_random_states_are_not_touched"
OUTPUTS = "test_logits_inside_an_output_object_give_the_same_model"
FROZEN = "test_frozen_weights_stay_and_frozen_statistics_stay_if_asked"
CASES: list[tuple[dict[str, Any], str, dict[str, Any]]] = [
    ({"loss": moves_the_original}, NEVER_MOVES, {"forget": (3,), "norm": True}),
    ({"loss": stands_still}, IDENTICAL, {"forget": (3,), "norm": False}),
    ({"loss": reads_everything}, DECLARED, {}),
    ({"needs": ("forget", "retain")}, DECLARED, {}),  # but reads the forget data only
    ({"loss": draws_from_elsewhere}, SEEDED, {}),
    ({"loss": seeds_the_world}, SEEDED, {}),
    ({"loss": wants_tensors}, OUTPUTS, {}),
    ({"loss": trains_the_statistics}, FROZEN, {}),
]


@pytest.mark.parametrize(("crime", "rule", "arguments"), CASES)
def test_a_method_that_breaks_a_rule_fails_its_conformance_test(
    crime: dict[str, Any], rule: str, arguments: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "_METHODS", dict(registry._METHODS))
    test = conformance[rule]
    if "monkeypatch" in test.__code__.co_varnames:
        arguments = arguments | {"monkeypatch": monkeypatch}
    unlearn.register("honest")(Honest)
    unlearn.register("culprit")(settings(type("Culprit", (Honest,), crime)))
    test("honest", **arguments)
    with pytest.raises((AssertionError, TypeError, pytest.fail.Exception)):
        test("culprit", **arguments)
