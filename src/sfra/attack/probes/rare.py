"""Draws of a Gaussian conditioned on the arg-max region of one class, however small its probability."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import torch
from jaxtyping import Float
from numpy import ndarray
from torch import Tensor

from sfra.attack.probes.region import MIN_RADIUS, EmptyRegionError, Region, win_region
from sfra.core.errors import InputError, SamplingError

if TYPE_CHECKING:
    from sfra.attack.probes.tilting import Tilting

__all__ = ["MIN_ACCEPTANCE", "EmptyRegionError", "RegionSample", "sample_region"]

MIN_ACCEPTANCE = 3e-4
"""Below this acceptance the exact sampler gives way to Markov chains, which then cost several times less."""

PILOT = 2**14
"""Proposals after which the acceptance is judged."""


@dataclass(frozen=True, eq=False, kw_only=True)
class RegionSample:
    """Draws from a class's region, and how they were made."""

    samples: Float[Tensor, "count r"]
    """Float32; each has arg-max ``k``, by more than float32 rounding."""

    method: Literal["tilting", "slice"]
    """``tilting``: exact and independent. ``slice``: Markov chains, close to independent (see ``memory``)."""

    acceptance: float
    """Share of the tilted proposals that were accepted; NaN for ``slice``."""

    log_probability: float
    """Estimate of ``log P(arg max = k)``."""

    proposals: int
    """Tilted proposals made, or for ``slice`` the sweeps of all chains together."""

    memory: float
    """Largest correlation of a coordinate with its value one draw earlier in the same chain; 0 for ``tilting``."""


def sample_region(
    A: Float[Tensor, "C r"],
    b: Float[Tensor, " C"],
    k: int,
    count: int,
    *,
    generator: torch.Generator,
    threads: int | None = None,
) -> RegionSample:
    """Draw ``count`` samples of ``u ~ N(0, I)`` given ``arg max_j (A u + b)_j = k``.

    Exactly, by minimax tilting, where at least ``MIN_ACCEPTANCE`` of the first ``PILOT`` proposals is accepted;
    otherwise by elliptical slice sampling. The result depends on the arguments and the generator's state only, not
    on the number of threads.

    Args:
        A: The head restricted to its row space, ``W V``.
        b: The head's bias.
        k: The class.
        count: Number of samples.
        generator: Source of randomness, on the CPU; advanced by one number.
        threads: Threads at work; by default as many as torch uses.

    Raises:
        EmptyRegionError: No input is assigned to the class, at least none in float32.

    >>> A, b = torch.eye(3), torch.tensor([-8.0, 0.0, 0.0])
    >>> drawn = sample_region(A, b, 0, 100, generator=torch.Generator().manual_seed(0))
    >>> drawn.method, bool(((drawn.samples @ A.T + b).argmax(1) == 0).all())
    ('tilting', True)
    """
    if count < 1:
        raise InputError("the number of samples is too small", expected="at least 1", got=count)
    region = win_region(A, b, k)
    seed = int(torch.randint(2**63 - 1, (1,), generator=generator))
    return _by_tilting(region, count, seed, threads) or _by_slices(region, count, seed, threads)


def _by_tilting(region: Region, count: int, seed: int, threads: int | None = None) -> RegionSample | None:
    """Sample exactly; return nothing if the pilot shows that too few proposals are accepted."""
    from sfra.attack.probes.tilting import prepare

    tilting = prepare(region)
    found: list[Float[ndarray, "n r"]] = []
    total = accepted = proposals = 0
    for hits, inside in _tiles(tilting, region, seed, threads):
        found.append(inside)
        total += len(inside)
        accepted += hits
        proposals += tilting.tile
        if total >= count:
            break
        if proposals >= PILOT and total < MIN_ACCEPTANCE * proposals:
            return None
    return RegionSample(
        samples=torch.from_numpy(np.concatenate(found)[:count]),
        method="tilting",
        acceptance=accepted / proposals,
        log_probability=tilting.log_bound + math.log(accepted / proposals),
        proposals=proposals,
        memory=0.0,
    )


def _tiles(
    tilting: Tilting, region: Region, seed: int, threads: int | None
) -> Iterator[tuple[int, Float[ndarray, "n r"]]]:
    """Yield per tile how many proposals were accepted, and those that are inside in float32, without end."""
    from sfra.attack.probes.tiles import in_order

    def work(index: int) -> tuple[int, Float[ndarray, "n r"]]:
        drawn = tilting.propose(seed, index).astype(np.float32)
        return len(drawn), drawn[region.contains(drawn)]

    return in_order(work, itertools.count(), threads)


def _by_slices(region: Region, count: int, seed: int, threads: int | None = None) -> RegionSample:
    """Sample with Markov chains, after checking that there is a region to walk in."""
    from sfra.attack.probes.slice import CHAINS, Chains

    _check_interior(region)
    chains = Chains(region, seed, threads)
    found: list[Float[ndarray, "n r"]] = []
    total = 0
    while total < count:
        drawn = chains.draw().astype(np.float32)
        found.append(drawn[region.contains(drawn)])
        total += len(found[-1])
        if total < len(found) * CHAINS // 100:
            raise _too_thin(region, f"{total} of {len(found) * CHAINS} draws win by more than float32 rounding")
    return RegionSample(
        samples=torch.from_numpy(np.concatenate(found)[:count]),
        method="slice",
        acceptance=math.nan,
        log_probability=chains.log_probability,
        proposals=chains.sweeps * CHAINS,
        memory=chains.memory,
    )


def _check_interior(region: Region) -> None:
    """Raise unless the region holds a ball that float32 can tell from a point."""
    radius = region.radius()
    if radius <= 0:
        raise EmptyRegionError(
            f"class {region.label} can never win: the linear program finds no input with this arg-max",
            expected="a retain class that some input is assigned to",
            got=f"{len(region.offsets)} constraints that contradict each other",
            do="audit a head that still assigns inputs to every retain class",
        )
    if radius < MIN_RADIUS:
        raise _too_thin(region, f"no ball larger than {radius:.1e} fits into it")


def _too_thin(region: Region, got: str) -> SamplingError:
    """Return the error for a region that exists in exact arithmetic only."""
    return EmptyRegionError(
        f"the region of class {region.label} is too thin for float32",
        expected=f"a ball of radius {MIN_RADIUS:.0e} inside the region",
        got=got,
        do="audit a head that still assigns inputs to every retain class",
    )
