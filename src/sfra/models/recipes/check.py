"""Check settings that were read from a file against the dataclass that they are for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from sfra.core.errors import InputError
from sfra.core.text import is_large


def check_group(where: str, values: Mapping[str, Any], target: Any) -> dict[str, Any]:
    """Return values as keyword arguments of a dataclass: lists as tuples, whole numbers as floats where it wants them.

    Args:
        where: File and group, for messages.
        values: As read from the file.
        target: The dataclass: names and types come from it, and one is made to see whether it accepts the values.
    """
    hints = get_type_hints(target)
    known = {field.name: hints[field.name] for field in fields(target) if field.init}
    made: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in values.items()}
    for key, value in made.items():
        if key not in known:
            raise InputError(f"{where}: there is no setting {key!r}", expected=", ".join(known))
        if not fits(value, known[key]):
            raise InputError(f"{where}: {key} is of the wrong kind", expected=_words(known[key]), got=values[key])
        if is_large(value):
            raise InputError(f"{where}: {key} is too large", expected="whole numbers of at most 64 bits")
        made[key] = float(value) if known[key] is float else value
    try:
        target(**made)
    except (TypeError, ValueError) as problem:
        what, *rest = str(problem).splitlines()
        raise InputError("\n".join([f"{where}: {what}", *rest])) from None
    return made


def fits(value: object, hint: Any) -> bool:
    """Tell whether a value is of a type; an int serves as a float, a bool as neither.

    >>> fits(3, float), fits(True, int), fits((1, "a"), tuple[int, ...])
    (True, False, False)
    """
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return any(fits(value, option) for option in arguments)
    if origin is Literal:
        return value in arguments
    if origin in (tuple, Sequence):
        return isinstance(value, tuple) and _fits_items(value, arguments)
    if isinstance(value, bool):
        return hint is bool
    return isinstance(value, (int, float) if hint is float else hint)


def _fits_items(values: tuple[object, ...], hints: tuple[Any, ...]) -> bool:
    whole = hints if hints[1:] and hints[1] is not ... else hints[:1] * len(values)
    return len(values) == len(whole) and all(map(fits, values, whole))


def _words(hint: Any) -> str:
    """Name a type for a person who writes TOML."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return " or ".join(f'"{value}"' for value in arguments)
    if origin in (Union, UnionType):
        return " or ".join(_words(option) for option in arguments if option is not NoneType)
    if origin in (tuple, Sequence):
        count = f"{len(arguments)} " if arguments[1:] and arguments[1] is not ... else ""
        return f"a list of {count}numbers"
    return {str: "text", int: "a whole number", float: "a number", bool: "true or false"}[hint]
