"""The frame around the methods: the choice of the epoch, new initialisations, checks and the registry."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from builders.models import CLASSES, moved, net, samples
from builders.modules import untouched
from sfra import unlearn
from sfra.core.errors import InputError
from sfra.models.training.train import train
from sfra.unlearn import Task
from sfra.unlearn.boundary_shrink import nearest_retained
from sfra.unlearn.learn_to_unlearn import imitate
from sfra.unlearn.task import open_task


@dataclass(frozen=True, kw_only=True)
class Bias(unlearn.StepMethod):
    """Move the last bias by a known amount an epoch: the forget output falls, then the first one rises."""

    name = "bias"
    epochs: int = 6
    batch_size: int = 8
    learning_rate: float = 1.0
    momentum: float = 0.0

    def plan(self, task: Task) -> Callable[[int], Iterator[Tensor]]:
        def epoch_losses(epoch: int) -> Iterator[Tensor]:
            bias = task.student.get_parameter("2.bias")
            yield bias[3] * 20 if epoch == 3 else -bias[0] * 20 if epoch == 5 else 0 * bias.sum()

        return epoch_losses


@pytest.fixture(scope="module")
def original() -> nn.Module:
    return train(net(), samples(20), epochs=20, learning_rate=0.1, batch_size=32)


def accuracy(model: nn.Module, data: unlearn.TensorData, *classes: int) -> float:
    hits = [
        int(model(image[None]).argmax()) == int(label)
        for image, label in zip(data.images, data.labels, strict=True)
        if int(label) in classes
    ]
    return sum(hits) / len(hits)


def test_the_earliest_epoch_of_best_aus_on_validation_is_kept_or_else_the_last(original: nn.Module) -> None:
    validation = samples(20, seed=1)
    result = Bias()(original, samples(), (3,), validation=validation)
    assert result.epoch == 3
    assert accuracy(result.model, validation, 3) == 0
    before = accuracy(original, validation, 0, 1, 2, 4)
    for record in result.history:
        assert record.quality is not None
        expected = (1 - (before - record.quality.retain)) / (1 + record.quality.forget)
        assert record.quality.aus == pytest.approx(expected, abs=1e-12)
    last = Bias()(original, samples(), (3,))
    assert last.epoch == 6
    assert accuracy(last.model, validation, 1, 2, 4) == 0
    kept = result.quality
    assert kept is not None
    assert kept.retain == pytest.approx(accuracy(result.model, validation, 0, 1, 2, 4))
    assert kept.aus == max(record.quality.aus for record in result.history if record.quality)


def test_measuring_leaves_the_models_modes_and_statistics_as_they_were() -> None:
    model = net(norm=True).train()
    model[0].eval()
    with untouched(model):
        unlearn.measure(model, samples(), (3,))


def test_choose_keeps_the_recipe_of_best_aus_and_the_first_of_equals(original: nn.Module) -> None:
    validation = samples(20, seed=1)
    weak, good, same = Bias(epochs=2), Bias(epochs=3), Bias(epochs=4)
    result = unlearn.choose([weak, good, same], original, samples(), (3,), validation=validation)
    assert result.settings["epochs"] == 3
    with pytest.raises(InputError, match="no recipe to choose from"):
        unlearn.choose([], original, samples(), (3,), validation=validation)


def test_choose_leaves_out_what_diverges_and_says_so(original: nn.Module) -> None:
    validation, good, wild = samples(20, seed=1), Bias(), unlearn.NegativeGradient(learning_rate=1e300)
    with pytest.warns(RuntimeWarning, match="left out, the training diverged: negative-gradient") as said:
        result = unlearn.choose([wild, good], original, samples(), (3,), validation=validation)
    assert (result.method, len(said)) == ("bias", 1)
    with pytest.warns(RuntimeWarning, match="left out"), pytest.raises(InputError, match="every candidate diverged"):
        unlearn.choose([wild], original, samples(), (3,), validation=validation)
    with pytest.raises(InputError, match="a forget class has no training samples"):
        unlearn.choose([unlearn.Delete()], original, samples(), (9,), validation=validation)


def test_a_method_is_handed_nothing_that_it_did_not_ask_for(original: nn.Module) -> None:
    handed: list[tuple[int, int]] = []

    @dataclass(frozen=True, kw_only=True)
    class Asks(Bias):
        def plan(self, task: Task) -> Callable[[int], Iterator[Tensor]]:
            handed.append((len(task.forget), len(task.retain)))
            return super().plan(task)

    for needs in (("forget",), ("retain",), ("forget", "retain")):
        Asks.needs = needs
        Asks(epochs=1)(original, samples(), (1, 3))
    assert handed == [(12, 0), (0, 18), (12, 18)]


def test_retrained_starts_every_layer_anew_and_owes_nothing_to_the_original() -> None:
    recipe = unlearn.Retrained(epochs=1, learning_rate=1e-12, weight_decay=0.0, batch_size=8)
    model, other = net(norm=True), net(norm=True, seed=5)
    for weight in model.parameters():
        weight.data.fill_(7.0)
    model.get_buffer("1.running_mean").fill_(7.0)
    result = recipe(model, samples(), (3,), seed=2).model
    for name, value in result.state_dict().items():
        if value.is_floating_point():
            assert not (value == 7.0).any(), name
    assert moved(result, recipe(other, samples(), (3,), seed=2).model) < 1e-9
    assert moved(result, recipe(model, samples(), (3,), seed=3).model) > 0.01
    model.requires_grad_(False)
    assert all(weight.requires_grad for weight in recipe(model, samples(), (3,)).model.parameters())


def test_retrained_uses_rebuild_where_it_is_given_and_refuses_another_architecture() -> None:
    recipe = unlearn.Retrained(epochs=1, learning_rate=1e-12, weight_decay=0.0)
    seeds: list[int] = []

    def rebuild(seed: int) -> nn.Module:
        seeds.append(seed)
        return net(seed=seed)

    result = recipe(net(), samples(), (3,), rebuild=rebuild)
    assert moved(result.model, net(seed=seeds[0])) < 1e-9
    with pytest.raises(InputError, match="rebuild made another architecture"):
        recipe(net(norm=True), samples(), (3,), rebuild=lambda seed: nn.Linear(6, 5).double())


def test_a_layer_that_cannot_be_initialised_anew_is_named() -> None:
    class Scale(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.factor = nn.Parameter(torch.ones(1, dtype=torch.float64))

        def forward(self, x: Tensor) -> Tensor:
            return self.factor * x

    model = nn.Sequential(net(), Scale())
    for name in ("retrained", "bad-teacher"):
        with pytest.raises(InputError, match=r"(?s)initialised anew.*none on 1 \(Scale\)"):
            unlearn.get(name)()(model, samples(), (3,))


def task(model: nn.Module, forget: tuple[int, ...]) -> Task:
    return open_task(
        model,
        samples(),
        forget,
        needs=("forget", "retain"),
        batch_size=4,
        device=torch.device("cpu"),
        seed=0,
        generator=torch.Generator().manual_seed(0),
        rebuild=None,
        progress=None,
    )


def test_random_labels_are_uniform_over_the_retain_classes_and_never_a_forget_class() -> None:
    counts = task(net(), (1, 3)).random_retain_labels(30_000).bincount(minlength=CLASSES)
    assert counts[[1, 3]].tolist() == [0, 0]
    assert (counts[[0, 2, 4]] - 10_000).abs().max() < 5 * (30_000 * 2 / 9) ** 0.5


def test_the_nearest_class_is_never_a_forget_class_even_where_the_original_is_sure(original: nn.Module) -> None:
    job = task(original, (1, 3))
    images, labels = job.forget.take(torch.arange(len(job.forget))), job.forget.labels
    assert (original(images).argmax(1) == labels).double().mean() > 0.9
    targets = nearest_retained(job, images, labels, 0.0)
    assert set(targets.tolist()) <= {0, 2, 4}


def test_imitations_stay_within_their_radius_and_fool_the_original(original: nn.Module) -> None:
    images = samples().images[samples().labels == 3]
    targets = torch.full((len(images),), 0)
    near, far = (
        imitate(original, images, targets, radius=radius, step_size=0.2, iterations=40) for radius in (0.1, 4.0)
    )
    assert (near - images).norm(dim=1).max() <= 0.1 + 1e-9
    assert (original(far).argmax(1) == 0).all()
    assert not (original(images).argmax(1) == 0).any()


def test_a_name_is_registered_once_and_an_unknown_one_is_refused_with_the_list() -> None:
    with pytest.raises(InputError, match=r"of this name exists\n  got: +delete \(Delete\)"):
        unlearn.register("delete")(Bias)
    with pytest.raises(InputError, match="wrong name for a method"):
        unlearn.register("a:b")(Bias)
    assert "bias" not in unlearn.names()
    with pytest.raises(InputError, match=r"unknown unlearning method\n  expected: bad-teacher, boundary-shrink, "):
        unlearn.get("del")


@pytest.mark.parametrize(
    ("forget", "message"),
    [
        ((), "the forget classes are not a set of classes"),
        ((3, 3), "the forget classes are not a set of classes"),
        ((9,), "a forget class has no training samples"),
        ((0, 1, 2, 3), "too few classes would be retained"),
    ],
)
def test_a_request_that_cannot_be_met_is_refused(forget: tuple[int, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        unlearn.Delete()(net(), samples(), forget)


def test_data_that_do_not_fit_the_model_or_the_method_are_refused() -> None:
    data = samples()
    with pytest.raises(InputError, match="a forget class is not an output of the model"):
        unlearn.Finetune()(net(), data, (9,))
    wrong = unlearn.TensorData(data.images, torch.where(data.labels == 4, 7, data.labels))
    with pytest.raises(InputError, match="a training label is not an output of the model"):
        unlearn.Delete()(net(), wrong, (3,))
    gone = data.labels == 3
    forget_only = unlearn.TensorData(data.images[gone], data.labels[gone])
    unlearn.Delete(epochs=1)(net(), forget_only, (3,))
    with pytest.raises(InputError, match="too few retain classes have training samples"):
        unlearn.Finetune()(net(), forget_only, (3,))
    with pytest.raises(InputError, match="cannot measure unlearning"):
        unlearn.Delete()(net(), data, (3,), validation=forget_only)
    with pytest.raises(InputError, match="cannot unlearn"):
        unlearn.Delete()(net().requires_grad_(False), data, (3,))


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("finetune", {"epochs": 0}),
        ("retrained", {"learning_rate": 0.0}),
        ("negative-gradient-plus", {"alpha": 1.5}),
        ("bad-teacher", {"retain_share": 0.0}),
        ("bad-teacher", {"temperature": 0.0}),
        ("scrub", {"temperature": 0.0}),
        ("scrub", {"max_epochs": -1}),
        ("salun", {"share": 1.5}),
        ("boundary-shrink", {"bound": -0.1}),
        ("learn-to-unlearn", {"radius": -1.0}),
    ],
)
def test_a_setting_out_of_range_is_refused_by_name(name: str, settings: dict[str, Any]) -> None:
    ((field, value),) = settings.items()
    with pytest.raises(InputError, match=rf": {field} is out of range\n  expected: .*\n  got: +{value}$"):
        unlearn.get(name)(**settings)
