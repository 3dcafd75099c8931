"""Decide, as the stream goes on, whether it still pays: the draw budget and the switch to conditional sampling."""

from __future__ import annotations

from collections.abc import Sequence

from sfra.errors import SamplingError
from sfra.probes.pools import Pools

WARM_UP = 2**20
"""Draws before the first judgement: acceptances are estimated from them."""

CONDITIONAL_COST = 20.0
"""Cost of one conditional sample in plain draws."""

SET_UP_COST = 2.0**20
"""Cost of preparing the conditional sampler of one class, in plain draws."""


class Review:
    """Watch the pools fill, and end the stream when it no longer pays.

    A plain draw fills a place in some open pool with probability ``Σ p_k`` over the open classes; a conditional
    sample always does, at ``CONDITIONAL_COST`` plain draws. So the stream ends when the open classes' total
    acceptance falls below ``1 / CONDITIONAL_COST``, unless finishing by plain draws is cheaper than the switch. The
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

    @staticmethod
    def _switch_pays(pools: Pools) -> bool:
        if pools.draws < WARM_UP:
            return False
        need = [pools.n - int(pools.landed[k]) for k in pools.open]
        rate = [float(pools.acceptance[k]) for k in pools.open]
        if sum(rate) >= 1.0 / CONDITIONAL_COST:
            return False
        by_stream = max(want / max(p, 1e-300) for want, p in zip(need, rate, strict=True))
        return by_stream > len(need) * SET_UP_COST + CONDITIONAL_COST * sum(need)

    def _hopeless(self, pools: Pools) -> list[int]:
        """Return the classes that will not be full at the end of the budget, even if they have been unlucky."""
        if pools.draws >= self._max_draws:
            return pools.open
        if pools.draws < WARM_UP:
            return []
        share = self._max_draws / pools.draws
        seen = {k: int(pools.landed[k]) for k in pools.open}
        return [k for k, count in seen.items() if (count + 4.0 * count**0.5 + 8.0) * share < pools.n]


def unfilled(pools: Pools, labels: Sequence[int], why: str) -> SamplingError:
    """Return the error that names the classes without a full pool and their acceptance."""
    rates = ", ".join(f"class {k}: {float(pools.acceptance[k]):.1e}" for k in labels)
    return SamplingError(
        why,
        expected=f"{pools.n:,} candidates in every retain class",
        got=f"acceptance over {pools.draws:,} draws: {rates}",
        do="lower n, raise max_draws, or use the gaussian proposal, which can sample rare classes",
    )
