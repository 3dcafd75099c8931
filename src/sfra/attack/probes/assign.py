"""Share a pool's least sure candidates out among several forget classes."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from sfra.attack.known import check_name
from sfra.core.errors import InputError


def assign(affinity: Float[Tensor, "n F"], m: int, method: str) -> Int[Tensor, " n"]:
    """Give each of ``n = F·m`` candidates to one of ``F`` forget classes, ``m`` to each.

    Args:
        affinity: ``log p_{c_f}`` of each candidate and forget class, classes in ascending index.
        m: Number of candidates per class.
        method: ``"greedy"``: the classes take turns in ascending index, each taking the ``m`` free candidates with
            the highest affinity (the result depends on the order of the classes). ``"optimal"``: the balanced
            assignment with the highest total affinity.

    Returns:
        For each candidate the position (0 … F-1) of its forget class.

    >>> affinity = torch.tensor([[3.0, 2.9], [2.0, 0.0]])
    >>> assign(affinity, 1, "greedy").tolist(), assign(affinity, 1, "optimal").tolist()
    ([0, 1], [1, 0])
    """
    if affinity.shape[0] != affinity.shape[1] * m:
        raise InputError(
            "the candidates cannot be shared out evenly",
            expected=f"{affinity.shape[1]} × {m} candidates",
            got=affinity.shape[0],
        )
    check_name("assignment", method)
    return (_greedy if method == "greedy" else _optimal)(affinity, m)


def _greedy(affinity: Tensor, m: int) -> Tensor:
    owner = torch.full((affinity.shape[0],), -1, dtype=torch.int64, device=affinity.device)
    for position in range(affinity.shape[1]):
        wish = affinity[:, position].masked_fill(owner >= 0, -torch.inf)
        owner[wish.argsort(descending=True, stable=True)[:m]] = position
    return owner


def _optimal(affinity: Tensor, m: int) -> Tensor:
    """Solve the transport problem as an assignment in which every forget class has ``m`` seats."""
    from scipy.optimize import linear_sum_assignment

    seats = affinity.double().cpu().repeat_interleave(m, dim=1)
    rows, columns = linear_sum_assignment(seats.numpy(), maximize=True)
    owner = torch.empty(affinity.shape[0], dtype=torch.int64)
    owner[torch.from_numpy(rows)] = torch.from_numpy(columns) // m
    return owner.to(affinity.device)
