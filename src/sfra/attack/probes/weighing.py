"""Compiled loops of the weighted stream: which draws serve which classes, where on their line, and how sure.

Rows ``a_k`` are centred, ``n_k = |a_k|``, ``G = A Aᵀ``, and ``z = A u + b``. Along the line ``u + (t - t0) a_k / n_k``,
with ``t0 = (z_k - b_k) / n_k``, the logits are ``z_j + (t - t0) G_kj / n_k``. Class ``k`` wins from ``t = lo`` on,

    lo = t0 + max_j (z_j - z_k) / D_kj,        D_kj = (n_k² - G_kj) / n_k > 0;

where a ``D_kj`` is negative, ``hi = t0 + min_j (z_j - z_k) / D_kj`` over those ends the interval. A draw is asked by
class ``k`` whether ``P(lo < Z < hi) >= bound_k (1 - U)`` for a uniform ``U``; without upper ends this is ``lo <= tau``.
That is decided without a division: it holds when no logit exceeds the class's own at ``t = tau``. A few of the largest
logits rule out nearly every pair that fails, and only the rest are looked at in full.

Every loop over classes runs over whole rows, into working space: so it becomes vector instructions. Log-odds take one
exponential per class. Cheap bounds come first: the straight line between powers of two exceeds
``2^x`` by at most a factor of 1.0615, so a sum of such lines gives the log-odds to within 0.06.
"""

from __future__ import annotations

import math
from typing import no_type_check

import numpy as np

from sfra.attack.probes.kernels import EXP2, philox
from sfra.attack.probes.normals import quantile, upper
from sfra.core.cpu import compiled

kernel = compiled(fastmath={"contract", "reassoc", "nnan", "nsz"}, error_model="numpy")

ACCEPT, PILOT, PLACE = 2, 3, 4
"""Streams of random numbers: who takes a draw, the draws of the pilot, and where on its line a candidate lies."""

CLOSED, RAY, INTERVAL = range(3)
"""Kinds of class: not asked; wins from ``lo`` on; wins between ``lo`` and ``hi``."""

BINS = 256
"""Steps of the table that gives ``tau`` for a uniform number, rounded up."""

LEADERS = 16
"""Logits that a pair is checked against first: the largest of as many sets of classes."""

PILOT_LEADERS = 256
"""The same for the pilot, which looks at no others."""

LANES = 32
"""Columns of logits come in multiples of this, filled up with classes that never win."""

COPIES = 4
"""Most candidates that one draw gives a class; with bounds that are fit for use, more are asked for once in 10^6."""

SMALL = np.float32(-1e30)
_LOG2E, _LOWEST = np.float32(1.0 / math.log(2.0)), np.float32(-126.0)
_EXPONENT, _BIAS, _LEAST = np.float32(2.0**23), np.float32(127.0), np.float32(1.0)
_ERROR, FAR = 1e-3, 80.0  # of a sum in float32; beyond FAR its terms are cut off
_ALMOST_ONE = 1.0 - 2.0**-53
LINE = math.log(1.0615) + _ERROR
_LOW32, _SHIFT32, _11 = np.uint64(0xFFFFFFFF), np.uint64(32), np.uint64(11)


@kernel
@no_type_check
def uniform_at(index, word, stream, seed):
    """Return the uniform number in (0, 1) of a counter."""
    i = np.uint64(index)
    k0, k1 = seed & _LOW32, seed >> _SHIFT32
    w0, w1, _, _ = philox(i & _LOW32, i >> _SHIFT32, np.uint64(word), np.uint64(stream), k0, k1)
    return (np.float64(((w0 << _SHIFT32) | w1) >> _11) + 0.5) * 2.0**-53


@kernel
@no_type_check
def _fold(values, most):
    """Return the largest of ``values``, whose length is a multiple of ``LANES``; they are used up."""
    width = most
    while width % 2 == 0 and width > 16:
        width //= 2
        for j in range(width):
            values[j] = max(values[j], values[j + width])
    best = values[0]
    for j in range(1, width):
        best = max(best, values[j])
    return best


@kernel
@no_type_check
def _leaders(bits, keys, found):
    """Find in each of ``len(found)`` sets of classes the one of the largest logit, or nearly so; ``bits`` are theirs.

    The last bits of a float are given up for the number of the class. Ordered as integers, positive floats keep their
    order, and the largest carries its number along.
    """
    mask = np.int32(1)
    while mask < len(bits):
        mask = np.int32(2 * mask)
    mask -= np.int32(1)
    width = len(bits) // 2
    for j in range(width):
        keys[j] = max((bits[j] & ~mask) | np.int32(j), (bits[j + width] & ~mask) | np.int32(j + width))
    while width > len(found):
        half = (width + 1) // 2
        for j in range(width - half):
            keys[j] = max(keys[j], keys[j + half])
        width = half
    for g in range(len(found)):
        found[g] = keys[min(g, width - 1)] & mask


@kernel
@no_type_check
def _start(z, steepness, own, values):
    """Return ``max_j (z_j - own) steepness_j``; there are two halves, to begin with half the work done."""
    half = len(z) // 2
    for j in range(half):
        values[j] = max((z[j] - own) * steepness[j], (z[j + half] - own) * steepness[j + half])
    return _fold(values, half)


@kernel
@no_type_check
def _largest(z, row, y, values):
    """Return ``max_j z_j + y row_j``."""
    for j in range(len(z)):
        values[j] = z[j] + y * row[j]
    return _fold(values, len(z))


@kernel
@no_type_check
def interval(z, row, own, square):
    """Return the largest ratio over positive and the smallest over negative denominators, ``(z_j - own) / (…)``."""
    low, high = SMALL, -SMALL
    for j in range(len(z)):
        below = square - row[j]
        if z[j] > SMALL:
            ratio = (z[j] - own) / below
            low = max(low, ratio) if below > 0.0 else low
            high = min(high, ratio) if below < 0.0 else high
    return low, high


@kernel
@no_type_check
def between(low, high):
    """Return ``P(low < Z < high)`` for a standard normal ``Z``, 0 if the interval is empty."""
    if low >= high:
        return 0.0
    if high == np.inf:
        return upper(low)
    return upper(low) - upper(high) if low > 0.0 else upper(-high) - upper(-low)


@kernel
@no_type_check
def draw_between(low, high, weight, u):
    """Return the ``1 - u``-quantile of ``Z`` given ``low < Z < high``, where ``weight = between(low, high)``."""
    if low > 0.0:
        return min(max(low, -quantile((upper(high) if high < np.inf else 0.0) + u * weight)), high)
    return min(max(low, quantile(min(upper(-low) + (1.0 - u) * weight, _ALMOST_ONE))), high)


@kernel
@no_type_check
def line_sum(z, row, y, own, values, bits):
    """Return the sum over ``j`` of a bound of ``exp(z_j + y row_j - own)`` that is at most 1.0615 times too large."""
    scale, offset = y * _LOG2E, _BIAS - own * _LOG2E
    for j in range(len(z)):
        bits[j] = np.int32(max(z[j] * _LOG2E + (scale * row[j] + offset), _LEAST) * _EXPONENT)
    total = np.float32(0.0)
    for j in range(len(z)):
        total += values[j]
    return total


@kernel
@no_type_check
def log_sum(z, row, y, values, bits, powers):
    """Return ``log Σ_j exp(z_j + y row_j)``."""
    top = _largest(z, row, y, values)
    for j in range(len(z)):
        x = min(max((z[j] + y * row[j] - top) * _LOG2E, _LOWEST), np.float32(0.0))
        whole = np.int32(x)
        f = x - np.float32(whole)
        p = EXP2[6]
        p = p * f + EXP2[5]
        p = p * f + EXP2[4]
        p = p * f + EXP2[3]
        p = p * f + EXP2[2]
        p = p * f + EXP2[1]
        p = p * f + EXP2[0]
        powers[j] = p
        bits[j] = (whole + np.int32(127)) << np.int32(23)
    total = np.float32(0.0)
    for j in range(len(z)):
        total += values[j] * powers[j]
    return np.float64(top) + math.log(total)


@kernel
@no_type_check
def sieve(z, first, seed, lines, start, stop, kinds, phases, taus, slack, alive):
    """Mark in ``alive`` [classes, B] the pairs of classes ``start`` to ``stop`` that the leaders do not rule out."""
    gram, lengths, bias = lines
    B, P = z.shape
    n = stop - start
    y, limit, best = np.empty(n, np.float32), np.empty(n, np.float32), np.empty(n, np.float32)
    keys, found, bits = np.empty(P, np.int32), np.empty(LEADERS, np.int64), z.view(np.int32)
    for i in range(B):
        share = uniform_at(first + i, 0, ACCEPT, seed)
        _leaders(bits[i], keys, found)
        for c in range(n):
            k = start + c
            u = share + phases[k]
            tau = taus[k, int((u - math.floor(u)) * BINS)]
            y[c] = (tau - (z[i, k] - bias[k]) / lengths[k]) / lengths[k]
            limit[c] = lengths[k] * tau + bias[k] + slack
            best[c] = SMALL
        for g in range(0, LEADERS, 4):
            j0, j1, j2, j3 = found[g], found[g + 1], found[g + 2], found[g + 3]
            z0, z1, z2, z3 = z[i, j0], z[i, j1], z[i, j2], z[i, j3]
            g0, g1, g2, g3 = gram[j0], gram[j1], gram[j2], gram[j3]
            for c in range(n):
                k = start + c
                one = max(z0 + y[c] * g0[k], z1 + y[c] * g1[k])
                two = max(z2 + y[c] * g2[k], z3 + y[c] * g3[k])
                best[c] = max(best[c], max(one, two))
        for c in range(n):
            kind = kinds[start + c]
            alive[c, i] = kind == INTERVAL or (kind == RAY and best[c] <= limit[c])


@kernel
@no_type_check
def weigh(
    z, first, seed, lines, start, stop, kinds, phases, bounds, narrowest, rounding, high, low, alive, counts, repeats,
    draw_out, label_out, place_out, score_out, rank_out, emitted
):  # fmt: skip
    """Draw the candidates of the classes ``start`` to ``stop`` from one tile, ``z`` [B, P], and emit the extreme.

    A draw of weight ``w`` gives class ``k`` the whole part of ``w / bound_k + U`` candidates: one or none while the
    weight is below the bound. ``counts`` and ``repeats`` take up the candidates and those that are not the first of
    their draw; ``draw_out`` and its like those that may be extreme, from position ``emitted`` on. Returns their end.
    """
    gram, lengths, bias = lines
    B, P = z.shape
    values, powers, steepness = np.empty(P, np.float32), np.empty(P, np.float32), np.empty(P, np.float32)
    bits = values.view(np.int32)
    for k in range(start, stop):
        row, square, length = gram[k], gram[k, k], np.float64(lengths[k])
        for j in range(P):
            steepness[j] = np.float32(1.0) / (square - row[j])
        steepness[k] = np.float32(1.0)
        for i in range(B):
            if not alive[k - start, i]:
                continue
            u = uniform_at(first + i, 0, ACCEPT, seed) + phases[k]
            u -= math.floor(u)
            own, z[i, k] = z[i, k], SMALL
            t0, end = np.float64(own - bias[k]) / length, np.inf
            if kinds[k] == INTERVAL:
                ends = interval(z[i], row, own, square)
                begin, end = t0 + ends[0] * length, t0 + ends[1] * length
            else:
                begin = t0 + _start(z[i], steepness, own, values) * length
            weight = between(begin, end)
            for copy in range(min(int(weight / bounds[k] + u), COPIES)):
                t = draw_between(begin, end, weight, uniform_at(first + i, k, PLACE + copy, seed))
                y, mine = np.float32((t - t0) / length), np.float32(length * t + bias[k])
                close = narrowest[k] * (t - begin) / length <= rounding
                if close and mine - _largest(z[i], row, y, values) <= rounding:
                    continue
                rank = counts[k]
                counts[k] += 1
                repeats[k] += copy > 0
                least = -math.log(line_sum(z[i], row, y, mine, values, bits))
                if least < FAR and least + LINE < high[k] and least - _ERROR > low[k]:
                    continue
                score = np.float32(mine - log_sum(z[i], row, y, values, bits, powers))
                if score >= high[k] or score <= low[k]:
                    draw_out[emitted], label_out[emitted], place_out[emitted] = first + i, k, t
                    score_out[emitted], rank_out[emitted] = score, rank
                    emitted += 1
            z[i, k] = own
    return emitted


@kernel
@no_type_check
def weigh_pilot(z, lines, kinds, weights):
    """Set ``weights`` [B, C] of a tile; for rays from the largest logits of many sets, which is seldom too much."""
    gram, lengths, bias = lines
    B, P = z.shape
    C = weights.shape[1]
    squares, best = np.empty(P, np.float32), np.empty(P, np.float32)
    keys, found, bits = np.empty(P, np.int32), np.empty(min(P // 2, PILOT_LEADERS), np.int64), z.view(np.int32)
    for k in range(P):
        squares[k] = gram[k, k]
    for i in range(B):
        _leaders(bits[i], keys, found)
        best[:] = SMALL
        for j in found:
            mine, row = z[i, j], gram[j]
            for k in range(P):
                below = squares[k] - row[k]
                ratio = (mine - z[i, k]) / (below if below > 0.0 else np.float32(1.0))
                best[k] = max(best[k], ratio if below > 0.0 else SMALL)
        for k in range(C):
            own, length = z[i, k], np.float64(lengths[k])
            low, high = np.float64(best[k]), np.inf
            if kinds[k] == INTERVAL:
                z[i, k] = SMALL
                ends = interval(z[i], gram[k], own, squares[k])
                low, high = np.float64(ends[0]), np.float64(ends[1])
                z[i, k] = own
            t0 = np.float64(own - bias[k]) / length
            weights[i, k] = between(t0 + low * length, t0 + high * length) if kinds[k] != CLOSED else 0.0
