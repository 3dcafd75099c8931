"""Compiled loops of the weighted stream: which draws serve which classes, where on their line, and how sure.

Rows ``a_k`` are centred, ``n_k = |a_k|``, ``G = A Aᵀ``, and ``z = A u + b``. Along the line ``u + (t - t0) a_k / n_k``,
with ``t0 = (z_k - b_k) / n_k``, the logits are ``z_j + (t - t0) G_kj / n_k``. Class ``k`` wins from ``t = lo`` on,

    lo = t0 + max_j (z_j - z_k) / D_kj,        D_kj = (n_k² - G_kj) / n_k > 0;

where a ``D_kj`` is negative, ``hi = t0 + min_j (z_j - z_k) / D_kj`` over those ends the interval. A draw is asked by
class ``k`` whether ``P(lo < Z < hi) >= bound_k (1 - U)`` for a uniform ``U``; without upper ends this is ``lo <= tau``.
The sieve leaves few pairs that fail; of the rest the leaders, a few of the largest logits, nearly always know ``lo``.
So a candidate ``t`` is drawn with their ``lo``, and a single pass over the classes shows that no logit exceeds the
class's own there, and bounds the log-odds at ``t``. Only where one does is ``lo`` looked for among all.

Every loop over classes runs over rows, so it becomes vector instructions. Log-odds take one
exponential per class. Cheap bounds come first: the straight line between powers of two exceeds
``2^x`` by at most a factor of 1.0615, so a sum of such lines gives the log-odds to within 0.06.
"""

from __future__ import annotations

import math
from typing import no_type_check

import numpy as np

from sfra.attack.probes.kernels import EXP2, philox
from sfra.attack.probes.mixing import SIZE, mix
from sfra.attack.probes.normals import quantile, upper
from sfra.attack.probes.sieving import LANES, SMALL, find, sieve
from sfra.core.cpu import compiled

kernel = compiled(fastmath={"contract", "reassoc", "nnan", "nsz"}, error_model="numpy")

ACCEPT, PILOT, PLACE = 2, 3, 4
"""Streams of random numbers: who takes a draw, the draws of the pilot, and where on its line a candidate lies."""

CLOSED, RAY, INTERVAL = range(3)
"""Kinds of class: not asked; wins from ``lo`` on; wins between ``lo`` and ``hi``."""

BINS = 256
"""Steps of a GPU's table that gives ``tau`` for a uniform number, rounded up."""

LEADERS = 16
"""Logits that a pair is checked against first: the largest of as many sets of classes."""

PILOT_LEADERS = 256
"""The same for the pilot, which looks at no others."""

_BLOCK = 512
"""Classes whose logits are summed at a time, for all pairs of a group, so that they stay in the cache."""

COPIES = 4
"""Most candidates that one draw gives a class; with bounds that are fit for use, more are asked for once in 10^6."""

_LOG2E, _LOWEST = np.float32(1.0 / math.log(2.0)), np.float32(-126.0)
_TO_BITS, _ONE_IN_BITS, _LEAST = np.float32(2.0**23 / math.log(2.0)), np.float32(127.0 * 2.0**23), np.float32(2.0**23)
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
def _start(z, row, own, square, values):
    """Return ``max_j (z_j - own) / (square - row_j)``."""
    for j in range(len(z)):
        values[j] = (z[j] - own) / (square - row[j])
    return _fold(values, len(z))


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
def line_sum(z, row, y, own, guess):
    """Sum over ``j`` a bound of ``exp(z_j + y row_j - own)`` that is at most 1.0615 times too large.

    Returns it, and the largest ``z_j + guess row_j`` (0 if all are negative).
    """
    scale, offset = y * _TO_BITS, _ONE_IN_BITS - own * _TO_BITS
    total, top = np.float32(0.0), np.int32(0)
    for j in range(len(z)):
        total += np.int32(max(z[j] * _TO_BITS + (scale * row[j] + offset), _LEAST)).view(np.float32)
        top = max(top, np.float32(z[j] + guess * row[j]).view(np.int32))  # positive floats keep their order
    return total, np.int32(top).view(np.float32)


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
def _guess(z, first, seed, lines, start, stop, kinds, shares, phases, bounds, leaders, tops, alive, pairs, ends):
    """List the pairs that may give a candidate: draw, class, whether to look closer, and in ``ends`` ``lo`` and ``t``.

    ``lo`` is the start among the leaders, and ``t`` the candidate if it is the true one. Returns how many there are.
    """
    gram, lengths, bias = lines
    found = 0
    for k in range(start, stop):
        row, square, length = gram[k], gram[k, k], np.float64(lengths[k])
        for i in range(len(z)):
            if kinds[k] == CLOSED or (kinds[k] == RAY and not alive[i, k - start]):
                continue
            number, begin, weight = COPIES, 0.0, 0.0
            if kinds[k] == RAY:
                best = SMALL
                for g in range(leaders.shape[1]):
                    j = leaders[i, g]
                    best = max(best, (tops[i, g] - z[i, k]) / (square - row[j]) if j != k else SMALL)
                begin = np.float64(z[i, k] - bias[k]) / length + best * length
                u = shares[i] + phases[k]
                weight = upper(begin)
                number = int(weight / bounds[k] + (u - math.floor(u)))
                if number == 0:
                    continue
            pairs[found, 0], pairs[found, 1], pairs[found, 2] = i, k, number > 1
            if number == 1:
                ends[found, 0] = begin
                ends[found, 1] = draw_between(begin, np.inf, weight, uniform_at(first + i, k, PLACE, seed))
            found += 1
    return found


@kernel
@no_type_check
def _sums(z, lines, pairs, ends, sums):
    """Set ``sums`` of every pair: a bound of the losers' mass at ``t``, and the lead of the best of them at ``lo``."""
    gram, lengths, bias = lines
    for first in range(0, z.shape[1], _BLOCK):
        part = slice(first, first + _BLOCK)
        for p in range(len(pairs)):
            if pairs[p, 2]:
                continue
            i, k, length = pairs[p, 0], pairs[p, 1], np.float64(lengths[pairs[p, 1]])
            own = z[i, k]
            t0 = np.float64(own - bias[k]) / length
            y, guess = np.float32((ends[p, 1] - t0) / length), np.float32((ends[p, 0] - t0) / length)
            z[i, k] = SMALL
            total, top = line_sum(z[i, part], gram[k, part], y, np.float32(length * ends[p, 1] + bias[k]), guess)
            z[i, k] = own
            sums[p, 0] = sums[p, 0] + total if first > 0 else total
            sums[p, 1] = max(sums[p, 1], top) if first > 0 else top
    for p in range(len(pairs)):
        k = pairs[p, 1]
        sums[p, 1] -= np.float32(lengths[k] * ends[p, 0] + bias[k])


@kernel
@no_type_check
def weigh(
    z, first, seed, lines, start, stop, kinds, shares, phases, bounds, narrowest, rounding, high, low, leaders, tops,
    alive, counts, repeats, draw_out, label_out, place_out, score_out, rank_out, emitted
):  # fmt: skip
    """Draw the candidates of the classes ``start`` to ``stop`` from one tile, ``z`` [B, P], and emit the extreme.

    A draw of weight ``w`` gives class ``k`` the whole part of ``w / bound_k + U`` candidates: one or none while the
    weight is below the bound. ``counts`` and ``repeats`` take up the candidates and those that are not the first of
    their draw; ``draw_out`` and its like those that may be extreme, from position ``emitted`` on. Returns their end.

    Nearly always the leaders know the start of the ray; one pass over the classes says so, and bounds the log-odds.
    """
    gram, lengths, bias = lines
    B, P = z.shape
    values, powers = np.empty(P, np.float32), np.empty(P, np.float32)
    bits = values.view(np.int32)
    pairs, ends = np.empty(((stop - start) * B, 3), np.int64), np.empty(((stop - start) * B, 2))
    found = _guess(z, first, seed, lines, start, stop, kinds, shares, phases, bounds, leaders, tops, alive, pairs, ends)
    sums = np.empty((found, 2), np.float32)
    _sums(z, lines, pairs[:found], ends, sums)
    for p in range(found):
        i, k, sure = pairs[p, 0], pairs[p, 1], not pairs[p, 2] and sums[p, 1] <= rounding / 4
        row, square, length = gram[k], gram[k, k], np.float64(lengths[k])
        own, z[i, k] = z[i, k], SMALL
        t0, begin, end, number = np.float64(own - bias[k]) / length, ends[p, 0], np.inf, 1
        weight = 0.0
        if not sure:
            if kinds[k] == INTERVAL:
                both = interval(z[i], row, own, square)
                begin, end = t0 + both[0] * length, t0 + both[1] * length
            else:
                begin = t0 + _start(z[i], row, own, square, values) * length
            u = shares[i] + phases[k]
            weight = between(begin, end)
            number = min(int(weight / bounds[k] + (u - math.floor(u))), COPIES)
        for copy in range(number):
            t = ends[p, 1] if sure else draw_between(begin, end, weight, uniform_at(first + i, k, PLACE + copy, seed))
            y, mine = np.float32((t - t0) / length), np.float32(length * t + bias[k])
            close = narrowest[k] * (t - begin) / length <= 2.0 * rounding
            if close and mine - _largest(z[i], row, y, values) <= rounding:
                continue
            rank = counts[k]
            counts[k] += 1
            repeats[k] += copy > 0
            least = -math.log(sums[p, 0] if sure else line_sum(z[i], row, y, mine, y)[0])
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
def weigh_tile(
    plain, first, seed, lines, groups, kinds, phases, bounds, sieved, narrowest, margins, limits, leaders, out
):
    """Draw the candidates of all classes from one tile of plain draws; returns the number of those that may be extreme.

    Every group mixes the draws in its own way (``groups``: its edges and signs, and the offset of all logits), sieves
    and weighs them. ``out`` begins with the counts and repeats.
    """
    edges, signs, offset = groups
    slack, rounding = margins
    B, P = plain.shape
    z, work = np.empty_like(plain), np.empty((SIZE, P), np.float32)
    found, tops = np.empty((B, leaders), np.int64), np.empty((B, leaders), np.float32)
    shares = np.empty(B)
    for i in range(B):
        shares[i] = uniform_at(first + i, 0, ACCEPT, seed)
    emitted = 0
    for g in range(len(signs)):
        start, stop = edges[g], edges[g + 1]
        if not kinds[start:stop].any():
            continue
        mix(plain, signs[g], offset, work, z)
        alive = np.empty((B, -(-(stop - start) // LANES) * LANES), np.bool_)
        begin = min(start, P - alive.shape[1])
        sieve(z, lines, begin, shares, sieved[0], sieved[1], sieved[2], slack, found, tops, alive)
        emitted = weigh(
            z, first, seed, lines, start, stop, kinds, shares, phases, bounds, narrowest, rounding, limits[0],
            limits[1], found, tops, alive[:, start - begin :], out[0], out[1], out[2], out[3], out[4], out[5], out[6],
            emitted,
        )  # fmt: skip
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
        find(bits[i], keys, found)
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
