"""Nearly independent draws from a Gaussian under linear constraints, by many Markov chains: the fallback.

The chains move by elliptical slice sampling under the constraints (``arcs``), in two ways adapted to
a population of them. The Gaussian is written around the population's mean ``c``, ``φ(u) ∝ φ(u - c) e^{-c·u}``, whose
second factor is one more linear constraint, drawn anew for each move; and a sweep moves one group of principal axes
of similar spread after the other, as a thin region would otherwise hold up all the wide directions. Far in the
tail (``P = e^-400``) plain moves remember nearly everything after a hundred; so, most is gone after fifty sweeps.

The population starts from exact draws under the constraints that can be tilted, then enters the others in levels:
the constraint set is shifted so that a fixed share satisfies it, these are copied over the rest and moved, until the
shift is zero (subset simulation). So the chains start dispersed, and ``log P`` is estimated on the way.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from sfra.attack.probes.arcs import walk
from sfra.attack.probes.linear import BLOCK, multiply, pad, principal_axes
from sfra.attack.probes.region import Region
from sfra.attack.probes.tiles import in_order
from sfra.attack.probes.tilting import Tilting, prepare
from sfra.core.errors import SamplingError

CHAINS = 1024
"""Chains of the population; a multiple of the 64 that one tile moves."""

KEEP = 0.25
"""Share of the population that satisfies the next level."""

LEVEL_SWEEPS = 10
"""Sweeps at each level."""

MEMORY = 0.2
"""Thinning doubles until no principal coordinate correlates more than this with its value before, then once more."""

FIRST_THINNING, LAST_THINNING = 25, 1600
"""Sweeps with which the search for the thinning starts, and where it gives up."""

_TILE = 64
_MAX_LEVELS = 2000
_START_ACCEPTANCE = 1e-3


@dataclass(frozen=True, eq=False, kw_only=True)
class _Frame:
    """Where the chains' coordinates ``y`` have their origin and axes: ``u = center + axes y``."""

    center: Float[ndarray, " r"]
    axes: Float[ndarray, "r r"]
    edges: Int[ndarray, " groups"]

    @classmethod
    def of(cls, population: Float[ndarray, "n r"]) -> _Frame:
        """Fit the frame to a population: its mean, its principal axes, and groups of variance within a factor 2.

        A population of fewer than four chains per coordinate says little about axes: then they stay as they are.
        """
        center = population.mean(axis=0)
        centred = population - center
        r = len(center)
        if 4 * r <= len(population):
            variances, axes = principal_axes(multiply(centred.T, centred) / len(population))
        else:
            order = np.argsort(centred.var(axis=0), kind="stable")
            variances, axes = centred.var(axis=0)[order], np.eye(r)[:, order]
        edges = [0]
        for i in range(1, r):
            if variances[i] > 2.0 * variances[edges[-1]]:
                edges.append(i)
        return cls(center=center, axes=np.ascontiguousarray(axes), edges=np.array([*edges, r]))

    def coordinates(self, population: Float[ndarray, "n r"]) -> Float[ndarray, "r n"]:
        """Return the coordinates ``y`` of a population, as columns."""
        return multiply(self.axes.T, np.ascontiguousarray((population - self.center).T))


class Chains:
    """A population of Markov chains inside a region; :meth:`draw` advances it and returns where it stands."""

    def __init__(self, region: Region, seed: int, threads: int | None = None) -> None:
        self._region, self._seed, self._threads, self._tiles_used = region, seed, threads, 0
        self.sweeps = 0
        """Sweeps that each chain has made."""
        tilting = self._start()
        self.log_probability = self._enter(tilting)
        """Estimate of ``log P(region)``."""
        self._frame = _Frame.of(self.population)
        self.thinning, self.memory = self._thin()

    def draw(self) -> Float[ndarray, "n r"]:
        """Move every chain by the thinning and return the population."""
        self._move(self._region.offsets, self.thinning)
        return self.population

    def _start(self) -> Tilting:
        """Draw the population under as many constraints as tilting serves well; keep the log probability of those."""
        limit = min(self._region.rows.shape)
        while True:
            tilting = prepare(self._region, limit).cone
            proposals, accepted = 0, [np.empty((0, tilting.width))]
            while sum(map(len, accepted)) < CHAINS and _pays(proposals, sum(map(len, accepted))):
                accepted.append(tilting.propose(self._seed, self._next_tiles(1)[0]))
                proposals += tilting.tile
            drawn = np.concatenate(accepted)
            if len(drawn) >= CHAINS:
                self.population = drawn[:CHAINS]
                self._log_start = tilting.log_bound + float(np.log(len(drawn) / proposals))
                return tilting
            limit = len(tilting.shifts) // 2

    def _enter(self, tilting: Tilting) -> float:
        """Move the population into the region, level by level, and return ``log P(region)``."""
        rows, offsets = self._region.rows, self._region.offsets
        entered = np.isin(np.arange(len(offsets)), tilting.order)
        log_probability = self._log_start
        for _ in range(_MAX_LEVELS):
            slack = multiply(rows, np.ascontiguousarray(self.population.T)) - offsets[:, None]
            worst = np.where(entered[:, None], np.inf, slack).min(axis=0)
            shift = min(0.0, float(np.quantile(worst, 1.0 - KEEP, method="lower")))
            alive = np.flatnonzero(worst >= shift)
            log_probability += float(np.log(len(alive) / CHAINS))
            self._frame = _Frame.of(self.population[alive])
            self.population = self.population[alive[np.arange(CHAINS) % len(alive)]]
            self._move(np.where(entered, offsets, offsets + shift), LEVEL_SWEEPS)
            if shift == 0.0:
                return log_probability
        raise SamplingError(
            f"the region of class {self._region.label} was not reached",
            expected=f"at most {_MAX_LEVELS} levels of subset simulation",
            got=f"a log probability below {log_probability:.0f}",
        )

    def _thin(self) -> tuple[int, float]:
        """Return how many sweeps to make between draws, and the largest correlation left after them."""
        thinning = FIRST_THINNING
        while self._correlation(thinning) > MEMORY and thinning < LAST_THINNING:
            thinning *= 2
        self._frame = _Frame.of(self.population)
        return 2 * thinning, self._correlation(2 * thinning)

    def _correlation(self, sweeps: int) -> float:
        """Move the chains and return the largest correlation of a coordinate with its value before."""
        before = self._frame.coordinates(self.population)
        self._move(self._region.offsets, sweeps)
        after = self._frame.coordinates(self.population)
        before, after = (values - values.mean(axis=1, keepdims=True) for values in (before, after))
        return float(((before * after).mean(axis=1) / (before.std(axis=1) * after.std(axis=1))).max())

    def _move(self, offsets: Float[ndarray, " m"], sweeps: int) -> None:
        """Advance the population under the given offsets, tile by tile on several threads."""
        frame, rows = self._frame, self._region.rows
        turned = np.vstack([multiply(rows, frame.axes), -multiply(frame.axes.T, frame.center[:, None]).T])
        limits = np.append(offsets - multiply(rows, frame.center[:, None])[:, 0], 0.0)
        turned, y = pad(turned, BLOCK, 4), pad(frame.coordinates(self.population), 4, 1)
        tiles = self._next_tiles(CHAINS // _TILE)

        def advance(i: int) -> Float[ndarray, "r4 tile"]:
            part = np.ascontiguousarray(y[:, i * _TILE : (i + 1) * _TILE])
            walk(turned, limits, part, frame.edges, sweeps, np.uint64(self._seed), np.uint64(tiles[i]))
            return part

        moved = np.concatenate(list(in_order(advance, range(len(tiles)), self._threads)), axis=1)[: len(frame.center)]
        self.population = np.ascontiguousarray(multiply(frame.axes, moved).T) + frame.center
        self.sweeps += sweeps

    def _next_tiles(self, count: int) -> range:
        """Return the numbers of streams that have not been used."""
        self._tiles_used += count
        return range(self._tiles_used - count, self._tiles_used)


def _pays(proposals: int, accepted: int) -> bool:
    """Say whether a proposal for the start is worth going on with."""
    return proposals < 2**14 or accepted >= _START_ACCEPTANCE * proposals
