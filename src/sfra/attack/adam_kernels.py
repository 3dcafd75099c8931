"""Compiled loops over linear heads: Adam on the cross-entropy, and which samples a head gets right.

Products go by four samples and two classes: eight sums, or the shares of four samples in two rows of the gradient, are
in registers at a time. The samples are read in place, in any order. Logits and residuals have the samples of a batch
last, so that maxima, exponentials and sums over the classes run along memory and become vector instructions. Every sum
has one fixed order, whatever part of the classes or samples a call is for, so the result does not depend on the number
of threads.
"""

from __future__ import annotations

import math
from typing import no_type_check

import numpy as np
from numpy.polynomial import Chebyshev, Polynomial

from sfra.attack.adam import BETA_1, BETA_2, EPSILON
from sfra.core.cpu import compiled

SHARE, COLUMNS, ROWS = 48, 512, 12
"""Rows of the weight that stay in the second cache for all logits of a batch; columns and rows of the gradient that
stay in the first."""

_NEW_1, _NEW_2, _OLD_2 = np.float32(1 - BETA_1), np.float32(1 - BETA_2), np.float32(BETA_2)
_EPSILON, _ZERO, _ONE = np.float32(EPSILON), np.float32(0), np.float32(1)
_LOG2E, _LN2, _LOWEST = np.float32(1 / math.log(2)), math.log(2), np.float32(-87)
_LN2_HIGH = np.float32(math.floor(_LN2 * 2**15) / 2**15)  # times a whole number up to 2^9 it is exact
_LN2_LOW = np.float32(_LN2 - float(_LN2_HIGH))
_EXP = tuple(
    np.float32(one)  # a library's exponential would not be vectorised; relative error below 2e-7
    for one in Chebyshev.interpolate(np.exp, 6, domain=[-_LN2, 0]).convert(kind=Polynomial, domain=[-1, 1]).coef
)

# Sums may be spread over vector lanes, but NaN and infinity keep their meaning. Division follows numpy: Python's
# check for a zero divisor would keep the loops from being vectorised.
kernel = compiled(error_model="numpy", fastmath={"contract", "reassoc", "nsz"})
exact = compiled(error_model="numpy", fastmath={"contract"})


@kernel
@no_type_check
def visit(weight, bias, samples, labels, factors, order, classes, batch, step, rate, decay, train, z):
    """Go through the samples in an order, batch by batch; return the sum of their losses, each times its factor.

    ``weight`` [4, rows, d] and ``bias`` [4, rows] hold the parameters, their gradient and Adam's two moments, after
    ``step`` steps; where ``train`` is false they stay as they are. ``z`` [rows, a batch and four] is working space.
    """
    total = 0.0
    for start in range(0, order.size, batch):
        chosen = order[start : start + batch]
        losses = np.empty(chosen.size)
        logits(weight[0], bias[0], samples, chosen, z, 0, weight.shape[1])
        residuals(z, labels, factors, chosen, classes, losses, 0, chosen.size)
        total += add(losses)
        if train:
            step += 1
            descend(weight, bias, samples, chosen, z, step, rate, decay, 0, weight.shape[1])
    return total


@exact
@no_type_check
def add(losses):
    """Return the sum of losses, in their order."""
    total = 0.0
    for i in range(losses.size):
        total += losses[i]
    return total


@kernel
@no_type_check
def logits(weight, bias, samples, chosen, z, first, last):
    """Set ``z[c, i] = W_c · x_i + b_c`` for the chosen samples and the classes from ``first`` to ``last``.

    The samples go in fours and the classes in pairs: ``z`` has room for three more samples and one more class.
    """
    for low in range(first, last, SHARE):
        for i in range(0, chosen.size, 4):
            end = chosen.size - 1
            x0, x1 = samples[chosen[i]], samples[chosen[min(i + 1, end)]]
            x2, x3 = samples[chosen[min(i + 2, end)]], samples[chosen[min(i + 3, end)]]
            for c in range(low, min(low + SHARE, last), 2):
                other = min(c + 1, last - 1)
                v, w = weight[c], weight[other]
                a0, a1, a2, a3 = bias[c], bias[c], bias[c], bias[c]
                b0, b1, b2, b3 = bias[other], bias[other], bias[other], bias[other]
                for j in range(samples.shape[1]):
                    a0 += v[j] * x0[j]
                    a1 += v[j] * x1[j]
                    a2 += v[j] * x2[j]
                    a3 += v[j] * x3[j]
                    b0 += w[j] * x0[j]
                    b1 += w[j] * x1[j]
                    b2 += w[j] * x2[j]
                    b3 += w[j] * x3[j]
                z[c, i], z[c, i + 1], z[c, i + 2], z[c, i + 3] = a0, a1, a2, a3
                z[c + 1, i], z[c + 1, i + 1], z[c + 1, i + 2], z[c + 1, i + 3] = b0, b1, b2, b3


@exact
@no_type_check
def residuals(z, labels, factors, chosen, classes, losses, first, last):
    """Turn the logits of some of the chosen samples into ``factor · (softmax(z) - onehot(label)) / chosen``.

    ``losses`` receives ``factor · -log softmax(z)_label``.
    """
    n, share = last - first, _ONE / np.float32(chosen.size)
    top, total = z[0, first:last].copy(), np.zeros(n)
    for c in range(1, classes):
        row = z[c, first:last]
        for i in range(n):
            top[i] = row[i] if row[i] > top[i] else top[i]
    for i in range(n):
        losses[first + i] = top[i] - z[labels[chosen[first + i]], first + i]
    for c in range(classes):
        row = z[c, first:last]
        for i in range(n):
            x = row[i] - top[i]
            x = _LOWEST if x < _LOWEST else x
            whole = np.int32(x * _LOG2E)
            r = (x - np.float32(whole) * _LN2_HIGH) - np.float32(whole) * _LN2_LOW
            p = _EXP[6]
            p = p * r + _EXP[5]
            p = p * r + _EXP[4]
            p = p * r + _EXP[3]
            p = p * r + _EXP[2]
            p = p * r + _EXP[1]
            p = p * r + _EXP[0]
            row[i] = p * np.int32((whole + np.int32(127)) << np.int32(23)).view(np.float32)
            total[i] += row[i]
    for i in range(n):
        factor = factors[chosen[first + i]]
        losses[first + i] = factor * (losses[first + i] + math.log(total[i]))
        top[i] = share * factor / total[i]
    for c in range(classes):
        row = z[c, first:last]
        for i in range(n):
            row[i] *= top[i]
    for i in range(n):
        z[labels[chosen[first + i]], first + i] -= share * factors[chosen[first + i]]


@kernel
@no_type_check
def descend(weight, bias, samples, chosen, r, step, rate, decay, first, last):
    """Make one step of Adam, the ``step``-th, with the parameters of the classes from ``first`` to ``last``.

    Their gradient is ``Σ_i r[c, i] x_i`` and ``Σ_i r[c, i]`` over the chosen samples.
    """
    speed = np.float32(rate / (1 - BETA_1**step))
    root = np.float32(1 / math.sqrt(1 - BETA_2**step))
    r[first:last, chosen.size : chosen.size + 3] = _ZERO  # the samples go in fours: the last one fills up
    for low in range(first, last, ROWS):
        high = min(low + ROWS, last)
        for left in range(0, samples.shape[1], COLUMNS):
            _gradient(weight[1], samples, chosen, r, low, high, left, min(left + COLUMNS, samples.shape[1]))
        for c in range(low, high):
            total = _ZERO
            for i in range(chosen.size):
                total += r[c, i]
            bias[1, c] = total
            _adam_step(weight[0, c], weight[1, c], weight[2, c], weight[3, c], speed, root, np.float32(decay))
    b = bias[:, first:last]
    _adam_step(b[0], b[1], b[2], b[3], speed, root, np.float32(decay))


@kernel
@no_type_check
def _gradient(gradient, samples, chosen, r, low, high, left, right):
    """Set the rows ``low`` to ``high`` and the columns ``left`` to ``right`` of the gradient to ``Σ_i r[c, i] x_i``."""
    gradient[low:high, left:right] = _ZERO
    for i in range(0, chosen.size, 4):
        end = chosen.size - 1
        x0, x1 = samples[chosen[i], left:right], samples[chosen[min(i + 1, end)], left:right]
        x2, x3 = samples[chosen[min(i + 2, end)], left:right], samples[chosen[min(i + 3, end)], left:right]
        for c in range(low, high, 2):
            v, w = gradient[c, left:right], gradient[c + 1, left:right]
            a0, a1, a2, a3 = r[c, i], r[c, i + 1], r[c, i + 2], r[c, i + 3]
            b0, b1, b2, b3 = r[c + 1, i], r[c + 1, i + 1], r[c + 1, i + 2], r[c + 1, i + 3]
            for j in range(v.size):
                p0, p1, p2, p3, old_v, old_w = x0[j], x1[j], x2[j], x3[j], v[j], w[j]  # all is read before a write
                v[j] = old_v + (a0 * p0 + a1 * p1 + a2 * p2 + a3 * p3)
                w[j] = old_w + (b0 * p0 + b1 * p1 + b2 * p2 + b3 * p3)


@kernel
@no_type_check
def _adam_step(w, g, m, v, speed, root, decay):
    """Move the parameters ``w`` with the gradient ``g`` by one step of Adam, whose moments are ``m`` and ``v``."""
    for i in range(w.size):
        slope = g[i] + decay * w[i]
        mean = m[i] + _NEW_1 * (slope - m[i])
        square = _OLD_2 * v[i] + _NEW_2 * slope * slope
        w[i] -= speed * mean / (math.sqrt(square) * root + _EPSILON)
        m[i], v[i] = mean, square


@kernel
@no_type_check
def wins(z, truth, classes, right):
    """Tell for the logits of several heads, one after the other, where the largest is that of the true class.

    A tie goes to the class with the smallest index.
    """
    for head in range(right.shape[0]):
        best, winner = np.full(truth.size, -np.inf, np.float32), np.full(truth.size, np.int32(-1))
        for c in range(classes):
            row, this = z[head * classes + c], np.int32(c)
            for i in range(truth.size):
                winner[i] = this if row[i] > best[i] else winner[i]
                best[i] = row[i] if row[i] > best[i] else best[i]
        for i in range(truth.size):
            right[head, i] = winner[i] == truth[i]
