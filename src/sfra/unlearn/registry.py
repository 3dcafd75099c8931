"""The methods by name: those of this package, those of installed plug-ins, and any class by its address."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, fields
from typing import Any, TypeVar

from sfra.core.errors import InputError, meant
from sfra.models.recipes import Recipe, make_settings
from sfra.unlearn.base import UnlearningMethod
from sfra.unlearn.plugins import Broken, check_method, import_method, installed, load_entry, package_of, summarise

_METHODS: dict[str, type[UnlearningMethod]] = {}
_BROKEN: list[Broken] | None = None  # None until the plug-ins were looked for

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
        check_method(method)
        if name in _METHODS:
            raise InputError("an unlearning method of this name exists", got=f"{name} ({_METHODS[name].__name__})")
        if not name or ":" in name:
            raise InputError("this cannot be the name of a method", expected="text without a colon", got=repr(name))
        method.name = name
        _METHODS[name] = method
        return method

    return enter


def names() -> tuple[str, ...]:
    """List the registered names, with those of installed plug-ins, in alphabetical order."""
    load_plugins()
    return tuple(sorted(_METHODS))


def get(name: str) -> Callable[..., UnlearningMethod]:
    """Find a method's class; call it with keyword hyper-parameters.

    Args:
        name: A registered name, or the address of a class that is not registered: ``package.module:Class``.

    >>> get("delete")(learning_rate=1e-2).epochs
    20
    >>> get("sfra.unlearn.delete:Delete") is get("delete")
    True
    """
    return _find(name)


def make_method(name: str, settings: Mapping[str, Any], *, where: str | None = None) -> UnlearningMethod:
    """Make a method with settings from a recipe or a command line, checked by name, type and range.

    >>> make_method("delete", {"learning_rate": 1}).learning_rate
    1.0
    """
    return make_settings(_find(name), settings, where=where or name)


def check_recipe(recipe: Recipe) -> None:
    """Refuse a recipe whose methods do not exist or do not take their settings."""
    for name, settings in recipe.methods.items():
        make_method(name, settings, where=f"{recipe.name} [methods.{name}]")


def describe(name: str) -> Description:
    """Describe a method: its summary, the data it reads and its settings."""
    method = _find(name)
    settings = {field.name: field.default for field in fields(method) if field.default is not MISSING}
    summary = (method.__doc__ or "").strip().partition("\n")[0]
    return Description(name=method.name, summary=summary, needs=method.needs, settings=settings)


def load_plugins() -> tuple[Broken, ...]:
    """Load the methods that installed packages announce, once, and return the plug-ins that failed.

    A package announces a method in its ``pyproject.toml``::

        [project.entry-points."sfra.unlearning_methods"]
        my-method = "my_package.my_module:MyMethod"

    One that fails is reported as a warning; it registers nothing and does not disturb the others.
    """
    global _BROKEN
    if _BROKEN is None:
        _BROKEN = []
        for entry in installed():
            try:
                with _all_or_nothing():
                    method = load_entry(entry)
                    if method is not None and not _is_registered(method):
                        register(entry.name)(method)
            except Exception as problem:  # code of a stranger: it raises whatever it runs into
                line = f"{entry.name} = {entry.value}"
                _BROKEN.append(Broken(package=package_of(entry), entry=line, problem=summarise(problem)))
        for broken in _BROKEN:
            warnings.warn(f"an unlearning method could not be loaded: {broken}", RuntimeWarning, stacklevel=3)
    return tuple(_BROKEN)


def _find(name: str) -> type[UnlearningMethod]:
    if name in _METHODS:
        return _METHODS[name]
    broken = load_plugins()
    if ":" in name:
        return _find_by_address(name)
    if name not in _METHODS:
        do = "; ".join(f"repair or remove {plugin}" for plugin in broken) or meant(name, names())
        raise InputError("there is no such unlearning method", expected=", ".join(names()), got=name, do=do)
    return _METHODS[name]


def _find_by_address(address: str) -> type[UnlearningMethod]:
    """Import a class; one that has no registered name is called by its address, so that it can be found again."""
    with _all_or_nothing():
        method = import_method(address)
    if not _is_registered(method):
        method.name = address
    return method


@contextmanager
def _all_or_nothing() -> Iterator[None]:
    """Take back what a failing import had registered."""
    before = dict(_METHODS)
    try:
        yield
    except BaseException:
        _METHODS.clear()
        _METHODS.update(before)
        raise


def _is_registered(method: type[UnlearningMethod]) -> bool:
    return _METHODS.get(vars(method).get("name", "")) is method
