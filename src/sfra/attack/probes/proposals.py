"""The distributions that probes are drawn from, and what their support looks like."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Bool
from torch import Tensor

from sfra.attack.known import check_name
from sfra.attack.probes import codes
from sfra.core.errors import InputError
from sfra.core.types import Features


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """A named distribution over ``R^d`` with independent coordinates."""

    name: str
    code: int
    """Number of the proposal in the compiled kernels."""
    isotropic: bool
    """Rotation invariant: only the row space of the head needs to be drawn."""
    fill: Callable[[Tensor, torch.Generator], Tensor]
    """Fill a tensor with draws from a generator, for devices without compiled kernels."""


def _normal(out: Tensor, generator: torch.Generator) -> Tensor:
    return out.normal_(generator=generator)


def _uniform(out: Tensor, generator: torch.Generator) -> Tensor:
    return out.uniform_(-math.sqrt(3.0), math.sqrt(3.0), generator=generator)


def _laplace(out: Tensor, generator: torch.Generator) -> Tensor:
    magnitude = torch.empty_like(out).exponential_(generator=generator)
    sign = torch.empty_like(out).uniform_(-1.0, 1.0, generator=generator).sign()
    return torch.mul(magnitude, sign, out=out).mul_(math.sqrt(0.5))


_PROPOSALS = {
    proposal.name: proposal
    for proposal in (
        Proposal(
            name="gaussian",
            code=codes.GAUSSIAN,
            isotropic=True,
            fill=_normal,
        ),
        Proposal(
            name="uniform",
            code=codes.UNIFORM,
            isotropic=False,
            fill=_uniform,
        ),
        Proposal(
            name="laplace",
            code=codes.LAPLACE,
            isotropic=False,
            fill=_laplace,
        ),
        Proposal(
            name="relu-gaussian",
            code=codes.RELU_GAUSSIAN,
            isotropic=False,
            fill=lambda out, generator: _normal(out, generator).clamp_min_(0.0),
        ),
        Proposal(
            name="abs-gaussian",
            code=codes.ABS_GAUSSIAN,
            isotropic=False,
            fill=lambda out, generator: _normal(out, generator).abs_(),
        ),
    )
}


def names() -> tuple[str, ...]:
    """Return the names of the proposals."""
    return tuple(_PROPOSALS)


def get(name: str) -> Proposal:
    """Return a proposal by name."""
    check_name("proposal", name)
    return _PROPOSALS[name]


@dataclass(frozen=True, kw_only=True)
class Support:
    """Where a set of probes lies: shares are in [0, 1]."""

    negative_coordinates: float
    """Share of coordinates below zero."""
    zero_coordinates: float
    """Share of coordinates that are exactly zero."""
    nonnegative_vectors: float
    """Share of probes without a negative coordinate."""
    mean_norm: float
    """Mean l2 norm of a probe."""


def _share(which: Bool[Tensor, ...]) -> float:
    """Return the share that is true, in float32, without a copy in floats."""
    return float(which.count_nonzero().float() / which.numel())


def support(samples: Features) -> Support:
    """Describe the support of probes.

    >>> support(torch.tensor([[0.0, 1.0], [-1.0, 0.0]])).negative_coordinates
    0.25
    """
    if samples.numel() == 0:
        raise InputError("the support of no probes is not defined", expected="at least one probe", got="none")
    negative: Bool[Tensor, "n d"] = samples < 0
    return Support(
        negative_coordinates=_share(negative),
        zero_coordinates=_share(samples == 0),
        nonnegative_vectors=_share(~negative.any(1)),
        mean_norm=float(samples.norm(dim=1).mean()),
    )
