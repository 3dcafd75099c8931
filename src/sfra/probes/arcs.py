"""Compiled moves of elliptical slice sampling under linear constraints (Gessner, Kanjilal and Hennig, 2020).

A chain at ``y`` draws a Gaussian ``v`` and moves to a point of the ellipse ``y cos θ + v sin θ``, uniformly among
those that satisfy every constraint ``row · y > offset``: never rejected, and the Gaussian on the polyhedron is
invariant. With ``z = tan(θ/2)`` a constraint is a quadratic inequality in ``z`` that holds at ``z = 0``.
"""

from __future__ import annotations

import math
from typing import no_type_check

import numpy as np

from sfra.probes.linear import BLOCK, product
from sfra.probes.normals import kernel, quantile, seed_stream, uniform


@kernel
@no_type_check
def _collect_gaps(p, w, offsets, c, starts, ends):
    """Return the open interval of ``z`` around 0 for chain ``c``, and how many gaps in it were written down.

    For ``p cos θ + w sin θ > l``: ``(p - l) + 2 w z - (p + l) z² > 0``. With ``p + l > 0`` it holds between the
    roots, which lie on both sides of 0; otherwise it fails between them, on one side of 0, or nowhere.
    """
    low, high = -np.inf, np.inf
    count = 0
    for i in range(len(offsets)):
        slack, other = max(p[i, c] - offsets[i], 0.0), p[i, c] + offsets[i]
        square = w[i, c] * w[i, c] + slack * other
        if other < 0.0 and square <= 0.0:
            continue
        root = math.sqrt(max(square, 0.0))
        q = w[i, c] + root if w[i, c] >= 0.0 else w[i, c] - root
        near = -slack / q if q != 0.0 else 0.0
        far = q / other if other != 0.0 else math.copysign(np.inf, q)
        if other >= 0.0:
            low, high = max(low, min(near, far)), min(high, max(near, far))
        else:
            starts[count], ends[count] = min(near, far), max(near, far)
            count += 1
    inside = 0
    for i in range(count):
        if starts[i] < high and ends[i] > low:
            starts[inside], ends[inside] = starts[i], ends[i]
            inside += 1
    return low, high, inside


@kernel
@no_type_check
def draw_angle(p, w, offsets, c, starts, ends, share):
    """Return the angle that lies the given share into the allowed part of the ellipse of chain ``c``."""
    low, high, count = _collect_gaps(p, w, offsets, c, starts, ends)
    order = np.argsort(starts[:count])
    total, at = 0.0, low
    for i in order:
        total += max(math.atan(starts[i]) - math.atan(at), 0.0)
        at = max(at, ends[i])
    total += max(math.atan(high) - math.atan(at), 0.0)
    goal, at = share * total, low
    for i in order:
        piece = max(math.atan(starts[i]) - math.atan(at), 0.0)
        if goal < piece:
            return 2.0 * (math.atan(at) + goal)
        goal -= piece
        at = max(at, ends[i])
    return 2.0 * (math.atan(at) + goal) if total > 0.0 else 0.0


@kernel
@no_type_check
def _products(rows, x, start, stop, out):
    """Set ``out = rows[:, start:stop] @ x[start:stop]``; ``x`` is zero in the columns that only align the range."""
    for first in range(0, rows.shape[0], BLOCK):
        product(rows, first, x, start - start % 4, stop + (-stop) % 4, x.shape[1], out[first : first + BLOCK])


@kernel
@no_type_check
def walk(rows, offsets, y, edges, sweeps, seed, index):
    """Move every chain, a column of ``y``, by ``sweeps`` sweeps in place.

    A sweep moves the coordinates ``edges[g]`` to ``edges[g + 1]`` for each ``g`` in turn, the others fixed. The last
    row is not a constraint but the pull of the density: it may fall by an exponential variate in one move.
    ``rows`` and ``y`` are padded.
    """
    state = seed_stream(seed, index)
    m, n = len(offsets), y.shape[1]
    at, part, turn = np.empty((rows.shape[0], n)), np.empty((rows.shape[0], n)), np.empty((rows.shape[0], n))
    own, other = np.zeros(y.shape), np.zeros(y.shape)
    starts, ends, limits = np.empty(m), np.empty(m), np.empty(m)
    cosine, sine = np.empty(n), np.empty(n)
    _products(rows, y, 0, y.shape[0], at)
    for _ in range(sweeps):
        for g in range(len(edges) - 1):
            start, stop = edges[g], edges[g + 1]
            own[:], other[:] = 0.0, 0.0
            for i in range(start, stop):
                for c in range(n):
                    own[i, c], other[i, c] = y[i, c], quantile(uniform(state))
            _products(rows, own, start, stop, part)
            _products(rows, other, start, stop, turn)
            for c in range(n):
                for i in range(m - 1):
                    limits[i] = offsets[i] - at[i, c] + part[i, c]
                limits[m - 1] = part[m - 1, c] + math.log(uniform(state))
                angle = draw_angle(part, turn, limits, c, starts, ends, uniform(state))
                cosine[c], sine[c] = math.cos(angle), math.sin(angle)
            for i in range(start, stop):
                for c in range(n):
                    y[i, c] = own[i, c] * cosine[c] + other[i, c] * sine[c]
            for i in range(m):
                for c in range(n):
                    at[i, c] += part[i, c] * (cosine[c] - 1.0) + turn[i, c] * sine[c]
