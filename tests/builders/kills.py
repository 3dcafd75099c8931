"""Kill a running benchmark at random moments, start it again, and see whether the promises of the store hold."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sfra.bench.engine.journal import read_journals
from sfra.bench.engine.store import Store

TOYS = "import sys; sys.path.insert(0, sys.argv.pop(1)); from builders import bench; bench.main()"
VOLATILE = ("seconds", "created")
"""Of JSON files: what differs between two runs that computed the same."""

Command = Callable[[Path], Sequence[str]]


@dataclass
class Torment:
    """What happened."""

    kills: int = 0
    rounds: int = 0
    runs: int = 0
    orphans: int = 0
    starts: int = 0
    """Computations begun over all rounds, among them those that were killed."""
    cells: int = 0
    problems: list[str] = field(default_factory=list)


def toy_command(*options: str) -> Command:
    """Build the command line of a run of the toy grid in a given store."""
    return lambda store: [sys.executable, "-c", TOYS, str(Path(__file__).parents[1]), str(store), *options]


def torment(
    command: Command,
    folder: Path,
    *,
    kills: int,
    seed: int,
    linger: float = 0.3,
    patience: float = 10.0,
    table: Callable[[Path], object] = lambda store: None,
) -> Torment:
    """Kill runs until there were enough kills, round by round, each round on an empty store and run to its end.

    Every other kill hits the first process only, the others hit all its descendants too. A quarter comes at any time
    after the start, the others while cells are being computed. The results must be those of an undisturbed run, and so
    must be the table that is made of a store.
    """
    chance, told = random.Random(seed), Torment()  # noqa: S311 - moments, not secrets
    expected = _undisturbed(command, folder / "undisturbed", told)
    wanted = table(folder / "undisturbed")
    while told.kills < kills and not told.problems:
        store = folder / f"round-{told.rounds}"
        _round(command, store, chance, told, kills, linger, patience)
        told.problems += _compare(store, expected)
        told.problems += [] if table(store) == wanted else ["the table is another one"]
        told.starts += sum(event["event"] == "start" for event in read_journals(store / "log"))
        told.rounds += 1
        shutil.rmtree(store)
    return told


def contents(store: Path) -> dict[str, Any]:
    """Read all results and files of a store, without what may differ between two runs."""
    opened = Store(store, read_only=True)
    found: dict[str, Any] = {}
    for record in opened.records():
        files = {name: _file(opened.folder(record.key) / name) for name in record.files}
        found[record.key] = record.kind, record.settings, record.needs, _steady(record.result), files
    return found


def _file(path: Path) -> object:
    return _steady(json.loads(path.read_text(encoding="utf-8"))) if path.suffix == ".json" else path.read_bytes()


def _steady(value: Any) -> Any:
    """Leave out how long something took and when it was."""
    if isinstance(value, dict):
        return {name: _steady(part) for name, part in value.items() if name not in VOLATILE}
    return [_steady(part) for part in value] if isinstance(value, list) else value


def violations(store: Store) -> list[str]:
    """List what contradicts the promises of the store; empty when all is well, while nothing is running.

    A cell that was killed while it was computed may start again; a cell that was written may not, unless it was set
    aside as damaged in between. The time that a published result bears is compared, which no kill can separate from it.
    """
    tmp, cells = (store.root / "tmp").iterdir(), (store.root / "cells").glob("*/*")
    found = [f"left behind: tmp/{path.name}" for path in tmp if not store.is_claimed(path.name[:64])]
    found += [f"damaged: {path.name}" for path in cells if not store.is_done(path.name)]
    finished = {record.key: record.finished for record in store.records()}
    there: set[str] = set()
    for event in read_journals(store.root / "log"):
        key = event.get("key", "")
        if event["event"] == "written":
            found += [f"written twice: {key}"] if key in there else []
            there.add(key)
        elif event["event"] == "quarantined":
            there.discard(key)
        elif event["event"] == "start" and event["time"] > finished.get(key, float("inf")):
            found.append(f"started after it was written: {key}")
    return found


def descendants(pid: int) -> list[int]:
    """List the processes below one, as the kernel shows them now."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                parents[int(entry.name)] = int(_stat(int(entry.name))[1])
    found, stack = list[int](), [pid]
    while stack:
        below = [child for child, parent in parents.items() if parent == stack[-1]]
        stack.pop()
        stack += below
        found += below
    return found


def is_alive(pid: int) -> bool:
    """Tell whether a process may still compute; one that only waits to be reaped does not.

    Ray's two agents compute nothing, and take up to a minute to notice that their Ray is gone.
    """
    try:
        idle = b"Agent" in Path(f"/proc/{pid}/cmdline").read_bytes()
        return _stat(pid)[0] not in "ZX" and not idle
    except OSError:
        return False


def wait_until_gone(pids: Sequence[int], seconds: float) -> list[int]:
    """Wait for processes to end; return those that did not."""
    until = time.monotonic() + seconds
    while (alive := [pid for pid in pids if is_alive(pid)]) and time.monotonic() < until:
        time.sleep(0.05)
    return alive


def _stat(pid: int) -> list[str]:
    """Read state and parent; the name before them may hold spaces and brackets."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def _undisturbed(command: Command, store: Path, told: Torment) -> dict[str, Any]:
    process = subprocess.run(command(store), capture_output=True, text=True, check=False)
    if process.returncode != 0:
        raise RuntimeError(f"the undisturbed run ended with {process.returncode}: {process.stdout}{process.stderr}")
    told.problems += violations(Store(store, read_only=True))
    found = contents(store)
    told.cells = len(found)
    return found


def _round(
    command: Command, store: Path, chance: random.Random, told: Torment, kills: int, linger: float, patience: float
) -> None:
    """Start, kill and start again on one store until a run ends by itself."""
    while True:
        before = _journal_size(store)
        told.runs += 1
        with (store.parent / "output.txt").open("wb") as output:
            process = subprocess.Popen(command(store), stdout=output, stderr=output, start_new_session=True)
        if told.kills < kills and _wait_for_moment(process, store, before, chance, linger):
            _kill(process, everything=told.kills % 2 == 1, told=told, patience=patience)
            continue
        if process.wait() != 0:
            told.problems.append(
                f"exit status {process.returncode}: {(store.parent / 'output.txt').read_text()[-500:]}"
            )
        return


def _wait_for_moment(
    process: subprocess.Popen[bytes], store: Path, before: int, chance: random.Random, linger: float
) -> bool:
    """Wait until it is time to kill; False when the run ended before."""
    if chance.random() < 0.75:
        while process.poll() is None and _journal_size(store) == before:
            time.sleep(0.005)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=chance.random() * linger)
    return process.poll() is None


def _kill(process: subprocess.Popen[bytes], *, everything: bool, told: Torment, patience: float) -> None:
    below = descendants(process.pid)
    for pid in (process.pid, *(below if everything else ())):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait()
    told.kills += 1
    orphans = wait_until_gone(below, patience)
    told.orphans += len(orphans)
    if orphans:
        told.problems.append(f"still alive {patience:g} s after their parent was killed: {orphans}")


def _journal_size(store: Path) -> int:
    return sum(path.stat().st_size for path in (store / "log").glob("*.jsonl"))


def _compare(store: Path, expected: dict[str, Any]) -> list[str]:
    found = contents(store)
    missing = [f"missing: {key}" for key in expected.keys() - found.keys()]
    strange = [f"not expected: {key}" for key in found.keys() - expected.keys()]
    different = [f"different: {key}" for key in expected.keys() & found.keys() if expected[key] != found[key]]
    return [*missing, *strange, *different, *violations(Store(store, read_only=True))]
