"""What has to be computed for some goals: nothing for a finished one, and nothing that serves only blocked ones."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Sequence
from graphlib import TopologicalSorter

from sfra.bench.engine.cell import Cell
from sfra.bench.engine.store import Store

DONE, FAILED, BLOCKED, LEFT, UNWANTED = "done", "failed", "blocked", "to do", "unwanted"


class Demand:
    """The unfinished part of a grid.

    A cell is demanded when it is a goal or needed by a demanded cell, and is not done: an intermediate cell that was
    pruned comes back only if an unfinished goal asks for it. A failed cell blocks whatever needs it, directly or not.
    """

    def __init__(self, goals: Sequence[Cell], store: Store, *, in_turn: bool = False) -> None:
        self.store = store
        self._in_turn = in_turn
        self.goals = {cell.key: cell for cell in goals}
        self.cells: dict[str, Cell] = {}
        self.state: dict[str, str] = {}
        self.cause: dict[str, Cell] = {}
        """The failed cell behind each blocked one."""
        self.to_do: Counter[str] = Counter()
        """Number of cells still to be computed, by kind."""
        self._dependents: dict[str, set[str]] = {}
        self._rank: dict[str, int] = {}
        self._queue: list[tuple[int, int, str]] = []
        self._entered: dict[str, int] = {}
        self._look(self.goals.values())

    def next(self) -> Cell | None:
        """Take the ready cell with the longest chain of dependents, or that of the first goal if goals go in turn.

        None when nothing is ready.
        """
        while self._queue:
            key = heapq.heappop(self._queue)[2]
            if self.state[key] == LEFT:
                return self.cells[key]
        return None

    def put_back(self, cell: Cell) -> None:
        """Make a cell ready again."""
        chain = 0 if self._in_turn else self._rank[cell.key]
        heapq.heappush(self._queue, (-chain, self._entered[cell.key], cell.key))

    def finish(self, cell: Cell) -> None:
        """Note that a cell is done; what waited only for it becomes ready."""
        self._set(cell, DONE)
        for key in sorted(self._dependents.get(cell.key, ()), key=self._entered.__getitem__):
            if self.state[key] == LEFT and self._is_ready(self.cells[key]):
                self.put_back(self.cells[key])

    def fail(self, cell: Cell) -> None:
        """Note that a cell has failed; everything that needs it is blocked, and what only that needed is unwanted."""
        self._set(cell, FAILED)
        stack, blocked = [cell.key], list[Cell]()
        while stack:
            for key in self._dependents.get(stack.pop(), ()):
                if self.state[key] in (LEFT, UNWANTED):
                    self._set(self.cells[key], BLOCKED)
                    self.cause[key] = cell
                    stack.append(key)
                    blocked.append(self.cells[key])
        while blocked:
            for need in blocked.pop().needs.values():
                if self.state[need.key] == LEFT and not self._is_wanted(need.key):
                    self._set(need, UNWANTED)
                    blocked.append(need)

    def look_again(self, cell: Cell) -> None:
        """Find out which inputs of a cell are gone, and demand them."""
        for need in cell.needs.values():
            if self.state[need.key] != LEFT:
                del self.state[need.key]
        self._look(cell.needs.values())
        if self.state[cell.key] == LEFT and self._is_ready(cell):
            self.put_back(cell)

    def of(self, *states: str) -> list[Cell]:
        """List the cells in some of the states, in the order in which they were demanded."""
        return [cell for key, cell in self.cells.items() if self.state[key] in states]

    def _look(self, cells: Iterable[Cell]) -> None:
        """Enter cells and whatever unfinished they need."""
        stack, fresh = list(cells)[::-1], list[Cell]()
        while stack:
            cell = stack.pop()
            if cell.key in self.state:
                continue
            fresh.append(cell)
            self.cells[cell.key] = cell
            self._entered.setdefault(cell.key, len(self._entered))
            self._set(cell, self._find_state(cell))
            if self.state[cell.key] == LEFT:
                for need in cell.needs.values():
                    self._dependents.setdefault(need.key, set()).add(cell.key)
                stack += list(cell.needs.values())[::-1]
        self._order()
        for cell in fresh:
            if self.state[cell.key] == FAILED:
                self.fail(cell)
        for cell in fresh:
            if self.state[cell.key] == LEFT and self._is_ready(cell):
                self.put_back(cell)

    def _find_state(self, cell: Cell) -> str:
        if self.store.is_done(cell):
            return DONE
        return FAILED if self.store.failure(cell) is not None else LEFT

    def _order(self) -> None:
        """Rank every cell by the longest chain from it up to a goal."""
        graph = {key: self._dependents.get(key, set()) for key in self.cells}
        for key in TopologicalSorter(graph).static_order():
            self._rank[key] = 1 + max((self._rank[each] for each in graph[key]), default=0)

    def _is_ready(self, cell: Cell) -> bool:
        return all(self.state[need.key] == DONE for need in cell.needs.values())

    def _is_wanted(self, key: str) -> bool:
        return key in self.goals or any(self.state[each] == LEFT for each in self._dependents.get(key, ()))

    def _set(self, cell: Cell, state: str) -> None:
        self.to_do[cell.kind] += (state == LEFT) - (self.state.get(cell.key) == LEFT)
        self.state[cell.key] = state
