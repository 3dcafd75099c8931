"""Geometry: a map of real samples and probes, in feature space and in logit space."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from sfra.attack.relearn import LabelledProbes
from sfra.core.errors import InputError, MissingPackageError
from sfra.core.head import Head
from sfra.diagnostics.record import Record

SPACES = ("features", "logits")
"""What the head takes in and what it gives out."""

MOST = 2000
"""Default bound on the points of a map, half of them real samples."""

PERPLEXITY = 30.0
"""Default number of neighbours that t-SNE tries to keep."""


@dataclass(frozen=True, kw_only=True)
class MapPoint(Record):
    """A real sample or a probe on a map."""

    space: str
    """``features`` or ``logits``: maps of different spaces share no coordinates."""
    x: float
    y: float
    kind: str
    """``real`` or ``probe``."""
    label: int
    """True class of a real sample; class that a probe is relearned as."""
    predicted: int
    """Class that the released head gives it."""


@dataclass(frozen=True, kw_only=True)
class Geometry(Record):
    """Maps of the same points in each space."""

    points: tuple[MapPoint, ...]
    perplexity: float
    """As used; smaller than asked for where there are few points."""
    seed: int


def geometry(
    head: Head,
    probes: LabelledProbes,
    features: Float[Tensor, "samples d"],
    labels: Int[Tensor, " samples"],
    *,
    gain: float = 1.0,
    spaces: Sequence[str] = SPACES,
    most: int = MOST,
    perplexity: float = PERPLEXITY,
    seed: int = 0,
) -> Geometry:
    """Embed real samples and probes together in two dimensions by t-SNE.

    At most ``most`` points are embedded: half of them real samples, half probes, and within each half every label in
    proportion to its number (at least one). The same seed gives the same points and, on the same machine, the same map.

    Args:
        head: The head at the scale of the probes.
        probes: Probes of that head.
        features: Real features, as released.
        labels: True class of each row of features.
        gain: What the head's weight was multiplied by at that scale; features are divided by it. 1 is native.
        spaces: ``features``, ``logits`` or both.
        most: Bound on the number of points.
        perplexity: Of t-SNE.
        seed: Seed of subsample and embedding.

    Raises:
        MissingPackageError: scikit-learn is not installed.
    """
    unknown = [space for space in spaces if space not in SPACES]
    if unknown:
        raise InputError("unknown space", expected=" or ".join(SPACES), got=", ".join(unknown))
    generator = torch.Generator().manual_seed(seed)
    real = stratify(labels.cpu(), most - most // 2, generator)
    drawn = stratify(probes.labels.cpu(), most // 2, generator)
    inputs = torch.cat([features[real].cpu().float() / gain, probes.samples[drawn].cpu().float()])
    if len(inputs) < 4:
        raise InputError("there are too few points for a map", expected="4 or more", got=len(inputs))
    kinds = ["real"] * len(real) + ["probe"] * len(drawn)
    classes = torch.cat([labels[real].cpu().long(), probes.labels[drawn].cpu().long()]).tolist()
    logits = head(inputs)
    used = min(perplexity, (len(inputs) - 1) / 3)
    points: list[MapPoint] = []
    for space in spaces:
        flat = embed((inputs if space == "features" else logits).numpy(), perplexity=used, seed=seed)
        points += [
            MapPoint(space=space, x=x, y=y, kind=kind, label=label, predicted=predicted)
            for (x, y), kind, label, predicted in zip(
                flat.tolist(), kinds, classes, logits.argmax(1).tolist(), strict=True
            )
        ]
    return Geometry(points=tuple(points), perplexity=used, seed=seed)


def stratify(labels: Int[Tensor, " n"], most: int, generator: torch.Generator) -> Int[Tensor, " kept"]:
    """Draw at most ``most`` positions, every label in proportion to its number but at least once; ascending.

    >>> stratify(torch.tensor([0, 0, 0, 0, 1, 1]), 3, torch.Generator().manual_seed(0)).shape
    torch.Size([3])
    """
    counts = torch.bincount(labels)
    there = torch.nonzero(counts).flatten().tolist()
    if len(labels) <= most:
        return torch.arange(len(labels))
    if most < len(there):
        raise InputError("the map has no room for every class", expected=f"most of {2 * len(there)} or more", got=most)
    quota = _quotas([int(counts[label]) for label in there], most)
    order = torch.randperm(len(labels), generator=generator)
    kept = [order[labels[order] == label][:share] for label, share in zip(there, quota, strict=True)]
    return torch.cat(kept).sort().values


def embed(rows: NDArray[np.float32], *, perplexity: float, seed: int) -> NDArray[np.float32]:
    """Embed rows in two dimensions by t-SNE, from their first two principal components."""
    try:
        from sklearn.manifold import TSNE
    except ImportError as problem:
        raise MissingPackageError(
            "a map of samples and probes is made by scikit-learn", got=problem, do="pip install 'sfra[diagnostics]'"
        ) from None
    flat: NDArray[np.float32] = TSNE(init="pca", perplexity=perplexity, random_state=seed).fit_transform(rows)
    return flat


def _quotas(counts: Sequence[int], most: int) -> list[int]:
    """Share ``most`` out in proportion to the counts by largest remainders, one at least for each."""
    spare, total = most - len(counts), sum(counts) - len(counts)
    ideal = [spare * (count - 1) / max(total, 1) for count in counts]
    quota = [1 + int(share) for share in ideal]
    by_remainder = sorted(range(len(counts)), key=lambda i: (int(ideal[i]) - ideal[i], i))
    for i in by_remainder[: most - sum(quota)]:
        quota[i] += 1
    return quota
