"""The scale of an audit: the same classifier, seen by the proposal at a chosen size.

Features times ``s`` and weight over ``s`` is the same classifier, but the proposal ``N(0, I)`` meets another head. A
scale chooses one form of the head: a class with ``place(head, retain, anchor) -> Placed``. ``SCALES`` lists them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import ClassVar, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from sfra.attack.anchor import Affine, Anchor
from sfra.attack.known import check_scale
from sfra.core.errors import InputError
from sfra.core.head import Head
from sfra.core.types import Features

KAPPA = 1.7
"""Median norm of the centred retain rows at canonical scale; ``docs/scale.md`` shows the curve behind the choice."""

VARIANTS = ("released", "reset-row", "restored-row")
"""The forget row as released; re-initialised; or initialised because the release has none."""


@dataclass(frozen=True, kw_only=True)
class Placed:
    """A head at some scale: ``W' = gain (W - centre)``, to be used with features divided by ``gain``."""

    head: Head
    gain: float = 1.0
    frame: Affine | None = None
    """Coordinates that the features are brought to before they are divided; None leaves them as released."""

    def framed(self, features: Features) -> Float[Tensor, "n r"]:
        """Return released features in the frame of this head, not yet divided by the gain."""
        return features if self.frame is None else self.frame(features)

    def features(self, features: Features) -> Float[Tensor, "n r"]:
        """Return released features in the coordinates of this head."""
        return self.framed(features) / self.gain

    def released(self, head: Head) -> Head:
        """Return a head of these coordinates (a relearned one) in those of the released features."""
        if self.frame is None:
            return Head(head.weight / self.gain, head.bias)
        weight = head.weight.double() / self.gain
        return Head(weight @ self.frame.matrix, head.bias.double() + weight @ self.frame.shift)


@runtime_checkable
class Scale(Protocol):
    """One form of a head; equal scales compare equal."""

    @property
    def name(self) -> str:
        """Its name in results, such as ``canonical``."""

    @property
    def kappa(self) -> float | None:
        """Median norm of the centred retain rows, where the scale fixes it."""

    def place(self, head: Head, retain: Sequence[int], anchor: Anchor | None = None) -> Placed:
        """Bring a head to this scale; only its retain rows count, and the anchor of its encoder where it takes one."""


@dataclass(frozen=True)
class Native:
    """The head as released: the paper's reading."""

    name: ClassVar[str] = "native"
    kappa: ClassVar[None] = None

    def place(self, head: Head, retain: Sequence[int], anchor: Anchor | None = None) -> Placed:
        """Leave the head as it is."""
        return Placed(head=head)


@dataclass(frozen=True)
class Canonical:
    """Centred rows of a fixed size.

    Centre the rows on the mean of the retain rows (softmax ignores a common row) and the biases on their median, then
    rescale so that the median norm of the retain rows is ``kappa``. The forget row does not count: one that exploded,
    vanished or is missing does not set the scale.
    """

    kappa: float = KAPPA

    @property
    def name(self) -> str:
        """``canonical``, or the number."""
        return "canonical" if self.kappa == KAPPA else f"kappa={self.kappa:.4g}"

    def place(self, head: Head, retain: Sequence[int], anchor: Anchor | None = None) -> Placed:
        """Centre and rescale the head."""
        rows = head.weight[list(retain)].double()
        centre = rows.mean(0)
        size = float((rows - centre).norm(dim=1).quantile(0.5))
        if size == 0.0:
            raise InputError(
                "the head has no scale: its retain rows do not differ",
                expected="more than half of the retain rows away from their mean",
                got=f"{len({tuple(row) for row in rows.tolist()})} different rows among {len(rows)}",
                do="check how the model was saved: such a head cannot tell its classes apart",
            )
        gain, bias = self.kappa / size, head.bias.double()
        weight = (head.weight.double() - centre) * gain
        return Placed(head=Head(weight, bias - bias[list(retain)].quantile(0.5)), gain=gain)


@dataclass(frozen=True)
class Anchored:
    """Canonical rows in units of an anchor: the same for every affine disguise ``z -> A z + c`` of the features.

    Features are whitened by the mean and the covariance of the encoder's features of synthetic images. The origin moves
    to the nearest point, in these units, at which all retain classes have equal logits. Then as :class:`Canonical`.
    """

    kappa: float = KAPPA
    name: ClassVar[str] = "anchored"

    def place(self, head: Head, retain: Sequence[int], anchor: Anchor | None = None) -> Placed:
        """Whiten, move the origin, centre and rescale."""
        if anchor is None:
            raise InputError(
                "the anchored scale needs features of synthetic images",
                expected="a whole model with images to measure on, or a features file with an array 'anchor'",
                got="neither",
                do="add the features of more noise images than the model has features to the file, or use canonical",
            )
        W, kept = head.weight.double(), list(retain)
        rows, bias = W @ anchor.root, head.bias.double() + W @ anchor.mean
        rows, bias = rows - rows[kept].mean(0), bias - bias[kept].mean()
        origin = -torch.linalg.pinv(rows[kept], rtol=1e-6) @ bias[kept]
        placed = Canonical(self.kappa).place(Head(rows, bias + rows @ origin), retain)
        frame = Affine(matrix=anchor.inverse, shift=-anchor.inverse @ anchor.mean - origin)
        return replace(placed, frame=frame)


SWEEP = tuple(Canonical(KAPPA * 2.0 ** (step / 4)) for step in range(-4, 5))
"""Scales of a sweep: a geometric grid from half to twice the canonical one."""


@dataclass(frozen=True, kw_only=True)
class ScaleChoice:
    """What ``--scale NAME`` asks for."""

    verdict: Scale
    """The scale that the verdict rests on."""
    further: tuple[Scale, ...] = ()
    """Scales that are audited as well."""


CALIBRATED = "calibrated"
"""A size that the audit finds first, on retain classes that it hides; until then it stands for the canonical one."""

SCALES: dict[str, ScaleChoice] = {
    "canonical": ScaleChoice(verdict=Canonical()),
    CALIBRATED: ScaleChoice(verdict=Canonical()),
    "native": ScaleChoice(verdict=Native()),
    "sweep": ScaleChoice(verdict=Canonical(), further=SWEEP),
    "anchored": ScaleChoice(verdict=Anchored()),
}
"""Scales by name. An audit always covers ``canonical`` and ``native``, whatever the verdict rests on."""


def choose_scale(given: str | float) -> ScaleChoice:
    """Return what a name or a number (κ) asks for.

    >>> choose_scale("2.5").verdict.name
    'kappa=2.5'
    """
    check_scale(given)
    return SCALES[str(given)] if given in SCALES else ScaleChoice(verdict=Canonical(float(given)))


def place(
    head: Head,
    forget: Sequence[int],
    *,
    scale: Scale,
    variant: str = "released",
    seed: int = 0,
    anchor: Anchor | None = None,
) -> Placed:
    """Bring a head to a scale, with its forget rows as released, reset or restored.

    Args:
        head: The released head; for ``restored-row`` without the forget rows.
        forget: The forget classes.
        scale: The scale.
        variant: One of ``VARIANTS``. Fresh rows are drawn at the new scale, so they do not depend on the release's.
        seed: Seed of fresh rows.
        anchor: How features of synthetic images spread, for a scale that takes it.

    >>> head = Head(weight=[[3.0, 0.0], [-3.0, 0.0], [0.0, 9.0]])
    >>> place(head, [2], scale=Canonical(2.0)).head.weight.tolist()
    [[2.0, 0.0], [-2.0, 0.0], [0.0, 6.0]]
    """
    if variant not in VARIANTS:
        raise InputError("unknown variant", expected=" or ".join(VARIANTS), got=variant)
    there = set() if variant == "restored-row" else set(forget)
    placed = scale.place(head, [k for k in range(head.classes) if k not in there], anchor)
    if variant == "released":
        return placed
    fresh = placed.head.reset_rows if variant == "reset-row" else placed.head.restore_rows
    return replace(placed, head=fresh(forget, seed=seed))


@dataclass(frozen=True, kw_only=True)
class ScaleCurve:
    """A scale-free summary: pairs (RS of the reference, RS of the model) over the scales, read like an ROC curve."""

    area: float
    """Signed area between the curve and the diagonal, -0.5 to 0.5: 0 when the model relearns like the reference."""
    rs_at_reference: float
    """Highest RS of the model while the reference stays at or below ``level``."""
    level: float


def scale_curve(rs: Sequence[float], reference: Sequence[float], *, level: float = 0.05) -> ScaleCurve:
    """Summarise RS over matched scales, in ascending order of scale.

    The curve starts at (0, 0), where the scale is so small that nothing comes back, and ends at (1, 1). Between
    neighbouring scales it is a straight line.

    >>> scale_curve([0.9, 1.0], [0.0, 0.1]).rs_at_reference
    0.95
    """
    if not rs or len(rs) != len(reference):
        raise InputError("the scales do not match", expected="one RS of model and reference per scale", got=len(rs))
    points = [(0.0, 0.0), *zip(reference, rs, strict=True)]
    path = [*sorted(points), (1.0, 1.0)]
    area = sum((x1 - x0) * (y0 - x0 + y1 - x1) / 2 for (x0, y0), (x1, y1) in pairwise(path))
    reached = [y for x, y in points if x <= level]
    for (x0, y0), (x1, y1) in pairwise(points):
        if min(x0, x1) <= level < max(x0, x1):
            reached.append(y0 + (y1 - y0) * (level - x0) / (x1 - x0))
    return ScaleCurve(area=area, rs_at_reference=max(reached), level=level)
