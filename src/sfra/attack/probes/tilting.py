"""Exact draws from a Gaussian under linear constraints, by minimax exponential tilting (Botev, 2017).

In coordinates ``x = Qᵀu`` in which the constraint rows are triangular, the ``i``-th of the leading constraints reads
``x_i > o_i - c_i(x)``, where ``c_i`` is linear in the coordinates before ``i``. The proposal draws them in turn,
``x_i = μ_i + (Z given Z > t_i)`` with ``t_i = o_i - c_i - μ_i``. With multipliers ``λ >= 0`` and the shifts
``μ_j = Σ_{i>j} λ_i ∂c_i/∂x_j`` the target's density over the proposal's is

    exp(bound) · Π_i  P(Z > t_i) e^{λ_i t_i} / peak_i,       peak_i = max_t P(Z > t) e^{λ_i t}.

Every factor is at most 1, whatever ``λ`` is: a proposal is dropped as soon as the product so far falls below its
uniform number, and what survives is exactly the target. ``bound`` is the convex function of ``λ`` that
``saddle_point`` minimises, and ``log P(region) = bound + log(acceptance)``. The constraints
that are not tilted, nearly always satisfied or dependent on the others, are checked at the end.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import no_type_check

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from sfra.attack.probes.linear import BLOCK, fill_product, multiply, pad, product
from sfra.attack.probes.normals import draw_upper, kernel, log_upper, quantile, seed_stream, uniform, upper
from sfra.attack.probes.region import Region
from sfra.attack.probes.saddle import log_tail, mean_above, saddle_point, triangularise


@dataclass(frozen=True, eq=False, kw_only=True)
class Tilting:
    """A prepared proposal; :meth:`propose` draws from it. Matrices are padded with zeros to whole blocks."""

    width: int
    """``r``, the number of coordinates."""

    basis: Float[ndarray, "r32 r4"]
    """``Q``: ``u = Q x``."""

    order: Int[ndarray, " m"]
    """The region's constraints in the order in which they are used; the leading ones are tilted."""

    rows: Float[ndarray, "m32 r4"]
    """The constraint rows in the coordinates ``x``; the tilted ones scaled to a diagonal of 1."""

    offsets: Float[ndarray, " m"]
    """The constraints' right-hand sides, scaled alike."""

    shifts: Float[ndarray, " s"]
    """``μ``, one per tilted constraint."""

    multipliers: Float[ndarray, " s"]
    """``λ``."""

    log_peaks: Float[ndarray, " s"]
    """``log peak``."""

    log_bound: float
    """An upper bound of ``log P(region)``; the acceptance is the ratio of the two."""

    @property
    def tile(self) -> int:
        """Proposals made in one go: few enough for their coordinates to stay in the cache."""
        return max(256, min(4096, 65536 // max(self.width, 1)))

    @property
    def cone(self) -> Tilting:
        """The proposal for the tilted constraints alone, the others forgotten."""
        s = len(self.shifts)
        return replace(self, order=self.order[:s], offsets=self.offsets[:s])

    def propose(self, seed: int, index: int) -> Float[ndarray, "n r"]:
        """Make ``tile`` proposals from stream ``index`` of ``seed`` and return those accepted, in order."""
        x = _propose(
            self.rows,
            self.offsets,
            self.shifts,
            self.multipliers,
            self.log_peaks,
            self.width,
            self.tile,
            np.uint64(seed),
            np.uint64(index),
        )
        u = np.empty((self.basis.shape[0], x.shape[1]))
        fill_product(self.basis, x, u)
        return np.ascontiguousarray(u[: self.width].T)


def prepare(region: Region, limit: int | None = None) -> Tilting:
    """Order the constraints, find the saddle point and return the proposal.

    Args:
        region: The polyhedron.
        limit: Tilt at most this many constraints.

    >>> import torch
    >>> from sfra.attack.probes.region import win_region
    >>> tilting = prepare(win_region(torch.eye(3), torch.zeros(3), 0))
    >>> math.log(1 / 3) < tilting.log_bound < 0
    True
    """
    m, r = region.rows.shape
    rows, offsets, order = np.vstack([region.rows, np.eye(r)]), region.offsets.copy(), np.arange(m)
    s, scores = triangularise(rows, offsets, order, min(m, r if limit is None else limit))
    ranked = s + np.argsort(scores[s:], kind="stable")  # what is left to check, most likely to fail first
    rows[s:m], offsets[s:], order[s:] = rows[ranked], offsets[ranked], order[ranked]
    diagonal = np.diagonal(rows)[:s].copy()
    rows[:s] /= diagonal[:, None]
    offsets[:s] /= diagonal
    # Any multipliers are valid; rounded to float32, the last bits of LAPACK's threads do not reach the samples.
    t = saddle_point(rows[:s, :s], offsets[:s]).astype(np.float32).astype(np.float64)
    multipliers = mean_above(t)
    shifts = multiply(rows[:s, :s].T, multipliers[:, None])[:, 0] - multipliers
    log_peaks = log_tail(t) + multipliers * t
    bound = shifts**2 / 2 + multipliers * (shifts - offsets[:s]) + log_peaks
    spare = np.zeros((BLOCK, r))  # a block may start at any row
    return Tilting(
        width=r,
        basis=pad(rows[m:], BLOCK, 4),
        order=order,
        rows=pad(np.vstack([rows[:m], spare]), BLOCK, 4),
        offsets=offsets,
        shifts=shifts,
        multipliers=multipliers,
        log_peaks=log_peaks,
        log_bound=float(bound.sum()),
    )


@kernel
@no_type_check
def _tilted_block(rows, offsets, shifts, multipliers, log_peaks, first, stop, known, x, log_weight, n, state):
    """Draw coordinates ``first`` to ``stop`` of ``n`` proposals and add the factors to their weights."""
    fresh = np.empty(BLOCK)
    for c in range(n):
        tails, gain = 1.0, 0.0
        for i in range(first, stop):
            inner = known[i - first, c]
            for j in range(first, i):
                inner += rows[i, j] * fresh[j - first]
            t = offsets[i] - inner - shifts[i]
            tail = upper(t)
            if tail > 1e-100:
                tails *= tail
                if tails < 1e-200:  # so that the product cannot underflow
                    gain += math.log(tails)
                    tails = 1.0
            else:
                gain += log_upper(t)
            gain += multipliers[i] * t - log_peaks[i]
            fresh[i - first] = shifts[i] + draw_upper(t, tail, state)
            x[i, c] = fresh[i - first]
        log_weight[c] += gain + math.log(tails)


@kernel
@no_type_check
def _check_block(offsets, first, stop, known, log_weight, n):
    """Take the weight of those proposals that break one of the constraints ``first`` to ``stop``."""
    for c in range(n):
        for i in range(first, stop):
            if known[i - first, c] <= offsets[i]:
                log_weight[c] = -np.inf
                break


@kernel
@no_type_check
def _keep(x, drawn, log_weight, log_uniform, n):
    """Move the proposals that are still alive to the front, in order, and return their number."""
    source = np.empty(n, np.int64)
    alive = 0
    for c in range(n):
        if log_weight[c] >= log_uniform[c]:
            source[alive] = c
            log_weight[alive] = log_weight[c]
            log_uniform[alive] = log_uniform[c]
            alive += 1
    if alive < n:
        for i in range(drawn):
            for c in range(alive):
                x[i, c] = x[i, source[c]]
    return alive


@kernel
@no_type_check
def _propose(rows, offsets, shifts, multipliers, log_peaks, r, tile, seed, index):
    """Return the accepted among ``tile`` proposals, as columns; ``rows`` is padded."""
    m, s = len(offsets), len(shifts)
    state = seed_stream(seed, index)
    x, known = np.zeros((rows.shape[1], tile)), np.empty((BLOCK, tile))
    log_weight, log_uniform = np.zeros(tile), np.empty(tile)
    for c in range(tile):
        log_uniform[c] = math.log(uniform(state))
    n = tile
    for first in range(0, s, BLOCK):
        stop = min(first + BLOCK, s)
        product(rows, first, x, 0, first, n, known)
        _tilted_block(rows, offsets, shifts, multipliers, log_peaks, first, stop, known, x, log_weight, n, state)
        n = _keep(x, stop, log_weight, log_uniform, n)
    for c in range(n):
        for i in range(s, r):
            x[i, c] = quantile(uniform(state))
    for first in range(s, m, BLOCK):
        product(rows, first, x, 0, rows.shape[1], n, known)
        _check_block(offsets, first, min(first + BLOCK, m), known, log_weight, n)
        n = _keep(x, r, log_weight, log_uniform, n)
    return x[:, :n].copy()
