"""Progress of a long call, in one line that is written over: in a notebook and on a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

Given = ParamSpec("Given")
Result = TypeVar("Result")

PARTS = 10_000
"""Parts of a stage that is told as a share of the whole."""

WIDTH, PAUSE = 20, 0.1
"""Characters of the bar, and the least number of seconds between two lines about a stage."""


class Line:
    """A bar in one line, with the stage and how long it still takes; the last line says how long all of it took."""

    def __init__(self, stream: Any = None, clock: Callable[[], float] = time.monotonic) -> None:
        self.stream = stream or (sys.stdout if "ipykernel" in sys.modules else sys.stderr)  # notebooks paint stderr red
        self.clock, self.began, self.wide = clock, clock(), 0
        self.stage, self.done, self.first, self.told = "", 0, (0.0, 0), 0.0

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Write the line anew, unless it was written just now."""
        now = self.clock()
        if begins(stage, done, total, self.stage, self.done):
            self.first, self.told = (now, done), float("-inf")
        self.stage, self.done = stage, done
        if now - self.told < PAUSE and done < total:
            return
        self.told = now
        full = round(WIDTH * done / max(total, 1))
        left = time_left(now - self.first[0], done - self.first[1], done, total) if done < total else ""
        count = f" {share_of(done, total)}" if total > 1 else ""
        self.write(f"{'█' * full}{'░' * (WIDTH - full)} {stage}{count}{left and f', {left}'}")

    def write(self, text: str) -> None:
        """Write over what stands in the line."""
        self.stream.write(f"\r{text.ljust(self.wide)}")
        self.stream.flush()
        self.wide = len(text)

    def end(self) -> None:
        """Say how long everything took, and leave the line."""
        self.write(f"done in {duration(self.clock() - self.began)}")
        self.stream.write("\n")


def begins(stage: str, done: int, total: int, before: str, done_before: int) -> bool:
    """Tell whether a stage begins: another one than before, or the same from the start again.

    What is in brackets behind its name is news of it. A share of the whole may fall: what is left was found to be more.

    >>> begins("auditing (drawing)", 9, PARTS, "auditing", 20), begins("training", 1, 40, "training", 20)
    (False, True)
    """
    return named(stage) != named(before) or (done < done_before and total != PARTS)


def named(stage: str) -> str:
    """Return the name of a stage without its news.

    >>> named("auditing (3 of 9 classes full)")
    'auditing'
    """
    return stage.partition(" (")[0]


def share_of(done: int, total: int) -> str:
    """Say how much is done: a number of things, or where they are parts of the whole, a share.

    >>> share_of(3, 700), share_of(412, PARTS)
    ('3 of 700', '4 %')
    """
    return f"{100 * done // total} %" if total == PARTS else f"{done:,} of {total:,}"


def time_left(since: float, ahead: int, done: int, total: int) -> str:
    """Say how long the rest takes, after ``ahead`` was done in some seconds; nothing before 0.2 % of a share.

    >>> time_left(10.0, 5, 5, 10), time_left(10.0, PARTS // 1000, PARTS // 1000, PARTS)
    ('about 10 s left', '')
    """
    enough = PARTS // 500 if total == PARTS else 1
    return f"about {duration(since / ahead * (total - done))} left" if ahead >= enough else ""


def duration(seconds: float) -> str:
    """Say how long something takes, as precisely as anyone cares.

    >>> duration(8.2), duration(250.0), duration(9000.0)
    ('8 s', '4 min', '2 h 30 min')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"


def shows_progress(call: Callable[Given, Result]) -> Callable[Given, Result]:
    """Let a function with a keyword ``progress`` take True for it, and show a line while it runs."""

    @wraps(call)
    def shown(*args: Given.args, **given: Given.kwargs) -> Result:
        told: dict[str, Any] = given
        if told.get("progress") is not True:
            return call(*args, **given)
        line = Line()
        told["progress"] = line
        try:
            return call(*args, **given)
        finally:
            line.end()

    return shown
