"""Run a grid to its end: what is done stays, what fails is kept with its reason, the rest goes on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import Any

from sfra.bench.engine.cell import Cell, Order, order, reachable
from sfra.bench.engine.compute import Outcome, make_failure, tail
from sfra.bench.engine.disk import StoreError, disk_errors
from sfra.bench.engine.journal import read_journals, seconds_per_kind
from sfra.bench.engine.pool import LocalPool, Pool, PoolError
from sfra.bench.engine.store import Failure, Store
from sfra.bench.engine.summary import Progress, Summary, estimate, seen_share, summarise
from sfra.bench.engine.task import modules_of
from sfra.bench.engine.todo import Todo
from sfra.core.errors import InputError

Seconds = float | int
ATTEMPTS = 3
DYING = 30.0
"""Seconds that a killed process may take to give its cell back."""

PATIENCE = 0.5
"""Seconds between two looks at a cell that another runner computes."""


def run(
    goals: Sequence[Cell],
    store: Store,
    *,
    executor: str | Callable[..., Pool] = "local",
    workers: int | None = None,
    time_limit: Seconds | Mapping[str, Seconds] | None = None,
    devices: Sequence[str] = ("cpu",),
    modules: Sequence[str] | None = None,
    in_turn: bool = False,
    progress: Callable[[Progress], None] | None = None,
    **options: Any,
) -> Summary:
    """Compute whatever the goals still need, and return when nothing is left that can be computed.

    Any number of runs may work on one store at the same time, from any machine that sees the folder: every cell is
    computed by one of them. A killed run loses the cells that it was computing and nothing else.

    Args:
        goals: Cells that are wanted; what they need is computed only if one of them is not done.
        store: Where the cells are kept.
        executor: ``local`` (processes on this machine), ``ray``, or a class of your own that is a :class:`Pool`.
        workers: Cells at the same time; by default one per core, or what the cluster can hold.
        time_limit: Seconds after which a cell is killed and has failed; a number, or one for each kind.
        devices: Given to the workers in turn (local only).
        modules: Modules that register the tasks; by default those where the tasks of the grid are defined.
        in_turn: Finish the goals in the order given, for a run that may be cut short; by default the longest chain
            of cells goes first, which ends sooner.
        progress: Called after every change.
        options: Passed to the pool: ``address`` and ``resources`` for Ray.
    """
    began = time.monotonic()
    with disk_errors(store.root):
        store.sweep()
        todo = Todo(goals, store, in_turn=in_turn)
        if not todo.left:
            return summarise(todo, eta=0.0)
        if modules is None:
            modules = modules_of({cell.kind for cell in reachable(todo.left).values()})
        make = find_pool(executor) if isinstance(executor, str) else executor
        pool = make(store, modules=modules, workers=workers, devices=devices, **options)
        try:
            loop = _Loop(todo, pool, time_limit, progress)
            loop.work_off()
        finally:
            pool.close()
        store.sweep()
    found = {"computed": tuple(loop.computed), "elsewhere": tuple(loop.elsewhere)}
    return summarise(todo, **found, seconds=time.monotonic() - began, eta=0.0)


def status(goals: Sequence[Cell], store: Store) -> Summary:
    """Tell what is done, failed, blocked and left for some goals; writes nothing."""
    todo = Todo(goals, store)
    events = read_journals(store.root / "log")
    last = {event["key"]: event["event"] for event in events if "key" in event}
    running = tuple(cell for cell in todo.left if last.get(cell.key) == "start" and store.is_claimed(cell))
    return summarise(todo, running=running, eta=estimate(todo.by_kind, seconds_per_kind(events)))


def retry(goals: Sequence[Cell], store: Store) -> list[Failure]:
    """Forget the failures of these goals and of all they need; the next run tries again."""
    failures = store.failures()
    cleared = [failures[key] for key in reachable(goals) if key in failures]
    with disk_errors(store.root):
        for failure in cleared:
            store.clear_failure(failure.key)
            store.journal.write("cleared", key=failure.key, reason=failure.reason)
    return cleared


def discard(cells: Iterable[Cell], store: Store) -> list[str]:
    """Remove finished cells and all that was made of them; return their keys."""
    made_of: dict[str, list[str]] = {}
    done = set()
    for record in store.records():
        done.add(record.key)
        for need in record.needs.values():
            made_of.setdefault(need, []).append(record.key)
    gone = dict.fromkeys(cell.key for cell in cells)
    stack = [*gone]
    while stack:
        new = [key for key in made_of.get(stack.pop(), ()) if key not in gone]
        gone |= dict.fromkeys(new)
        stack += new
    removed = [key for key in gone if key in done]
    with disk_errors(store.root):
        for key in removed:
            store.discard(key)
    return removed


def find_pool(name: str) -> Callable[..., Pool]:
    """Find an executor by name."""
    if name == "local":
        return LocalPool
    if name == "ray":
        from sfra.bench.engine.ray_pool import RayPool

        return RayPool
    raise InputError("unknown executor", expected="local or ray", got=name)


class _Loop:
    """Submit what is ready, take what comes back, look again later at what another runner computes."""

    def __init__(
        self,
        todo: Todo,
        pool: Pool,
        time_limit: Seconds | Mapping[str, Seconds] | None,
        progress: Callable[[Progress], None] | None,
    ) -> None:
        self.todo, self.store, self.pool = todo, todo.store, pool
        self.computed: list[Cell] = []
        self.elsewhere: list[Cell] = []
        self._limit, self._progress = time_limit, progress
        self._flying: dict[Future[Any], Order] = {}
        self._later: list[tuple[float, Cell]] = []
        self._crashes: dict[str, int] = {}
        self._seconds = seconds_per_kind(read_journals(self.store.root / "log"))
        self._spent: dict[str, list[float]] = {}

    def work_off(self) -> None:
        """Run until nothing is in flight, ready or waited for."""
        while True:
            while self._later and self._later[0][0] <= time.monotonic():
                self.todo.put_back(self._later.pop(0)[1])
            while len(self._flying) < self.pool.width and (cell := self.todo.next()) is not None:
                self._submit(cell)
            if not self._flying and not self._later:
                return
            self._wait()

    def _submit(self, cell: Cell) -> None:
        limit = self._limit.get(cell.kind) if isinstance(self._limit, Mapping) else self._limit
        made = order(cell, None if limit is None else float(limit))
        self._flying[self.pool.submit(made)] = made
        self._tell("start", cell)

    def _wait(self) -> None:
        pause = max(0.0, min(0.2, self._later[0][0] - time.monotonic() if self._later else 0.2))
        if self._flying:
            wait(self._flying, timeout=pause, return_when=FIRST_COMPLETED)
        else:
            time.sleep(pause)
        tags = {made.tag: made.key for made in self._flying.values()}
        for step in self.pool.look():
            self._tell("step", self.todo.cells[tags[step.tag]], step.note, step=(step.done, step.total))
        for future in [future for future in self._flying if future.done()]:
            made = self._flying.pop(future)
            self._take(made, self.pool.outcome(made, future))

    def _take(self, made: Order, outcome: Outcome) -> None:
        cell = self.todo.cells[made.key]
        match outcome.what:
            case "written":
                spent = self._spent.setdefault(cell.kind, [])
                spent.append(outcome.seconds)
                self._seconds[cell.kind] = sum(spent) / len(spent)
                self._finish(cell, "written")
            case "already":
                self._finish(cell, "elsewhere")
            case "failed":
                self._fail(cell)
            case "locked":
                self._come_back(cell)
            case "missing":
                self.todo.look()
                self.todo.put_back(cell)
            case "stop":
                raise StoreError(outcome.message)
            case "broken":
                raise PoolError("the tasks cannot be imported by a worker process", got=outcome.message)
            case _:
                self._killed(made, cell, outcome)

    def _finish(self, cell: Cell, event: str) -> None:
        (self.computed if event == "written" else self.elsewhere).append(cell)
        self.todo.finish(cell)
        self._tell(event, cell)

    def _fail(self, cell: Cell) -> None:
        failure = self.store.failure(cell)
        if failure is None:  # cleared in the meantime
            self.todo.put_back(cell)
            return
        self.todo.fail(cell, failure)
        self._tell("failed", cell, f"{failure.reason}: {failure.message}")

    def _come_back(self, cell: Cell) -> None:
        """Look again later."""
        self._later.append((time.monotonic() + PATIENCE, cell))
        if not self._flying:
            self._tell("waiting", cell)

    def _killed(self, made: Order, cell: Cell, outcome: Outcome) -> None:
        """Try a crashed cell again, and give up the third time; a cell past its limit has failed at once."""
        crashes = self._crashes[cell.key] = self._crashes.get(cell.key, 0) + self.pool.tries
        self.store.journal.write(outcome.what, key=cell.key, kind=cell.kind, message=outcome.message, attempt=crashes)
        limit = outcome.what == "time-limit"
        if not limit and crashes < ATTEMPTS and not self.store.is_done(cell):
            self.todo.put_back(cell)
            self._tell("again", cell, outcome.message)
            return
        said = f"took longer than {outcome.message} and was killed" if limit else f"its process died: {outcome.message}"
        with self.store.claim(cell, wait=DYING) as mine:
            if not mine:  # another runner has it by now
                self._come_back(cell)
            elif self.store.is_done(cell):  # killed between the rename and the answer
                self._finish(cell, "written")
            else:
                attempts = 1 if limit else crashes
                output = tail(self.store.log(made))
                self.store.write_failure(make_failure(made, outcome.what, said, output, attempts=attempts))
                self.store.clean(cell)
                self._fail(cell)

    def _tell(self, event: str, cell: Cell, message: str = "", step: tuple[int, int] | None = None) -> None:
        if self._progress is None:
            return
        progress = Progress(
            event=event,
            cell=cell,
            message=message,
            step=step,
            done=len(self.computed) + len(self.elsewhere),
            failed=len(self.todo.failed),
            running=tuple(self.todo.cells[made.key] for made in self._flying.values()),
            left=self.todo.by_kind.total(),
            eta=estimate(self.todo.by_kind, self._seconds, self.pool.width),
            seen=seen_share(self.todo.by_kind, self._seconds),
        )
        self._progress(progress)
