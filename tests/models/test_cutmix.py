"""CutMix: pixels and labels are those of a plain loop, runs go on bit for bit, and the network is only asked."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from builders.models import StopError, moved, stop_after
from builders.modules import untouched
from sfra.core.errors import InputError
from sfra.models.training.cutmix import CutMix
from sfra.models.training.stepper import Stepper
from sfra.models.training.train import TensorData, train

CLASSES = 4
SETTINGS: dict[str, Any] = {"epochs": 5, "learning_rate": 0.05, "batch_size": 8, "cutmix": 0.6, "seed": 3}


def net(classes: int = CLASSES) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        layers = (nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.Dropout(0.2), nn.Flatten())
        return nn.Sequential(*layers, nn.Linear(3 * 4 * 6, classes)).double()


def images(count: int = 20) -> TensorData:
    generator = torch.Generator().manual_seed(1)
    pixels = torch.rand(count, 2, 6, 8, generator=generator, dtype=torch.float64)
    return TensorData(pixels, torch.arange(count) % CLASSES)


def mix(probability: float, batches: list[tuple[Tensor, Tensor]], seed: int = 0) -> list[tuple[Tensor, Tensor]]:
    return list(CutMix(net(), probability, generator=torch.Generator().manual_seed(seed))(batches))


def test_pixels_and_labels_are_those_of_a_plain_loop() -> None:
    data, generator, areas = images(5), torch.Generator().manual_seed(7), set[int]()
    mixed = mix(0.7, [(data.images, data.labels)] * 60, seed=7)
    for found, labels in mixed:
        chance, mixing, y, x = torch.rand(4, generator=generator, dtype=torch.float64).tolist()
        expected, target = data.images.clone(), torch.zeros(5, CLASSES, dtype=torch.float64)
        high, wide = int(6 * (1 - mixing) ** 0.5) // 2, int(8 * (1 - mixing) ** 0.5) // 2
        row, column, taken = int(6 * y), int(8 * x), 0
        for i in range(6):
            for j in range(8):
                if chance < 0.7 and -high <= i - row < high and -wide <= j - column < wide:
                    taken += 1
                    for k in range(5):
                        expected[k, :, i, j] = data.images[k - 1, :, i, j]
        for k in range(5):
            target[k, data.labels[k]] += 1 - taken / 48
            target[k, data.labels[k - 1]] += taken / 48
        assert torch.equal(found, expected)
        torch.testing.assert_close(labels, target)
        areas.add(taken)
    assert len(areas) > 10
    assert 0 in areas


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_soft_labels_of_batches_that_are_not_mixed_give_the_loss_of_the_classes(smoothing: float) -> None:
    data = images()
    [(found, labels)] = mix(1e-300, [(data.images, data.labels)])
    assert torch.equal(found, data.images)
    losses = []
    for target in (data.labels, labels):
        model = net().eval()
        losses.append(Stepper(model, torch.optim.SGD(model.parameters()), smoothing)(found, target, 0.1))
    torch.testing.assert_close(*losses)


def test_the_network_is_asked_for_its_outputs_and_stays_as_it_is() -> None:
    model, data = net(classes=9).train(), images()
    draws = torch.get_rng_state()
    with untouched(model):
        [(_, labels)] = CutMix(model, 0.5, generator=torch.Generator())([(data.images, data.labels)])
    assert labels.shape == (20, 9)
    assert torch.equal(torch.get_rng_state(), draws)


def test_a_training_mixes_and_a_stopped_one_goes_on_to_the_same_bits(tmp_path: Path) -> None:
    whole, file = train(net(), images(), **SETTINGS), tmp_path / "run.resume"
    with pytest.raises(StopError):
        train(net(), images(), **SETTINGS, checkpoint=file, checkpoint_seconds=0.0, progress=stop_after(2))
    ended = train(net(), images(), **SETTINGS, checkpoint=file)
    runs = [whole, train(net(), images(), **SETTINGS | {"cutmix": 0.2}), train(net(), images(), **SETTINGS)]
    assert moved(whole, ended) == 0
    assert moved(whole, runs[-1]) == 0
    assert all(moved(one, two) > 0 for one, two in pairwise(runs))


def test_vectors_cannot_be_mixed() -> None:
    with pytest.raises(InputError, match=r"cutmix needs images\n  expected: shape \[n, c, h, w\]\n  got: +\[3, 5\]"):
        mix(0.5, [(torch.rand(3, 5), torch.arange(3))])
