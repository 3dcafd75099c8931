"""JSON from whomever: results, configurations, settings."""

from __future__ import annotations

import json
from typing import Any


def parse_json(text: str | bytes, *, constants: bool = False) -> Any:
    """Read JSON.

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
