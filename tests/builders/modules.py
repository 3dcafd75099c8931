"""Small networks whose end a test chooses, and a look at whether a network stays as it is."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import relu

C, D = 5, 12
IMAGES = torch.randn(7, 3, 8, 8, generator=torch.Generator().manual_seed(1))
EXAMPLE = IMAGES[:3]

End = Callable[[Any, Tensor], Any]
"""From a network and its images to what it returns."""


@contextmanager
def untouched(model: nn.Module) -> Iterator[None]:
    """See that weights, statistics, modes and gradients of a network are afterwards what they were."""
    before, modes = copy.deepcopy(model.state_dict()), [module.training for module in model.modules()]
    slopes = [weight.grad for weight in model.parameters()]
    yield
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert [module.training for module in model.modules()] == modes
    assert all(weight.grad is slope for weight, slope in zip(model.parameters(), slopes, strict=True))


class Net(nn.Module):
    """A small convolutional trunk, a linear layer ``fc``, and an end that may use it."""

    def __init__(self, end: End | None = None, classes: int = C) -> None:
        super().__init__()
        self.end = end or (lambda net, x: net.fc(net.pooled(x)))
        self.conv, self.norm, self.fc = nn.Conv2d(3, D, 3), nn.BatchNorm2d(D), nn.Linear(D, classes)
        self.norm.running_mean = torch.randn(D)

    def trunk(self, x: Tensor) -> Tensor:
        """Return the map ``[n, D, h - 2, w - 2]``."""
        return relu(self.norm(self.conv(x)))

    def pooled(self, x: Tensor) -> Tensor:
        """Return the features ``[n, D]``."""
        return self.trunk(x).mean(dim=(2, 3))

    def forward(self, x: Tensor) -> Any:
        """Return what the end makes of it."""
        return self.end(self, x)
