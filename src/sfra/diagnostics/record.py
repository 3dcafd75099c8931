"""What every diagnostic returns: a small frozen record that turns into plain JSON values."""

from __future__ import annotations

import math
from dataclasses import fields, is_dataclass
from typing import Any

DIGITS = 7
"""Significant digits of a number in JSON."""


class Record:
    """A frozen dataclass of numbers, names and further records."""

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as numbers, strings, lists and dictionaries; a number that is not finite becomes None."""
        assert is_dataclass(self)
        return {field.name: _plain(getattr(self, field.name)) for field in fields(self)}


def _plain(value: Any) -> Any:
    if isinstance(value, Record):
        return value.to_dict()
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None
    return value
