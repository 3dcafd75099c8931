"""The loop of a run: submit what is ready, take what comes back, look again at what another runner computes."""

from __future__ import annotations

import heapq
import time
import uuid
from collections.abc import Callable, Mapping

from sfra.bench.engine.cell import Cell
from sfra.bench.engine.compute import Outcome, output_of, tail
from sfra.bench.engine.demand import FAILED, Demand
from sfra.bench.engine.executor import Executor, Order
from sfra.bench.engine.journal import HOST, read_journals, seconds_per_kind
from sfra.bench.engine.locks import Lock
from sfra.bench.engine.store import Failure, StoreError
from sfra.bench.engine.summary import Progress, estimate, seen_share

Seconds = float | int
ATTEMPTS = 3
DYING = 30.0
PATIENCE = 0.05, 2.0
"""Seconds between two looks at a cell that another runner computes: at first, and at most."""


class Loop:
    """The loop: submit what is ready, take what comes back, look again later at what another runner computes."""

    executor: Executor

    def __init__(
        self,
        demand: Demand,
        time_limit: Seconds | Mapping[str, Seconds] | None,
        progress: Callable[[Progress], None] | None,
    ) -> None:
        self.demand, self.store = demand, demand.store
        self.computed: list[Cell] = []
        self.elsewhere: list[Cell] = []
        self._limit, self._progress = time_limit, progress
        self._flying: dict[str, Order] = {}
        self._later: list[tuple[float, str]] = []
        self._pause: dict[str, float] = {}
        self._crashes: dict[str, int] = {}
        self._failed = len(demand.of(FAILED))
        self._seconds = seconds_per_kind(read_journals(self.store.root / "log"))
        self._spent: dict[str, list[float]] = {}

    def work_off(self) -> None:
        """Run until nothing is in flight, ready or waited for."""
        while True:
            self._wake()
            while self.executor.room > 0 and (cell := self.demand.next()) is not None:
                self._submit(cell)
            if not self._flying and not self._later:
                return
            pause = self._later[0][0] - time.monotonic() if self._later else 1.0
            for outcome in self.executor.wait(min(1.0, max(0.0, pause))):
                self._take(outcome)

    def step(self, key: str, done: int, total: int, note: str) -> None:
        """Pass on how far a cell is."""
        if key in self._flying:
            self._tell("step", self._flying[key].cell, note, step=(done, total))

    def _submit(self, cell: Cell) -> None:
        limit = self._limit.get(cell.kind) if isinstance(self._limit, Mapping) else self._limit
        order = Order(cell=cell, tag=uuid.uuid4().hex, time_limit=None if limit is None else float(limit))
        self._flying[cell.key] = order
        self.executor.submit(order)
        self._tell("start", cell)

    def _take(self, outcome: Outcome) -> None:
        order = self._flying.pop(outcome.key)
        cell = order.cell
        if outcome.what == "written":
            self.computed.append(cell)
            spent = self._spent.setdefault(cell.kind, [])
            spent.append(outcome.seconds)
            self._seconds[cell.kind] = sum(spent) / len(spent)
            self._finish(cell, "written")
        elif outcome.what == "already":
            self.elsewhere.append(cell)
            self._finish(cell, "elsewhere")
        elif outcome.what == "failed":
            self._fail(cell)
        elif outcome.what == "locked":
            self._come_back(cell)
        elif outcome.what == "missing":
            self.demand.look_again(cell)
        elif outcome.what == "stop":
            raise StoreError(outcome.message)
        else:
            self._killed(order, outcome)

    def _finish(self, cell: Cell, event: str) -> None:
        self.demand.finish(cell)
        self._tell(event, cell)

    def _fail(self, cell: Cell) -> None:
        failure = self.store.failure(cell)
        self.demand.fail(cell)
        self._failed += 1
        self._tell("failed", cell, "" if failure is None else f"{failure.reason}: {failure.message}")

    def _come_back(self, cell: Cell) -> None:
        """Look again later: soon at first, then less and less often."""
        pause = self._pause.get(cell.key, PATIENCE[0])
        self._pause[cell.key] = min(2 * pause, PATIENCE[1])
        heapq.heappush(self._later, (time.monotonic() + pause, cell.key))
        if not self._flying:
            self._tell("waiting", cell)

    def _wake(self) -> None:
        while self._later and self._later[0][0] <= time.monotonic():
            self.demand.put_back(self.demand.cells[heapq.heappop(self._later)[1]])

    def _killed(self, order: Order, outcome: Outcome) -> None:
        """Try a crashed cell again, and give up the third time; a cell past its limit has failed at once."""
        cell = order.cell
        crashes = self._crashes[cell.key] = self._crashes.get(cell.key, 0) + 1
        self.store.journal.write(outcome.what, key=cell.key, kind=cell.kind, message=outcome.message, attempt=crashes)
        lock = self._inherit(order)
        if lock is None:  # another runner has it by now
            self._come_back(cell)
            return
        with lock:
            if self.store.is_done(cell):  # killed between the rename and the answer
                self._finish(cell, "written")
            elif outcome.what == "crashed" and crashes < ATTEMPTS:
                self.demand.put_back(cell)
                self._tell("again", cell, outcome.message)
            else:
                self.store.write_failure(self._post_mortem(order, outcome, crashes))
                self.store.sweep(cell.key)
                self._fail(cell)

    def _inherit(self, order: Order) -> Lock | None:
        """Take the lock of a killed attempt; a process may take a moment to die."""
        until = time.monotonic() + DYING
        while (lock := self.store.lock(order.cell)) is None and time.monotonic() < until:
            if self.store.owner(order.cell).get("tag") != order.tag:
                return None
            time.sleep(0.02)
        return lock

    def _post_mortem(self, order: Order, outcome: Outcome, crashes: int) -> Failure:
        cell, limit = order.cell, outcome.what == "time-limit"
        said = f"took longer than {outcome.message} and was killed" if limit else f"its process died: {outcome.message}"
        return Failure(
            key=cell.key,
            kind=cell.kind,
            label=cell.label,
            settings=cell.settings,
            reason=outcome.what,
            message=said,
            output=tail(output_of(self.store, cell.key, order.tag)),
            attempts=crashes,
            when=time.time(),
            host=HOST,
        )

    def _tell(self, event: str, cell: Cell, message: str = "", step: tuple[int, int] | None = None) -> None:
        if self._progress is None:
            return
        progress = Progress(
            event=event,
            cell=cell,
            message=message,
            step=step,
            done=len(self.computed) + len(self.elsewhere),
            failed=self._failed,
            running=tuple(order.cell for order in self._flying.values()),
            left=self.demand.to_do.total(),
            eta=estimate(self.demand.to_do, self._seconds, self.executor.width),
            seen=seen_share(self.demand.to_do, self._seconds),
        )
        self._progress(progress)
