"""What the store keeps about a cell: the record of a finished one, the reason of a failed one."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from sfra.bench.engine.folders import read_json


@dataclass(frozen=True, kw_only=True)
class Record:
    """What ``result.json`` says."""

    key: str
    kind: str
    version: int
    label: str
    settings: dict[str, Any]
    needs: dict[str, str]
    """Keys of the needed cells by role."""
    result: dict[str, Any]
    """What the work returned."""
    seconds: float
    host: str
    pid: int
    device: str
    versions: dict[str, str]
    """Of Python, of this package and of the libraries that the work had loaded."""
    finished: float
    """Seconds since 1970."""
    files: dict[str, int]
    """The work's files and their sizes."""


@dataclass(frozen=True, kw_only=True)
class Failure:
    """Why a cell failed."""

    key: str
    kind: str
    label: str
    reason: str
    """``raised``, ``not-finite``, ``not-json``, ``out-of-memory``, ``time-limit`` or ``crashed``."""
    message: str
    """One line or a few, for people."""
    traceback: str = ""
    output: str = ""
    """The end of what it printed."""
    attempts: int = 1
    when: float = 0.0
    host: str = ""
    settings: dict[str, Any] = field(default_factory=dict)


def parse_cell(folder: Path) -> Record | None:
    """Read the folder of a cell; None when it is not whole, or a link to one elsewhere."""
    facts = _known(Record, read_json(folder / "result.json"))
    if facts is None or facts.get("key") != folder.name or folder.is_symlink():
        return None
    try:
        record = Record(**facts)
        whole = all((folder / name).stat().st_size == size for name, size in record.files.items())
    except (OSError, TypeError, ValueError):
        return None
    return record if whole else None


def parse_failure(file: Path) -> Failure | None:
    """Read why a cell failed; None when the file is absent or is not whole."""
    facts = _known(Failure, read_json(file))
    try:
        return None if facts is None else Failure(**facts)
    except TypeError:  # a name is missing
        return None


KINDS: dict[str, Any] = {"str": str, "int": int, "float": int | float, "dict": dict}
"""What JSON holds for the types of the fields above."""


def _known(record: type[Record] | type[Failure], facts: dict[str, Any] | None) -> dict[str, Any] | None:
    """Keep the fields of a record, all of their type; None if one is not."""
    types = {each.name: KINDS[str(each.type).partition("[")[0]] for each in fields(record)}
    known = {name: value for name, value in (facts or {}).items() if name in types}
    whole = all(isinstance(value, types[name]) for name, value in known.items())
    return known if facts is not None and whole else None
