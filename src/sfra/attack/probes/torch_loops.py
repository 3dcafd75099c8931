"""The inner loops of the weighted stream in plain torch, for any device: the oracle of those in Triton.

A pair is a row of logits ``z`` and a class ``k``. Both loops run over all other classes ``j``; the rows of the pairs
are gathered in blocks, so that working space stays bounded.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from sfra.attack.probes.counters import normals, uniforms
from sfra.attack.probes.mixing import SIZE
from sfra.attack.probes.scores import get, judge
from sfra.attack.probes.stream import Routed, route
from sfra.attack.probes.weighing import BINS, LEADERS

__all__ = ["ends", "losers", "mix", "normals", "prepare", "scan", "sieve", "uniforms"]

_NUMBERS = {"cpu": 2**20, "cuda": 2**28}
"""Numbers that a block may hold."""


def _block(z: Float[Tensor, "R P"]) -> int:
    return max(1, _NUMBERS[z.device.type] // z.shape[1])


def mix(
    plain: Float[Tensor, "B P"], mixing: Float[Tensor, "M 16"], offset: Float[Tensor, " P"]
) -> Float[Tensor, "R P"]:
    """Return the logits of every group's mixtures, ordered by sixteen draws, group, and draw."""
    sixteens = plain.view(-1, SIZE, plain.shape[1])
    mixed: Tensor = torch.baddbmm(offset, mixing.expand(len(sixteens), -1, -1), sixteens)
    return mixed.view(-1, plain.shape[1])


def ends(
    z: Float[Tensor, "R P"], gram: Float[Tensor, "P P"], row: Int[Tensor, " n"], k: Int[Tensor, " n"]
) -> tuple[Float[Tensor, " n"], Float[Tensor, " n"]]:
    """Return ``max (z_j - z_k) / (G_kk - G_kj)`` over a pair's positive denominators, ``min`` over the negative ones.

    With no negative denominator the second is infinite.
    """
    low, high = z.new_empty(len(row)), z.new_empty(len(row))
    step = _block(z)
    for start in range(0, len(row), step):
        part = slice(start, start + step)
        mine = k[part, None]
        below = gram[k[part], k[part], None] - gram[k[part]]
        ratio = (z[row[part]] - z[row[part], k[part], None]) / below
        below.scatter_(1, mine, 0.0)
        low[part] = ratio.where(below > 0.0, -torch.inf).amax(1)
        high[part] = ratio.where(below < 0.0, torch.inf).amin(1)
    return low, high


def losers(
    z: Float[Tensor, "R P"],
    gram: Float[Tensor, "P P"],
    row: Int[Tensor, " n"],
    k: Int[Tensor, " n"],
    y: Float[Tensor, " n"],
) -> tuple[Float[Tensor, " n"], Float[Tensor, " n"]]:
    """Return ``max_j`` and ``log Σ_j exp`` of ``z_j + y G_kj`` over ``j ≠ k`` for each pair."""
    top, total = z.new_empty(len(row)), z.new_empty(len(row))
    step = _block(z)
    for start in range(0, len(row), step):
        part = slice(start, start + step)
        logits = torch.addcmul(z[row[part]], gram[k[part]], y[part, None])
        logits.scatter_(1, k[part, None], -torch.inf)
        top[part] = logits.amax(1)
        total[part] = logits.logsumexp(1)
    return top, total


def sieve(
    z: Float[Tensor, "R P"],
    gram: Float[Tensor, "P P"],
    share: Float[Tensor, " B"],
    slots: Int[Tensor, "G K"],
    phases: Float[Tensor, " C"],
    taus: Float[Tensor, "C bins"],
    lengths: Float[Tensor, " C"],
    bias: Float[Tensor, " C"],
    slack: float,
) -> Bool[Tensor, "N G 16 K"]:
    """Tell which pairs the largest logits of a few sets do not rule out; see :mod:`sfra.attack.probes.weighing`."""
    value, place = z.view(len(z), -1, LEADERS).max(1)
    found = place * LEADERS + torch.arange(LEADERS, device=z.device)
    u = (share.view(-1, 1, SIZE, 1) + phases[slots][:, None]).frac()
    shape = u.shape
    tau = taus[slots[:, None].expand(shape), (u * BINS).long()]
    length, offset = lengths[slots][:, None], bias[slots][:, None]
    at = slots[:, None].expand(shape).reshape(len(z), -1)
    own = z.gather(1, at).view(shape)
    y = ((tau - (own - offset) / length) / length).view(len(z), -1)
    best = torch.full_like(y, -torch.inf)
    for leader in range(LEADERS):
        other = torch.addcmul(value[:, leader, None], y, gram[found[:, leader, None], at])
        torch.maximum(best, other, out=best)
    passes: Tensor = best.view(shape) <= length * tau + offset + slack
    return passes


def prepare(weight: Float[Tensor, "C r"], bias: Float[Tensor, " C"]) -> tuple[Tensor, ...]:
    """Return a head as ``scan`` takes it."""
    return weight, bias


def scan(
    start: int,
    length: int,
    head: tuple[Tensor, ...],
    seed: int,
    high: Float[Tensor, " C"],
    low: Float[Tensor, " C"],
) -> Routed:
    """Route the draws from ``start`` on to their classes."""
    weight, bias = head
    draws = normals(torch.arange(start, start + length, device=weight.device), 0, weight.shape[1], seed)
    labels, scores = judge(torch.addmm(bias, draws, weight.T), get("softmax"))
    return route(labels, scores, high, low)
