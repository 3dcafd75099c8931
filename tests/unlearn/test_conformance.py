"""What every registered method keeps to, whatever its maths; plug-ins that are installed included."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from builders.models import moved, net, samples
from builders.modules import untouched
from sfra import unlearn
from sfra.models.training.train import Epoch
from sfra.unlearn import base, task

TWO = (1, 3)
SMALL: dict[str, dict[str, Any]] = {"learn-to-unlearn": {"iterations": 3, "importance_weight": 0.1}}
NAMES = unlearn.names()
DESCENDING = [name for name in NAMES if issubclass(unlearn.get(name), unlearn.StepMethod)]  # type: ignore[arg-type]
OWN = [name for name in NAMES if unlearn.get(name).__module__.startswith("sfra.")]

both_nets = pytest.mark.parametrize(
    ("forget", "norm"), [((3,), False), ((1, 3), True)], ids=["one class, plain", "two classes, batch norm"]
)
every_method = pytest.mark.parametrize("name", NAMES)
every_training = pytest.mark.parametrize("name", [name for name in NAMES if name != "masked"])


def small(name: str, **settings: Any) -> unlearn.UnlearningMethod:
    """Make a method that takes two short epochs of several batches."""
    base = {"epochs": 2, "batch_size": 4, "learning_rate": 1e-2}
    return unlearn.get(name)(**base | SMALL.get(name, {}) | settings)


class Guarded(unlearn.TensorData):
    """Samples of which some classes must not be read."""

    forbidden: tuple[int, ...] = ()

    def take(self, index: Tensor) -> Tensor:
        if torch.isin(self.labels[index], torch.tensor(self.forbidden)).any():
            raise AssertionError("a forbidden sample was read")
        return super().take(index)


def guarded(*forbidden: int) -> Guarded:
    data = samples()
    guard = Guarded(data.images, data.labels)
    object.__setattr__(guard, "forbidden", forbidden)
    return guard


@both_nets
@every_method
def test_the_callers_model_stays_bit_identical_and_a_new_one_comes_back(
    name: str, forget: tuple[int, ...], norm: bool
) -> None:
    model = net(norm=norm).train()
    model[0].eval()
    with untouched(model):
        result = small(name)(model, samples(), forget, validation=samples(seed=1))
    assert all(weight.requires_grad for weight in model.parameters())
    assert result.model is not model
    assert moved(result.model, model) > 0
    assert not any(module.training for module in result.model.modules())
    assert result.method == name
    assert unlearn.get(name)(**result.settings) == small(name)


@both_nets
@every_method
def test_the_original_that_a_method_learns_from_never_moves(
    name: str, forget: tuple[int, ...], norm: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks: list[unlearn.Task] = []
    opened = task.open_task

    def open_and_note(*arguments: Any, **settings: Any) -> unlearn.Task:
        tasks.append(opened(*arguments, **settings))
        return tasks[-1]

    monkeypatch.setattr(base, "open_task", open_and_note)
    model = net(norm=norm, dropout=True).train()
    small(name)(model, samples(), forget, validation=samples(seed=1))
    original, start = tasks[0].original, model.state_dict()
    assert all(torch.equal(value, start[key]) for key, value in original.state_dict().items())
    assert not any(module.training for module in original.modules())
    assert not any(weight.requires_grad or weight.grad is not None for weight in original.parameters())


@every_method
def test_the_mode_of_the_callers_model_makes_no_difference(name: str) -> None:
    model = net(norm=True, dropout=True)
    training, evaluating = (small(name)(model.train(mode), samples(), (1, 3)).model for mode in (True, False))
    assert moved(training, evaluating) == 0


@every_training
def test_the_seed_alone_decides_and_the_global_random_states_are_not_touched(name: str) -> None:
    model = net(norm=True, dropout=True)
    state, other = torch.get_rng_state(), repr(np.random.get_state())  # noqa: NPY002
    runs = []
    for seed in (1, 1, 2):
        runs.append(small(name)(model, samples(), TWO, seed=seed).model)
        torch.rand(3)  # the state before a run must not matter
    torch.set_rng_state(state)
    small(name)(model, samples(), TWO)
    assert torch.equal(torch.get_rng_state(), state)
    assert repr(np.random.get_state()) == other  # noqa: NPY002
    assert all(torch.equal(a, b) for a, b in zip(*(run.state_dict().values() for run in runs[:2]), strict=True))
    assert moved(runs[0], runs[2]) > 0


@every_method
def test_a_method_reads_only_the_training_data_that_it_declares(name: str) -> None:
    parts = {"forget": (1, 3), "retain": (0, 2, 4)}
    needs = unlearn.describe(name).needs
    forbidden = [label for part, labels in parts.items() if part not in needs for label in labels]
    small(name)(net(), guarded(*forbidden), (1, 3))
    for part in needs:
        with pytest.raises(AssertionError, match="a forbidden sample was read"):
            small(name)(net(), guarded(*parts[part]), (1, 3))


def test_every_method_has_its_row_in_the_document_with_what_it_reads() -> None:
    page = (Path(__file__).parents[2] / "docs" / "methods.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `([\w-]+)` \| [^|]+ \| ([FR, ]+) \|", page, flags=re.M))
    words = {"F": ("forget",), "R": ("retain",), "F, R": ("forget", "retain")}
    assert {name: words[reads] for name, reads in rows.items()} == {n: unlearn.describe(n).needs for n in OWN}


def test_salun_reads_no_retain_data_where_it_is_told_not_to() -> None:
    unlearn.SalUn(epochs=1, batch_size=8, retain=False)(net(), guarded(0, 2, 4), (1, 3))


@every_method
def test_logits_inside_an_output_object_give_the_same_model(name: str) -> None:
    class Wrapped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = net(norm=True)

        def forward(self, images: Tensor) -> SimpleNamespace:
            return SimpleNamespace(logits=self.inner(images))

    plain = small(name)(net(norm=True), samples(), TWO).model.state_dict()
    wrapped = small(name)(Wrapped(), samples(), TWO).model.state_dict()
    assert all(torch.equal(wrapped[f"inner.{key}"], value) for key, value in plain.items())


@every_training
def test_progress_counts_the_epochs_and_the_history_agrees(name: str) -> None:
    seen: list[Epoch] = []
    result = small(name)(net(), samples(), (3,), progress=seen.append)
    assert [(done.epoch, done.epochs) for done in seen] == [(1, 2), (2, 2)]
    assert result.history[-1].loss == seen[-1].loss
    assert result.epoch == 2
    assert result.quality is None


@pytest.mark.parametrize("name", DESCENDING)
def test_frozen_weights_stay_and_frozen_statistics_stay_if_asked(name: str) -> None:
    model = net(norm=True)
    model[0].requires_grad_(False)
    result = small(name, freeze_batch_norm=True)(model, samples(), TWO).model.state_dict()
    control = small(name)(model, samples(), TWO).model.state_dict()
    start = model.state_dict()
    assert torch.equal(result["0.weight"], start["0.weight"])
    assert not torch.equal(result["3.weight"], start["3.weight"])
    assert torch.equal(result["1.running_mean"], start["1.running_mean"])
    assert not torch.equal(control["1.running_mean"], start["1.running_mean"])


@every_method
def test_a_method_describes_itself_with_its_published_settings(name: str) -> None:
    about = unlearn.describe(name)
    assert about.name == name
    assert about.summary.endswith((".", "``."))
    assert unlearn.get(name)(**about.settings) == unlearn.get(name)()


def test_the_published_settings_are_the_defaults() -> None:
    def settings(name: str, *keys: str) -> tuple[Any, ...]:
        return tuple(unlearn.describe(name).settings[key] for key in keys)

    assert settings("random-label", "optimizer", "learning_rate", "epochs") == ("adam", 1e-4, 3)
    assert settings("boundary-shrink", "learning_rate", "epochs", "batch_size", "bound") == (1e-5, 10, 64, 0.1)
    assert settings("bad-teacher", "optimizer", "learning_rate", "epochs") == ("adam", 1e-4, 1)
    assert settings("bad-teacher", "batch_size", "temperature", "retain_share") == (256, 1.0, 0.3)
    assert settings("salun", "learning_rate", "epochs", "batch_size") == (0.013, 10, 256)
    assert settings("salun", "weight_decay", "momentum", "share") == (5e-4, 0.9, 0.5)
    assert settings("delete", "momentum", "epochs", "batch_size") == (0.9, 20, 128)
