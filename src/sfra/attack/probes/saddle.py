"""The two choices that make a tilted proposal good: the order of the constraints, and the saddle point.

Neither matters for exactness (see :mod:`sfra.attack.probes.tilting`); both decide how many proposals are accepted.
"""

from __future__ import annotations

import math
from typing import no_type_check

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from sfra.attack.probes.linear import reflect
from sfra.attack.probes.normals import kernel, mills, upper

CHECKED = 0.03
"""A constraint expected to fail less often than this is checked, not tilted: that costs less than it saves."""

_INDEPENDENT = 1e-6
_NEWTON_STEPS = 100
_DECREMENT = 1e-9
_LARGE = 1e12


@kernel
@no_type_check
def triangularise(rows, offsets, order, limit):
    """Bring up to ``limit`` constraints to the front, most likely to fail first, and triangularise them.

    Gibson's order: each next one is the least likely, given the coordinates before at their expected values. Below
    the constraints ``rows`` holds an identity, which the reflections turn into the basis. Returns how many
    constraints lead, and for the rest the expected distance inside, in standard deviations.
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
    return s, scores


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


def mean_above_inverse(rate: Float[ndarray, " s"], t: Float[ndarray, " s"]) -> Float[ndarray, " s"]:
    """Return the ``t`` with ``mean_above(t) = rate``, from a ``t`` that is not above it.

    Newton's method on the logarithm, which is concave and increasing: the iterates rise to the solution.
    """
    t = np.maximum(t, np.where(rate > 1.0, rate - 1.0 / np.maximum(rate, 1.0), -np.inf))
    for _ in range(_NEWTON_STEPS):
        mean = mean_above(t)
        step = np.log(rate / mean) / np.maximum(mean - t, 1.0 / _LARGE)
        t = t + step
        if np.abs(step).max(initial=0.0) < 1e-10:
            break
    return t


def _flatness(t: Float[ndarray, " s"], rate: Float[ndarray, " s"]) -> Float[ndarray, " s"]:
    """Return ``1 - d mean_above(t) / dt``, far out by its asymptotic series (the difference would cancel)."""
    w = 1.0 / np.maximum(t, 30.0) ** 2
    series = w * (1.0 - 6.0 * w + 50.0 * w * w)
    return np.asarray(np.where(t > 30.0, series, np.clip(1.0 - rate * (rate - t), 1.0 / _LARGE, 1.0)))


def saddle_point(M: Float[ndarray, "s s"], offsets: Float[ndarray, " s"]) -> Float[ndarray, " s"]:
    """Return the ``t`` whose multipliers ``λ = mean_above(t)`` minimise the bound, by a damped Newton method.

    With ``G = M Mᵀ`` the bound is ``½ λᵀGλ - oᵀλ + Σ (t λ + log P(Z > t) - λ²/2)``, strictly convex in ``λ > 0``, with
    the gradient ``Gλ - o + t - λ``. A multiplier that grows takes its step in ``λ``, in which valleys are straight;
    one that shrinks takes it in ``t``, in which it cannot overshoot zero.
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
        flat = _flatness(t, rate)
        root = np.sqrt(1.0 - flat)
        move = -root * np.linalg.solve(root[:, None] * G * root + np.diag(flat), root * gradient)
        if (decrement := float(-gradient @ move)) < _DECREMENT:
            break
        step = np.where(flat > 0.5, (-gradient - G @ move) / flat, move / np.maximum(1.0 - flat, 0.5))
        size = 1.0
        while True:
            trial = t + size * step
            trial[move > 0] = mean_above_inverse((rate + size * move)[move > 0], t[move > 0])
            found = bound(trial)
            if found[2] <= value - 1e-4 * size * decrement or size < 1e-8:
                break
            size /= 2
        t, (rate, pull, value) = trial, found
    return np.asarray(t)
