"""Tell what is going on: bars on a terminal, a line per stage in a log, nothing when asked to be quiet."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sfra.cli.command import say

if TYPE_CHECKING:
    from rich.progress import Progress

Tell = Callable[[str, int, int], None]
"""Told the stage, how many parts of it are done, and of how many."""


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
    """One line whenever a stage begins, at most ``limit`` in all."""

    limit: int = 12
    stage: str = ""
    done: int = 0

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Print a line if this is another stage than before, or the same one from the start again."""
        if (stage != self.stage or done < self.done) and self.limit > 0:
            self.limit -= 1
            say(f"{stage} ({total:,})" if total > 1 else stage)
        self.stage, self.done = stage, done


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
            self.task = self.progress.add_task(stage, total=total)
        self.progress.update(self.task, completed=done, total=total)
        self.stage, self.done = stage, done


def _bars() -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, console=Console(stderr=True), transient=True)
