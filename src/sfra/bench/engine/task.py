"""What a kind of cell computes: functions found by kind, each with the version of its computation."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from sfra.core.errors import InputError

KIND = re.compile(r"[a-z][a-z0-9-]{0,39}")
_TASKS: dict[str, Task] = {}

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, kw_only=True)
class Task:
    """A registered computation."""

    kind: str
    """Kind of the cells it computes."""
    version: int
    """Part of every key: a changed computation gets the next number, and its cells are computed again."""
    function: Callable[..., Any]
    """Called with (settings, inputs, out, context); returns the result as a dict of JSON values."""


@dataclass(frozen=True, kw_only=True)
class Context:
    """What a computation may use, and what does not decide its result."""

    device: str = "cpu"
    """Where tensors should live, as torch spells it."""
    keep: Path | None = None
    """Where :attr:`scratch` is made."""
    progress: Callable[[int, int, str], None] = lambda done, total, note: None
    """Tells how far it is: (done, total, note)."""

    @property
    def scratch(self) -> Path:
        """Make a folder that survives a killed process and is removed once the cell is written.

        A long computation keeps its own checkpoints here and continues from them. Only one process at a time has it.
        """
        if self.keep is None:
            raise InputError("this context has no scratch folder", do="give it one: Context(keep=folder)")
        self.keep.mkdir(parents=True, exist_ok=True)
        return self.keep


def task(kind: str, *, version: int = 1) -> Callable[[F], F]:
    """Register the function that computes a kind of cell.

    The function is called with the settings of the cell, a dict from the role of each needed cell to its folder, an
    empty folder for its own files, and a :class:`Context`; it returns a dict of JSON values.
    """
    if KIND.fullmatch(kind) is None:
        raise InputError("wrong name for a kind of cell", expected="lower-case letters, digits and '-'", got=repr(kind))

    def enter(function: F) -> F:
        known = _TASKS.get(kind)
        if known is not None and _home(known.function) != _home(function):
            raise InputError("a task of this kind exists", got=f"{kind} ({'.'.join(_home(known.function))})")
        _TASKS[kind] = Task(kind=kind, version=version, function=function)
        return function

    return enter


def find_task(kind: str) -> Task:
    """Find the task of a kind."""
    if kind not in _TASKS:
        known = ", ".join(sorted(_TASKS)) or "none"
        raise InputError(
            "no task computes this kind of cell", expected=known, got=kind, do="import the module that defines it first"
        )
    return _TASKS[kind]


def modules_of(kinds: Iterable[str]) -> tuple[str, ...]:
    """Name the modules that a process must import to compute these kinds."""
    names = sorted({_home(find_task(kind).function)[0] for kind in kinds})
    if "__main__" in names:
        raise InputError("tasks must live in a module that other processes can import", got="__main__")
    return tuple(names)


def load_tasks(modules: Sequence[str]) -> None:
    """Import the modules that register tasks."""
    for name in modules:
        import_module(name)


def _home(function: Callable[..., Any]) -> tuple[str, str]:
    return str(getattr(function, "__module__", "")), str(getattr(function, "__qualname__", ""))
