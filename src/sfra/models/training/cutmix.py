"""CutMix (Yun et al., 2019): a box of every image is that of another one, and so is its share of the label."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import torch
from jaxtyping import Float
from torch import Tensor, nn

from sfra.core.errors import InputError
from sfra.core.types import Labels
from sfra.models.forward import Images, device_of, logits

Soft = Float[Tensor, "n C"]
"""A distribution over the classes for each sample."""


class CutMix:
    """Mixes batches with a probability; all of them get soft labels, as a captured step needs.

    With ``λ`` uniform in (0, 1), the box is ``√(1 - λ)`` as high and wide as the image, lies around a pixel drawn
    uniformly, and is cut off at the edges. Its pixels are those of the next image of the batch, whose order is random.
    """

    def __init__(self, network: nn.Module, probability: float, *, generator: torch.Generator) -> None:
        self.network, self.probability, self.generator = network, probability, generator
        self.hard: Tensor | None = None
        """The soft label of each class that leaves no doubt; known from the first batch on."""

    def __call__(self, batches: Iterable[tuple[Images, Labels]]) -> Iterator[tuple[Images, Soft]]:
        """Yield each batch, mixed or not, with soft labels; nothing waits for the device."""
        for images, labels in batches:
            if images.ndim != 4:
                raise InputError("cutmix needs images", expected="shape [n, c, h, w]", got=list(images.shape))
            if self.hard is None:
                self.hard = _hard_labels(self.network, images[:2])
            yield self._mix(images, self.hard[labels])

    def _mix(self, images: Images, labels: Soft) -> tuple[Images, Soft]:
        chance, mixing, *centre = torch.rand(4, generator=self.generator, dtype=torch.float64).tolist()
        if chance >= self.probability:
            return images, labels
        height, width = images.shape[2:]
        rows, columns = (_span(n, math.sqrt(1 - mixing), at) for n, at in zip((height, width), centre, strict=True))
        mixed = images.clone()
        mixed[:, :, rows, columns] = images[:, :, rows, columns].roll(1, 0)
        share = (rows.stop - rows.start) * (columns.stop - columns.start) / (height * width)
        return mixed, (1 - share) * labels + share * labels.roll(1, 0)


def _span(length: int, share: float, centre: float) -> slice:
    """Place a share of a length around one of its pixels, as far as it fits."""
    half, middle = int(length * share) // 2, int(length * centre)
    return slice(max(0, middle - half), min(length, middle + half))


def _hard_labels(network: nn.Module, images: Images) -> Float[Tensor, "C C"]:
    """Make the identity, as wide as the network's answer to some images; the network and its draws stay as they are."""
    place = device_of(network)
    with torch.random.fork_rng(devices=[place] if place.type == "cuda" else []), torch.no_grad():
        answer = logits(network.eval(), images)
    network.train()
    return torch.eye(answer.shape[1], dtype=answer.dtype, device=answer.device)
