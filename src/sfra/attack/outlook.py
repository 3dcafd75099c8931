"""How long an attack takes, told while it runs: one estimate over all draws, relearnings and measurements.

The work is known from the start. A kind of work goes on at the pace that it had so far; one that has not begun takes as
long as was foretold. With ``t`` seconds gone and ``l`` seconds left the share that is done is ``t / (t + l)``, so that
whoever is told the share knows the time left. It falls where the work turns out to be longer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise

import torch

from sfra.attack.pulse import Pulse
from sfra.core.progress import PARTS
from sfra.core.types import Progress

TRIAL = 0.01
"""Seconds for which products are timed, at least three."""


@dataclass(kw_only=True)
class Kind:
    """Work of one kind, in any unit, and how much of it was done in how long."""

    amount: int | float
    seconds: float = 0.0
    """How long all of it takes, as foretold."""
    steps: int = 0
    """Steps that it comes in, where they are counted aloud."""
    begun: int = 0
    done: int | float = 0.0
    spent: float = 0.0

    def left(self, done: float = 0.0, spent: float = 0.0) -> float:
        """Return the seconds left, with what the current step has done so far and how long that took."""
        done, spent = self.done + done, self.spent + spent
        if done <= 0.0:
            return max(self.seconds, spent)
        return spent / done * max(0.0, self.amount - done)


class Outlook:
    """Tell how much of all work is done, step by step.

    >>> heard, seconds = [], iter([0.0, 0.0, 0.0, 30.0, 60.0])
    >>> outlook = Outlook(lambda *word: heard.append(word), clock=seconds.__next__)
    >>> outlook.expect("drawing probes", 2, steps=2)
    >>> outlook.expect("relearning", 500, seconds=60.0)
    >>> with outlook.step("drawing probes", 1) as tell:
    ...     tell("drawing probes (1 of 5 classes full)", 1, 2)
    >>> heard[-1]  # half a minute for half a draw: 90 s for the rest of both, and 60 s as foretold
    ('auditing (drawing probes 1 of 2, 1 of 5 classes full)', 1666, 10000)
    """

    def __init__(self, progress: Progress | None = None, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._progress, self._clock, self._began = progress, clock, clock()
        self.kinds: dict[str, Kind] = {}

    def expect(self, name: str, amount: int | float, *, seconds: float = 0.0, steps: int = 0) -> None:
        """Add work of a kind, and how long it may take if that is known before it begins."""
        kind = self.kinds.setdefault(name, Kind(amount=0))
        kind.amount += amount
        kind.seconds += seconds
        kind.steps += steps

    def announce(self, plan: str) -> None:
        """Say once what is going to be done."""
        if self._progress is not None:
            self._progress(f"auditing ({plan})", 0, PARTS)

    @contextmanager
    def step(self, name: str, amount: int | float, unit: str = "") -> Iterator[Progress]:
        """Do some work of a kind inside the block; what is yielded takes how much of this step is done, in a unit."""
        began, kind = self._clock(), self.kinds.setdefault(name, Kind(amount=amount))
        kind.begun += 1
        title = f"{name} {kind.begun} of {kind.steps}" if kind.steps > 1 else name
        self._tell(title, kind, 0.0, began)

        def tell(stage: str, done: int, total: int) -> None:
            news = f"{done:,} of {total:,} {unit}" if unit else stage.partition(" (")[2].removesuffix(")")
            self._tell(f"{title}, {news}" if news else title, kind, amount * done / max(total, 1), began)

        yield tell
        kind.done += amount
        kind.spent += self._clock() - began

    def pulse(self, tell: Progress) -> Pulse:
        """Return what passes on the progress of a step, once a second."""
        return Pulse(tell, "step", clock=self._clock)

    def _tell(self, what: str, kind: Kind, done: float, began: float) -> None:
        if self._progress is None:
            return
        now = self._clock()
        others = sum(other.left() for other in self.kinds.values() if other is not kind)
        gone, left = now - self._began, others + kind.left(done, now - began)
        self._progress(f"auditing ({what})", int(PARTS * gone / max(gone + left, 1e-9)), PARTS)


def product_speed(classes: int, width: int, rows: int = 256, clock: Callable[[], float] = time.perf_counter) -> float:
    """Measure the operations a second of the products that relearning consists of, with all threads of torch.

    The quickest of several counts: the first one starts threads and libraries.
    """
    x, W = torch.ones(rows, width), torch.ones(classes, width)
    times = [clock()]
    while len(times) < 4 or times[-1] - times[0] < TRIAL:
        torch.mm(x, W.T)
        times.append(clock())
    return 2.0 * rows * classes * width / max(min(b - a for a, b in pairwise(times)), 1e-9)
