"""The lines of a head on a torch device: what :mod:`sfra.attack.probes.lines` prepares for the compiled loops."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from sfra.attack.probes.lines import GROUPS, SAME, centre
from sfra.attack.probes.mixing import SIZE, matrix, signs
from sfra.attack.probes.sieving import LANES, SMALL
from sfra.attack.probes.weighing import CLOSED, INTERVAL, RAY

_ROWS = 2048
_NUMBERS = {"cpu": 2**22, "cuda": 2**29}
"""Mixed logits that are held at a time."""

MOST_BLOCKS = 2048
"""Groups of draws that are mixed with each other, in a tile: a few launches do for tens of thousands of draws."""


@dataclass(frozen=True, eq=False, kw_only=True)
class DeviceLines:
    """A head as its classes' lines see it; classes are in the order of their groups, filled up to ``P`` columns."""

    order: Int[Tensor, " C"]
    """The class at each position."""
    slots: Int[Tensor, "G K"]
    """The positions of each group's classes; a group that has one less names its last position twice."""
    real: Bool[Tensor, "G K"]
    """Which slots are not such a repetition."""
    mixing: Float[Tensor, "M 16"]
    """The orthogonal matrices of the groups, one below the other."""
    rows: Float[Tensor, "P r"]
    """Centred rows ``a_k``."""
    gram: Float[Tensor, "P P"]
    """``A Aᵀ``."""
    offset: Float[Tensor, " P"]
    """What is added to the logits: the bias, and next to nothing for what only fills up."""
    lengths: Float[Tensor, " C"]
    kinds: Int[Tensor, " C"]
    """Whether a class wins on a ray, on an interval, or is not asked."""

    @classmethod
    def of(
        cls, weight: Float[Tensor, "C r"], bias: Float[Tensor, " C"], retain: Bool[Tensor, " C"], device: torch.device
    ) -> DeviceLines:
        """Prepare a head; classes with a vanishing denominator are not asked."""
        classes = len(bias)
        groups = min(GROUPS, classes)
        order = torch.arange(classes).remainder(groups).argsort(stable=True)
        A = weight.double().to(device)
        A = (A - centre(A))[order.to(device)]
        A = torch.nn.functional.pad(A, (0, 0, 0, -classes % LANES))
        gram, narrowest, degenerate = _products(A, classes)
        squares = gram.diagonal()[:classes]
        asked = retain[order].to(device) & ~degenerate & (squares > 1e-12) & (squares < 1e12)
        offset = torch.full((len(A),), float(SMALL))
        offset[:classes] = (bias.double() - bias.double().mean())[order]
        edges = torch.searchsorted(order % groups, torch.arange(groups + 1))
        wide = torch.arange(int(edges.diff().max()))
        return cls(
            order=order.to(device),
            slots=torch.minimum(edges[:-1, None] + wide, edges[1:, None] - 1).to(device),
            real=(wide < edges.diff()[:, None]).to(device),
            mixing=torch.from_numpy(np.concatenate([matrix(sign) for sign in signs(groups)])).to(device),
            rows=A.float(),
            gram=gram,
            offset=offset.to(device),
            lengths=squares.sqrt(),
            kinds=torch.where(asked, torch.where(narrowest > 0, RAY, INTERVAL), CLOSED),
        )

    @property
    def bias(self) -> Float[Tensor, " C"]:
        """The biases, less their mean."""
        return self.offset[: len(self.order)]

    @property
    def groups(self) -> int:
        """Number of groups that have draws of their own."""
        return len(self.slots)

    @cached_property
    def tile(self) -> int:
        """Draws whose logits are held at a time, a multiple of those that are mixed with each other."""
        fits = _NUMBERS[self.rows.device.type] // (self.groups * len(self.rows) * SIZE)
        return SIZE * min(max(fits, 1), MOST_BLOCKS)


def _products(A: Float[Tensor, "P r"], classes: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return ``A Aᵀ`` in float32, and per class the smallest ``n_k² - G_kj`` and whether one vanishes, in blocks."""
    gram = A.new_empty(len(A), len(A), dtype=torch.float32)
    narrowest, degenerate = A.new_empty(classes), A.new_empty(classes, dtype=torch.bool)
    squares = (A * A).sum(1)
    for start in range(0, classes, _ROWS):
        stop = min(start + _ROWS, classes)
        product = A[start:stop] @ A.T
        gram[start:stop] = product
        below = (squares[start:stop, None] - product[:, :classes]) / squares[start:stop, None]
        below[torch.arange(stop - start), torch.arange(start, stop)] = torch.inf
        narrowest[start:stop] = below.amin(1)
        degenerate[start:stop] = (below.abs() <= SAME).any(1)
    gram[classes:] = 0.0
    gram.diagonal().copy_(squares)
    return gram, narrowest, degenerate
