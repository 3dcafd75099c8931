"""Choose between the plain stream and the weighted one, by what each would cost on the device.

Times of one draw in nanoseconds on one core, for ``C`` classes and ``r`` coordinates, as ``benchmarks/sampler.py`` fits
them:

    plain      0.021 C r + 0.9 r + 0.5 C                logits; normals; arg-max and log-odds of every class
    weighted   0.021 C r + 0.9 r + 75 C + 0.1 C² / s    the same; mixing and sieving; a candidate for every s-th pair

On a GPU (an H200). The weighted terms fit what was measured at 200, 1,000 and 21,841 classes; 150 ns of them are
launches. The plain ones are rough: they follow timings of 10 to 512 classes within a third, which no benchmark repeats:

    plain      1.4e-5 C r + 0.0015 r + 0.0015 C + 0.1
    weighted   1e-4 C r + 0.005 r + 0.3 C + 0.0004 C² / s + 150

The plain stream needs ``n / π_k`` draws until class ``k`` is full, or fewer and conditional samples for the rest
(``review``); the weighted one ``n s``, whatever the ``π_k``. Up to ``FEW`` classes the plain stream stays in any case:
its candidates are independent without any proviso, and what it gives does not change.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from jaxtyping import Bool, Float
from numpy import ndarray
from torch import Tensor

from sfra.attack.probes.lines import Lines
from sfra.attack.probes.pools import Pools
from sfra.attack.probes.review import CONDITIONAL_COST, SET_UP_COST, WARM_UP, prices
from sfra.attack.probes.stream import Stream
from sfra.attack.probes.weighted import SPREADS, Pilot, WeightedStream

if TYPE_CHECKING:
    from sfra.attack.probes.device_lines import DeviceLines

FEW = 128
"""Number of classes up to which only the plain stream is used."""

CLEARLY = 2.0
"""How many times cheaper the weighted stream must be."""

REPEATS = 1e-3
"""Share of the candidates that may repeat a draw, over all classes that are served."""

MOST_REPEATS = 3e-2
"""The same for one class; one that would exceed it is left to conditional sampling."""

_CPU = torch.device("cpu")

PATIENCE = 4.0
"""How many times the expected draws are made before a class that lags behind is left to conditional sampling."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Plan:
    """A weighted stream that is to be used."""

    lines: Lines | DeviceLines
    bounds: Float[ndarray, " C"]
    """``spread π_k``, infinite for classes that are not served."""
    draws: int
    """Draws after which the pools should be full."""
    most: int
    """Draws after which a class that lags behind is left to conditional sampling."""
    seconds: float
    """What that takes on one core or on the device, roughly."""
    plain_seconds: float
    """The same for the plain stream."""

    @property
    def pays(self) -> bool:
        """Tell whether this is clearly the cheaper way."""
        return CLEARLY * self.seconds < self.plain_seconds

    def stream(self, seed: int, threads: int) -> Stream:
        """Open the stream."""
        if isinstance(self.lines, Lines):
            return WeightedStream(self.lines, self.bounds, seed=seed, threads=threads)
        from sfra.attack.probes.device_weights import DeviceWeightedStream, loops_on

        loops = loops_on(self.lines.rows.device)
        return DeviceWeightedStream(self.lines, self.bounds, seed=seed, loops=loops)

    def goes_on(self, pools: Pools) -> bool:
        """Tell whether the next chunk is worth drawing: a class that is served still has room."""
        return pools.draws < self.most and bool(np.isfinite(self.bounds[pools.open]).any())

    def left(self, pools: Pools) -> float:
        """Return how many draws are still to be made, as far as that is known."""
        return float(max(0, self.draws - pools.draws))


def plain_cost(classes: int, rank: int) -> float:
    """Return the seconds of one plain draw."""
    return 1e-9 * (0.021 * classes * rank + 0.9 * rank + 0.5 * classes)


def weighted_cost(classes: int, rank: int, spread: float) -> float:
    """Return the seconds of one weighted draw."""
    return 1e-9 * (0.021 * classes * rank + 0.9 * rank + 75.0 * classes + 0.1 * classes**2 / spread)


def device_plain_cost(classes: int, rank: int) -> float:
    """Return the seconds of one plain draw on a GPU."""
    return 1e-9 * (1.4e-5 * classes * rank + 0.0015 * rank + 0.0015 * classes + 0.1)


def device_weighted_cost(classes: int, rank: int, spread: float) -> float:
    """Return the seconds of one weighted draw on a GPU."""
    return 1e-9 * (1e-4 * classes * rank + 0.005 * rank + 0.3 * classes + 0.0004 * classes**2 / spread + 150.0)


def prepare(
    weight: Float[Tensor, "C r"],
    bias: Float[Tensor, " C"],
    retain: Bool[Tensor, " C"],
    seed: int,
    device: torch.device,
    threads: int = 1,
) -> tuple[Lines | DeviceLines, Pilot]:
    """Return the lines of a head and their pilot, for the compiled loops or on a torch device."""
    if device.type == "cpu":
        lines = Lines.of(weight, bias, retain, threads)
        return lines, Pilot.of(lines, seed, threads)
    from sfra.attack.probes.device_lines import DeviceLines
    from sfra.attack.probes.device_weights import loops_on, pilot_on_device

    there = DeviceLines.of(weight, bias, retain, device)
    return there, pilot_on_device(there, seed, loops_on(device))


def plan_weights(
    weight: Float[Tensor, "C r"],
    bias: Float[Tensor, " C"],
    retain: Bool[Tensor, " C"],
    *,
    n: int,
    seed: int,
    max_draws: int,
    device: torch.device = _CPU,
    threads: int = 1,
) -> Plan:
    """Run the pilot and return the weighted stream at its best, with both costs.

    >>> plan = plan_weights(torch.eye(5), torch.zeros(5), torch.arange(5) > 0, n=1000, seed=0, max_draws=10**9)
    >>> np.isfinite(plan.bounds).tolist()
    [False, True, True, True, True]
    """
    classes, rank = weight.shape
    lines, pilot = prepare(weight, bias, retain, seed, device, threads)
    here = device.type == "cpu"
    kind, weighing = ("cpu", weighted_cost) if here else ("other", device_weighted_cost)
    asked = retain.numpy()
    one = (plain_cost if here else device_plain_cost)(classes, rank)
    conditional = one * (SET_UP_COST[kind] + CONDITIONAL_COST[kind] * n)
    best = np.inf, np.inf, np.zeros(classes, bool)
    for spread, repeats in zip(SPREADS.tolist(), pilot.repeats, strict=True):
        served = asked & (repeats <= MOST_REPEATS)
        cost = n * spread * weighing(classes, rank, spread) + conditional * (asked & ~served).sum()
        if served.any() and repeats[served].mean() <= REPEATS and cost < best[0]:
            best = cost, spread, served
    seconds, spread, served = best
    now, later = prices(np.full(asked.sum(), float(n)), pilot.probability[asked], kind)
    draws = int(n * spread) if served.any() else 0
    return Plan(
        lines=lines,
        bounds=np.where(served, spread * pilot.probability, np.inf),
        draws=draws,
        most=min(max_draws, int(PATIENCE * draws)),
        seconds=float(seconds),
        plain_seconds=one * (WARM_UP + min(now, later)),
    )
