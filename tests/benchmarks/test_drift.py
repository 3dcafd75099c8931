"""Passes without a gradient move batch-norm averages to those of the data, and nothing else."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import pytest
import torch
from torch import nn

from drift import drift, rows
from recipes import open_split
from sfra import unlearn
from sfra.models import backbones, recipes
from sfra.models.backbones.checkpoint import Checkpoint, load_model
from sfra.models.training.train import TensorData


def network(*, norm: bool) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), *([nn.BatchNorm1d(8)] if norm else []), nn.ReLU(), nn.Linear(8, 3))


def samples(*, seed: int, shift: float = 0.0) -> TensorData:
    source = torch.Generator().manual_seed(seed)
    return TensorData(torch.randn(96, 4, generator=source) + shift, torch.arange(96) % 3)


def test_only_averages_change_and_they_become_those_of_the_data() -> None:
    model, data = network(norm=True), samples(seed=1, shift=5.0)
    before = {name: value.clone() for name, value in model.named_parameters()}
    for _ in range(200):  # one batch a pass: the old averages fade with 0.9 ** 200
        drift(model, data, 96, torch.Generator().manual_seed(0), "cpu")
    assert all(torch.equal(value, before[name]) for name, value in model.named_parameters())
    inside = model[0](data.images)
    assert isinstance(model[1], nn.BatchNorm1d)
    torch.testing.assert_close(model[1].running_mean, inside.mean(0), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(model[1].running_var, inside.var(0), rtol=1e-4, atol=1e-4)
    assert not model.training


@pytest.mark.parametrize("norm", [True, False])
def test_the_first_row_is_the_original_and_without_batch_norm_all_are(norm: bool) -> None:
    model, splits = network(norm=norm), {"train": samples(seed=2, shift=4.0), "test": samples(seed=3)}
    asked = Namespace(forget=[0, 2], passes=20, batch_size=16, seed=0, device="cpu", out=None)
    found = list(rows(Checkpoint(model=model, backbone="small-cnn", classes=3, preprocess=None), splits, asked))
    assert [(row["forget"], row["passes"]) for row in found] == [(label, i) for label in (0, 2) for i in range(21)]
    answers = model.eval()(splits["test"].images).argmax(1) == splits["test"].labels
    gone = splits["test"].labels == 2
    assert found[21]["forget_accuracy"] == pytest.approx(float(answers[gone].double().mean()))
    assert found[21]["retain"] == pytest.approx(float(answers[~gone].double().mean()))
    ends = [(row["retain"], row["forget_accuracy"]) for row in (found[21], found[41])]
    assert (ends[0] == ends[1]) is not norm


def test_the_network_of_the_last_pass_is_saved_to_be_audited(tmp_path: Path) -> None:
    recipe = recipes.load("digits-small-cnn")
    splits = {split: open_split(recipe, split, "cpu", 0) for split in ("train", "test")}
    original = Checkpoint(
        model=backbones.build("small-cnn", classes=10, seed=0).eval(), backbone="small-cnn", classes=10, preprocess=None
    )
    asked = Namespace(forget=[3], passes=1, batch_size=64, seed=0, device="cpu", out=tmp_path)
    *_, last = rows(original, splits, asked)
    found = unlearn.measure(load_model(tmp_path / "3").model, splits["test"], [3])
    assert (found.retain, found.forget) == (last["retain"], last["forget_accuracy"])
