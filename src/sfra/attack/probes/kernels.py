"""Compiled loops of the probe stream: counter-based draws, logits, arg-max and scores, tile by tile.

A draw is a pure function of ``(seed, stream, index, coordinate)``: Philox4x32-10 turns the counter into random
bits, Box-Muller turns the bits into normals. Nothing depends on how the stream is cut into chunks or on how many
threads work on it, and a selected draw can be made again from its index alone, so none is ever stored.

Every loop runs over the draws of a tile (the last axis), which the compiler turns into vector instructions; sums
over classes and coordinates keep one fixed order. ``log``, ``sin``, ``cos`` and ``exp`` are float32 polynomials
(Chebyshev interpolants, absolute error below 1e-7), since library calls would not be vectorised.

All of it stays in one file: the cache of a compiled loop notices a change of the file that the loop is in, and none of
the files of what it calls, so that loops which call across files could go on running code that is gone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import no_type_check

import numpy as np
from numba import njit
from numpy.polynomial import Chebyshev, Polynomial
from numpy.typing import NDArray

from sfra.attack.probes.codes import ABS_GAUSSIAN, ENERGY, LAPLACE, RELU_GAUSSIAN, SOFTMAX, UNIFORM
from sfra.core.cpu import compiled

kernel = compiled(fastmath={"contract"})


def _coefficients(
    function: Callable[[NDArray[np.float64]], NDArray[np.float64]], low: float, high: float, degree: int
) -> tuple[np.float32, ...]:
    """Return the monomial coefficients of the Chebyshev interpolant of a function on an interval."""
    fit = Chebyshev.interpolate(function, degree, domain=[low, high])
    plain = fit.convert(kind=Polynomial, domain=[-1, 1], window=[-1, 1])
    return tuple(np.float32(c) for c in plain.coef)


_LOG = _coefficients(lambda m: np.log(1.5 + m), -0.5, 0.5, 9)  # log of the mantissa, 1 <= 1.5 + m < 2
_SIN = _coefficients(lambda q: 2 * math.pi * np.sinc(2 * np.sqrt(np.abs(q))), 0.0, 1 / 16, 5)  # sin(2πa)/a, q=a²
_COS = _coefficients(lambda q: np.cos(2 * math.pi * np.sqrt(np.abs(q))), 0.0, 1 / 16, 6)
EXP2 = _coefficients(np.exp2, -1.0, 0.0, 6)

_LN2 = np.float32(math.log(2.0))
_LOG2E = np.float32(1.0 / math.log(2.0))
_ROOT3 = np.float32(math.sqrt(3.0))
_ROOT_HALF = np.float32(math.sqrt(0.5))
_ZERO, _HALF, _ONE, _TWO = np.float32(0.0), np.float32(0.5), np.float32(1.0), np.float32(2.0)
_QUARTER, _ONE_AND_HALF = np.float32(0.25), np.float32(1.5)
_TO_UNIT, _TO_TURN = np.float32(2.0**-31), np.float32(2.0**-32)
_LOW32, _SHIFT32, _BIT = np.uint64(0xFFFFFFFF), np.uint64(32), np.uint64(1)
_MULTIPLIER_0, _MULTIPLIER_1 = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_WEYL_0, _WEYL_1 = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)
_MANTISSA, _EXPONENT_OF_ONE = np.int32(0x7FFFFF), np.int32(0x3F800000)
_TO_BITS, _ONE_IN_BITS, _LEAST = np.float32(2.0**23 / math.log(2.0)), np.float32(127.0 * 2.0**23), np.float32(2.0**23)
_FROM_BITS, _LINE, _CURVE = np.float32(math.log(2.0) / 2.0**23), math.log(1.0615), math.log(2.0) * 0.0861


@njit(inline="always")
@no_type_check
def philox(c0, c1, c2, c3, k0, k1):
    """Return the four 32-bit words of Philox4x32-10 (Salmon et al., 2011) for a counter and a key."""
    for _ in range(10):
        p0 = _MULTIPLIER_0 * c0
        p1 = _MULTIPLIER_1 * c2
        c0, c2 = (p1 >> _SHIFT32) ^ c1 ^ k0, (p0 >> _SHIFT32) ^ c3 ^ k1
        c1, c3 = p1 & _LOW32, p0 & _LOW32
        k0, k1 = (k0 + _WEYL_0) & _LOW32, (k1 + _WEYL_1) & _LOW32
    return c0, c1, c2, c3


@kernel
@no_type_check
def _random_words(indices, quad, stream, seed, words):
    """Fill ``words`` [4, B]: rows 0 and 2 with 31-bit, rows 1 and 3 with signed 32-bit integers."""
    k0, k1 = seed & _LOW32, seed >> _SHIFT32
    for j in range(indices.size):
        i = np.uint64(indices[j])
        w0, w1, w2, w3 = philox(i & _LOW32, i >> _SHIFT32, np.uint64(quad), np.uint64(stream), k0, k1)
        words[0, j] = np.int32(w0 >> _BIT)
        words[1, j] = np.int32(np.uint32(w1))
        words[2, j] = np.int32(w2 >> _BIT)
        words[3, j] = np.int32(np.uint32(w3))


@kernel
@no_type_check
def _negative_log(words, floats, out):
    """Set ``out = -log((words + ½) 2⁻³¹)``, at least 0; ``floats`` [2, B] is working space."""
    bits = floats.view(np.int32)
    for j in range(words.size):
        floats[0, j] = (np.float32(words[j]) + _HALF) * _TO_UNIT
    for j in range(words.size):
        bits[1, j] = (bits[0, j] & _MANTISSA) | _EXPONENT_OF_ONE
        bits[0, j] = (bits[0, j] >> np.int32(23)) - np.int32(127)
    for j in range(words.size):
        m = floats[1, j] - _ONE_AND_HALF
        p = _LOG[9]
        p = p * m + _LOG[8]
        p = p * m + _LOG[7]
        p = p * m + _LOG[6]
        p = p * m + _LOG[5]
        p = p * m + _LOG[4]
        p = p * m + _LOG[3]
        p = p * m + _LOG[2]
        p = p * m + _LOG[1]
        p = p * m + _LOG[0]
        out[j] = max(-(np.float32(bits[0, j]) * _LN2 + p), _ZERO)


@kernel
@no_type_check
def _box_muller(energy, words, first, second):
    """Turn ``energy = -log u`` and angles into two rows of independent standard normals."""
    for j in range(words.size):
        radius = np.sqrt(_TWO * energy[j])
        turn = np.float32(words[j]) * _TO_TURN
        a = abs(turn) - _QUARTER
        q = a * a
        s = _SIN[5]
        s = s * q + _SIN[4]
        s = s * q + _SIN[3]
        s = s * q + _SIN[2]
        s = s * q + _SIN[1]
        s = s * q + _SIN[0]
        c = _COS[6]
        c = c * q + _COS[5]
        c = c * q + _COS[4]
        c = c * q + _COS[3]
        c = c * q + _COS[2]
        c = c * q + _COS[1]
        c = c * q + _COS[0]
        first[j] = -radius * (s * a)
        second[j] = radius * c if turn >= _ZERO else -radius * c


@kernel
@no_type_check
def _laplace(energy, sign, out):
    """Set ``out`` to a Laplace variate of unit variance: an exponential of mean ``√½`` with a random sign."""
    for j in range(sign.size):
        out[j] = _ROOT_HALF * energy[j] if sign[j] >= 0 else -_ROOT_HALF * energy[j]


@kernel
@no_type_check
def draw_tile(indices, stream, seed, proposal, words, floats, tile):
    """Fill ``tile`` [r, B] with the draws of the given indices; coordinate ``i`` is row ``i``."""
    r = tile.shape[0]
    for quad in range((r + 3) // 4):
        _random_words(indices, quad, stream, seed, words)
        for half in range(2):
            row = 4 * quad + 2 * half
            if row >= r:
                break
            other = tile[row + 1] if row + 1 < r else floats[3]
            magnitude, angle = words[2 * half], words[2 * half + 1]
            if proposal == UNIFORM:
                for j in range(indices.size):
                    tile[row, j] = _ROOT3 * (_TWO * ((np.float32(magnitude[j]) + _HALF) * _TO_UNIT) - _ONE)
                    other[j] = _ROOT3 * (_TWO * (np.float32(angle[j]) + _HALF) * _TO_TURN)
            else:
                _negative_log(magnitude, floats, floats[2])
                if proposal == LAPLACE:
                    _laplace(floats[2], angle, tile[row])
                else:
                    _box_muller(floats[2], angle, tile[row], other)
        if proposal == LAPLACE:
            _laplace_second_half(indices, quad, stream, seed, words, floats, tile)
    if proposal == RELU_GAUSSIAN:
        for i in range(r):
            for j in range(indices.size):
                tile[i, j] = max(tile[i, j], _ZERO)
    elif proposal == ABS_GAUSSIAN:
        for i in range(r):
            for j in range(indices.size):
                tile[i, j] = abs(tile[i, j])


@kernel
@no_type_check
def _laplace_second_half(indices, quad, stream, seed, words, floats, tile):
    """Fill rows ``4 quad + 1`` and ``+ 3``: a Laplace variate takes two words, so half the rows need more bits."""
    _random_words(indices, quad, stream + 2**16, seed, words)
    for half in range(2):
        row = 4 * quad + 2 * half + 1
        if row < tile.shape[0]:
            _negative_log(words[2 * half], floats, floats[2])
            _laplace(floats[2], words[2 * half + 1], tile[row])


@kernel
@no_type_check
def affine(A, b, tile, logits):
    """Set ``logits = A tile + b``, four classes by four coordinates at a time, in a fixed order of summation."""
    C, r = A.shape
    B = tile.shape[1]
    for c in range(C):
        for j in range(B):
            logits[c, j] = b[c]
    for c in range(0, C - C % 4, 4):
        for i in range(0, r - r % 4, 4):
            a00, a01, a02, a03 = A[c, i], A[c, i + 1], A[c, i + 2], A[c, i + 3]
            a10, a11, a12, a13 = A[c + 1, i], A[c + 1, i + 1], A[c + 1, i + 2], A[c + 1, i + 3]
            a20, a21, a22, a23 = A[c + 2, i], A[c + 2, i + 1], A[c + 2, i + 2], A[c + 2, i + 3]
            a30, a31, a32, a33 = A[c + 3, i], A[c + 3, i + 1], A[c + 3, i + 2], A[c + 3, i + 3]
            for j in range(B):
                u0, u1, u2, u3 = tile[i, j], tile[i + 1, j], tile[i + 2, j], tile[i + 3, j]
                logits[c, j] = logits[c, j] + a00 * u0 + a01 * u1 + a02 * u2 + a03 * u3
                logits[c + 1, j] = logits[c + 1, j] + a10 * u0 + a11 * u1 + a12 * u2 + a13 * u3
                logits[c + 2, j] = logits[c + 2, j] + a20 * u0 + a21 * u1 + a22 * u2 + a23 * u3
                logits[c + 3, j] = logits[c + 3, j] + a30 * u0 + a31 * u1 + a32 * u2 + a33 * u3
        for i in range(r - r % 4, r):
            for j in range(B):
                u = tile[i, j]
                logits[c, j] += A[c, i] * u
                logits[c + 1, j] += A[c + 1, i] * u
                logits[c + 2, j] += A[c + 2, i] * u
                logits[c + 3, j] += A[c + 3, i] * u
    for c in range(C - C % 4, C):
        for i in range(r):
            for j in range(B):
                logits[c, j] += A[c, i] * tile[i, j]


@kernel
@no_type_check
def top_two(logits, first, second, label):
    """Find the largest logit of each draw, its class (the lowest index on a tie) and the runner-up."""
    C, B = logits.shape
    for j in range(B):
        first[j], second[j], label[j] = logits[0, j], -np.inf, 0
    for c in range(1, C):
        this = np.int32(c)
        for j in range(B):
            value, best = logits[c, j], first[j]
            lower = min(value, best)
            second[j] = lower if lower > second[j] else second[j]
            label[j] = this if value > best else label[j]
            first[j] = max(value, best)


@kernel
@no_type_check
def bound_log_odds(logits, first, second, floats, least, most):
    """Enclose the log-odds of each draw to within 0.13, without an exponential.

    The straight line between powers of two exceeds ``2^x`` by a factor of at most 1.0615, and ``log2`` exceeds the line
    between its whole values by at most 0.0861. The winner counts as the runner-up, exactly 1, and is taken off again.
    """
    C, B = logits.shape
    bits = floats.view(np.int32)
    rounding = 1e-3 + 2e-7 * C
    more, less = np.float32(_LINE + rounding), np.float32(_CURVE + rounding)
    for j in range(B):
        floats[0, j] = _ZERO
    for c in range(C):
        for j in range(B):
            x = min(logits[c, j] - second[j], _ZERO)
            floats[0, j] += np.int32(max(x * _TO_BITS + _ONE_IN_BITS, _LEAST)).view(np.float32)
    for j in range(B):
        floats[0, j] -= _ONE
    for j in range(B):
        gap, line = first[j] - second[j], np.float32(bits[0, j] - _EXPONENT_OF_ONE) * _FROM_BITS
        least[j], most[j] = gap - (line + less), gap - (line - more)


@kernel
@no_type_check
def rest_sums(logits, B, second, label, floats, total, weighted):
    """Sum over the classes that lost, ``x = logit - runner-up <= 0``: ``total = Σ eˣ``, ``weighted = Σ x eˣ``.

    Only the first ``B`` columns are looked at.
    """
    C = logits.shape[0]
    bits = floats.view(np.int32)
    for j in range(B):
        total[j] = _ZERO
        weighted[j] = _ZERO
    for c in range(C):
        this = np.int32(c)
        for j in range(B):
            x = min(max((logits[c, j] - second[j]) * _LOG2E, np.float32(-126.0)), _ZERO)
            whole = np.int32(x)
            f = x - np.float32(whole)
            p = EXP2[6]
            p = p * f + EXP2[5]
            p = p * f + EXP2[4]
            p = p * f + EXP2[3]
            p = p * f + EXP2[2]
            p = p * f + EXP2[1]
            p = p * f + EXP2[0]
            floats[0, j] = p if this != label[j] else _ZERO
            bits[1, j] = (whole + np.int32(127)) << np.int32(23)
            floats[2, j] = x
        for j in range(B):
            e = floats[0, j] * floats[1, j]
            total[j] += e
            weighted[j] += floats[2, j] * e
    for j in range(B):
        weighted[j] *= _LN2


@kernel
@no_type_check
def sureness(score, first, second, total, weighted):
    """Return how sure the head is of one draw; higher is surer. See :mod:`sfra.attack.probes.scores`."""
    log_odds = first - second - np.log(total)
    if score == SOFTMAX:
        return log_odds
    rest = np.exp(-log_odds)  # the losers' mass relative to the winner's
    if score == ENERGY:
        return first + np.log1p(rest)
    spread = first - second - weighted / total  # mean logit gap to the winner among the losers
    if rest < 1e-6:
        return log_odds - np.log1p(spread)
    return -np.log(np.log1p(rest) + rest / (_ONE + rest) * spread)


@kernel
@no_type_check
def scan_draws(start, stop, A, b, seed, proposal, score, high, low, width, counts, offset, label_out, score_out, rank):
    """Route the draws ``start`` to ``stop`` to their classes and emit those that may be extreme.

    A draw of class ``k`` is emitted when its score is at least ``high[k]`` or at most ``low[k]``: its offset from
    ``start``, label, score and its rank among the chunk's draws of that class. ``counts`` receives the number of
    draws per class. Returns the number of emitted draws.
    """
    C, r = A.shape
    indices = np.empty(width, np.int64)
    words, floats = np.empty((4, width), np.int32), np.empty((4, width), np.float32)
    tile, logits = np.empty((r, width), np.float32), np.empty((C, width), np.float32)
    first, second = np.empty(width, np.float32), np.empty(width, np.float32)
    total, weighted = np.empty(width, np.float32), np.empty(width, np.float32)
    least, most = np.empty(width, np.float32), np.empty(width, np.float32)
    label, near, ordinal = np.empty(width, np.int32), np.empty(width, np.int32), np.empty(width, np.int32)
    emitted = 0
    for base in range(start, stop, width):
        for j in range(width):
            indices[j] = base + j
        draw_tile(indices, 0, seed, proposal, words, floats, tile)
        affine(A, b, tile, logits)
        top_two(logits, first, second, label)
        if score == SOFTMAX:
            bound_log_odds(logits, first, second, floats, least, most)
        found = 0
        for j in range(min(width, stop - base)):
            k = label[j]
            if score != SOFTMAX or not (most[j] < high[k] and least[j] > low[k]):
                near[found], ordinal[found] = j, counts[k]
                found += 1
            counts[k] += 1
        for i in range(found):
            j = near[i]
            first[i], second[i], label[i] = first[j], second[j], label[j]
        for c in range(C):
            for i in range(found):
                logits[c, i] = logits[c, near[i]]
        rest_sums(logits, found, second, label, floats, total, weighted)
        for i in range(found):
            k, q = label[i], np.float32(sureness(score, first[i], second[i], total[i], weighted[i]))
            if q >= high[k] or q <= low[k]:
                offset[emitted] = base + near[i] - start
                label_out[emitted] = k
                score_out[emitted] = q
                rank[emitted] = ordinal[i]
                emitted += 1
    return emitted


@kernel
@no_type_check
def make_draws(indices, stream, seed, proposal, out):
    """Make the draws of arbitrary indices again, one per row of ``out`` [n, r]."""
    width = 64
    n, r = out.shape
    block = np.empty(width, np.int64)
    words, floats = np.empty((4, width), np.int32), np.empty((4, width), np.float32)
    tile = np.empty((r, width), np.float32)
    for base in range(0, n, width):
        for j in range(width):
            block[j] = indices[min(base + j, n - 1)]
        draw_tile(block, stream, seed, proposal, words, floats, tile)
        for j in range(min(width, n - base)):
            for i in range(r):
                out[base + j, i] = tile[i, j]
