"""The lines of a head: along the row of each class, where does that class win?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy import ndarray
from torch import Tensor

from sfra.attack.probes import codes
from sfra.attack.probes.tiles import in_order

GROUPS = 32
"""Groups of classes that have draws of their own (:mod:`sfra.attack.probes.mixing`)."""

SAME = 1e-5
"""A denominator below this, relative to the row, is zero up to rounding: the class is left to conditional sampling."""

TILE = 256
"""Draws whose logits are held at a time."""

_ROWS = 512


def interval_of(
    weight: Float[Tensor, "C r"], bias: Float[Tensor, " C"], k: int, draws: Float[Tensor, "n r"]
) -> tuple[Float[Tensor, " n"], Float[Tensor, " n"], Float[Tensor, " n"]]:
    """Return ``t0``, ``lo`` and ``hi`` of draws for one class in plain float64, the oracle of the compiled loops.

    ``u = t0 e_k + v``, and ``t e_k + v`` lies in the region of class ``k`` for ``lo < t < hi``:

        lo = max over j with D_j > 0 of ((a_j - a_k)·v + b_j - b_k) / D_j,        D_j = |a_k| - a_j·e_k,

    ``hi`` is the minimum over ``D_j < 0``; with a ``D_j`` of zero the interval is empty unless ``k`` beats ``j`` so.

    >>> t0, lo, hi = interval_of(torch.eye(2), torch.tensor([0.0, 1.0]), 0, torch.tensor([[3.0, 1.0]]))
    >>> [round(t.item(), 3) for t in (t0, lo, hi)]  # e_0 = (1, -1) / √2, and 1 / √2 undoes the bias
    [1.414, 0.707, inf]
    """
    A = weight.double()
    A, b, u = A - centre(A), bias.double(), draws.double()
    e = A[k] / A[k].norm()
    t0 = u @ e
    others = torch.arange(len(A)) != k
    lead = (u @ (A - A[k]).T + b - b[k] + t0[:, None] * (A[k].norm() - A @ e))[:, others]
    D = (A[k].norm() - A @ e)[others]
    zero = D.abs() <= SAME * A[k].norm()
    ratio = lead / torch.where(zero, 1.0, D)
    low = torch.where(D > 0, ratio, -torch.inf).masked_fill(zero, -torch.inf).amax(1)
    high = torch.where(D < 0, ratio, torch.inf).masked_fill(zero, torch.inf).amin(1)
    lost = (zero & (lead >= 0)).any(1)
    return t0, torch.where(lost, torch.inf, low), high


def centre(rows: Float[Tensor, "C r"]) -> Float[Tensor, " r"]:
    """Return the mean row, in which a row longer than the median counts as if it were as long as that."""
    lengths = rows.norm(dim=1)
    share = (lengths.median() / lengths.clamp_min(1e-300)).clamp_max(1.0)
    mean: Tensor = (share[:, None] * rows).sum(0) / share.sum()
    return mean


@dataclass(frozen=True, eq=False, kw_only=True)
class Lines:
    """A head as its classes' lines see it. Arrays are float32, and classes are in the order of their groups.

    Matrices are filled up to ``P`` columns, a multiple of the kernels' lanes.
    """

    order: Int[ndarray, " C"]
    """The class at each position."""
    edges: Int[ndarray, " G1"]
    """Where each group starts, and where the last one ends."""
    signs: Float[ndarray, "G 16"]
    """How each group mixes draws with each other."""
    rows: Float[ndarray, "C r"]
    """Centred rows ``a_k``."""
    gram: Float[ndarray, "P P"]
    """``A Aᵀ``."""
    bias: Float[ndarray, " C"]
    lengths: Float[ndarray, " C"]
    kinds: Int[ndarray, " C"]
    """Whether a class wins on a ray, on an interval, or is not asked."""
    narrowest: Float[ndarray, " C"]
    """Smallest ``n_k² - G_kj``."""

    @classmethod
    def of(
        cls, weight: Float[Tensor, "C r"], bias: Float[Tensor, " C"], retain: Bool[Tensor, " C"], threads: int = 1
    ) -> Lines:
        """Prepare a head; classes with a vanishing denominator are not asked."""
        from sfra.attack.probes.mixing import signs
        from sfra.attack.probes.sieving import LANES
        from sfra.attack.probes.weighing import CLOSED, INTERVAL, RAY

        groups = min(GROUPS, len(bias))
        order = np.argsort(np.arange(len(bias)) % groups, kind="stable")
        A = weight.double()
        A = (A - centre(A))[order]
        gram = np.zeros((-(-len(A) // LANES) * LANES,) * 2, np.float32)
        squares = (A * A).sum(1)
        narrowest, degenerate = torch.empty_like(squares), torch.empty_like(squares, dtype=torch.bool)

        def fill(start: int) -> None:  # in blocks: the whole would be twice as large in float64
            torch.set_num_threads(1)  # of this worker
            part = slice(start, start + _ROWS)
            product = A[part] @ A.T
            gram[part, : len(A)][: len(product)] = product.numpy()
            below = product.neg_().add_(squares[part, None]).div_(squares[part, None])
            below[torch.arange(len(product)), torch.arange(start, start + len(product))] = torch.inf
            narrowest[part] = below.amin(1) * squares[part]
            degenerate[part] = below.abs_().amin(1) <= SAME

        for _ in in_order(fill, range(0, len(A), _ROWS), threads):
            pass
        np.fill_diagonal(gram[: len(A), : len(A)], squares.numpy())
        asked = retain[order] & ~degenerate & (squares > 1e-12) & (squares < 1e12)
        kinds = torch.where(narrowest > 0, RAY, INTERVAL)
        return cls(
            order=order,
            edges=np.searchsorted(order % groups, np.arange(groups + 1)),
            signs=signs(groups),
            rows=A.float().contiguous().numpy(),
            gram=gram,
            bias=(bias - bias.mean())[order].float().contiguous().numpy(),
            lengths=squares.sqrt().float().numpy(),
            kinds=torch.where(asked, kinds, CLOSED).numpy(),
            narrowest=narrowest.float().numpy(),
        )

    @property
    def compiled(self) -> tuple[ndarray, ndarray, ndarray]:
        """What every loop reads; classes that only fill up have length 1."""
        rest = np.zeros(len(self.gram) - len(self.bias), np.float32)
        return self.gram, np.append(self.lengths, rest + 1), np.append(self.bias, rest)

    def logits(self, first: int, stream: int, seed: np.uint64) -> Float[ndarray, "B P"]:
        """Return the logits of a tile of draws, one draw per row, without their offset."""
        from sfra.attack.probes import kernels

        width, (classes, rank) = TILE, self.rows.shape
        words, floats = np.empty((4, width), np.int32), np.empty((4, width), np.float32)
        draws, logits = np.empty((rank, width), np.float32), np.empty((classes, width), np.float32)
        kernels.draw_tile(np.arange(first, first + width), stream, seed, codes.GAUSSIAN, words, floats, draws)
        kernels.affine(self.rows, np.zeros_like(self.bias), draws, logits)
        z = np.zeros((width, len(self.gram)), np.float32)
        z[:, :classes] = logits.T
        return z

    @property
    def offset(self) -> Float[ndarray, " P"]:
        """What is added to such logits: the bias, and next to nothing for what only fills up."""
        from sfra.attack.probes.sieving import SMALL

        return np.append(self.bias, np.full(len(self.gram) - len(self.bias), SMALL))
