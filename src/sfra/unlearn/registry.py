"""The methods by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from typing import TypeVar

from sfra.errors import InputError
from sfra.unlearn.base import UnlearningMethod

_METHODS: dict[str, type[UnlearningMethod]] = {}

M = TypeVar("M", bound=UnlearningMethod)


@dataclass(frozen=True, kw_only=True)
class Description:
    """What a list of methods shows."""

    name: str
    """As in :func:`get`."""
    summary: str
    """First sentence of the method's documentation."""
    needs: tuple[str, ...]
    """Training data it reads: ``forget``, ``retain`` or both."""
    settings: dict[str, object]
    """Hyper-parameters and their defaults."""


def register(name: str) -> Callable[[type[M]], type[M]]:
    """Enter a method under a name that no other has."""

    def enter(method: type[M]) -> type[M]:
        if name in _METHODS:
            raise InputError("an unlearning method of this name exists", got=f"{name} ({_METHODS[name].__name__})")
        method.name = name
        _METHODS[name] = method
        return method

    return enter


def names() -> tuple[str, ...]:
    """List the registered names in alphabetical order."""
    return tuple(sorted(_METHODS))


def get(name: str) -> Callable[..., UnlearningMethod]:
    """Find a method's class; call it with keyword hyper-parameters.

    >>> get("delete")(learning_rate=1e-2).epochs
    20
    """
    return _find(name)


def describe(name: str) -> Description:
    """Describe a method: its summary, the data it reads and its settings."""
    method = _find(name)
    settings = {field.name: field.default for field in fields(method) if field.default is not MISSING}
    summary = (method.__doc__ or "").strip().splitlines()[0]
    return Description(name=name, summary=summary, needs=method.needs, settings=settings)


def _find(name: str) -> type[UnlearningMethod]:
    if name not in _METHODS:
        raise InputError("there is no such unlearning method", expected=", ".join(names()), got=name)
    return _METHODS[name]
