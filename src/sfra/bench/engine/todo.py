"""What is left to compute for some goals: nothing for a finished one, and nothing that serves only blocked ones."""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Sequence
from graphlib import TopologicalSorter

from sfra.bench.engine.cell import Cell
from sfra.bench.engine.store import Failure, Store


class Todo:
    """The unfinished part of a grid.

    A cell is left to compute when it is a goal or needed by one that is left, and is not done: an intermediate cell
    that is gone comes back only if an unfinished goal asks for it. A failed cell blocks whatever needs it, directly or
    not.
    """

    def __init__(self, goals: Sequence[Cell], store: Store, *, in_turn: bool = False) -> None:
        self.goals = {cell.key: cell for cell in goals}
        self.store = store
        self._in_turn = in_turn
        self.cells: dict[str, Cell] = {}
        self._taken: set[str] = set()
        self.look()

    def look(self) -> None:
        """Read in the store what is done and failed; what is done is not looked behind."""
        taken = [self.cells[key] for key in self._taken]
        self.cells = {}
        self.done: set[str] = set()
        self.failed: dict[str, Failure] = {}
        stack = [*taken, *list(self.goals.values())[::-1]]
        while stack:
            cell = stack.pop()
            if cell.key in self.cells:
                continue
            self.cells[cell.key] = cell
            if self.store.is_done(cell):
                self.done.add(cell.key)
            elif (failure := self.store.failure(cell)) is not None:
                self.failed[cell.key] = failure
            else:
                stack += list(cell.needs.values())[::-1]
        self._sort()

    def next(self) -> Cell | None:
        """Take the ready cell with the longest chain of dependents, or that of the first goal if goals go in turn."""
        while self._queue:
            key = heapq.heappop(self._queue)[2]
            if key in self._rank and key not in self._taken:
                self._taken.add(key)
                return self.cells[key]
        return None

    def put_back(self, cell: Cell) -> None:
        """Give back a cell that was taken and not finished."""
        self._taken.discard(cell.key)
        if self._is_ready(cell.key):
            self._push(cell.key)

    def finish(self, cell: Cell) -> None:
        """Note that a cell is done; what waited only for it becomes ready."""
        self._taken.discard(cell.key)
        self.done.add(cell.key)
        if self._rank.pop(cell.key, None) is not None:
            self.by_kind[cell.kind] -= 1
        for key in self._dependents[cell.key]:
            if key in self._rank and self._is_ready(key):
                self._push(key)

    def fail(self, cell: Cell, failure: Failure) -> None:
        """Note that a cell has failed; everything that needs it is blocked, and what only that needed is not wanted."""
        self._taken.discard(cell.key)
        self.failed[cell.key] = failure
        self._sort()

    @property
    def left(self) -> list[Cell]:
        """Cells still to be computed, in the order in which goals ask for them."""
        return [cell for key, cell in self.cells.items() if key in self._rank]

    def _sort(self) -> None:
        """Find out what is blocked, by which failed cell, what is left, and what of that is ready.

        ``rank`` is the longest chain of cells from a cell up to a goal.
        """
        needs = {
            key: [need.key for need in cell.needs.values() if need.key in self.cells]
            for key, cell in self.cells.items()
            if key not in self.done and key not in self.failed
        }
        self._dependents: defaultdict[str, list[str]] = defaultdict(list)
        for key, each in needs.items():
            for need in each:
                self._dependents[need].append(key)
        order = list(TopologicalSorter(needs).static_order())
        causes = {key: self.cells[key] for key in self.failed}
        for key in order:
            cause = next((causes[need] for need in needs.get(key, ()) if need in causes), None)
            if cause is not None:
                causes[key] = cause
        self.blocked = {key: causes[key] for key in self.cells if key in causes and key not in self.failed}
        self._rank: dict[str, int] = {}
        for key in reversed(order):
            above = [self._rank[each] for each in self._dependents[key] if each in self._rank]
            if key in needs and key not in causes and (above or key in self.goals):
                self._rank[key] = 1 + max(above, default=0)
        self.by_kind = Counter(self.cells[key].kind for key in self._rank)
        self._place = {key: place for place, key in enumerate(self.cells)}
        self._queue: list[tuple[int, int, str]] = []
        for key in self._rank:
            if self._is_ready(key):
                self._push(key)

    def _is_ready(self, key: str) -> bool:
        return all(need.key in self.done for need in self.cells[key].needs.values())

    def _push(self, key: str) -> None:
        if key in self._rank:
            rank = 0 if self._in_turn else self._rank[key]
            heapq.heappush(self._queue, (-rank, self._place[key], key))
