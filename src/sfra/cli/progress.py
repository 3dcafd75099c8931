"""Tell what is going on: a bar on a terminal, a few lines in a log, nothing when asked to be quiet."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sfra.cli.command import say
from sfra.core.progress import PARTS, begins, duration, named, share_of, time_left

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

    from sfra.bench.engine.summary import Progress as Cells
    from sfra.core.types import Progress

PAUSE, SHARE, BEAT = 10.0, 0.1, 60.0
"""A log hears of a long stage after this many seconds, and again after this share of it, or after that many seconds."""

UNITS = {
    "training": "epochs",
    "unlearning": "epochs",
    "extracting features": "samples",
}
"""What a stage counts; other stages are steps of something longer."""

EVERY = 5.0
"""Seconds between two lines about a grid."""

SEEN = 0.5
"""Share of the cells left whose kind must be known before a time is named."""

EVENTS = {"failed": "failed", "again": "crashed and will be tried again", "waiting": "is computed by another run"}
"""Events of a grid that are always told, and how."""


@contextmanager
def showing(*, quiet: bool = False) -> Iterator[Progress]:
    """Yield what a public function takes as ``progress``; everything it shows goes to stderr.

    >>> with showing(quiet=True) as tell:
    ...     tell("relearning", 1, 3)
    """
    if quiet:
        yield lambda stage, done, total: None
    elif not _terminal():
        yield Lines()
    else:
        with _bar() as bar:
            yield StageBar(bar)


@contextmanager
def showing_grid(*, quiet: bool = False) -> Iterator[Callable[[Cells], None] | None]:
    """Yield what a benchmark takes as ``progress``; everything it shows goes to stderr."""
    if quiet:
        yield None
    elif not _terminal():
        yield GridLines()
    else:
        with _bar() as bar:
            yield GridBar(bar)


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
        """Print a line if this is another stage than before, the same one from the start again, or a long one.

        The first line about a long one waits for an estimate.
        """
        now = self.clock()
        if begins(stage, done, total, self.stage, self.done):
            self.first = self.told = (now, done)
            if self.limit > 0:
                self.limit -= 1
                say(beginning(stage, done, total))
        elif self.first[1] < done < total and (silent := now - self.told[0]) >= PAUSE:
            left = time_left(now - self.first[0], done - self.first[1], done, total)
            news = left if self.told == self.first else abs(done - self.told[1]) >= SHARE * total
            if news or silent >= BEAT:
                self.told = (now, done)
                say(f"{stage}: {share_of(done, total)}{left and f', {left}'}")
        self.stage, self.done = stage, done


def beginning(stage: str, done: int, total: int) -> str:
    """Say that a stage begins, and how long it is.

    >>> beginning("training", 0, 40), beginning("auditing delete", 1, 5), beginning("loading data", 0, 1)
    ('training: 40 epochs', 'auditing delete (2 of 5)', 'loading data')
    >>> beginning("auditing (7 draws of probes)", 0, PARTS)
    'auditing: 7 draws of probes'
    """
    news = stage.partition(" (")[2].removesuffix(")")
    stage = named(stage)
    if total == PARTS:
        return f"{stage}: {news}" if news else stage
    if total <= 1:
        return stage
    if stage == "resuming":
        return f"resuming a run of {total:,} epochs"
    return (
        f"{stage}: {total:,} {UNITS[stage]}" if stage in UNITS else f"{stage} ({min(done + 1, total):,} of {total:,})"
    )


class StageBar:
    """A bar for every stage; until the first one begins, a moving bar that says so."""

    def __init__(self, bar: Bar) -> None:
        self.bar, self.task = bar, bar.add_task("loading", total=None, left="", count="")
        self.stage, self.done, self.first = "loading", 0, (0.0, 0)

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Move the bar of the stage."""
        now = time.monotonic()
        if begins(stage, done, total, self.stage, self.done):
            self.bar.remove_task(self.task)
            self.task = self.bar.add_task(stage, total=total, completed=done, left="", count="")
            self.first = (now, done)
        left = time_left(now - self.first[0], done - self.first[1], done, total)
        count = share_of(done, total).replace(" of ", "/")
        self.bar.update(self.task, completed=done, total=total, left=left, description=stage, count=count)
        self.stage, self.done = stage, done


@dataclass
class GridLines:
    """A line about the grid every few seconds, and one for everything that goes wrong."""

    clock: Callable[[], float] = time.monotonic
    last: float = float("-inf")
    waiting: set[str] = field(default_factory=set)

    def __call__(self, progress: Cells) -> None:
        """Print a line if there is something to tell; a cell that another run computes is told once."""
        label = progress.cell.label if progress.cell else ""
        if progress.event in EVENTS and label not in self.waiting:
            self.waiting |= {label} if progress.event == "waiting" else set()
            say(happened(progress))
        elif progress.event == "written" and (self.clock() - self.last > EVERY or not progress.left):
            self.last = self.clock()
            cells = f"{progress.done} of {progress.done + progress.left} cells"
            say(f"{cells}, {remaining(progress) or 'time left not known yet'}; last: {label}")


class GridBar:
    """A bar over all cells, with what is being computed beside it."""

    def __init__(self, bar: Bar) -> None:
        self.bar, self.task = bar, bar.add_task("starting", total=None, left="", count="")

    def __call__(self, progress: Cells) -> None:
        """Move the bar; what goes wrong is printed above it."""
        if progress.event in ("failed", "again"):
            style = "red" if progress.event == "failed" else "yellow"
            self.bar.console.print(happened(progress), style=style, markup=False, highlight=False)
        running = progress.running[-1].label if progress.running else ""
        more = f" and {len(progress.running) - 1} more" if len(progress.running) > 1 else ""
        failed = f"{progress.failed} failed" if progress.failed else ""
        self.bar.update(
            self.task,
            completed=progress.done,
            total=progress.done + progress.left,
            count=f"{progress.done}/{progress.done + progress.left}",
            description=f"{running}{more}",
            left=", ".join(part for part in (remaining(progress), failed) if part),
        )


def happened(progress: Cells) -> str:
    """Say what happened to a cell, in one line."""
    reason = progress.message.strip().partition("\n")[0]
    label = progress.cell.label if progress.cell else ""
    return f"{label} {EVENTS[progress.event]}" + (f": {reason}" if reason else "")


def remaining(progress: Cells) -> str:
    """Say how long the rest may take; nothing while most of it is of kinds not seen yet."""
    return "" if progress.eta is None or progress.seen < SEEN else f"about {duration(progress.eta)} left"


def _terminal() -> bool:
    return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


def _bar() -> Bar:
    """Make a bar that keeps its figures on a narrow terminal; the description gets the space that is left."""
    from rich import progress as rich
    from rich.console import Console
    from rich.table import Column

    console = Console(stderr=True)
    columns = (
        rich.BarColumn(bar_width=max(6, min(24, console.width // 5)), table_column=Column(no_wrap=True)),
        rich.TextColumn("{task.fields[count]}", table_column=Column(no_wrap=True), markup=False),
        rich.TimeElapsedColumn(table_column=Column(no_wrap=True)),
        rich.TextColumn("{task.fields[left]}", table_column=Column(no_wrap=True), markup=False),
        rich.TextColumn("{task.description}", style="dim", markup=False, table_column=Column(no_wrap=True, ratio=1)),
    )
    return rich.Progress(*columns, console=console, transient=True, expand=True)
