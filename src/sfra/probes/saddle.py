"""The two choices that make a tilted proposal good: the order of the constraints, and the saddle point.

Neither matters for exactness (see :mod:`sfra.probes.tilting`); both decide how many proposals are accepted.
"""

from __future__ import annotations

import math
from typing import no_type_check

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from sfra.probes.linear import reflect
from sfra.probes.normals import kernel, mills, upper

CHECKED = 0.03
"""A constraint expected to fail less often than this is checked, not tilted: that costs less than it saves."""

_INDEPENDENT = 1e-6
_NEWTON_STEPS = 100
_DECREMENT = 1e-9


@kernel
@no_type_check
def triangularise(rows, offsets, order, limit):
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


def mean_above(t: Float[ndarray, " s"]) -> Float[ndarray, " s"]:
    """Return ``φ(t) / P(Z > t)`` per entry."""
    from scipy.special import erfcx

    return np.asarray(math.sqrt(2.0 / math.pi) / erfcx(t * math.sqrt(0.5)))


def log_tail(t: Float[ndarray, " s"]) -> Float[ndarray, " s"]:
    """Return ``log P(Z > t)`` per entry."""
    from scipy.special import log_ndtr

    return np.asarray(log_ndtr(-t))


def saddle_point(M: Float[ndarray, "s s"], offsets: Float[ndarray, " s"]) -> Float[ndarray, " s"]:
    """Return the ``t`` whose multipliers ``λ = mills(t)`` minimise the bound, by a damped Newton method.

    With ``G = M Mᵀ`` and ``t = mills⁻¹(λ)`` the bound is ``½ λᵀGλ - oᵀλ + Σ (t λ + log P(Z > t) - λ²/2)``, strictly
    convex in ``λ > 0``, with the gradient ``Gλ - o + t - λ``. The step is taken in ``t``, in which the gradient is
    nearly linear both for idle constraints (``t → -∞``, ``λ → 0``) and for binding ones (``λ ≈ t``).
    """
    G = M @ M.T

    def bound(t: Float[ndarray, " s"]) -> tuple[Float[ndarray, " s"], Float[ndarray, " s"], float]:
        rate = mean_above(t)
        pull = G @ rate
        value = 0.5 * rate @ pull - offsets @ rate + np.sum(t * rate + log_tail(t) - rate**2 / 2)
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
