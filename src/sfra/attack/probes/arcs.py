"""Compiled moves of elliptical slice sampling under linear constraints (Gessner, Kanjilal and Hennig, 2020).

A chain at ``y`` draws a Gaussian ``v`` and moves to a point of the ellipse ``y cos θ + v sin θ``, uniformly among
those that satisfy every constraint ``row · y > offset``: never rejected, and the Gaussian on the polyhedron is
invariant. Fixed coordinates only change the offset.

With ``p = row · y``, ``w = row · v``, ``slack = p - offset`` and ``z = tan(θ/2)`` the constraint on the ellipse reads
``slack + 2 w z - (2 p - slack) z² > 0``, which holds at ``z = 0``. If the bracket is positive it holds between the
roots, on both sides of 0; if not, it fails between them, which is a gap on one side of 0, or nowhere.
"""

from __future__ import annotations

import math
from typing import no_type_check

import numpy as np

from sfra.attack.probes.linear import BLOCK, product
from sfra.attack.probes.normals import kernel, quantile, seed_stream, uniform


@kernel
@no_type_check
def restrict(slack, p, w, low, high, starts, ends, counts):
    """Narrow the intervals ``low`` to ``high`` of ``z``, or note a gap in them, for one constraint of every chain."""
    for c in range(len(slack)):
        bracket = 2.0 * p[c] - slack[c]
        square = w[c] * w[c] + slack[c] * bracket
        if bracket < 0.0 and square <= 0.0:
            continue
        root = math.sqrt(max(square, 0.0))
        q = w[c] + root if w[c] >= 0.0 else w[c] - root
        near = -slack[c] / q if q != 0.0 else 0.0
        far = q / bracket if bracket != 0.0 else math.copysign(np.inf, q)
        if bracket >= 0.0:
            low[c], high[c] = max(low[c], min(near, far)), min(high[c], max(near, far))
        else:
            starts[c, counts[c]], ends[c, counts[c]] = min(near, far), max(near, far)
            counts[c] += 1


@kernel
@no_type_check
def _sort_gaps(starts, ends):
    """Sort gaps by their start, in place; there are few."""
    for i in range(1, len(starts)):
        start, end = starts[i], ends[i]
        j = i
        while j > 0 and starts[j - 1] > start:
            starts[j], ends[j] = starts[j - 1], ends[j - 1]
            j -= 1
        starts[j], ends[j] = start, end


@kernel
@no_type_check
def pick_angle(low, high, starts, ends, share):
    """Return the angle that lies the given share into ``low`` to ``high`` without the gaps (``z``, not angles)."""
    _sort_gaps(starts, ends)
    total, at = 0.0, low
    for i in range(len(starts)):
        total += max(math.atan(min(starts[i], high)) - math.atan(at), 0.0)
        at = max(at, ends[i])
    total += max(math.atan(high) - math.atan(at), 0.0)
    goal, at = share * total, low
    for i in range(len(starts)):
        piece = max(math.atan(min(starts[i], high)) - math.atan(at), 0.0)
        if goal < piece:
            break
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
def _draw_angles(offsets, at, part, turn, starts, ends, angles, state):
    """Draw the angle of every chain; the last row is the pull, which may fall by an exponential variate."""
    m, n = len(offsets), len(angles)
    low, high, slack = np.full(n, -np.inf), np.full(n, np.inf), np.empty(n)
    counts = np.zeros(n, np.int64)
    for i in range(m):
        for c in range(n):
            slack[c] = max(at[i, c] - offsets[i], 0.0) if i < m - 1 else -math.log(uniform(state))
        restrict(slack, part[i], turn[i], low, high, starts, ends, counts)
    for c in range(n):
        angles[c] = pick_angle(low[c], high[c], starts[c, : counts[c]], ends[c, : counts[c]], uniform(state))


@kernel
@no_type_check
def walk(rows, offsets, y, edges, sweeps, seed, index):
    """Move every chain, a column of ``y``, by ``sweeps`` sweeps in place.

    A sweep moves the coordinates ``edges[g]`` to ``edges[g + 1]`` for each ``g`` in turn, the others fixed. The last
    row is not a constraint but the pull of the density. ``rows`` and ``y`` are padded.
    """
    state = seed_stream(seed, index)
    m, n = len(offsets), y.shape[1]
    at, part, turn = np.empty((rows.shape[0], n)), np.empty((rows.shape[0], n)), np.empty((rows.shape[0], n))
    starts, ends = np.empty((n, m)), np.empty((n, m))
    angles, cosine, sine = np.empty(n), np.empty(n), np.empty(n)
    _products(rows, y, 0, y.shape[0], at)
    for _ in range(sweeps):
        for g in range(len(edges) - 1):
            start, stop = edges[g], edges[g + 1]
            own, other = np.zeros(y.shape), np.zeros(y.shape)
            for i in range(start, stop):
                for c in range(n):
                    own[i, c], other[i, c] = y[i, c], quantile(uniform(state))
            _products(rows, own, start, stop, part)
            _products(rows, other, start, stop, turn)
            _draw_angles(offsets, at, part, turn, starts, ends, angles, state)
            for c in range(n):
                cosine[c], sine[c] = math.cos(angles[c]), math.sin(angles[c])
            for i in range(start, stop):
                for c in range(n):
                    y[i, c] = own[i, c] * cosine[c] + other[i, c] * sine[c]
            for i in range(m):
                for c in range(n):
                    at[i, c] += part[i, c] * (cosine[c] - 1.0) + turn[i, c] * sine[c]
