"""The scale of an audit: the same classifier, seen by the proposal at a chosen size.

Features times ``s`` and weight over ``s`` is the same classifier, but the proposal ``N(0, I)`` meets another head. The
*canonical* scale takes that freedom away: centre the rows on the mean of the retain rows (softmax ignores a common
row) and the biases likewise, then rescale so that the median norm of the retain rows is ``κ``. Neither centre nor
median looks at the forget row, so a row that exploded, vanished or is missing does not set the scale.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from jaxtyping import Float
from torch import Tensor

from sfra.core.errors import InputError
from sfra.core.head import Head
from sfra.core.types import Features

KAPPA = 1.7
"""Median norm of the centred retain rows at canonical scale; ``docs/scale.md`` shows the curve behind the choice."""

SWEEP = tuple(KAPPA * 2.0 ** (step / 4) for step in range(-4, 5))
"""Scales of a sweep: a geometric grid from half to twice the canonical one."""

VARIANTS = ("released", "reset-row", "restored-row")
"""The forget row as released; re-initialised; or initialised because the release has none."""


@dataclass(frozen=True, kw_only=True)
class Placed:
    """A head at some scale: ``W' = gain (W - centre)``, to be used with features divided by ``gain``.

    The bias loses the median of the retain biases: a constant on every bias is the same classifier as well, but would
    start a fresh row far below or above the others.
    """

    head: Head
    gain: float

    def features(self, features: Features) -> Features:
        """Return released features in the coordinates of this head."""
        return features / self.gain

    def released(self, head: Head) -> Head:
        """Return a head of these coordinates (a relearned one) in those of the released features."""
        return Head(head.weight / self.gain, head.bias)


def place(
    head: Head, forget: Sequence[int], *, kappa: float | None, variant: str = "released", seed: int = 0
) -> Placed:
    """Bring a head to a scale, with its forget rows as released, reset or restored.

    Args:
        head: The released head; for ``restored-row`` without the forget rows.
        forget: The forget classes.
        kappa: Median norm of the centred retain rows; None leaves the head as released (native scale).
        variant: One of ``VARIANTS``. Fresh rows are drawn at the new scale, so that they too are independent of the
            scale of the release.
        seed: Seed of fresh rows.

    >>> head = Head(weight=[[3.0, 0.0], [-3.0, 0.0], [0.0, 9.0]])
    >>> place(head, [2], kappa=2.0).head.weight.tolist()
    [[2.0, 0.0], [-2.0, 0.0], [0.0, 6.0]]
    """
    if variant not in VARIANTS:
        raise InputError("there is no such variant", expected=" or ".join(VARIANTS), got=variant)
    gain = 1.0
    if kappa is not None:
        kept = [] if variant == "restored-row" else list(forget)
        retain = [k for k in range(head.classes) if k not in set(kept)]
        centre, gain = _centre_and_gain(head, retain, kappa)
        bias = head.bias.double()
        head = Head((head.weight.double() - centre) * gain, bias - bias[retain].quantile(0.5))
    if variant == "reset-row":
        head = head.reset_rows(forget, seed=seed)
    elif variant == "restored-row":
        head = head.restore_rows(forget, seed=seed)
    return Placed(head=head, gain=gain)


def _centre_and_gain(head: Head, retain: Sequence[int], kappa: float) -> tuple[Float[Tensor, " d"], float]:
    rows = head.weight[list(retain)].double()
    centre = rows.mean(0)
    size = float((rows - centre).norm(dim=1).quantile(0.5))
    if size == 0.0:
        raise InputError(
            "the head has no scale: its retain rows do not differ",
            expected="retain rows of which more than half lie away from their mean",
            got=f"{len({tuple(row) for row in rows.tolist()})} different rows among {len(rows)}",
            do="check how the model was saved: such a head cannot tell its classes apart",
        )
    return centre, kappa / size


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
