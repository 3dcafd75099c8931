"""Coloured digits and small networks that learn them in a second: what broken and sound set-ups are made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from sfra.demo.models import digits_tensors
from sfra.models.training.train import TensorData

FORGET = 7

Prepare = Callable[[Tensor], Tensor]


@cache
def coloured(split: str) -> TensorData:
    """Paint the digits: bright orange on dark blue, a little different each time."""
    data, generator = digits_tensors(split), torch.Generator().manual_seed(len(split))  # type: ignore[arg-type]
    ink, paper = torch.tensor([0.95, 0.65, 0.2]), torch.tensor([0.1, 0.25, 0.45])
    ink, paper = (
        (colour + 0.1 * torch.randn(len(data.images), 3, generator=generator))[:, :, None, None]
        for colour in (ink, paper)
    )
    return TensorData((data.images * ink + (1 - data.images) * paper).clamp(0, 1), data.labels)


def normalise(images: Tensor) -> Tensor:
    """Subtract the mean of the training images and divide by their deviation, channel by channel."""
    known = coloured("train").images
    return (images - known.mean((0, 2, 3), keepdim=True)) / known.std((0, 2, 3), keepdim=True)


def unchanged(images: Tensor) -> Tensor:
    """Leave the images in [0, 1]."""
    return images


def network(outputs: int = 10, *, norm: bool = True, seed: int = 0) -> nn.Sequential:
    """Three convolutions, with or without batch norm, and a linear head on 64 features."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        layers: list[nn.Module] = []
        for inputs, channels in ((3, 16), (16, 32), (32, 64)):
            layers += [nn.Conv2d(inputs, channels, 3, padding=1)]
            layers += [nn.BatchNorm2d(channels)] if norm else []
            layers += [nn.ReLU(), nn.MaxPool2d(2)] if channels == 32 else [nn.ReLU()]
        return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, outputs))


def learn(model: nn.Module, images: Tensor, labels: Tensor, *, epochs: int = 8) -> nn.Module:
    """Train a network by Adam."""
    generator, steps = torch.Generator().manual_seed(1), torch.optim.Adam(model.parameters(), 4e-3)
    model.train()
    for _ in range(epochs):
        for rows in torch.split(torch.randperm(len(labels), generator=generator), 64):
            steps.zero_grad()
            cross_entropy(model(images[rows]), labels[rows]).backward()  # type: ignore[no-untyped-call]
            steps.step()
    return model.eval()


@cache
def trained(
    without: Sequence[int] = (),
    *,
    norm: bool = True,
    prepare: Prepare = normalise,
    seed: int = 0,
    epochs: int = 8,
    samples: int | None = None,
) -> nn.Module:
    """Train a network on the coloured digits but for some classes."""
    data = coloured("train")
    kept = torch.nonzero(~torch.isin(data.labels, torch.tensor(list(without), dtype=torch.long))).flatten()[:samples]
    return learn(network(norm=norm, seed=seed), prepare(data.images[kept]), data.labels[kept], epochs=epochs)
