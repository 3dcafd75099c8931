"""The part of the row space in which one class wins: a polyhedron, ``C - 1`` linear constraints."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray
from torch import Tensor

from sfra.core.errors import InputError, SamplingError

SAME_ROW = 1e-6
"""Rows closer than this, relative to their norm, are one row up to float32 rounding: only their biases compare."""

ROUNDING = 2.0
"""A sample counts as inside when it wins by this many float32 roundings of a logit; see :meth:`Region.contains`."""

MIN_RADIUS = 1e-6
"""A region that holds no ball of this radius is empty in float32."""

_EPS = float(np.finfo(np.float32).eps)
_FARTHEST = 1e4


class EmptyRegionError(SamplingError):
    """A class whose arg-max region has no interior: no input whatsoever is assigned to it."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Region:
    """The inputs ``u`` with ``rows u > offsets``: those whose arg-max is class ``label``."""

    label: int
    """The class ``k``."""

    rows: Float[ndarray, "m r"]
    """``(a_k - a_j) / ‖a_k - a_j‖`` for every other class ``j`` that can ever win against ``k``."""

    offsets: Float[ndarray, " m"]
    """``(b_j - b_k) / ‖a_k - a_j‖``."""

    scales: Float[ndarray, " m"]
    """``‖a_k - a_j‖``: a margin in logits is the distance to the constraint times this."""

    logit_size: tuple[float, float]
    """The largest row norm and the largest absolute bias: the size of a logit, hence of its rounding."""

    def contains(self, samples: Float[ndarray, "n r"]) -> Bool[ndarray, " n"]:
        """Say which samples win by more than float32 arithmetic can hide.

        A float32 logit of ``u`` is off by about ``eps ‖a‖ ‖u‖``, whatever the order of its sum. Demanding twice
        that (about 1e-6 for ten classes, 1e-5 for a thousand) drops a share of the region of the same order, and
        in return whoever computes the logits again finds the same arg-max.
        """
        from sfra.attack.probes.linear import multiply  # numpy's product starts threads beside those at work here

        norm, bias = self.logit_size
        slack = (multiply(self.rows, samples.T) - self.offsets[:, None]) * self.scales[:, None]
        needed = ROUNDING * _EPS * (norm * np.linalg.norm(samples, axis=1) + bias)
        return np.asarray((slack > needed).all(axis=0))

    def radius(self) -> float:
        """Return the radius of the largest ball inside, at most 1; not positive when the region is empty.

        The linear program ``max t`` subject to ``rows u - t >= offsets``, ``t <= 1``, solved by HiGHS.
        """
        from scipy.optimize import linprog

        m, r = self.rows.shape
        limits = [(-_FARTHEST, _FARTHEST)] * r + [(-_FARTHEST, 1.0)]
        goal = np.append(np.zeros(r), -1.0)
        answer = linprog(goal, np.hstack([-self.rows, np.ones((m, 1))]), -self.offsets, bounds=limits)
        return float(-answer.fun) if answer.status == 0 else -np.inf


def win_region(A: Float[Tensor, "C r"], b: Float[Tensor, " C"], k: int) -> Region:
    """Return the region ``{u : arg max_j (A u + b)_j = k}``.

    Classes that share the row of ``k`` lose or win by their bias alone; at equal biases the lower index wins, as in
    ``argmax``. Raises :class:`EmptyRegionError` when ``k`` can never win against one of them.

    >>> import torch
    >>> win_region(torch.tensor([[1.0], [-1.0], [0.5]]), torch.zeros(3), 0).rows.tolist()
    [[1.0], [1.0]]
    """
    if not 0 <= k < len(A):
        raise InputError("the class is not one of the head's", expected=f"0 to {len(A) - 1}", got=k)
    weight, bias = A.detach().cpu().float().double().numpy(), b.detach().cpu().float().double().numpy()
    rows, offsets = weight[k] - weight, bias - bias[k]
    scales, norms = np.linalg.norm(rows, axis=1), np.linalg.norm(weight, axis=1)
    same = scales <= SAME_ROW * max(norms[k], np.finfo(np.float32).tiny)
    index = np.arange(len(weight))
    beaten = same & ((offsets > 0) | ((offsets == 0) & (index < k)))
    if beaten.any():
        winner = int(index[beaten][0])
        raise EmptyRegionError(
            f"class {k} can never win: class {winner} has the same row and a bias that is not lower",
            expected="a retain class that some input is assigned to",
            got=f"biases {bias[k]:.6g} (class {k}) and {bias[winner]:.6g} (class {winner})",
            do="audit a head that still assigns inputs to every retain class",
        )
    keep = ~same
    if (far := float((offsets[keep] / scales[keep]).max(initial=0.0))) > _FARTHEST:
        raise EmptyRegionError(
            f"class {k} never wins: the inputs that are assigned to it are out of reach",
            expected=f"inputs within {_FARTHEST:,.0f} standard deviations of the proposal",
            got=f"none nearer than {far:.1e}",
            do="audit a head that still assigns inputs to every retain class",
        )
    return Region(
        label=k,
        rows=rows[keep] / scales[keep, None],
        offsets=offsets[keep] / scales[keep],
        scales=scales[keep],
        logit_size=(float(norms.max()), float(np.abs(bias).max())),
    )
