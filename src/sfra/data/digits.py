"""Handwritten digits that come with scikit-learn: real data without a download."""

from __future__ import annotations

import torch
from torch import Tensor

from sfra.core.errors import MissingPackageError
from sfra.data.arrays import MemoryPixels
from sfra.data.registry import Split, dataset
from sfra.data.sets import ImageSet

PARTS = {"train": range(12), "validation": range(12, 15), "test": range(15, 20)}
"""Of every 20 consecutive images of a class: 12 to train, 3 to validate, 5 to test (60, 15 and 25 %)."""

STEP = 7
"""Coprime to 20: spreads each part over the 20 images."""


@dataset("digits", "1,797 handwritten digits, 1x8x8, 10 classes, no download (scikit-learn)")
def digits(split: Split) -> ImageSet:
    """Load one split of the digits; pixels in [0, 1].

    The split is stratified and uses no random number: within a class, in the order of the file, image ``i``
    belongs to the split that holds ``7 i mod 20`` in :data:`PARTS`. It is the same everywhere, for ever.
    """
    try:
        from sklearn.datasets import load_digits
    except ImportError as problem:
        raise MissingPackageError(
            "the digits come with scikit-learn", got=problem, do="pip install 'sfra[demo]'"
        ) from None
    data = load_digits()
    labels = torch.from_numpy(data.target).long()
    rows = torch.tensor([STEP * position % 20 in PARTS[split] for position in _positions(labels)])
    images = torch.from_numpy(data.images).float().unsqueeze(1) / 16
    return ImageSet(
        pixels=MemoryPixels(images[rows]),
        labels=labels[rows],
        class_names=tuple("0123456789"),
        source=f"digits ({split})",
    )


def _positions(labels: Tensor) -> list[int]:
    """Count, for each sample, the earlier samples of its class."""
    seen = [0] * (int(labels.max()) + 1)
    positions = []
    for label in labels.tolist():
        positions.append(seen[label])
        seen[label] += 1
    return positions
