"""Run one input in a process of its own, under limits and under watch, and say what came of it."""

from __future__ import annotations

import json
import math
import os
import resource
import shutil
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

OK, REFUSED = "ok", "refused"
DEFECTS = ("executed", "hang", "memory", "crash", "traceback", "not-finite", "silent")
"""What must not happen: foreign code ran or files outside were written; no end; too much memory; killed by a signal;
a traceback or an exit code that is not documented; NaN or infinity in JSON; a refusal without a message."""

WATCHED = ("os.system", "subprocess.Popen", "os.exec", "os.posix_spawn", "os.spawn", "socket.connect", "socket.bind")
"""Events that no input may cause."""

Make = Callable[[Path], Sequence[str]]
"""Writes the files of an input to a folder and returns the arguments of the command."""

Run = Callable[[Sequence[str]], int]
"""Runs a command with these arguments and returns its exit code."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What one input may take."""

    seconds: float = 30.0
    memory: int = 3 * 2**29
    """Bytes on top of what the parent of all inputs takes."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What came of one input."""

    kind: str
    result: str
    detail: str
    seconds: float
    memory: int


class Child:
    """A process that works on one input."""

    def __init__(self, kind: str, make: Make, run: Run, place: Path, limits: Limits) -> None:
        self.kind, self.place, self.limits, self.began = kind, place, limits, time.monotonic()
        self.killed = ""
        place.mkdir(parents=True)
        self.pid = os.fork()
        if self.pid == 0:
            _work(make, run, place, limits)
        self.before = _resident(self.pid)

    def poll(self) -> Outcome | None:
        """Return what came of it once it has ended; kill it where it goes beyond the limits."""
        done, status, used = os.wait4(self.pid, os.WNOHANG)
        if done:
            return self._judge(status, used.ru_maxrss * 1024 - self.before)
        if not self.killed:
            self.killed = "hang" if time.monotonic() - self.began > self.limits.seconds else ""
            self.killed = "memory" if _resident(self.pid) - self.before > self.limits.memory else self.killed
            if self.killed:
                os.kill(self.pid, signal.SIGKILL)
        return None

    def _judge(self, status: int, memory: int) -> Outcome:
        code = os.waitstatus_to_exitcode(status)
        said = (self.place / "stderr.txt").read_text(encoding="utf-8", errors="replace")
        result, detail = judge(self.place, code, said)
        if self.killed:
            result, detail = self.killed, said[-300:]
        elif memory > self.limits.memory:
            result, detail = "memory", f"{memory / 2**20:.0f} MiB"
        if (self.place / "seen.txt").exists() or any(self.place.rglob("executed*")):
            seen = self.place / "seen.txt"
            result, detail = "executed", seen.read_text(encoding="utf-8") if seen.exists() else "the canary"
        seconds = time.monotonic() - self.began
        return Outcome(kind=self.kind, result=result, detail=detail, seconds=seconds, memory=memory)


def judge(place: Path, code: int, said: str) -> tuple[str, str]:
    """Name what an exit code and the words on stderr mean, and look at the JSON that was written."""
    if code < 0:
        return "crash", f"signal {-code}"
    if "Traceback (most recent call last)" in said or code not in (0, 1, 2):
        return "traceback", f"exit {code}: " + " / ".join(said.strip().splitlines()[-3:])
    if code == 2:
        told = [line for line in said.splitlines() if line.lower().startswith(("error", "usage", "stopped"))]
        return (REFUSED, told[0][:160]) if told else ("silent", said[-200:])
    for file in (*place.glob("out/*.json"), place / "stdout.txt"):
        if file.exists() and (text := file.read_text(encoding="utf-8", errors="replace")).startswith("{"):
            try:
                bad = not_finite(json.loads(text))
            except ValueError as problem:
                return "not-finite", f"{file.name}: {problem}"
            if bad:
                return "not-finite", f"{file.name}: {bad}"
    return OK, ""


def not_finite(value: Any, path: str = "$") -> str:
    """Return where a parsed JSON holds NaN or infinity; empty if nowhere.

    >>> not_finite({"a": [1.0, float("inf")]})
    '$.a[1]'
    """
    if isinstance(value, dict):
        return next((bad for key, one in value.items() if (bad := not_finite(one, f"{path}.{key}"))), "")
    if isinstance(value, list):
        return next((bad for i, one in enumerate(value) if (bad := not_finite(one, f"{path}[{i}]"))), "")
    return path if isinstance(value, float) and not math.isfinite(value) else ""


def _work(make: Make, run: Run, place: Path, limits: Limits) -> None:
    """Make the input and run the command, in the child; never returns."""
    code = 99
    try:
        os.chdir(place)
        for name, stream in (("stdout.txt", 1), ("stderr.txt", 2)):
            os.dup2(os.open(name, os.O_CREAT | os.O_WRONLY), stream)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        (place / "tmp").mkdir()
        os.environ |= {"TMPDIR": str(place / "tmp"), "SFRA_CACHE": str(place / "tmp/cache"), "COLUMNS": "100"}
        import tempfile

        tempfile.tempdir = str(place / "tmp")
        arguments = _made(make, place)
        (place / "command.txt").write_text("\n".join(arguments), encoding="utf-8", errors="replace")
        resource.setrlimit(resource.RLIMIT_CPU, (int(limits.seconds) + 1,) * 2)
        resource.setrlimit(resource.RLIMIT_FSIZE, (2**31, 2**31))
        _watch(place)
        code = run(arguments)
        sys.stdout.flush()
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _made(make: Make, place: Path) -> list[str]:
    """Make an input; one that no library can write, as a date among weights, is made anew."""
    for attempt in range(9):
        try:
            return [str(one) for one in make(place)]
        except (ValueError, TypeError, OverflowError, RuntimeError, OSError):
            if attempt == 8:
                raise
            for left in [one for one in place.iterdir() if one.name not in ("stdout.txt", "stderr.txt", "tmp")]:
                shutil.rmtree(left) if left.is_dir() and not left.is_symlink() else left.unlink()
    raise AssertionError


def _watch(place: Path) -> None:
    """Write down what no input may cause: other programs, the network, files outside its own folder."""
    seen, inside = os.open(place / "tmp" / "seen", os.O_CREAT | os.O_WRONLY), str(place)

    def note(event: str, arguments: tuple[Any, ...]) -> None:
        writes = event == "open" and isinstance(arguments[0], str) and (_writes(arguments[1], arguments[2]))
        path = os.path.realpath(arguments[0]) if writes else ""
        outside = writes and not path.startswith((inside, "/dev/null", "/proc/self"))
        if (event in WATCHED or outside) and os.fstat(seen).st_nlink:
            os.write(seen, f"{event} {arguments!r}\n".encode(errors="replace")[:500])
            os.link(place / "tmp" / "seen", place / "seen.txt") if not os.path.exists(place / "seen.txt") else None

    sys.addaudithook(note)


def _writes(mode: object, flags: object) -> bool:
    if isinstance(mode, str):
        return any(letter in mode for letter in "wax+")
    return isinstance(flags, int) and bool(flags & (os.O_WRONLY | os.O_RDWR))


def _resident(pid: int) -> int:
    """Return the bytes that a process has in memory."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize()
    except (OSError, IndexError):
        return 0
