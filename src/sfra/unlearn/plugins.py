"""Methods from outside: a class by its address, or whatever installed packages announce."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType

from sfra.core.errors import InputError
from sfra.unlearn.base import UnlearningMethod

GROUP = "sfra.unlearning_methods"
"""Entry-point group: each entry names a method class, or a module whose import registers some."""

PARTS = ("forget", "retain")
"""What a method may declare to read."""


@dataclass(frozen=True, kw_only=True)
class Broken:
    """A plug-in that could not be loaded."""

    package: str
    """The installed package that announces it."""
    entry: str
    """Its entry, ``name = address``."""
    problem: str
    """What went wrong, in a line."""

    def __str__(self) -> str:
        return f"package {self.package}, entry {self.entry}: {self.problem}"


def import_method(address: str) -> type[UnlearningMethod]:
    """Import a method class by its address, ``package.module:Class``."""
    module, _, name = address.partition(":")
    if not all(part.isidentifier() for part in (*module.split("."), *name.split("."))):
        raise InputError("this is not the address of a method", expected="package.module:Class", got=address)
    found: object = _import(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    if found is None:
        there = [key for key, value in vars(_import(module)).items() if _is_method(value)]
        expected = f"an unlearning method: {', '.join(there) or 'it has none'}"
        raise InputError(f"{module} has no {name}", expected=expected, got=address)
    return check_method(found)


def installed() -> Iterator[EntryPoint]:
    """Yield the entries of installed packages, in an order that does not depend on how they were installed."""
    return iter(sorted(set(entry_points(group=GROUP)), key=lambda entry: (package_of(entry), entry.name, entry.value)))


def package_of(entry: EntryPoint) -> str:
    """Return the name of the package that announces an entry."""
    return "unknown" if entry.dist is None else entry.dist.name


def load_entry(entry: EntryPoint) -> type[UnlearningMethod] | None:
    """Load an entry: a method class, or None for a module that registers on import."""
    found = entry.load()
    return None if isinstance(found, ModuleType) else check_method(found)


def check_method(found: object) -> type[UnlearningMethod]:
    """Return a class that can be used as a method, or say why it cannot."""
    name = getattr(found, "__qualname__", repr(found))
    if not isinstance(found, type) or not issubclass(found, UnlearningMethod):
        got = f"{name}, {'a class of another kind' if isinstance(found, type) else f'a {type(found).__name__}'}"
        raise InputError("this is not an unlearning method", expected="a subclass of sfra.unlearn.StepMethod", got=got)
    if inspect.isabstract(found):
        lacking = ", ".join(sorted(found.__abstractmethods__))
        raise InputError(f"{name} is abstract", expected="a method with all its functions", got=f"no {lacking}")
    if "__dataclass_fields__" not in vars(found):
        do = "put @dataclass(frozen=True, kw_only=True) on it"
        raise InputError(f"{name} is not a dataclass: its settings would be ignored", do=do)
    if not found.needs or not set(found.needs) <= set(PARTS):
        raise InputError(f"{name} reads unknown data", expected="needs of forget, retain or both", got=found.needs)
    return found


def _is_method(found: object) -> bool:
    try:
        check_method(found)
    except InputError:
        return False
    return True


def _import(module: str) -> ModuleType:
    try:
        return import_module(module)
    except ModuleNotFoundError as problem:
        if problem.name is not None and (module == problem.name or module.startswith(f"{problem.name}.")):
            do = "install the package, or put its folder on PYTHONPATH"
            raise InputError(f"there is no module {module}", got=str(problem), do=do) from None
        raise _failed(module, problem) from problem
    except Exception as problem:  # code of a stranger: it raises whatever it runs into
        raise _failed(module, problem) from problem


def _failed(module: str, problem: Exception) -> InputError:
    return InputError(
        f"{module} fails when it is imported",
        expected="a module that can be imported",
        got=summarise(problem),
        do=f"run: python -c 'import {module}'",
    )


def summarise(problem: Exception) -> str:
    """Say in a line what went wrong."""
    if isinstance(problem, InputError):
        return "; ".join(part.strip() for part in str(problem).splitlines())
    return f"{type(problem).__name__}: {problem}".splitlines()[0]
