"""How long a piece of work takes: one way for all benchmarks."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

Clock = Callable[[], float]


def shortest(work: Callable[[], object], times: int = 5, clock: Clock = time.perf_counter) -> float:
    """Return the least seconds of some runs, after one that does not count; a GPU is waited for."""
    return shortest_of_each(work, times, clock)[0]


def shortest_of_each(work: Callable[[], object], times: int, *clocks: Clock) -> list[float]:
    """Return the least seconds that each of several clocks counted of the same runs."""
    taken = []
    for _ in range(times + 1):
        began = [clock() for clock in clocks]
        work()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        taken.append([clock() - start for clock, start in zip(clocks, began, strict=True)])
    return [min(each) for each in zip(*taken[1:], strict=True)]
