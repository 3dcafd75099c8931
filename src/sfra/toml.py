"""TOML from whomever: recipes and protocols."""

from __future__ import annotations

import tomllib
from typing import Any

LONGEST = 2**15
"""Characters of a file; names with thousands of dots in them would take gigabytes to read."""


def parse_toml(text: str) -> dict[str, Any]:
    """Read TOML.

    Raises:
        ValueError: It is none, or too long or too deeply nested for a recipe or a protocol.
    """
    if len(text) > LONGEST:
        raise ValueError(f"it has {len(text):,} characters; at most {LONGEST:,} are read")
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
