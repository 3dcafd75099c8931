"""Exact draws from a Gaussian under linear constraints, by minimax exponential tilting (Botev, 2017).

In coordinates ``x = Qᵀu`` in which the constraint rows are triangular, the ``i``-th of the leading constraints reads
``x_i > o_i - c_i(x)``, where ``c_i`` is linear in the coordinates before ``i``. The proposal draws them in turn,
``x_i = μ_i + (Z given Z > t_i)`` with ``t_i = o_i - c_i - μ_i``. With multipliers ``λ >= 0`` and the shifts
``μ_j = Σ_{i>j} λ_i ∂c_i/∂x_j`` the target's density over the proposal's is

    exp(bound) · Π_i  P(Z > t_i) e^{λ_i t_i} / peak_i,       peak_i = max_t P(Z > t) e^{λ_i t}.

Every factor is at most 1, whatever ``λ`` is: a proposal is dropped as soon as the product so far falls below its
uniform number, and what survives is exactly the target. ``bound`` is the convex function of ``λ`` that
:func:`_multipliers` minimises (the saddle point), and ``log P(region) = bound + log(acceptance)``. The constraints
that are not tilted, nearly always satisfied or dependent on the others, are checked at the end.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import no_type_check

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from sfra.probes.linear import BLOCK, multiply, pad, product, reflect
from sfra.probes.normals import FAR, draw_upper, kernel, log_upper, mills, open_stream, quantile, uniform, upper
from sfra.probes.region import Region

CHECKED = 0.03
"""A constraint expected to fail less often than this is checked, not tilted: that costs less than it saves."""

_INDEPENDENT = 1e-6
_NEWTON_STEPS = 100
_DECREMENT = 1e-9


@dataclass(frozen=True, eq=False, kw_only=True)
class Tilting:
    """A prepared proposal; :func:`propose` draws from it."""

    basis: Float[ndarray, "r r"]
    """``Q``: ``u = Q x``."""

    order: Int[ndarray, " m"]
    """The region's constraints in the order in which they are used; the leading ones are tilted."""

    rows: Float[ndarray, "m r"]
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
    """An upper bound of ``log P(region)``: the acceptance is their ratio."""

    @property
    def tile(self) -> int:
        """Proposals made in one go: few enough for their coordinates to stay in the cache."""
        return max(256, min(4096, 65536 // len(self.basis)))

    def cone(self) -> Tilting:
        """Return the proposal for the tilted constraints alone, the others forgotten."""
        s = len(self.shifts)
        parts = {**vars(self), "order": self.order[:s], "rows": self.rows[:s], "offsets": self.offsets[:s]}
        return Tilting(**parts)


def prepare(region: Region, limit: int | None = None) -> Tilting:
    """Order the constraints, find the saddle point and return the proposal.

    Args:
        region: The polyhedron.
        limit: Tilt at most this many constraints.
    """
    m, r = region.rows.shape
    rows, offsets = np.vstack([region.rows, np.eye(r)]), region.offsets.copy()
    order = np.arange(m)
    s = _triangular(rows, offsets, order, min(m, r if limit is None else limit))
    diagonal = np.diagonal(rows)[:s].copy()
    rows[:s] /= diagonal[:, None]
    offsets[:s] /= diagonal
    # Any multipliers are valid; at float32 the last bits of LAPACK's threads cannot reach the samples.
    t = _multipliers(rows[:s, :s], offsets[:s]).astype(np.float32).astype(np.float64)
    multipliers, log_tails = _mills(t), _log_upper(t)
    shifts = multiply(rows[:s, :s].T, multipliers[:, None])[:, 0] - multipliers
    log_peaks = log_tails + multipliers * t
    bound = shifts**2 / 2 + multipliers * (shifts - offsets[:s]) + log_peaks
    return Tilting(
        basis=rows[m:],
        order=order,
        rows=rows[:m],
        offsets=offsets,
        shifts=shifts,
        multipliers=multipliers,
        log_peaks=log_peaks,
        log_bound=float(bound.sum()),
    )


@kernel
@no_type_check
def _triangular(rows, offsets, order, limit):
    """Bring up to ``limit`` constraints to the front, most likely to fail first, and triangularise them.

    Gibson's order: each next one is the least likely, given the coordinates before at their expected values. Below
    the constraints ``rows`` holds an identity, which the reflections turn into the basis. Returns how many
    constraints lead; the rest follow by their probability to fail.
    """
    m = len(offsets)
    mean, left = np.zeros(m), np.ones(m)
    scores = np.empty(m)
    s = 0
    while s < limit:
        best = -1
        for i in range(s, m):
            if left[i] > _INDEPENDENT**2:
                scores[i] = (offsets[i] - mean[i]) / math.sqrt(left[i])
                if best < 0 or scores[i] > scores[best] + 1e-9:
                    best = i
        if best < 0 or upper(-scores[best]) < CHECKED:
            break
        _swap(rows, s, best)
        for column in (offsets, mean, left):
            column[s], column[best] = column[best], column[s]
        order[s], order[best] = order[best], order[s]
        reflect(rows, s)
        expected = mills((offsets[s] - mean[s]) / rows[s, s])
        for i in range(s + 1, m):
            mean[i] += rows[i, s] * expected
            left[i] -= rows[i, s] ** 2
        s += 1
    for i in range(s, m):
        scores[i] = (mean[i] - offsets[i]) / math.sqrt(max(left[i], _INDEPENDENT**2))
    ranked = s + np.argsort(scores[s:])
    rows[s:m] = rows[ranked]
    offsets[s:] = offsets[ranked]
    order[s:] = order[ranked]
    return s


@kernel
@no_type_check
def _swap(rows, i, j):
    """Exchange two rows."""
    for c in range(rows.shape[1]):
        rows[i, c], rows[j, c] = rows[j, c], rows[i, c]


def _mills(t: Float[ndarray, " s"]) -> Float[ndarray, " s"]:
    """Return ``φ(t) / P(Z > t)`` per entry."""
    from scipy.special import erfcx

    return np.asarray(math.sqrt(2.0 / math.pi) / erfcx(t * math.sqrt(0.5)))


def _log_upper(t: Float[ndarray, " s"]) -> Float[ndarray, " s"]:
    """Return ``log P(Z > t)`` per entry."""
    from scipy.special import log_ndtr

    return np.asarray(log_ndtr(-t))


def _multipliers(M: Float[ndarray, "s s"], offsets: Float[ndarray, " s"]) -> Float[ndarray, " s"]:
    """Return the ``t`` whose multipliers ``λ = mills(t)`` minimise the bound, by a damped Newton method.

    With ``G = M Mᵀ`` and ``t = mills⁻¹(λ)`` the bound is ``½ λᵀGλ - oᵀλ + Σ (t λ + log P(Z > t) - λ²/2)``, strictly
    convex in ``λ > 0``, with the gradient ``Gλ - o + t - λ``. The step is taken in ``t``, in which the gradient is
    nearly linear both for idle constraints (``t → -∞``, ``λ → 0``) and for binding ones (``λ ≈ t``).
    """
    G = M @ M.T

    def bound(t: Float[ndarray, " s"]) -> tuple[Float[ndarray, " s"], Float[ndarray, " s"], float]:
        rate = _mills(t)
        pull = G @ rate
        value = 0.5 * rate @ pull - offsets @ rate + np.sum(t * rate + _log_upper(t) - rate**2 / 2)
        return rate, pull, float(value)

    t = np.minimum(offsets, 0.0)
    rate, pull, value = bound(t)
    for _ in range(_NEWTON_STEPS):
        gradient = pull - offsets + t - rate
        slope = np.clip(rate * (rate - t), 0.0, 1.0 - 1e-12)
        root = np.sqrt(slope)
        system = root[:, None] * G * root + np.diag(1.0 - slope)
        move = -root * np.linalg.solve(system, root * gradient)
        step = np.where(slope < 0.5, (-gradient - G @ move) / (1.0 - slope), move / np.maximum(slope, 0.5))
        decrement = float(-gradient @ move)
        if decrement < _DECREMENT:
            break
        size = 1.0
        while (trial := bound(t + size * step))[2] > value - 1e-4 * size * decrement and size > 1e-8:
            size /= 2
        t = t + size * step
        rate, pull, value = trial
    return np.asarray(t)


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
            if t < FAR:
                tails *= tail
                if tails < 1e-280:  # the next factor could underflow
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
    state = open_stream(seed, index)
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
    return x[:r, :n].copy()


def propose(tilting: Tilting, seed: int, index: int) -> Float[ndarray, "n r"]:
    """Make ``tilting.tile`` proposals from stream ``index`` of ``seed`` and return the accepted ``u``, in order."""
    rows = pad(np.vstack([tilting.rows, np.zeros((BLOCK, len(tilting.basis)))]), BLOCK, 4)
    accepted = _propose(
        rows,
        tilting.offsets,
        tilting.shifts,
        tilting.multipliers,
        tilting.log_peaks,
        len(tilting.basis),
        tilting.tile,
        seed,
        index,
    )
    return np.ascontiguousarray(multiply(tilting.basis, accepted).T)
