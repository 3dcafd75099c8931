"""Settings that are checked against their own annotations on creation."""

from __future__ import annotations

from dataclasses import fields
from functools import cache
from typing import Any, get_type_hints

import msgspec

from sfra.core.errors import InputError

LAST_SEED = 2**63 - 1
"""Largest seed."""

MOST_THREADS = 1024
"""Threads beyond it gain nothing, and systems refuse to start them."""


def check_threads(threads: int) -> int:
    """Return a number of threads that can be started."""
    if not 1 <= threads <= MOST_THREADS:
        raise InputError("the number of threads is out of range", expected=f"1 to {MOST_THREADS}", got=threads)
    return threads


def check_fields(settings: Any) -> None:
    """Refuse a field of a dataclass whose value does not fit its annotation; call it from ``__post_init__``.

    Bounds come from the annotation: ``Annotated[int, msgspec.Meta(ge=1)]`` refuses 0.
    """
    kind: type = type(settings)
    for name, hint in _hints(kind).items():
        value = getattr(settings, name)
        try:
            msgspec.convert(value, hint)
        except msgspec.ValidationError as problem:
            expected = str(problem).removeprefix("Expected ").partition(", got ")[0].replace("`", "")
            default = getattr(kind, name, None)
            do = "leave it out for the default" + ("" if default is None else f", which is {default}")
            raise InputError(f"the setting {name} does not fit", expected=expected, got=repr(value), do=do) from None


@cache
def _hints(kind: type) -> dict[str, Any]:
    hints = get_type_hints(kind, include_extras=True)
    return {field.name: hints[field.name] for field in fields(kind)}
