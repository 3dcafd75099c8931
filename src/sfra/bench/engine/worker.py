"""A worker process of the local executor: reads orders, computes, answers; dies with the process that started it."""

from __future__ import annotations

import ctypes
import faulthandler
import json
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from sfra.bench.engine.cell import unpack
from sfra.bench.engine.compute import compute
from sfra.bench.engine.store import Store
from sfra.bench.engine.work import Context, load_works

PROGRAM = "import sys; sys.path[:] = sys.argv[3:]; from sfra.bench.engine.worker import main; main()"


def main() -> None:
    """Serve orders from standard input until it ends; answers go to the pipe whose number is the first argument."""
    answers, parent = int(sys.argv[1]), int(sys.argv[2])
    os.set_inheritable(answers, False)
    die_with_parent(parent)
    faulthandler.enable()
    orders = os.fdopen(os.dup(0), "rb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    inbox: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(orders, inbox), daemon=True).start()
    hello = inbox.get()
    load_works(hello["modules"])
    store = Store(hello["store"])
    _answer(answers, {"ready": True})
    while True:
        _answer(answers, _serve(inbox.get(), store, hello["device"], answers))


def die_with_parent(parent: int) -> None:
    """Ask Linux to kill this process when its parent dies; elsewhere the end of standard input does."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    if os.getppid() != parent:
        os._exit(1)


def _listen(orders: BinaryIO, inbox: queue.SimpleQueue[dict[str, Any]]) -> None:
    """Pass orders on; when the pipe ends, the parent is gone: stop at once, with every process started from here."""
    for line in orders:
        inbox.put(json.loads(line))
    os.killpg(0, signal.SIGKILL)


def _serve(order: dict[str, Any], store: Store, device: str, answers: int) -> dict[str, Any]:
    cell = unpack(order["cell"])
    context = Context(device=device, keep=store.scratch(cell), progress=_steps(cell.key, answers))
    outcome = compute(cell, store, tag=order["tag"], context=context)
    return {"key": outcome.key, "what": outcome.what, "message": outcome.message, "seconds": outcome.seconds}


def _steps(key: str, answers: int) -> Callable[[int, int, str], None]:
    """Report progress, at most five times a second."""
    last = [0.0]

    def report(done: int, total: int, note: str) -> None:
        if done >= total or time.monotonic() - last[0] >= 0.2:
            last[0] = time.monotonic()
            _answer(answers, {"key": key, "step": [int(done), int(total), str(note)]})

    return report


def _answer(pipe: int, message: dict[str, Any]) -> None:
    line = json.dumps(message).encode() + b"\n"
    while line:
        line = line[os.write(pipe, line) :]


def arguments(answers: int) -> list[str]:
    """Build the command line of a worker that imports what this process can import."""
    paths = [str(Path(entry or ".").absolute()) for entry in sys.path]
    return [sys.executable, "-c", PROGRAM, str(answers), str(os.getpid()), *paths]
