"""Tell what is going on: bars on a terminal, a line per stage in a log, nothing when asked to be quiet."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sfra.cli.command import say

if TYPE_CHECKING:
    from rich.progress import Progress

Tell = Callable[[str, int, int], None]
"""Told the stage, how many parts of it are done, and of how many."""

PAUSE, SHARE = 10.0, 0.1
"""A log hears of a long stage again after this many seconds at least, and this share of it."""


UNITS = {
    "training": "epochs",
    "unlearning": "epochs",
    "relearning": "runs",
    "extracting features": "samples",
}
"""What a stage counts; other stages are steps of something longer."""


@contextmanager
def showing(*, quiet: bool = False) -> Iterator[Tell]:
    """Yield what a public function takes as ``progress``; everything it shows goes to stderr.

    >>> with showing(quiet=True) as tell:
    ...     tell("relearning", 1, 3)
    """
    if quiet:
        yield lambda stage, done, total: None
    elif not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        yield Lines()
    else:
        with _bars() as bars:
            yield Bars(bars)


@dataclass
class Lines:
    """One line whenever a stage begins, at most ``limit`` in all, and now and then how long it still takes."""

    limit: int = 12
    clock: Callable[[], float] = time.monotonic
    stage: str = ""
    done: int = 0
    first: tuple[float, int] = (0.0, 0)
    """When the stage began, and how much of it was done then."""
    told: tuple[float, int] = (0.0, 0)
    """The same for the last line about it."""

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Print a line if this is another stage than before, the same one from the start again, or a long one."""
        now = self.clock()
        if stage != self.stage or done < self.done:
            self.first = self.told = (now, done)
            if self.limit > 0:
                self.limit -= 1
                say(_begins(stage, done, total))
        elif done < total and now - self.told[0] >= PAUSE and done - self.told[1] >= SHARE * total:
            self.told = (now, done)
            left = (now - self.first[0]) / (done - self.first[1]) * (total - done)
            say(f"{stage}: {done:,} of {total:,}, {duration(left)} left")
        self.stage, self.done = stage, done


def _begins(stage: str, done: int, total: int) -> str:
    """Say that a stage begins, and how long it is.

    >>> _begins("training", 0, 40), _begins("auditing delete", 1, 5), _begins("loading data", 0, 1)
    ('training: 40 epochs', 'auditing delete (2 of 5)', 'loading data')
    """
    if total <= 1:
        return stage
    if stage == "resuming":
        return f"resuming a run of {total:,} epochs"
    if stage in UNITS:
        return f"{stage}: {total:,} {UNITS[stage]}"
    return f"{stage} ({min(done + 1, total):,} of {total:,})"


class Bars:
    """A bar for every stage; until the first one begins, a moving bar that says so."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self.task = progress.add_task("loading", total=None)
        self.stage, self.done = "loading", 0

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Move the bar of the stage."""
        if stage != self.stage or done < self.done:
            self.progress.remove_task(self.task)
            self.task = self.progress.add_task(stage, total=total, completed=done)
        self.progress.update(self.task, completed=done, total=total)
        self.stage, self.done = stage, done


def _bars() -> Progress:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    left = (TextColumn("left"), TimeRemainingColumn())
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), *left)
    return Progress(*columns, console=Console(stderr=True), transient=True)


def duration(seconds: float) -> str:
    """Say how long something takes, as precisely as anyone cares.

    >>> duration(8.2), duration(250), duration(9000)
    ('8 s', '4 min', '2 h 30 min')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"
