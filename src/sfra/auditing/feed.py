"""Whether a network is fed what it was trained on: what its batch norm remembers, and what it makes of other input."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import interpolate

from sfra.auditing.answers import Answers
from sfra.core.batches import portions
from sfra.core.errors import InputError
from sfra.data import ImageSet
from sfra.release import Release
from sfra.release.norms import input_drift

SAMPLES = 256
"""Images that are looked at."""

UNCALIBRATED = 0.1  # difference between confidence and accuracy that makes one look
SUSPICIOUS_DRIFT = 0.02  # networks that are fed as they were trained stay below, on whatever classes they are tested
SIZES = (32, 64, 224)
"""Heights and widths at which networks are usually trained."""

LARGEST_SIDE = 512
"""Height or width that images are not resized beyond: few networks are trained on larger ones."""

LEAST_GAIN = 0.05
"""Accuracy that another preparation must add."""

FEWEST = 24
"""Images that are resized at least."""

Right = Callable[[Tensor], Tensor]
"""From prepared images to which of them are answered right."""


@dataclass(frozen=True, kw_only=True)
class Preparation:
    """Another way to prepare the same images, and what the model makes of them."""

    how: str
    accuracy: float
    """Share of the sample that is right, so prepared."""
    given: float
    """Share of the sample that is right as given."""


@dataclass(frozen=True, kw_only=True)
class Feed:
    """What a network is fed, as far as it can tell."""

    drift: float | None
    """Distance from the training inputs (:func:`sfra.release.norms.input_drift`)."""
    better: Preparation | None
    """A preparation that serves the model clearly better."""


def examine_feed(
    release: Release, images: ImageSet, answers: Answers, outputs: Sequence[int], *, forget: Sequence[int]
) -> Feed:
    """Compare retain images with what the network remembers; if in doubt, prepare them in other ways and compare."""
    encoder = release.encoder
    assert encoder is not None
    kept = torch.nonzero(~torch.isin(images.labels, torch.tensor(list(forget)))).flatten()
    sample = images.select(kept[torch.randperm(len(kept), generator=torch.Generator().manual_seed(0))[:SAMPLES]])
    batch = next(sample.batches(SAMPLES, release.preprocess))
    labels = sample.labels[: len(batch)]
    drift = input_drift(encoder, batch)
    odd = abs(answers.confidence - answers.accuracy) > UNCALIBRATED or answers.guesses
    if not odd and (drift is None or drift <= SUSPICIOUS_DRIFT):
        return Feed(drift=drift, better=None)

    def right(prepared: Tensor) -> Tensor:
        features = torch.cat([encoder(portion).cpu() for portion in portions(prepared)])
        return torch.tensor(list(outputs))[release.head(features).argmax(1)] == labels[: len(prepared)]

    return Feed(drift=drift, better=_better(batch, right, answers.limit))


def _better(batch: Tensor, right: Right, chance: float) -> Preparation | None:
    """Return the preparation that wins most, if it wins beyond doubt and leaves chance behind.

    Of the samples on which two preparations disagree ``b`` are won and ``c`` lost, with ``b - c > 3 √(b + c)`` and at
    least ``LEAST_GAIN`` of all samples.
    """
    as_given, best = right(batch), None
    for how, prepared in _others(batch):
        try:
            found = right(prepared)
        except InputError:  # this network takes no other size
            continue
        given = as_given[: len(found)]
        won, lost = int((found & ~given).sum()), int((given & ~found).sum())
        accuracy = float(found.double().mean())
        clear = won - lost > 3.0 * (won + lost) ** 0.5 and won - lost >= LEAST_GAIN * len(found)
        if clear and accuracy > max(chance, 0.0 if best is None else best.accuracy):
            best = Preparation(how=how, accuracy=accuracy, given=float(given.double().mean()))
    return best


def _others(batch: Tensor) -> Iterator[tuple[str, Tensor]]:
    """Yield other preparations of a batch, the simplest first; vectors are only scaled."""
    over = (0, 2, 3) if batch.ndim == 4 else tuple(range(batch.ndim))
    mean, spread = batch.mean(over, keepdim=True), batch.std(over, keepdim=True).clamp(min=1e-6)
    low, high = batch.amin(), batch.amax()
    normalised = (batch - mean) / spread
    yield "divided by 255", batch / 255
    yield "scaled to the range 0 to 1", (batch - low) / (high - low).clamp(min=1e-6)
    yield "normalised to mean 0 and standard deviation 1 in each channel", normalised
    if batch.ndim != 4:
        return
    if batch.shape[1] == 3:
        yield "with red and blue exchanged", batch.flip(1)
        yield "with red and blue exchanged, normalised to mean 0 and standard deviation 1", normalised.flip(1)
    height, width = batch.shape[2:]
    sides = [(height // 2, width // 2), (2 * height, 2 * width), *((side, side) for side in SIZES)]
    for size in dict.fromkeys(sides):
        larger = size[0] * size[1] / (height * width)
        if larger != 1 and min(size) > 0 and max(size) <= min(8 * max(height, width), LARGEST_SIDE):
            part = batch[: max(FEWEST, int(len(batch) / larger))]  # no more pixels than there are
            yield f"resized to {size[0]} x {size[1]}", interpolate(part, size=size, mode="bilinear", antialias=True)
