"""Give every group of classes draws of its own from the same numbers, by orthogonal mixtures of 16 draws.

A draw that suits one class tends to suit many: one in which all logits are alike is a least sure candidate of hundreds.
Sets of 16 independent standard normal vectors stay independent and standard normal under an orthogonal matrix, so each
group ``g`` uses ``H diag(s_g) / 4`` times the 16 draws, ``H`` the Hadamard matrix and ``s_g(x) = (-1)^{Q_g(x)}`` for a
quadratic form ``Q_g`` over the four bits of ``x``. There are 64 of them that differ by more than a linear form. A
draw of one group and one of another then correlate by 1/2 at most; most by 1/4 or not at all.
"""

from __future__ import annotations

import itertools
from typing import no_type_check

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from sfra.core.cpu import compiled

kernel = compiled(fastmath={"contract"})

SIZE = 16
"""Draws that are mixed with each other."""

MOST = 64
"""Groups that can be told apart."""


def signs(groups: int) -> Float[ndarray, "G 16"]:
    """Return ``s_g / 4`` of the first ``groups`` quadratic forms.

    >>> turns = [matrix(s) for s in signs(MOST)]
    >>> all(np.array_equal(turn @ turn.T, np.eye(SIZE)) for turn in turns)
    True
    >>> max(np.abs(one @ other.T).max().item() for one, other in itertools.combinations(turns, 2))
    0.5
    """
    bits = np.arange(SIZE)[:, None] >> np.arange(4) & 1
    pairs = np.stack([bits[:, i] * bits[:, j] for i, j in itertools.combinations(range(4), 2)])
    forms = (np.arange(groups)[:, None] >> np.arange(6) & 1) @ pairs
    return np.asarray((1 - 2 * (forms % 2)) / 4, np.float32)


def matrix(sign: Float[ndarray, " 16"]) -> Float[ndarray, "16 16"]:
    """Return the orthogonal matrix of one group."""
    places = np.arange(SIZE)
    hadamard = 1 - 2 * (np.bitwise_count(places[:, None] & places) % 2).astype(np.float32)
    return np.asarray(hadamard * sign)


@kernel
@no_type_check
def _first_half(z, sign, out):
    """Transform four rows among themselves, after their signs."""
    a, b, c, d = sign[0], sign[1], sign[2], sign[3]
    z0, z1, z2, z3 = z[0], z[1], z[2], z[3]
    out0, out1, out2, out3 = out[0], out[1], out[2], out[3]
    for j in range(len(z0)):
        x0, x1, x2, x3 = a * z0[j], b * z1[j], c * z2[j], d * z3[j]
        p, q, r, s = x0 + x1, x0 - x1, x2 + x3, x2 - x3
        out0[j], out1[j], out2[j], out3[j] = p + r, q + s, p - r, q - s


@kernel
@no_type_check
def _second_half(z, first, offset, out):
    """Transform four rows, four apart, among themselves, and add the offset."""
    z0, z1, z2, z3 = z[first], z[first + 4], z[first + 8], z[first + 12]
    out0, out1, out2, out3 = out[first], out[first + 4], out[first + 8], out[first + 12]
    for j in range(len(z0)):
        p, q, r, s = z0[j] + z1[j], z0[j] - z1[j], z2[j] + z3[j], z2[j] - z3[j]
        out0[j], out1[j] = (p + r) + offset[j], (q + s) + offset[j]
        out2[j], out3[j] = (p - r) + offset[j], (q - s) + offset[j]


@kernel
@no_type_check
def mix(z, sign, offset, work, out):
    """Set every 16 rows of ``out`` to the group's matrix times the same rows of ``z``, plus ``offset``."""
    for first in range(0, len(z), SIZE):
        for a in range(0, SIZE, 4):
            _first_half(z[first + a : first + a + 4], sign[a : a + 4], work[a : a + 4])
        for a in range(4):
            _second_half(work, a, offset, out[first : first + SIZE])
