"""The part of a Gaussian draw that the head can see, and the rest of it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from sfra.core.head import Head
from sfra.core.types import Features

_LIFTED = 2**14
_LARGE = 256


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
        """Return ``s = V u + (I - V Vᵀ) g``, a draw of ``N(0, I_d)`` with the projection ``u``; overwrites ``g``."""
        basis = self.basis.to(inside.device)
        for start in range(0, len(noise), _LIFTED):
            part = noise[start : start + _LIFTED]
            part += (inside[start : start + _LIFTED] - part @ basis) @ basis.T
        return noise


def row_space(head: Head, device: torch.device | None = None) -> RowSpace:
    """Find the row space of a head in float64; for a GPU by eigenvectors, which is quicker, a large head's on the GPU.

    The rows are brought to length one first: a long row, or a long row common to all, must not make the others look
    small. Directions whose singular value is then below float32 resolution count as outside: they are rounding.
    """
    gpu = device is not None and device.type == "cuda"
    far = gpu and min(head.weight.shape) > _LARGE
    W = head.weight.to(device).double() if far else head.weight.double()
    unit = W / W.norm(dim=1, keepdim=True).clamp_min(1e-300)
    scale, directions = (by_eigenvectors if gpu else by_singular_vectors)(unit)
    resolution = 2 * max(W.shape) ** 0.5 * torch.finfo(torch.float32).eps
    rank = max(1, int((scale > resolution).sum()))
    if rank == head.width:
        return RowSpace(basis=torch.eye(head.width), weight=head.weight)
    basis = directions[:rank].T
    return RowSpace(basis=basis.float().contiguous().cpu(), weight=(W @ basis).float().contiguous().cpu())


def by_singular_vectors(unit: Float[Tensor, "C d"]) -> tuple[Float[Tensor, " s"], Float[Tensor, "s d"]]:
    """Return singular values in descending order and the directions that belong to them."""
    square = torch.linalg.qr(unit, mode="r").R if unit.shape[0] > unit.shape[1] else unit
    _, scale, directions = torch.linalg.svd(square, full_matrices=False)
    return scale, directions


def by_eigenvectors(unit: Float[Tensor, "C d"]) -> tuple[Float[Tensor, " s"], Float[Tensor, "s d"]]:
    """Return the same from the products of rows or columns, whichever are fewer.

    A singular value is good to ``√ε`` of the largest, 1.5e-8: finer than the float32 resolution that is asked for. A
    direction whose value is below that may be anything.
    """
    few = unit.shape[0] < unit.shape[1] and bool(unit.any())
    squares, vectors = torch.linalg.eigh(unit @ unit.T if few else unit.T @ unit)
    scale, found = squares.flip(0).clamp_min(0.0).sqrt(), vectors.flip(1).T
    return scale, found @ unit / scale.clamp_min(1e-300)[:, None] if few else found
