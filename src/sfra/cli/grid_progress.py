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

    from sfra.bench.summary import Progress

EVERY = 5.0
"""Seconds between two lines of a log."""

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


def clock(seconds: float | None) -> str:
    """Write a duration.

    >>> clock(42), clock(3700), clock(None)
    ('0:42', '1:01:40', '?')
    """
    if seconds is None:
        return "?"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02d}" if minutes < 60 else f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}"


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
            say(f"{progress.done} cells done, {progress.left} left, about {clock(progress.eta)} to go; last: {label}")


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
        failed = f", {progress.failed} failed" if progress.failed else ""
        self.bar.update(
            self.task,
            completed=progress.done,
            total=progress.done + progress.left,
            description=f"{running[:60]}{more}",
            eta=f"about {clock(progress.eta)} to go{failed}",
        )


def _bar() -> Bar:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[eta]}"),
        TextColumn("{task.description}", style="dim"),
    )
    return Progress(*columns, console=Console(stderr=True), transient=True)
