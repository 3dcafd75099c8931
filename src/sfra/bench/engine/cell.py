"""A cell: one computation of the grid, named by the hash of everything that determines its result."""

from __future__ import annotations

import hashlib
import json
import math
import re
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from sfra.bench.engine.task import KIND, find_task
from sfra.core.errors import InputError

KEY = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, kw_only=True, eq=False)
class Cell:
    """One computation: its kind, its settings and the cells whose results it reads.

    Two cells are the same when their keys are: the SHA-256 of the canonical JSON of kind, version, settings and the
    keys of what is needed. The label is for people and not part of it.

    >>> data = Cell(kind="data", settings={"name": "digits"}, version=1)
    >>> Cell(kind="train", settings={"seed": 0}, needs={"data": data}, version=1).label
    'train seed=0'
    """

    kind: str
    """Which task computes it; lower-case letters, digits and ``-``."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Plain JSON values; tuples become lists, NaN and infinities are refused."""
    needs: dict[str, Cell] = field(default_factory=dict)
    """Cells that must be done before, by the role they play."""
    version: int = 0
    """Version of the computation; 0 looks it up among the registered tasks."""
    label: str = ""
    """Short name for people; made from kind and settings when empty."""
    key: str = field(init=False, default="")
    """64 hexadecimal digits."""

    def __post_init__(self) -> None:
        if KIND.fullmatch(self.kind) is None:
            raise InputError("wrong name for a kind of cell", expected="lower-case, digits, '-'", got=repr(self.kind))
        object.__setattr__(self, "settings", json.loads(canonical(self.settings, what=f"settings of {self.kind}")))
        values = (f"{name}={value}" for name, value in self.settings.items() if not isinstance(value, dict))
        object.__setattr__(self, "label", self.label or " ".join((self.kind, *values)))
        object.__setattr__(self, "needs", dict(sorted(self.needs.items())))
        object.__setattr__(self, "version", self.version or find_task(self.kind).version)
        needs = {role: need.key for role, need in self.needs.items()}
        key = key_of(kind=self.kind, version=self.version, settings=self.settings, needs=needs)
        object.__setattr__(self, "key", key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Cell) and other.key == self.key

    def __hash__(self) -> int:
        return hash(self.key)


@dataclass(frozen=True, kw_only=True)
class Order:
    """One attempt at a cell, small enough to travel: it names the cells that are needed and does not hold them."""

    key: str
    kind: str
    version: int
    label: str
    settings: dict[str, Any]
    needs: dict[str, tuple[str, str]]
    """Kind and key by role."""
    tag: str
    """Tells this attempt from every other one."""
    time_limit: float | None = None
    """Seconds after which the attempt is killed."""


def order(cell: Cell, time_limit: float | None = None) -> Order:
    """Write the order for one attempt at a cell."""
    known = {name: getattr(cell, name) for name in ("key", "kind", "version", "label", "settings")}
    needs = {role: (need.kind, need.key) for role, need in cell.needs.items()}
    return Order(**known, needs=needs, tag=uuid.uuid4().hex, time_limit=time_limit)


def key_of(*, kind: str, version: int, settings: dict[str, Any], needs: dict[str, str]) -> str:
    """Name a cell by what determines its result; ``needs`` are keys by role."""
    identity = {"kind": kind, "version": version, "settings": settings, "needs": needs}
    return hashlib.sha256(canonical(identity).encode()).hexdigest()


def canonical(value: object, *, what: str = "value") -> str:
    """Write JSON in the one way that counts for keys: sorted names, no spaces, no NaN.

    >>> canonical({"b": (1, 2), "a": None})
    '{"a":null,"b":[1,2]}'
    """
    _check(value, what)
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=True)


def check_key(key: str) -> str:
    """Return a key that is one; anything else could be a path out of the store."""
    if KEY.fullmatch(key) is None:
        raise InputError("this is not the key of a cell", expected="64 hexadecimal digits", got=repr(key))
    return key


def reachable(goals: Iterable[Cell]) -> dict[str, Cell]:
    """List the goals and everything they need, each once, by key."""
    found: dict[str, Cell] = {}
    stack = list(goals)[::-1]
    while stack:
        cell = stack.pop()
        if cell.key not in found:
            found[cell.key] = cell
            stack += list(cell.needs.values())[::-1]
    return found


def _check(value: object, where: str) -> None:
    """Refuse what JSON cannot say exactly, and tell where it stands."""
    if isinstance(value, dict):
        for name, part in value.items():
            if not isinstance(name, str):
                raise InputError(f"{where}: names must be text", expected="str", got=repr(name))
            _check(part, f"{where}.{name}")
    elif isinstance(value, list | tuple):
        for place, part in enumerate(value):
            _check(part, f"{where}[{place}]")
    elif isinstance(value, float) and not math.isfinite(value):
        raise InputError(f"{where} is not finite", expected="a finite number, or None", got=value)
    elif value is not None and not isinstance(value, str | bool | int | float):
        raise InputError(
            f"{where} is not plain JSON", expected="text, number, bool, None, list or dict", got=type(value)
        )
