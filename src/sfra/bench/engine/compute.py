"""Compute one cell, in whatever process this runs: claim it, look again, work, publish or keep the reason."""

from __future__ import annotations

import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from sfra._version import __version__
from sfra.bench.engine.cell import Order, canonical
from sfra.bench.engine.disk import disk_trouble, remove
from sfra.bench.engine.journal import HOST
from sfra.bench.engine.store import Failure, Store
from sfra.bench.engine.task import Context, find_task
from sfra.core.errors import InputError, NotFiniteError, SfraError

TAIL = 4000


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How one attempt at a cell ended."""

    what: str
    """``written``; ``already`` (someone else did); ``locked`` (someone else is at it); ``missing`` (an input is gone);
    ``failed`` (the reason is in the store); ``stop`` (the disk, not the cell); and, told by a pool, ``broken`` (the
    tasks cannot be imported), ``crashed`` or ``time-limit``."""
    message: str = ""
    """Of a ``stop``; of a crash, how the process ended."""
    seconds: float = 0.0
    """Spent on the work."""


def attempt(order: Order, root: str, device: str, progress: Callable[[int, int, str], None]) -> Outcome:
    """Compute a cell in a process that computes many."""
    store = _open(root)
    return compute(order, store, Context(device=device, keep=store.scratch(order), progress=progress))


def compute(order: Order, store: Store, context: Context | None = None) -> Outcome:
    """Compute a cell unless it is done, failed, or in the hands of another process."""
    with store.claim(order) as mine:
        if not mine:
            return Outcome(what="locked")
        if store.is_done(order):
            return Outcome(what="already")
        if store.failure(order) is not None:
            return Outcome(what="failed")
        try:
            store.clean(order)
            inputs = {role: store.root / "cells" / kind / key for role, (kind, key) in order.needs.items()}
            if not all(store.is_done(key) for _, key in order.needs.values()):
                return Outcome(what="missing")
            return _work(order, store, inputs, context or Context(keep=store.scratch(order)))
        except Exception as problem:
            trouble = disk_trouble(problem, store.root)
            if trouble is None:
                raise
            with suppress(OSError):
                store.clean(order)
            return Outcome(what="stop", message=str(trouble))


def tail(path: Path) -> str:
    """Read the end of what a task printed."""
    with suppress(OSError), path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - TAIL))
        return file.read().decode(errors="replace")
    return ""


@cache
def _open(root: str) -> Store:
    return Store(root)


def _work(order: Order, store: Store, inputs: dict[str, Path], context: Context) -> Outcome:
    """Run the task with its output in a file, then publish; the caller has claimed the cell."""
    draft, log = store.draft(order), store.log(order)
    store.journal.write("start", key=order.key, kind=order.kind, label=order.label, tag=order.tag)
    began = time.monotonic()
    try:
        with _output_to(log):
            result = _call(order, inputs, draft, context)
    except (Exception, SystemExit) as problem:
        if disk_trouble(problem, store.root) is not None:
            raise
        remove(draft)
        failure = _failure(order, problem, tail(log))
        store.write_failure(failure)
        store.journal.write("failed", key=order.key, kind=order.kind, reason=failure.reason)
        return Outcome(what="failed", seconds=time.monotonic() - began)
    finally:
        remove(log)
    seconds = round(time.monotonic() - began, 6)
    if not store.publish(order, draft, _facts(result, device=context.device, seconds=seconds)):
        return Outcome(what="already", seconds=seconds)
    store.journal.write("written", key=order.key, kind=order.kind, seconds=seconds)
    return Outcome(what="written", seconds=seconds)


def _call(order: Order, inputs: dict[str, Path], draft: Path, context: Context) -> dict[str, Any]:
    task = find_task(order.kind)
    if task.version != order.version:
        raise InputError("the task has another version here", expected=order.version, got=task.version)
    result = task.function(order.settings, inputs, draft, context)
    if not isinstance(result, dict):
        raise _NotJsonError(f"the result of {order.kind} is not a dict", expected="dict", got=type(result))
    try:
        canonical(result, what="result")
    except InputError as problem:
        raise _NotJsonError(str(problem)) from None
    if (draft / "result.json").exists():
        raise InputError("the task wrote a file of the store's own name", got="result.json", do="choose another name")
    return result


def _facts(result: dict[str, Any], *, device: str, seconds: float) -> dict[str, Any]:
    recorded = ("torch", "numpy", "scipy", "transformers", "sklearn")
    loaded = {name: getattr(sys.modules.get(name), "__version__", None) for name in recorded}
    versions = {name: str(version) for name, version in loaded.items() if version is not None}
    return {
        "result": result,
        "seconds": seconds,
        "host": HOST,
        "pid": os.getpid(),
        "device": device,
        "versions": {"python": sys.version.split()[0], "sfra": __version__, **versions},
        "finished": time.time(),
    }


class _NotJsonError(SfraError):
    """A task returned something that result.json cannot hold."""


def _failure(order: Order, problem: BaseException, output: str) -> Failure:
    reasons = {NotFiniteError: "not-finite", _NotJsonError: "not-json", MemoryError: "out-of-memory"}
    reason = next((reason for kind, reason in reasons.items() if isinstance(problem, kind)), "raised")
    if type(problem).__name__ == "OutOfMemoryError":  # of torch
        reason = "out-of-memory"
    message = str(problem) if isinstance(problem, SfraError) else f"{type(problem).__name__}: {problem}"
    text = "".join(traceback.format_exception(problem))[-4 * TAIL :]
    return make_failure(order, reason, message, output, traceback=text, where=_where(problem))


def _where(problem: BaseException) -> str:
    """Name the line that raised: the last one in a file of the user's, or else the last."""
    installed = (Path(sys.prefix), Path(sys.base_prefix), Path(__file__).parents[2])
    frames = traceback.extract_tb(problem.__traceback__)
    own = [one for one in frames if not any(Path(one.filename).is_relative_to(folder) for folder in installed)]
    return next((f"{one.filename}:{one.lineno} in {one.name}" for one in (own or frames)[::-1]), "")


def make_failure(order: Order, reason: str, message: str, output: str, **more: Any) -> Failure:
    """Write down why an attempt failed."""
    known = {name: getattr(order, name) for name in ("key", "kind", "label", "settings")}
    return Failure(**known, reason=reason, message=message, output=output, when=time.time(), host=HOST, **more)


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
