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
from functools import cache, partial
from itertools import pairwise

import torch

from sfra.attack.pulse import Pulse
from sfra.core.cpu import one_thread
from sfra.core.progress import PARTS
from sfra.core.types import Progress

TRIAL = 0.005
"""Seconds for which products are timed, at least one."""


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

    @property
    def pace(self) -> float | None:
        """Seconds for one unit: as seen, else as foretold, else not known."""
        return self.spent / self.done if self.done else self.seconds / self.amount if self.seconds else None


@dataclass(kw_only=True)
class Step:
    """What is being done now."""

    kind: Kind
    amount: int | float
    began: float
    first: tuple[float, float] | None
    """When this step was heard of first, and how much of it was done by then; what came before may be a preparation."""

    def left(self, now: float, done: float) -> float | None:
        """Return the seconds left for all of its kind, with some of it done; None if nothing is known."""
        spent, pace = now - self.began, self.kind.pace
        if self.first is not None and done > self.first[1]:
            rest = (now - self.first[0]) / (done - self.first[1]) * (self.amount - done)
        elif pace is not None:
            rest = max(0.0, pace * self.amount - spent)
        else:
            return None
        known = self.kind.done + self.amount
        return rest + (self.kind.spent + spent + rest) / known * max(0.0, self.kind.amount - known)


class Outlook:
    """Tell how much of all work is done, step by step.

    >>> heard, seconds = [], iter([0.0, 0.0, 10.0, 30.0, 50.0])
    >>> outlook = Outlook(lambda *word: heard.append(word), clock=seconds.__next__)
    >>> outlook.expect("drawing probes", 2, steps=2)
    >>> outlook.expect("relearning", 500, seconds=60.0)
    >>> with outlook.step("drawing probes", 1) as tell:
    ...     tell("drawing probes (0 of 5 classes full)", 0, 4)
    ...     tell("drawing probes (1 of 5 classes full)", 2, 4)
    >>> heard[-1]  # half a draw in 20 s: 20 s for the rest of it, 50 s for the next one, and 60 s as foretold
    ('auditing (drawing probes 1 of 2, 1 of 5 classes full)', 1875, 10000)
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
        step = Step(kind=kind, amount=amount, began=began, first=(began, 0.0) if unit else None)
        kind.begun += 1
        title = f"{name} {kind.begun} of {kind.steps}" if kind.steps > 1 else name
        self._tell(title, step, began, 0.0)

        def tell(stage: str, done: int, total: int) -> None:
            news = f"{done:,} of {total:,} {unit}" if unit else stage.partition(" (")[2].removesuffix(")")
            now, share = self._clock(), done / max(total, 1)
            self._tell(f"{title}, {news}" if news else title, step, now, amount * share)
            step.first = step.first or (now, amount * share)

        yield tell
        kind.done += amount
        kind.spent += self._clock() - began

    def pulse(self, tell: Progress) -> Pulse:
        """Return what passes on the progress of a step, once a second."""
        return Pulse(tell, "step", clock=self._clock)

    def _tell(self, what: str, step: Step, now: float, done: float) -> None:
        """Tell the share that is done: 0 as long as the time left is not known."""
        if self._progress is None:
            return
        others = [(kind.pace, kind.amount - kind.done) for kind in self.kinds.values() if kind is not step.kind]
        lefts = [step.left(now, done), *(pace and pace * amount for pace, amount in others if amount > 0)]
        gone, left = now - self._began, None if None in lefts else sum(filter(None, lefts))
        self._progress(f"auditing ({what})", 0 if left is None else int(PARTS * gone / max(gone + left, 1e-9)), PARTS)


@cache
def product_speed(
    classes: int, width: int, device: str = "cpu", rows: int = 256, clock: Callable[[], float] = time.perf_counter
) -> float:
    """Measure the operations a second of the products that relearning consists of: one thread's, times the threads.

    The quickest of several counts, after one that starts the library. On a device they are not compiled, and quicker.
    """
    x, W, threads = torch.ones(rows, width), torch.ones(classes, width), torch.get_num_threads()
    multiply: Callable[[], object] = partial(torch.mm, x, W.T)
    if device == "cpu":
        from sfra.attack.adam_kernels import logits  # numba is slow to import

        b, z = torch.zeros(classes), torch.zeros(classes + 1, rows + 3).numpy()
        multiply = partial(logits, W.numpy(), b.numpy(), x.numpy(), torch.arange(rows).numpy(), z, 0, classes)
    with one_thread():
        multiply()
        times = [clock()]
        while times[-1] - times[0] < TRIAL:
            multiply()
            times.append(clock())
    return threads * 2.0 * rows * classes * width / max(min(b - a for a, b in pairwise(times)), 1e-9)
