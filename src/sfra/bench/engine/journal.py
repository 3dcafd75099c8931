"""The journal: what each process did, one JSON line per event, so that "computed once" can be checked afterwards."""

from __future__ import annotations

import json
import os
import platform
import re
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

HOST = re.sub(r"[^A-Za-z0-9.]", "_", platform.node()) or "host"


class Journal:
    """Appends events of this process to a file of its own, made at the first event."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._handle = -1
        self._owner = 0

    def write(self, event: str, **facts: object) -> None:
        """Append one event with its time; a line is one system call, so it is there in whole or not at all."""
        if self._owner != os.getpid():
            name = f"{HOST}-{os.getpid()}-{time.time_ns()}.jsonl"
            self._handle = os.open(self._folder / name, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
            self._owner = os.getpid()
        line = json.dumps({"time": time.time(), "event": event, "host": HOST, "pid": os.getpid(), **facts})
        os.write(self._handle, line.encode() + b"\n")


def read_journals(folder: Path) -> list[dict[str, Any]]:
    """Read the events of all processes in the order of their times; a line that was cut off is left out."""
    events = []
    for line in (line for file in sorted(folder.glob("*.jsonl")) for line in file.read_bytes().splitlines()):
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(event, dict) and isinstance(event.get("time"), int | float) and "event" in event:
            events.append(event)
    return sorted(events, key=lambda event: event["time"])


def seconds_per_kind(events: Iterable[dict[str, Any]]) -> dict[str, float]:
    """Average the seconds that a written cell of each kind took."""
    spent: dict[str, list[float]] = {}
    for event in events:
        kind, seconds = event.get("kind"), event.get("seconds")
        if event["event"] == "written" and isinstance(kind, str) and isinstance(seconds, int | float):
            spent.setdefault(kind, []).append(seconds)
    return {kind: sum(each) / len(each) for kind, each in spent.items()}
