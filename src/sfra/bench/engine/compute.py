"""Compute one cell, in whatever process this runs: lock, look again, work, publish or keep the reason."""

from __future__ import annotations

import os
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sfra._version import __version__
from sfra.bench.engine.cell import Cell, canonical
from sfra.bench.engine.folders import disk_trouble, remove
from sfra.bench.engine.journal import HOST
from sfra.bench.engine.store import Failure, Store
from sfra.bench.engine.work import Context, find_work
from sfra.core.errors import InputError, NotFiniteError, SfraError

TAIL = 4000
_RECORDED = ("torch", "numpy", "scipy", "transformers", "sklearn")


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How one attempt at a cell ended."""

    key: str
    what: str
    """``written``; ``already`` (someone else did); ``locked`` (someone else is at it); ``missing`` (an input is gone);
    ``failed`` (the reason is in the store); ``stop`` (the disk, not the cell); and, told by an executor, ``crashed``
    or ``time-limit``."""
    message: str = ""
    """Of a ``stop``; of a crash, how the process ended."""
    seconds: float = 0.0
    """Spent on the work."""


def compute(cell: Cell, store: Store, *, tag: str, context: Context | None = None) -> Outcome:
    """Compute a cell unless it is done, failed, or in the hands of another process."""
    with ExitStack() as held:
        lock = store.lock(cell)
        if lock is None:
            return Outcome(key=cell.key, what="locked")
        held.enter_context(lock)
        if store.is_done(cell):
            return Outcome(key=cell.key, what="already")
        if store.failure(cell) is not None:
            return Outcome(key=cell.key, what="failed")
        try:
            store.sweep(cell.key)
            store.set_aside(cell)
            lock.write({"host": HOST, "pid": os.getpid(), "since": time.time(), "tag": tag})
            for need in cell.needs.values():  # shared locks: nobody prunes an input while it is read
                reading = store.lock(need, shared=True)
                if reading is None:
                    return Outcome(key=cell.key, what="locked")
                held.enter_context(reading)
                if not store.is_done(need):
                    return Outcome(key=cell.key, what="missing")
            return _attempt(cell, store, tag, context or Context())
        except Exception as problem:
            trouble = disk_trouble(problem, store.root)
            if trouble is None:
                raise
            store_sweep_quietly(store, cell)
            return Outcome(key=cell.key, what="stop", message=str(trouble))


def output_of(store: Store, key: str, tag: str) -> Path:
    """Say where an attempt's output goes; it can be read there after a crash."""
    return store.root / "tmp" / f"{key}-{tag}.log"


def tail(path: Path) -> str:
    """Read the end of what a work printed."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - TAIL))
            return file.read().decode(errors="replace")
    except OSError:
        return ""


def store_sweep_quietly(store: Store, cell: Cell) -> None:
    """Remove a cell's drafts although the disk is in trouble."""
    try:
        store.sweep(cell.key)
    except OSError:
        return


def _attempt(cell: Cell, store: Store, tag: str, context: Context) -> Outcome:
    """Run the work with its output in a file, then publish; the caller holds the locks."""
    draft, log = store.draft(cell), output_of(store, cell.key, tag)
    store.journal.write("start", key=cell.key, kind=cell.kind, label=cell.label, tag=tag)
    began = time.monotonic()
    try:
        with _output_to(log):
            result = _call(cell, store, draft, context)
    except Exception as problem:
        if disk_trouble(problem, store.root) is not None:
            raise
        remove(draft)
        store.write_failure(_failure(cell, problem, tail(log)))
        store.journal.write("failed", key=cell.key, kind=cell.kind, reason=_reason(problem))
        return Outcome(key=cell.key, what="failed", seconds=time.monotonic() - began)
    finally:
        remove(log)
    return _publish(cell, store, draft, result, device=context.device, seconds=time.monotonic() - began)


def _call(cell: Cell, store: Store, draft: Path, context: Context) -> dict[str, Any]:
    job = find_work(cell.kind)
    if job.version != cell.version:
        raise InputError("the work has another version here", expected=cell.version, got=job.version)
    inputs = {role: store.folder(need) for role, need in cell.needs.items()}
    result = job.function(cell, inputs, draft, context)
    if not isinstance(result, dict):
        raise _NotJsonError(f"the result of {cell.kind} is not a dict", expected="dict", got=type(result))
    try:
        canonical(result, what="result")
    except InputError as problem:
        raise _NotJsonError(str(problem)) from None
    if (draft / "result.json").exists():
        raise InputError("the work wrote a file of the store's own name", got="result.json", do="choose another name")
    return result


def _publish(cell: Cell, store: Store, draft: Path, result: dict[str, Any], *, device: str, seconds: float) -> Outcome:
    versions = {
        name: str(sys.modules[name].__version__) for name in _RECORDED if hasattr(sys.modules.get(name), "__version__")
    }
    facts = {
        "result": result,
        "seconds": round(seconds, 6),
        "host": HOST,
        "pid": os.getpid(),
        "device": device,
        "versions": {"python": sys.version.split()[0], "sfra": __version__, **versions},
        "finished": time.time(),
    }
    if not store.publish(cell, draft, facts):
        return Outcome(key=cell.key, what="already", seconds=seconds)
    store.journal.write("written", key=cell.key, kind=cell.kind, seconds=round(seconds, 6))
    return Outcome(key=cell.key, what="written", seconds=seconds)


class _NotJsonError(SfraError):
    """A work returned something that result.json cannot hold."""


def _reason(problem: Exception) -> str:
    if isinstance(problem, NotFiniteError):
        return "not-finite"
    if isinstance(problem, _NotJsonError):
        return "not-json"
    if isinstance(problem, MemoryError) or type(problem).__name__ == "OutOfMemoryError":
        return "out-of-memory"
    return "raised"


def _failure(cell: Cell, problem: Exception, output: str) -> Failure:
    message = str(problem) if isinstance(problem, SfraError) else f"{type(problem).__name__}: {problem}"
    return Failure(
        key=cell.key,
        kind=cell.kind,
        label=cell.label,
        settings=cell.settings,
        reason=_reason(problem),
        message=message,
        traceback="".join(traceback.format_exception(problem))[-4 * TAIL :],
        output=output,
        when=time.time(),
        host=HOST,
    )


@contextmanager
def _output_to(log: Path) -> Iterator[None]:
    """Send everything that is printed, by Python or below it, to a file."""
    sys.stdout.flush()
    sys.stderr.flush()
    before = os.dup(1), os.dup(2)
    handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    os.dup2(handle, 1)
    os.dup2(handle, 2)
    os.close(handle)
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for number, saved in zip((1, 2), before, strict=True):
            os.dup2(saved, number)
            os.close(saved)
