"""The part of a Gaussian draw that the head can see, and the rest of it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from sfra.head import Head
from sfra.types import Features


@dataclass(frozen=True, kw_only=True)
class RowSpace:
    """An orthonormal basis ``V`` [d, r] of the row space of a head's weight, and the head in its coordinates.

    For ``s ~ N(0, I_d)`` the logits ``W s + b`` depend on ``u = Vᵀ s ~ N(0, I_r)`` alone, with ``A = W V``.
    """

    basis: Float[Tensor, "d r"]
    weight: Float[Tensor, "C r"]
    """``A = W V``."""

    @property
    def rank(self) -> int:
        """Dimension ``r`` of the row space."""
        return self.basis.shape[1]

    def lift(self, inside: Float[Tensor, "n r"], noise: Features) -> Features:
        """Return ``s = V u + (I - V Vᵀ) g``: a draw of ``N(0, I_d)`` whose projection is ``u``."""
        basis = self.basis.to(inside.device)
        return noise + (inside - noise @ basis) @ basis.T


def row_space(head: Head) -> RowSpace:
    """Find the row space of a head by a singular value decomposition in float64.

    Directions whose singular value is below float32 resolution of the largest count as outside: the head cannot
    tell draws apart along them.
    """
    W = head.weight.double()
    square = torch.linalg.qr(W, mode="r").R if head.classes > head.width else W
    _, scale, rows = torch.linalg.svd(square, full_matrices=False)
    resolution = scale[0] * max(W.shape) * torch.finfo(torch.float32).eps
    rank = max(1, int((scale > resolution).sum()))
    if rank == head.width:
        return RowSpace(basis=torch.eye(head.width), weight=head.weight)
    basis = rows[:rank].T
    return RowSpace(basis=basis.float().contiguous(), weight=(W @ basis).float().contiguous())
