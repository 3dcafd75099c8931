"""What people and programs write: JSON, TOML and paths."""

from __future__ import annotations

import json
import os
import tomllib
from pathlib import Path
from typing import Any

LONGEST = 2**15
"""Characters of a TOML file; names with thousands of dots in them would take gigabytes to read."""


def written_out(path: str | os.PathLike[str]) -> Path:
    """Put the home directory in place of a leading ``~``; that of a user whom nobody knows stays, as in shells.

    >>> written_out("models/mine").as_posix()
    'models/mine'
    """
    return Path(os.path.expanduser(path))


def parse_json(text: str | bytes, *, constants: bool = False) -> Any:
    """Read JSON of whomever.

    Args:
        text: Characters, or their bytes in UTF-8.
        constants: Whether to take NaN and Infinity, which Python writes and JSON does not know.

    Raises:
        ValueError: It is empty or no JSON, is nested too deeply, or holds a number that is too long.

    >>> parse_json('{"rs": 0.5}')
    {'rs': 0.5}
    """
    if not text.strip():
        raise ValueError("it is empty")
    try:
        return json.loads(text, parse_constant=None if constants else _refuse_constant)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except (json.JSONDecodeError, UnicodeDecodeError, _NotJsonError):
        raise
    except ValueError:  # Python's own limit of digits, with advice to raise it
        raise ValueError("a number in it has more than 4,300 digits") from None


class _NotJsonError(ValueError):
    pass


def _refuse_constant(name: str) -> None:
    raise _NotJsonError(f"{name} is not a number that JSON knows")


def parse_toml(text: str) -> dict[str, Any]:
    """Read TOML; what is no TOML, too long or nested too deeply is a ``ValueError``."""
    if len(text) > LONGEST:
        raise ValueError(f"it has {len(text):,} characters; at most {LONGEST:,} are read")
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
