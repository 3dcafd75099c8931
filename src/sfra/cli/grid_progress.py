"""Tell how far a grid is: one bar on a terminal, a line now and then in a log."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sfra.cli.command import say

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

    from sfra.bench.engine.summary import Progress

EVERY = 5.0
"""Seconds between two lines of a log."""

SEEN = 0.5
"""Share of the cells left that must be of kinds seen before a time is named."""

UNKNOWN = "time to go not known yet"

TOLD = ("failed", "again", "waiting")
"""Events that are always told."""


@contextmanager
def showing_grid(*, quiet: bool = False) -> Iterator[Callable[[Progress], None] | None]:
    """Yield what a run takes as ``progress``; everything goes to stderr."""
    if quiet:
        yield None
    elif not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        yield _Log()
    else:
        with _bar() as bar:
            yield _Terminal(bar)


def clock(seconds: float) -> str:
    """Write a duration.

    >>> clock(42.0), clock(3700.0)
    ('0:42', '1:01:40')
    """
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02d}" if minutes < 60 else f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}"


def remaining(progress: Progress) -> str:
    """Say how long the rest may take; nothing while most of it is of kinds not seen yet."""
    if progress.eta is None or progress.seen < SEEN:
        return ""
    return f"about {clock(progress.eta)} to go"


def sentence(event: str, label: str, message: str) -> str:
    """Say what happened to a cell, in one line."""
    words = {"failed": "failed", "again": "crashed and will be tried again", "waiting": "is computed by another run"}
    return f"{label} {words[event]}" + (f": {message.strip().partition(chr(10))[0]}" if message.strip() else "")


class _Log:
    """Lines."""

    def __init__(self) -> None:
        self.last = time.monotonic() - EVERY
        self.waiting: set[str] = set()

    def __call__(self, progress: Progress) -> None:
        label = progress.cell.label if progress.cell else ""
        if progress.event in TOLD and not (progress.event == "waiting" and label in self.waiting):
            self.waiting |= {label} if progress.event == "waiting" else set()
            say(sentence(progress.event, label, progress.message))
        elif progress.event == "written" and (time.monotonic() - self.last > EVERY or not progress.left):
            self.last = time.monotonic()
            cells = f"{progress.done} of {progress.done + progress.left} cells"
            say(f"{cells}, {remaining(progress) or UNKNOWN}; last: {label}")


class _Terminal:
    """A bar over all cells, with what is being computed beneath it."""

    def __init__(self, bar: Bar) -> None:
        self.bar = bar
        self.task = bar.add_task("starting", total=None, eta="")

    def __call__(self, progress: Progress) -> None:
        if progress.event in ("failed", "again"):
            self.bar.console.print(
                sentence(progress.event, progress.cell.label if progress.cell else "", progress.message),
                style="red" if progress.event == "failed" else "yellow",
                markup=False,
                highlight=False,
            )
        running = progress.running[-1].label if progress.running else ""
        more = f" and {len(progress.running) - 1} more" if len(progress.running) > 1 else ""
        failed = f"{progress.failed} failed" if progress.failed else ""
        self.bar.update(
            self.task,
            completed=progress.done,
            total=progress.done + progress.left,
            description=f"{running}{more}",
            eta=", ".join(part for part in (remaining(progress), failed) if part),
        )


def _bar() -> Bar:
    """Make a bar that keeps its figures on a narrow terminal; what is being computed gets the space that is left."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
    from rich.table import Column

    console = Console(stderr=True)

    def fixed() -> Column:
        return Column(no_wrap=True)

    columns = (
        BarColumn(bar_width=max(6, min(24, console.width // 5)), table_column=fixed()),
        MofNCompleteColumn(table_column=fixed()),
        TimeElapsedColumn(table_column=fixed()),
        TextColumn("{task.fields[eta]}", table_column=fixed(), markup=False),
        TextColumn("{task.description}", style="dim", markup=False, table_column=Column(no_wrap=True, ratio=1)),
    )
    return Progress(*columns, console=console, transient=True, expand=True)
