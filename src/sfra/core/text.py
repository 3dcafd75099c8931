"""What people and programs write: JSON, TOML and paths."""

from __future__ import annotations

import json
import os
import re
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
    """Read TOML.

    Raises:
        ValueError: It is none, or too long or too deeply nested for a recipe or a protocol.
    """
    if len(text) > LONGEST:
        raise ValueError(f"it has {len(text):,} characters; at most {LONGEST:,} are read")
    try:
        content = tomllib.loads(text)
        large = _large_number(content)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except tomllib.TOMLDecodeError:
        raise
    except ValueError:  # Python's own limit of digits, with advice to raise it
        long = re.search(r"\d[\d_]{4000,}", text)
        line = text.count("\n", 0, long.start() if long else 0) + 1
        raise ValueError(_too_large(f"that of line {line}")) from None
    if large is not None:
        raise ValueError(_too_large(large))
    return content


def is_large(value: object) -> bool:
    """Tell whether a value is, or a list holds, a whole number of more than 64 bits."""
    if isinstance(value, list | tuple):
        return any(map(is_large, value))
    return isinstance(value, int) and not -(2**63) <= value < 2**63


def _too_large(name: str) -> str:
    return f"a number in it is too large: {name}; whole numbers have 64 bits"


def _large_number(value: object, name: str = "") -> str | None:
    """Return the dotted name of the first number of more than 64 bits; None if there is none."""
    if isinstance(value, dict):
        parts = [(f"{name}.{key}".lstrip("."), one) for key, one in value.items()]
    elif isinstance(value, list):
        parts = [(name, one) for one in value]
    else:
        return name if is_large(value) else None
    return next((found for key, one in parts if (found := _large_number(one, key)) is not None), None)
