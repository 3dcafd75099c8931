"""Models made by recipe: originals, references and unlearned ones, on the digits."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from builders.models import StopError
from builders.modules import untouched
from sfra.core.errors import InputError
from sfra.data import load_data
from sfra.models import recipes
from sfra.models.backbones import build
from sfra.models.backbones.checkpoint import Checkpoint
from sfra.models.recipes import Recipe
from sfra.unlearn.make import run_seed, train_model, unlearn_model


def recipe(**training: Any) -> Recipe:
    usual = recipes.load("digits-small-mlp")
    return replace(
        usual,
        training={"epochs": 6, "learning_rate": 0.1, "batch_size": 64, **training},
        preprocess={"size": (8, 8), "mean": (0.3,), "std": (0.4,)},
        augment={"crop": 1, "flip": False},
    )


def trained(**settings: Any) -> Checkpoint:
    return train_model(data="digits", backbone="small-mlp", recipe=recipe(), **settings)


@pytest.fixture(scope="module")
def original() -> Checkpoint:
    return trained()


@pytest.fixture(scope="module")
def reference() -> Checkpoint:
    return trained(without=(7,))


def weights(made: Checkpoint) -> dict[str, Tensor]:
    return dict(made.model.state_dict())


def same(first: Checkpoint, second: Checkpoint) -> bool:
    return all(torch.equal(value, weights(second)[name]) for name, value in weights(first).items())


def accuracy(made: Checkpoint, *classes: int) -> float:
    """Measure on the validation split, without the code under test."""
    data, prepare = load_data("digits", split="validation"), made.preprocess
    rows = torch.isin(data.labels, torch.tensor(classes))
    images = torch.cat(list(data.batches(50, prepare)))  # type: ignore[union-attr]
    with torch.no_grad():
        hits = made.model(images).argmax(1) == data.labels
    return float(hits[rows].double().mean())


def test_an_original_knows_every_class_and_says_how_well(original: Checkpoint) -> None:
    assert original.notes["kind"] == "original"
    assert original.notes["validation"] == {"accuracy": pytest.approx(accuracy(original, *range(10)))}
    assert original.notes["validation"]["accuracy"] > 0.8
    assert accuracy(original, 7) > 0.5
    assert original.class_names == tuple("0123456789")
    assert original.notes["training"]["epochs"] == len(original.notes["losses"]) == 6


def test_a_reference_keeps_all_outputs_but_never_answers_the_class(original: Checkpoint, reference: Checkpoint) -> None:
    assert reference.notes["kind"] == "reference"
    assert reference.classes == 10
    assert weights(reference)["classifier.weight"].shape[0] == 10
    quality = reference.notes["validation"]
    assert quality["forget"] == accuracy(reference, 7) == 0
    assert quality["retain"] == pytest.approx(accuracy(reference, *(set(range(10)) - {7})))
    assert quality["retain"] > 0.8


def test_a_class_that_the_original_does_not_know_is_said_to_be_nothing_to_forget(
    original: Checkpoint, reference: Checkpoint
) -> None:
    settings: dict[str, Any] = {"data": "digits", "method": "delete", "forget": (7,), "settings": {"epochs": 1}}
    [note] = unlearn_model(reference, **settings).notes["notes"]
    assert note.startswith("The original itself recognises 0.0 % of the forgotten validation images")
    assert unlearn_model(original, **settings).notes["notes"] == []


def test_a_reference_starts_from_another_initialisation_for_each_set_of_classes() -> None:
    still = recipe(epochs=1, learning_rate=1e-12, weight_decay=0.0)
    starts = [
        weights(train_model(data="digits", backbone="small-mlp", recipe=still, without=without))["classifier.weight"]
        for without in [(), (7,), (8,)]
    ]
    for first, second in combinations(starts, 2):
        assert (first - second).abs().max() > 0.01
    assert len({run_seed(seed, without) for seed in (0, 1) for without in [(), (7,), (8,), (7, 8)]}) == 8
    assert run_seed(4, (8, 7)) == run_seed(4, [7, 8])


def test_equal_seeds_give_equal_models_and_another_seed_another(original: Checkpoint) -> None:
    assert same(original, trained())
    assert not same(original, trained(seed=1))


def test_retrained_is_exactly_the_reference_of_the_same_seed(original: Checkpoint, reference: Checkpoint) -> None:
    made = unlearn_model(original, data="digits", method="retrained", forget=(7,), recipe=recipe())
    assert same(made, reference)
    settings = {"epochs": 2, "schedule": "steps", "milestones": [0.5], "label_smoothing": 0.1}
    other = unlearn_model(
        original, data="digits", method="retrained", forget=(7,), recipe=recipe(), settings=settings, seed=3
    )
    changed = recipe(epochs=2, schedule="steps", milestones=(0.5,), label_smoothing=0.1)
    assert same(other, train_model(data="digits", backbone="small-mlp", recipe=changed, without=(7,), seed=3))


def test_an_unlearned_model_forgets_and_the_original_stays(original: Checkpoint) -> None:
    settings = {"learning_rate": 0.02, "batch_size": 32}
    with untouched(original.model):
        made = unlearn_model(original, data="digits", method="delete", forget=(7,), recipe=recipe(), settings=settings)
    quality = made.notes["validation"]
    assert quality["forget"] == accuracy(made, 7) < 0.2 < accuracy(original, 7)
    kept = next(record for record in made.notes["history"] if record["epoch"] == made.notes["epoch"])
    assert kept["quality"] == quality
    assert quality["aus"] == max(record["quality"]["aus"] for record in made.notes["history"])
    assert made.notes["settings"]["learning_rate"] == 0.02


def test_settings_win_over_the_recipe_which_wins_over_the_published_ones(original: Checkpoint) -> None:
    own = replace(recipe(), methods={"delete": {"epochs": 2, "learning_rate": 1e-5}})
    made = unlearn_model(
        original, data="digits", method="delete", forget=(7,), recipe=own, settings={"learning_rate": 1e-4}
    )
    settings = made.notes["settings"]
    assert (settings["epochs"], settings["learning_rate"], settings["batch_size"]) == (2, 1e-4, 128)


def test_a_model_that_is_not_finite_is_refused(original: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(model: nn.Module, original: nn.Module | None = None, **settings: Any) -> None:
        next(model.parameters()).data[0] = float("nan")

    monkeypatch.setattr("sfra.unlearn.base.StepMethod._enter_training", lambda self, student: broken(student))
    monkeypatch.setattr("sfra.unlearn.base.mean_loss", lambda losses, epoch: 0.0)
    with pytest.raises(InputError, match=r"the unlearned model is not finite\n(.*\n)  got: +NaN or infinity in enc"):
        unlearn_model(original, data="digits", method="delete", forget=(7,), settings={"epochs": 1})


def test_a_stopped_training_goes_on(original: Checkpoint, tmp_path: Path) -> None:
    def stop(stage: str, done: int, total: int) -> None:
        if (stage, done) == ("training", 4):
            raise StopError

    file, stages = tmp_path / "m.resume", []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sfra.models.training.resume.time.monotonic", iter(range(0, 10**6, 60)).__next__)
        with pytest.raises(StopError):
            trained(resume=file, progress=stop)
    again = trained(resume=file, progress=lambda stage, done, total: stages.append((stage, done)))
    assert same(again, original)
    assert again.notes["losses"] == original.notes["losses"]
    assert [done for stage, done in stages if stage == "resuming"] == [1, 2, 3, 4]
    assert [done for stage, done in stages if stage == "training"] == [0, 5, 6]


def test_what_does_not_fit_is_refused(original: Checkpoint) -> None:
    with pytest.raises(InputError, match="classes to leave out do not fit the data"):
        trained(without=(10,))
    with pytest.raises(InputError, match="resnet18-small does not take these images"):
        train_model(data="digits", backbone="resnet18-small", recipe=replace(recipe(), preprocess={}))
    few = Checkpoint(model=build("small-mlp", classes=4, seed=0), backbone="small-mlp", classes=4)
    with pytest.raises(InputError, match="not trained on this data set"):
        unlearn_model(few, data="digits", method="delete", forget=(1,))
    turned = replace(original, class_names=tuple("9876543210"))
    with pytest.raises(InputError, match="number their classes differently"):
        unlearn_model(turned, data="digits", method="delete", forget=(7,), recipe=recipe())
    with pytest.raises(InputError, match="cannot use the device 'nowhere'"):
        trained(device="nowhere")


def test_small_networks_train_on_one_thread_which_is_undone(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        seen: set[int] = set()
        note = lambda stage, done, total: seen.add(torch.get_num_threads()) if stage == "training" else None  # noqa: E731
        quick = recipe(epochs=1)
        train_model(data="digits", backbone="small-mlp", recipe=quick, progress=note)
        assert seen == {1}
        assert torch.get_num_threads() == 2
        monkeypatch.setattr("sfra.unlearn.make.SMALL", 0)
        train_model(data="digits", backbone="small-mlp", recipe=quick, progress=note)
        assert seen == {1, 2}
    finally:
        torch.set_num_threads(threads)
