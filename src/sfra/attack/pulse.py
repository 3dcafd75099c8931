"""Tell now and then how far a long step is; a short one is over before the first word."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from sfra.core.types import Progress

QUIET, EVERY = 1.0, 1.0
"""Seconds before the first word, and between two."""


class Pulse:
    """Pass on how much of a step is done, at most once a second; any thread may call.

    >>> heard, seconds = [], iter([0.0, 0.5, 1.0, 1.5, 2.0])
    >>> pulse = Pulse(lambda *word: heard.append(word), "drawing probes", clock=seconds.__next__)
    >>> for done in (1, 2, 3, 4):
    ...     pulse(done, 9, "3 of 5 classes full")
    >>> heard
    [('drawing probes (3 of 5 classes full)', 2, 9), ('drawing probes (3 of 5 classes full)', 4, 9)]
    """

    def __init__(self, progress: Progress | None, stage: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._progress, self._stage, self._clock, self._lock = progress, stage, clock, threading.Lock()
        self._next = clock() + QUIET

    @property
    def due(self) -> bool:
        """Tell whether the next word would be passed on."""
        return self._progress is not None and self._clock() >= self._next

    def __call__(self, done: int, total: int, note: str = "") -> None:
        """Say how much is done; the note is what else there is to know."""
        if self._progress is None:
            return
        with self._lock:
            now = self._clock()
            if now >= self._next:
                self._next = now + EVERY
                self._progress(f"{self._stage} ({note})" if note else self._stage, done, total)
