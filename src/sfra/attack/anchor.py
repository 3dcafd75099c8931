"""A yardstick for features: how those of synthetic images spread.

Features ``z -> A z + c`` with the head undone accordingly are the same classifier. The mean and the covariance of an
encoder's features of fixed images move along, so whatever is measured in units of them stays the same.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from sfra.core.errors import InputError
from sfra.core.types import Features

RANK = 1e-6
"""Directions in which the features spread less than this, relative to the widest, count as dead."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Affine:
    """The map ``z -> A z + c``, in double precision."""

    matrix: Float[Tensor, "r d"]
    """``A``."""
    shift: Float[Tensor, " r"]
    """``c``."""

    def __call__(self, features: Features) -> Float[Tensor, "n r"]:
        """Map each row, on the CPU, and return it to where it was."""
        mapped = features.detach().cpu().double() @ self.matrix.T + self.shift
        return mapped.to(features)


@dataclass(frozen=True, kw_only=True, eq=False)
class Anchor:
    """Mean ``mu`` and a root ``L`` of the covariance of features: ``Sigma = L L^T``, so ``L^+ (z - mu)`` is white.

    Dead features, which have no spread, are left out: ``L`` has as many columns as the covariance has rank.
    """

    mean: Float[Tensor, " d"]
    root: Float[Tensor, "d r"]
    inverse: Float[Tensor, "r d"]
    """``L^+``."""

    @classmethod
    def of(cls, features: Float[Tensor, "n d"]) -> Anchor:
        """Measure features of synthetic images.

        A covariance has many roots: ``L Q`` for any rotation ``Q``. This one moves along with the features, ``A L`` for
        features ``A z + c``, so that coordinates and hence random draws are the same for every disguise: with the
        singular values ``U S V^T`` of the centred features, ``L = V S Q / sqrt(n)``, where ``Q`` is the rotation that
        brings the first ``r`` rows of ``U`` closest to the identity, the polar factor of their transpose.
        """
        n, d = features.shape
        if n <= d:
            raise InputError(
                "there are too few synthetic images to measure the features by",
                expected=f"more than {d}, the number of features",
                got=n,
                do="take several times as many images as there are features",
            )
        points = features.detach().cpu().double()
        mean = points.mean(0)
        U, S, Vt = torch.linalg.svd(points - mean, full_matrices=False)
        alive = S / S[0] > RANK
        if not bool(alive.any()):
            raise InputError("all synthetic images have the same features", do="take other images, such as noise")
        U, S, Vt = U[:, alive], S[alive], Vt[alive]
        left, _, right = torch.linalg.svd(U[: len(S)].T)
        Q = left @ right
        return cls(mean=mean, root=(Vt.T * S) @ Q / math.sqrt(n), inverse=(Q.T / S) @ Vt * math.sqrt(n))
