"""What a run, or a look at a store, has to tell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median

from sfra.bench.engine.cell import Cell
from sfra.bench.engine.store import Failure
from sfra.bench.engine.todo import Todo


@dataclass(frozen=True, kw_only=True)
class Blocked:
    """A cell that cannot be computed because another one has failed."""

    cell: Cell
    by: Cell
    """The cell that failed."""

    def __str__(self) -> str:
        return f"{self.cell.label}: blocked by {self.by.label}"


@dataclass(frozen=True, kw_only=True)
class Summary:
    """The state of a grid, and what a run did about it."""

    goals: int
    """Number of different goals."""
    done: tuple[Cell, ...]
    """Goals that are done."""
    failed: tuple[Failure, ...]
    """Goals and intermediate cells that failed, now or in an earlier run."""
    blocked: tuple[Blocked, ...]
    """Cells that need a failed one."""
    left: tuple[Cell, ...]
    """Cells still to be computed: none after a run that ended by itself."""
    running: tuple[Cell, ...] = ()
    """Those of them that a process is at."""
    computed: tuple[Cell, ...] = ()
    """Cells that this run has written."""
    elsewhere: tuple[Cell, ...] = ()
    """Cells that another runner has written meanwhile."""
    seconds: float = 0.0
    """Length of the run."""
    eta: float | None = None
    """Seconds that the rest may take on one worker, from the cells already done; None when nothing is known."""

    @property
    def complete(self) -> bool:
        """Tell whether every goal is done."""
        return len(self.done) == self.goals

    def __str__(self) -> str:
        left = "cell to compute" if len(self.left) == 1 else "cells to compute"
        parts = {"failed": self.failed, "blocked": self.blocked, "running": self.running, left: self.left}
        found = [f"{len(each)} {name}" for name, each in parts.items() if each]
        return ", ".join([f"{len(self.done)} of {self.goals} goals done", *found])


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far a run is; given to the caller after every change."""

    event: str
    """``start``, ``written``, ``elsewhere``, ``failed``, ``again`` (after a crash), ``step`` or ``waiting``."""
    cell: Cell | None
    """The cell of the event."""
    message: str
    """Reason of a failure, or the note of a step."""
    step: tuple[int, int] | None
    """Within the cell: (done, total)."""
    done: int
    """Cells finished since the start, here or elsewhere."""
    failed: int
    running: tuple[Cell, ...]
    left: int
    """Cells still to be computed, with the running ones."""
    eta: float | None
    """Seconds until the end, from the seconds per kind so far; None when nothing is known."""
    seen: float = 1.0
    """Share of the cells left whose kind was seen before: a grid begins with trainings, and the rest is faster."""


def summarise(todo: Todo, **facts: object) -> Summary:
    """Put the state of a grid into a summary."""
    return Summary(
        goals=len(todo.goals),
        done=tuple(cell for key, cell in todo.goals.items() if key in todo.done),
        failed=tuple(todo.failed.values()),
        blocked=tuple(Blocked(cell=todo.cells[key], by=cause) for key, cause in todo.blocked.items()),
        left=tuple(todo.left),
        **facts,  # type: ignore[arg-type]
    )


def estimate(to_do: Mapping[str, int], seconds: Mapping[str, float], width: int = 1) -> float | None:
    """Estimate the seconds for a number of cells of each kind; an unseen kind counts as the median of the others."""
    if not seconds:
        return None if any(to_do.values()) else 0.0
    usual = median(seconds.values())
    return sum(count * seconds.get(kind, usual) for kind, count in to_do.items()) / width


def seen_share(to_do: Mapping[str, int], seconds: Mapping[str, float]) -> float:
    """Tell for which share of the cells an estimate rests on cells of their own kind.

    >>> seen_share({"train": 1, "audit": 3}, {"train": 9.0})
    0.25
    """
    total = sum(to_do.values())
    return sum(count for kind, count in to_do.items() if kind in seconds) / total if total else 1.0
