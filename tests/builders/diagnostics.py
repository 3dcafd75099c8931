"""Small heads, features and hand-made probes for the diagnostics."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from sfra.core.head import Head


@dataclass(frozen=True)
class Labelled:
    """Probes as the diagnostics need them."""

    samples: Tensor
    labels: Tensor


@dataclass(frozen=True)
class Scene:
    """A head of five classes, probes relabelled as classes 1 and 3, and real features."""

    head: Head
    probes: Labelled
    features: Tensor
    labels: Tensor
    drift: Tensor
    """The true mean of the probes is 0.3 of it, that of the features 0.5."""
    forget: tuple[int, ...] = (1, 3)


def scene(seed: int = 0, *, probes: int = 40, samples: int = 90) -> Scene:
    """Draw everything at random; biases and means are not zero, so that no term vanishes."""
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    width, drift = 7, draw(7)
    return Scene(
        head=Head(draw(5, width), draw(5)),
        probes=Labelled(draw(probes, width) + 0.3 * drift, torch.arange(probes) % 5),
        features=draw(samples, width) + 0.5 * drift,
        labels=torch.arange(samples) % 5,
        drift=drift,
    )
