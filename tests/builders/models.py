"""Tiny nets and data for the tests of training and unlearning."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from sfra.models.training.train import Epoch, TensorData

CLASSES = 5
WIDTH = 6


def net(*, norm: bool = False, dropout: bool = False, seed: int = 0) -> nn.Sequential:
    """Make a small multilayer perceptron in float64, with its global random state kept."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        layers: list[nn.Module] = [nn.Linear(WIDTH, 8)]
        layers += [nn.BatchNorm1d(8)] if norm else []
        layers += [nn.Tanh()]
        layers += [nn.Dropout(0.3)] if dropout else []
        return nn.Sequential(*layers, nn.Linear(8, CLASSES)).double()


def samples(per_class: int = 6, *, seed: int = 0, spread: float = 0.5) -> TensorData:
    """Draw a cluster of samples around one centre per class."""
    generator = torch.Generator().manual_seed(seed)
    centres = 2 * torch.eye(CLASSES, WIDTH, dtype=torch.float64)
    labels = torch.arange(CLASSES).repeat(per_class)
    noise = torch.randn(len(labels), WIDTH, generator=generator, dtype=torch.float64)
    return TensorData(centres[labels] + spread * noise, labels)


def only(data: TensorData, *classes: int) -> tuple[Tensor, Tensor]:
    """Return images and labels of some classes."""
    mask = torch.isin(data.labels, torch.tensor(classes))
    return data.images[mask], data.labels[mask]


def log_softmax(logits: Tensor) -> Tensor:
    """Compute log-probabilities by the definition."""
    return logits - logits.exp().sum(1, keepdim=True).log()


def ce(logits: Tensor, labels: Tensor) -> Tensor:
    """Compute the mean cross-entropy by the definition."""
    return -torch.stack([row[label] for row, label in zip(log_softmax(logits), labels, strict=True)]).mean()


def descend(model: nn.Module, loss: Tensor, rate: float, decay: float = 0.0) -> dict[str, Tensor]:
    """Return the weights after ``w - rate (∇loss + decay w)``."""
    names, weights = zip(*model.named_parameters(), strict=True)
    slopes = torch.autograd.grad(loss, weights)
    return {
        name: (weight - rate * (slope + decay * weight)).detach()
        for name, weight, slope in zip(names, weights, slopes, strict=True)
    }


def loaded(model: nn.Module, weights: dict[str, Tensor]) -> nn.Module:
    """Put weights into a model and return it."""
    model.load_state_dict(weights, strict=False)
    return model


def assert_weights(model: nn.Module, expected: dict[str, Tensor]) -> None:
    """Compare a model's weights with the expected ones to rounding."""
    for name, weight in model.named_parameters():
        torch.testing.assert_close(weight.detach(), expected[name], rtol=1e-9, atol=1e-12)


class StopError(Exception):
    """What stops a training in the middle."""


def stop_after(epoch: int) -> Callable[[Epoch], None]:
    """Make a callback that stops a training once an epoch is done."""

    def stop(done: Epoch) -> None:
        if done.epoch == epoch:
            raise StopError

    return stop


def moved(model: nn.Module, start: nn.Module) -> float:
    """Return the largest change of a weight."""
    pairs = zip(model.parameters(), start.parameters(), strict=True)
    return max(float((a - b).detach().abs().max()) for a, b in pairs)
