"""Compiled linear algebra in one fixed order of summation, so that results do not depend on the number of threads.

LAPACK's factorisations and solvers differ in the last bits with the number of threads, and what is drawn with them
would, too.
"""

from __future__ import annotations

import math
from typing import no_type_check

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from sfra.core.cpu import compiled

kernel = compiled(fastmath={"contract", "reassoc"})

BLOCK = 32
"""Rows of one product; a matrix given to :func:`product` is padded to whole blocks with :func:`pad`."""


@kernel
@no_type_check
def product(left, first, right, start, stop, n, out):
    """Set ``out[:, :n]`` to rows ``first`` to ``first + BLOCK`` of ``left[:, start:stop] @ right[start:stop, :n]``.

    ``start`` and ``stop`` are multiples of 4: four rows by four columns at a time stay in registers.
    """
    for i in range(BLOCK):
        for c in range(n):
            out[i, c] = 0.0
    for k in range(start, stop, 4):
        for i in range(0, BLOCK, 4):
            j = first + i
            a0, a1, a2, a3 = left[j, k], left[j, k + 1], left[j, k + 2], left[j, k + 3]
            b0, b1, b2, b3 = left[j + 1, k], left[j + 1, k + 1], left[j + 1, k + 2], left[j + 1, k + 3]
            c0, c1, c2, c3 = left[j + 2, k], left[j + 2, k + 1], left[j + 2, k + 2], left[j + 2, k + 3]
            d0, d1, d2, d3 = left[j + 3, k], left[j + 3, k + 1], left[j + 3, k + 2], left[j + 3, k + 3]
            for c in range(n):
                x0, x1, x2, x3 = right[k, c], right[k + 1, c], right[k + 2, c], right[k + 3, c]
                out[i, c] += a0 * x0 + a1 * x1 + a2 * x2 + a3 * x3
                out[i + 1, c] += b0 * x0 + b1 * x1 + b2 * x2 + b3 * x3
                out[i + 2, c] += c0 * x0 + c1 * x1 + c2 * x2 + c3 * x3
                out[i + 3, c] += d0 * x0 + d1 * x1 + d2 * x2 + d3 * x3


@kernel
@no_type_check
def fill_product(left, right, out):
    """Set ``out = left @ right``, block of rows by block of rows; all three are padded."""
    for first in range(0, left.shape[0], BLOCK):
        product(left, first, right, 0, left.shape[1], right.shape[1], out[first : first + BLOCK])


def pad(matrix: Float[ndarray, "m r"], rows: int, columns: int) -> Float[ndarray, "m4 r4"]:
    """Return a copy with zero rows and columns added until their numbers are multiples of the given ones."""
    m, r = matrix.shape
    padded = np.zeros((-(-m // rows) * rows, -(-r // columns) * columns))
    padded[:m, :r] = matrix
    return padded


def multiply(left: Float[ndarray, "m r"], right: Float[ndarray, "r n"]) -> Float[ndarray, "m n"]:
    """Return ``left @ right`` in float64, bit for bit the same whatever the number of threads.

    >>> multiply(np.eye(2), np.array([[1.0, 2.0], [3.0, 4.0]])).tolist()
    [[1.0, 2.0], [3.0, 4.0]]
    """
    padded = pad(left, BLOCK, 4)
    out = np.empty((padded.shape[0], right.shape[1]))
    fill_product(padded, pad(right, 4, 1), out)
    return out[: left.shape[0]]


@kernel
@no_type_check
def reflect(rows, k):
    """Reflect the rows from ``k`` on, in their columns from ``k`` on, so that row ``k`` becomes ``+‖·‖ e_k``.

    The earlier rows, reflected before, are zero there.
    """
    r = rows.shape[1]
    rest = 0.0
    for c in range(k + 1, r):
        rest += rows[k, c] * rows[k, c]
    head = rows[k, k]
    norm = math.sqrt(head * head + rest)
    first = head - norm if head <= 0.0 else -rest / (head + norm)
    if first == 0.0:
        return
    normal = rows[k].copy()
    normal[k] = first
    scale = 2.0 / (first * first + rest)
    for i in range(k + 1, rows.shape[0]):
        row = rows[i]
        inner = 0.0
        for c in range(k, r):
            inner += row[c] * normal[c]
        inner *= scale
        for c in range(k, r):
            row[c] -= inner * normal[c]
    rows[k, k] = norm
    for c in range(k + 1, r):
        rows[k, c] = 0.0


@kernel
@no_type_check
def _rotate(matrix, vectors, p, q):
    """Rotate rows and columns ``p``, ``q`` of a symmetric matrix so that the entry ``[p, q]`` vanishes."""
    ratio = (matrix[q, q] - matrix[p, p]) / (2.0 * matrix[p, q])
    tangent = (1.0 if ratio >= 0.0 else -1.0) / (abs(ratio) + math.sqrt(ratio * ratio + 1.0))
    cosine = 1.0 / math.sqrt(tangent * tangent + 1.0)
    sine = tangent * cosine
    for pair in (matrix, vectors):
        for c in range(matrix.shape[0]):
            a, b = pair[p, c], pair[q, c]
            pair[p, c] = cosine * a - sine * b
            pair[q, c] = sine * a + cosine * b
    for c in range(matrix.shape[0]):
        a, b = matrix[c, p], matrix[c, q]
        matrix[c, p] = cosine * a - sine * b
        matrix[c, q] = sine * a + cosine * b


@kernel
@no_type_check
def _jacobi(matrix, vectors):
    """Diagonalise a symmetric matrix in place by cyclic Jacobi rotations; ``vectors`` collects them as rows."""
    n = matrix.shape[0]
    tiny = 0.0
    for i in range(n):
        tiny += 1e-12 * matrix[i, i] / n
    for _ in range(30):
        largest = 0.0
        for p in range(n):
            for q in range(p + 1, n):
                size = abs(matrix[p, q])
                largest = max(largest, size)
                if size > tiny:
                    _rotate(matrix, vectors, p, q)
        if largest <= tiny:
            break


def principal_axes(covariance: Float[ndarray, "r r"]) -> tuple[Float[ndarray, " r"], Float[ndarray, "r r"]]:
    """Return the variances along the principal axes, ascending, and the axes as columns.

    >>> principal_axes(np.array([[2.0, 0.0], [0.0, 1.0]]))[0].tolist()
    [1.0, 2.0]
    """
    matrix, vectors = covariance.copy(), np.eye(len(covariance))
    _jacobi(matrix, vectors)
    variances = np.diagonal(matrix)
    order = np.argsort(variances, kind="stable")
    return variances[order], np.ascontiguousarray(vectors[order].T)
