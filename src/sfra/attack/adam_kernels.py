"""Compiled loops of the optimiser: one epoch of Adam on one linear head, four samples and two classes at a time.

The shuffled samples are read in place, once for the logits and, while they are still in the cache, once more for
the gradient. Every sum has one fixed order, so the result does not depend on the number of threads around it.
"""

from __future__ import annotations

import math
from typing import no_type_check

import numpy as np

from sfra.attack.adam import BETA_1, BETA_2, EPSILON
from sfra.core.cpu import compiled

_NEW_1, _NEW_2, _OLD_2 = np.float32(1 - BETA_1), np.float32(1 - BETA_2), np.float32(BETA_2)
_EPSILON, _ZERO, _ONE = np.float32(EPSILON), np.float32(0), np.float32(1)

# Sums may be spread over vector lanes, but NaN and infinity keep their meaning. Division follows numpy: Python's
# check for a zero divisor would keep the loops from being vectorised.
kernel = compiled(error_model="numpy", fastmath={"contract", "reassoc", "nsz"})


@kernel
@no_type_check
def train_epoch(weight, bias, samples, labels, factors, order, classes, batch, step, rate, decay):
    """Train for one epoch; return the sum of the losses, each times its factor.

    ``weight`` [4, rows, d] and ``bias`` [4, rows] hold the parameters, their gradient and Adam's two moments;
    ``step`` steps were done before.
    """
    z, rows = np.zeros((4, weight.shape[1]), np.float32), np.zeros(4, np.int64)
    total = 0.0
    for start in range(0, order.size, batch):
        stop = min(start + batch, order.size)
        for block in range(start, stop, 4):
            chosen = order[block : min(block + 4, stop)]
            share = _ONE / np.float32(stop - start)
            total += _residuals(weight[0], bias[0], samples, labels, factors, chosen, classes, share, rows, z)
            _add_gradient(weight[1], bias[1], samples, rows, z)
        step += 1
        speed = np.float32(rate / (1 - BETA_1**step))
        root = np.float32(1 / math.sqrt(1 - BETA_2**step))
        _adam_step(weight.reshape(4, -1), speed, root, np.float32(decay))
        _adam_step(bias, speed, root, np.float32(decay))
    return total


@kernel
@no_type_check
def sum_losses(weight, bias, samples, labels, factors, classes):
    """Sum the losses, times their factors, of parameters as they are, ``weight`` [rows, d] and ``bias`` [rows]."""
    z, rows, order = np.zeros((4, weight.shape[0]), np.float32), np.zeros(4, np.int64), np.arange(labels.size)
    total = 0.0
    for block in range(0, order.size, 4):
        chosen = order[block : block + 4]
        total += _residuals(weight, bias, samples, labels, factors, chosen, classes, _ONE, rows, z)
    return total


@kernel
@no_type_check
def _residuals(weight, bias, samples, labels, factors, chosen, classes, share, rows, z):
    """Fill ``z`` [4, rows] with the residuals of up to four samples; return the sum of their losses.

    A factor counts in both: the residual is ``share · factor · (softmax(z) - onehot(label))``.

    Missing samples repeat the last one, in ``rows``, with a residual of zero.
    """
    for i in range(4):
        rows[i] = chosen[min(i, chosen.size - 1)]
    _logits(weight, bias, samples, rows, z)
    z[chosen.size :] = _ZERO
    total = 0.0
    for i in range(chosen.size):
        factor = factors[rows[i]]
        total += factor * _residual(z[i], labels[rows[i]], classes, share * factor)
    return total


@kernel
@no_type_check
def _logits(weight, bias, samples, rows, z):
    """Set ``z[i, c] = W_c · x_i + b_c`` for the samples of four rows."""
    x0, x1, x2, x3 = samples[rows[0]], samples[rows[1]], samples[rows[2]], samples[rows[3]]
    for c in range(0, weight.shape[0], 2):
        v, w = weight[c], weight[c + 1]
        a0, a1, a2, a3 = bias[c], bias[c], bias[c], bias[c]
        b0, b1, b2, b3 = bias[c + 1], bias[c + 1], bias[c + 1], bias[c + 1]
        for j in range(samples.shape[1]):
            a0 += v[j] * x0[j]
            a1 += v[j] * x1[j]
            a2 += v[j] * x2[j]
            a3 += v[j] * x3[j]
            b0 += w[j] * x0[j]
            b1 += w[j] * x1[j]
            b2 += w[j] * x2[j]
            b3 += w[j] * x3[j]
        z[0, c], z[1, c], z[2, c], z[3, c] = a0, a1, a2, a3
        z[0, c + 1], z[1, c + 1], z[2, c + 1], z[3, c + 1] = b0, b1, b2, b3


@kernel
@no_type_check
def _residual(z, label, classes, share):
    """Replace logits by ``share · (softmax(z) - onehot(label))``; return the cross-entropy."""
    top = z[0]
    for c in range(1, classes):
        top = max(top, z[c])
    own = z[label] - top
    total = _ZERO
    for c in range(classes):
        z[c] = math.exp(z[c] - top)
        total += z[c]
    for c in range(classes):
        z[c] *= share / total
    z[label] -= share
    return math.log(total) - own


@kernel
@no_type_check
def _add_gradient(weight, bias, samples, rows, r):
    """Add ``Σ_i r[i, c] x_i`` and ``Σ_i r[i, c]`` over the samples of four rows."""
    x0, x1, x2, x3 = samples[rows[0]], samples[rows[1]], samples[rows[2]], samples[rows[3]]
    for c in range(0, weight.shape[0], 2):
        v, w = weight[c], weight[c + 1]
        a0, a1, a2, a3 = r[0, c], r[1, c], r[2, c], r[3, c]
        b0, b1, b2, b3 = r[0, c + 1], r[1, c + 1], r[2, c + 1], r[3, c + 1]
        for j in range(samples.shape[1]):
            v[j] += a0 * x0[j] + a1 * x1[j] + a2 * x2[j] + a3 * x3[j]
            w[j] += b0 * x0[j] + b1 * x1[j] + b2 * x2[j] + b3 * x3[j]
        bias[c] += a0 + a1 + a2 + a3
        bias[c + 1] += b0 + b1 + b2 + b3


@kernel
@no_type_check
def _adam_step(state, speed, root, decay):
    """Move the parameters ``state[0]`` by one step of Adam and clear their gradient ``state[1]``."""
    w, g, m, v = state[0], state[1], state[2], state[3]
    for i in range(w.size):
        slope = g[i] + decay * w[i]
        mean = m[i] + _NEW_1 * (slope - m[i])
        square = _OLD_2 * v[i] + _NEW_2 * slope * slope
        w[i] -= speed * mean / (math.sqrt(square) * root + _EPSILON)
        m[i], v[i], g[i] = mean, square, _ZERO
