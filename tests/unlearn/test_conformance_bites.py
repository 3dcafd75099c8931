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


@settings
class MovesTheOriginal(Honest):
    def loss(self, task: Task, images: Tensor, labels: Tensor) -> Tensor:
        logits(task.original.train(), images)
        return super().loss(task, images, labels)


@settings
class StandsStill(Honest):
    def loss(self, task: Task, images: Tensor, labels: Tensor) -> Tensor:
        return 0 * super().loss(task, images, labels)


@settings
class ReadsEverything(Honest):
    def loss(self, task: Task, images: Tensor, labels: Tensor) -> Tensor:
        task.forget.samples.take(torch.arange(10))
        return super().loss(task, images, labels)


@settings
class ReadsLessThanItSays(Honest):
    needs = ("forget", "retain")


@settings
class DrawsFromElsewhere(Honest):
    def loss(self, task: Task, images: Tensor, labels: Tensor) -> Tensor:
        weights = torch.rand(len(labels), generator=torch.Generator().manual_seed(torch.Generator().seed()))
        return (weights * cross_entropy(logits(task.student, images), labels, reduction="none")).mean()


@settings
class SeedsTheWorld(Honest):
    def loss(self, task: Task, images: Tensor, labels: Tensor) -> Tensor:
        np.random.seed(task.seed)  # noqa: NPY002
        return super().loss(task, images, labels)


@settings
class WantsTensors(Honest):
    def loss(self, task: Task, images: Tensor, labels: Tensor) -> Tensor:
        return cross_entropy(task.student(images), task.random_retain_labels(len(labels)))


@settings
class TrainsTheStatistics(Honest):
    def loss(self, task: Task, images: Tensor, labels: Tensor) -> Tensor:
        task.student.train()
        return super().loss(task, images, labels)


CASES: list[tuple[type[Honest], str, dict[str, Any]]] = [
    (MovesTheOriginal, "test_the_original_that_a_method_learns_from_never_moves", {"forget": (3,), "norm": True}),
    (
        StandsStill,
        "test_the_callers_model_stays_bit_identical_and_a_new_one_comes_back",
        {"forget": (3,), "norm": False},
    ),
    (ReadsEverything, "test_a_method_reads_only_the_training_data_that_it_declares", {}),
    (ReadsLessThanItSays, "test_a_method_reads_only_the_training_data_that_it_declares", {}),
    (DrawsFromElsewhere, "test_the_seed_alone_decides_and_the_global_random_states_are_not_touched", {"forget": (3,)}),
    (SeedsTheWorld, "test_the_seed_alone_decides_and_the_global_random_states_are_not_touched", {"forget": (3,)}),
    (WantsTensors, "test_logits_inside_an_output_object_give_the_same_model", {"forget": (3,)}),
    (TrainsTheStatistics, "test_frozen_weights_stay_and_frozen_statistics_stay_if_asked", {"forget": (3,)}),
]


@pytest.mark.parametrize(("culprit", "rule", "arguments"), CASES, ids=[case[0].__name__ for case in CASES])
def test_a_method_that_breaks_a_rule_fails_its_conformance_test(
    culprit: type[Honest], rule: str, arguments: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "_METHODS", dict(registry._METHODS))
    test = conformance[rule]
    if "monkeypatch" in test.__code__.co_varnames:
        arguments = arguments | {"monkeypatch": monkeypatch}
    for name, method in (("honest", Honest), ("culprit", culprit)):
        unlearn.register(name)(method)
    test("honest", **arguments)
    with pytest.raises((AssertionError, TypeError, pytest.fail.Exception)):
        test("culprit", **arguments)
