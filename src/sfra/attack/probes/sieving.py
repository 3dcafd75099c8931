"""Compiled sieve of the weighted stream: rule out at a glance the pairs of draw and class that give no candidate.

Class ``k`` takes a draw when ``P(Z > lo) >= bound_k (1 - U)``, that is ``lo <= tau``: when no logit exceeds the class's
own at ``t = tau``. A few of the largest logits, the leaders, rule out nearly every pair that fails. Nothing that
passes is lost: ``tau`` is rounded up, and the comparison has slack.
"""

from __future__ import annotations

from typing import no_type_check

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from sfra.core.cpu import compiled

kernel = compiled(fastmath={"contract", "reassoc", "nnan", "nsz"}, error_model="numpy")

LANES = 32
"""Columns of logits come in multiples of this, filled up with classes that never win; so do the classes of a sieve."""

SMALL = np.float32(-1e30)
_ZERO, _ONE, _TINY = np.float32(0.0), np.float32(1.0), np.float32(3e-7)
_DROPPED, _LEAST_EXPONENT = np.int32(16), 63
_FIRST = np.int32((127 - _LEAST_EXPONENT) << (23 - _DROPPED))


def tau_table() -> Float[ndarray, " bins"]:
    """Return the largest ``tau`` with ``P(Z > tau) >= p`` for the least ``p`` of each bin, that is of equal first bits.

    >>> taus = tau_table()
    >>> len(taus), [round(tau, 2) for tau in taus[-2:].tolist()]  # just below 1, and from 1 on
    (8065, [-2.66, -40.0])
    """
    from scipy.special import ndtri

    least = (np.arange(_FIRST, (127 << 23 - _DROPPED) + 1, dtype=np.int32) << _DROPPED).view(np.float32).astype(float)
    least[0] = 0.0
    with np.errstate(divide="ignore"):
        return np.asarray(np.clip(-ndtri(least), -40.0, 40.0) + 1e-5, np.float32)


@kernel
@no_type_check
def find(bits, keys, found):
    """Find in each of ``len(found)`` sets of classes the one of the largest logit, or nearly so; ``bits`` are theirs.

    The last bits of a float are given up for the number of the class. Ordered as integers, positive floats keep their
    order, and the largest carries its number along.
    """
    number = np.int32(1)
    while number < len(bits):
        number = np.int32(2 * number)
    number = np.int32(number - 1)
    kept, width = np.int32(~number), len(bits) // 2
    upper = bits[width:]
    for j in range(width):
        low, high = np.int32((bits[j] & kept) | np.int32(j)), np.int32((upper[j] & kept) | np.int32(j + width))
        keys[j] = max(low, high)
    while width > len(found):
        half = (width + 1) // 2
        other = keys[half:]
        for j in range(width - half):
            keys[j] = max(keys[j], other[j])
        width = half
    for g in range(len(found)):
        found[g] = keys[min(g, width - 1)] & number


@kernel
@no_type_check
def sieve(z, lines, first, shares, phases, bounds, taus, slack, leaders, tops, alive):
    """Mark in ``alive`` [B, n] the pairs of ``n`` classes from ``first`` on that may give a candidate.

    ``n`` is a multiple of ``LANES``. The leaders [B, L] and their logits, ``tops``, are found on the way.
    """
    gram, lengths, bias = lines
    (B, P), n, last = z.shape, alive.shape[1], np.int32(len(taus) - 1)
    y, limit, best = np.empty(n, np.float32), np.empty(n, np.float32), np.empty(n, np.float32)
    keys, found, bits = np.empty(P, np.int32), np.empty(n, np.int32), z.view(np.int32)
    own, length, shift, bound = z[:, first:], lengths[first:], bias[first:], bounds[first:]
    phase = phases[first:]
    for i in range(B):
        find(bits[i], keys, leaders[i])
        rest = np.float32(1.0 - shares[i]) - _TINY
        for c in range(n):
            left = rest - phase[c]
            least = bound[c] * max(left if left >= -_TINY else left + _ONE, _ZERO)
            found[c] = min(max(np.int32((np.float32(least).view(np.int32) >> _DROPPED) - _FIRST), np.int32(0)), last)
        for c in range(n):
            limit[c] = taus[found[c]]
        for c in range(n):
            tau, inverse = limit[c], _ONE / length[c]
            y[c] = (tau - (own[i, c] - shift[c]) * inverse) * inverse
            limit[c] = length[c] * tau + shift[c] + slack
            best[c] = SMALL
        for g in range(0, leaders.shape[1], 4):
            j0, j1, j2, j3 = leaders[i, g], leaders[i, g + 1], leaders[i, g + 2], leaders[i, g + 3]
            z0, z1, z2, z3 = z[i, j0], z[i, j1], z[i, j2], z[i, j3]
            tops[i, g], tops[i, g + 1], tops[i, g + 2], tops[i, g + 3] = z0, z1, z2, z3
            g0, g1, g2, g3 = gram[j0, first:], gram[j1, first:], gram[j2, first:], gram[j3, first:]
            for c in range(n):
                one = max(z0 + y[c] * g0[c], z1 + y[c] * g1[c])
                two = max(z2 + y[c] * g2[c], z3 + y[c] * g3[c])
                best[c] = max(best[c], max(one, two))
        for c in range(n):
            alive[i, c] = best[c] <= limit[c]
