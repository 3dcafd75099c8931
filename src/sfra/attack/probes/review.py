"""Decide, as the stream goes on, whether it still pays: the draw budget and the switch to conditional sampling."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from sfra.attack.probes.pools import Pools
from sfra.core.errors import SamplingError

WARM_UP = 2**20
"""Draws before the first judgement: acceptances are estimated from them."""

CONDITIONAL_COST = {"cpu": 40.0, "other": 2500.0}
"""Cost of one conditional sample, which is always made on the CPU, in plain draws of the stream's device.

Measured on one core with tilting: 28, 43, 34 and 30 plain draws at 10, 100, 200 and 1,000 classes."""

SET_UP_COST = {"cpu": 2.0**16, "other": 2.0**26}
"""Cost of preparing the conditional sampler of one class, in plain draws of the stream's device."""


OTHERWISE = "lower n, raise max_draws, or use the gaussian proposal, which can sample rare classes"
"""What to do about a proposal that cannot be conditioned."""


class Review:
    """Watch the pools fill, and end the stream when it no longer pays.

    A plain draw fills a place in some open pool with probability ``Σ p_k`` over the open classes; a conditional
    sample always does, at the cost of that many plain draws. So the stream ends when the open classes' total
    acceptance falls below one over that cost, unless finishing by plain draws is cheaper than the switch. The
    decision rests on counts alone, never on scores, so the pools stay exact.
    """

    def __init__(self, max_draws: int, *, can_condition: bool) -> None:
        self._max_draws, self._can_condition = max_draws, can_condition

    def goes_on(self, pools: Pools) -> bool:
        """Tell whether the next chunk is worth drawing.

        Raises:
            SamplingError: The pools cannot be filled within the budget and the proposal cannot be conditioned.
        """
        if self._can_condition:
            return pools.draws < self._max_draws and not self._switch_pays(pools)
        late = self._hopeless(pools)
        if late:
            raise unfilled(pools, late, "the draw budget cannot fill the pool of every retain class")
        return True

    def left(self, pools: Pools) -> float:
        """Return how many draws, or what costs as much, are still to be made, as far as that is known."""
        now, later = self._prices(pools)
        return min(now, later) if self._can_condition else later

    def _switch_pays(self, pools: Pools) -> bool:
        if pools.draws < WARM_UP:
            return False
        now, later = self._prices(pools)
        return later >= now

    @staticmethod
    def _prices(pools: Pools) -> tuple[float, float]:
        landed = pools.tally[pools.open].astype(float)
        device = "cpu" if pools.landed.device.type == "cpu" else "other"
        return prices(pools.n - landed, landed / pools.draws, device)

    def _hopeless(self, pools: Pools) -> list[int]:
        """Return the classes that will not be full at the end of the budget, even if they have been unlucky."""
        if pools.draws >= self._max_draws:
            return pools.open
        if pools.draws < WARM_UP:
            return []
        share = self._max_draws / pools.draws
        return [k for k in pools.open if self._falls_short(int(pools.tally[k]), share, pools.n)]

    @staticmethod
    def _falls_short(count: int, share: float, n: int) -> bool:
        return (count + 4.0 * math.sqrt(count) + 8.0) * share < n


def prices(need: Float[ndarray, " k"], rate: Float[ndarray, " k"], device: str) -> tuple[float, float]:
    """Return the cost, in plain draws, of conditional samples for all that is missing, and of drawing on first.

    Args:
        need: Candidates that each open class still misses.
        rate: Probability that a draw falls to it.
        device: ``cpu`` or ``other``.
    """
    cost, set_up = CONDITIONAL_COST[device], SET_UP_COST[device]
    full = need / np.maximum(rate, 1e-300)  # draws until each pool is full: the cost can only be least there
    order = full.argsort()
    full, need, rate = full[order], need[order], rate[order]
    price = (set_up + cost * need).cumsum()
    later = full + price[-1] - price - cost * full * (rate.sum() - rate.cumsum())
    return float(price[-1]), float(later.min())


def unfilled(pools: Pools, labels: Sequence[int], why: str, *, do: str = OTHERWISE) -> SamplingError:
    """Return the error that names the classes without a full pool and their acceptance."""
    rates = ", ".join(f"class {k}: {float(pools.acceptance[k]):.1e}" for k in labels)
    return SamplingError(
        why,
        expected=f"{pools.n:,} candidates in every retain class",
        got=f"acceptance over {pools.draws:,} draws: {rates}",
        do=do,
    )
