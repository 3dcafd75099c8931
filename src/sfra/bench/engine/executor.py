"""What the runner asks of an executor: take orders while there is room, and tell how they ended."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from sfra.bench.engine.cell import Cell
from sfra.bench.engine.compute import Outcome
from sfra.core.errors import SfraError

Steps = Callable[[str, int, int, str], None]


class ExecutorError(SfraError):
    """Nothing can be computed here at all: a worker process does not start, or the cluster is not there."""


@dataclass(frozen=True, kw_only=True)
class Order:
    """One attempt at a cell."""

    cell: Cell
    tag: str
    """Tells this attempt from every other one."""
    time_limit: float | None = None
    """Seconds after which the attempt is killed."""


@runtime_checkable
class Executor(Protocol):
    """Runs orders somewhere; every order ends in exactly one outcome."""

    @property
    def width(self) -> int:
        """Say how many orders run at the same time."""
        ...

    @property
    def room(self) -> int:
        """Say how many more orders it would take now."""
        ...

    def submit(self, order: Order) -> None:
        """Take an order; there must be room."""
        ...

    def wait(self, seconds: float) -> list[Outcome]:
        """Return outcomes as soon as there are any, or none after some seconds."""
        ...

    def close(self) -> None:
        """Kill whatever still runs and take everything down."""
        ...
