"""TOML from whomever: recipes and protocols."""

from __future__ import annotations

import tomllib
from typing import Any

LONGEST = 2**15
"""Characters of a file; names with thousands of dots in them would take gigabytes to read."""


TOO_LARGE = "a number in it is too large: whole numbers have 64 bits"


def parse_toml(text: str) -> dict[str, Any]:
    """Read TOML.

    Raises:
        ValueError: It is none, or too long or too deeply nested for a recipe or a protocol.
    """
    if len(text) > LONGEST:
        raise ValueError(f"it has {len(text):,} characters; at most {LONGEST:,} are read")
    try:
        content = tomllib.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except tomllib.TOMLDecodeError:
        raise
    except ValueError:  # Python's own limit of digits, with advice to raise it
        raise ValueError(TOO_LARGE) from None
    if _has_large_number(content):
        raise ValueError(TOO_LARGE)
    return content


def _has_large_number(value: object) -> bool:
    if isinstance(value, dict | list):
        return any(map(_has_large_number, value.values() if isinstance(value, dict) else value))
    return isinstance(value, int) and not -(2**63) <= value < 2**63
