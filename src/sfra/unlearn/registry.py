"""The methods by name: those of this package, those of installed plug-ins, and any class by its address."""

from __future__ import annotations

import hashlib
import inspect
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, fields
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from sfra.core.errors import InputError, meant
from sfra.core.modules import import_file
from sfra.models.recipes import Recipe, make_settings
from sfra.unlearn.base import UnlearningMethod

GROUP = "sfra.unlearning_methods"
"""Entry-point group: each entry names a method class, or a module whose import registers some."""

PARTS = ("forget", "retain")
"""What a method may declare to read."""

_METHODS: dict[str, type[UnlearningMethod]] = {}
_BROKEN: list[str] | None = None  # plug-ins that failed, in a line each; None until they were looked for

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
            raise InputError("wrong name for a method", expected="text without a colon", got=repr(name))
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
        name: A registered name, or the address of a class that is not registered: ``package.module:Class`` or
            ``./file.py:Class``.

    >>> get("delete")(learning_rate=1e-2).epochs
    20
    >>> get("sfra.unlearn.delete:Delete") is get("delete")
    True
    """
    if name in _METHODS:
        return _METHODS[name]
    broken = load_plugins()
    if ":" in name:
        with _all_or_nothing():
            method = _import_method(name)
        if not _is_registered(method):
            method.name = name  # so that it can be found again
        return method
    if name not in _METHODS:
        do = "; ".join(f"repair or remove {plugin}" for plugin in broken) or meant(name, names())
        raise InputError("unknown unlearning method", expected=", ".join(names()), got=name, do=do)
    return _METHODS[name]


def make_method(name: str, settings: Mapping[str, Any], *, where: str | None = None) -> UnlearningMethod:
    """Make a method with settings from a recipe or a command line, checked by name, type and range.

    >>> make_method("delete", {"learning_rate": 1}).learning_rate
    1.0
    """
    method: Any = get(name)
    made: UnlearningMethod = make_settings(method, settings, where=where or name)
    return made


def check_recipe(recipe: Recipe) -> None:
    """Refuse a recipe whose methods do not exist or do not take their settings."""
    for name, settings in recipe.methods.items():
        make_method(name, settings, where=f"{recipe.name} [methods.{name}]")


def describe(name: str) -> Description:
    """Describe a method: its summary, the data it reads and its settings."""
    method: Any = get(name)
    settings = {field.name: field.default for field in fields(method) if field.default is not MISSING}
    summary = (method.__doc__ or "").strip().partition("\n")[0]
    return Description(name=method.name, summary=summary, needs=method.needs, settings=settings)


def source_of(name: str) -> str | None:
    """Return the SHA-256 of the files that define a method of the user's own; None for one of this package.

    Those are the file of the class and of each class outside this package that it inherits from. What these files
    import is not looked at.

    >>> source_of("delete") is None
    True
    """
    ours = {"sfra", *sys.stdlib_module_names}
    method: Any = get(name)
    own = [one for one in method.__mro__ if one.__module__.partition(".")[0] not in ours]
    try:
        files = sorted({inspect.getfile(one) for one in own})
        content = [Path(file).read_bytes() for file in files]
    except (OSError, TypeError) as problem:
        raise InputError(f"the source of {name} cannot be read", got=problem, do="put the class in a file") from None
    return hashlib.sha256(b"\0".join(content)).hexdigest() if content else None


def load_plugins() -> tuple[str, ...]:
    """Load the methods that installed packages announce, once, and return the plug-ins that failed.

    A package announces a method in its ``pyproject.toml``::

        [project.entry-points."sfra.unlearning_methods"]
        my-method = "my_package.my_module:MyMethod"

    One that fails is reported as a warning; it registers nothing and does not disturb the others.
    """
    global _BROKEN
    if _BROKEN is None:
        _BROKEN = []
        found = {(entry.dist.name if entry.dist else "unknown", entry) for entry in entry_points(group=GROUP)}
        for package, entry in sorted(found, key=lambda pair: (pair[0], pair[1].name, pair[1].value)):
            try:
                with _all_or_nothing():
                    method = entry.load()
                    if not isinstance(method, ModuleType) and not _is_registered(check_method(method)):
                        register(entry.name)(method)
            except Exception as problem:  # code of a stranger: it raises whatever it runs into
                line = _summarise(problem)
                _BROKEN.append(f"package {package}, entry {entry.name} = {entry.value}: {line}")
        for broken in _BROKEN:
            warnings.warn(f"an unlearning method could not be loaded: {broken}", RuntimeWarning, stacklevel=3)
    return tuple(_BROKEN)


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


def _import_method(address: str) -> type[UnlearningMethod]:
    """Import a method class by its address, ``package.module:Class`` or ``./file.py:Class``."""
    module, _, name = address.rpartition(":")
    parts = name.split(".") if module.endswith(".py") else [*module.split("."), *name.split(".")]
    if not all(part.isidentifier() for part in parts):
        expected = "package.module:Class or ./file.py:Class"
        raise InputError("this is not the address of a method", expected=expected, got=address)
    found: object = _import(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    if found is None:
        classes = {key: value for key, value in vars(_import(module)).items() if isinstance(value, type)}
        there = [key for key, value in classes.items() if issubclass(value, UnlearningMethod)]
        expected = f"an unlearning method: {', '.join(there) or 'it has none'}"
        raise InputError(f"{module} has no {name}", expected=expected, got=address)
    return check_method(found)


def _import(module: str) -> ModuleType:
    if module.endswith(".py") and not Path(module).is_file():
        raise InputError("the file of the method does not exist", got=module, do="check the path")
    try:
        return import_file(Path(module)) if module.endswith(".py") else import_module(module)
    except ModuleNotFoundError as problem:
        if problem.name is not None and (module == problem.name or module.startswith(f"{problem.name}.")):
            do = f"put its folder on PYTHONPATH, or name the file: ./{module.partition('.')[0]}.py:Class"
            raise InputError(f"there is no module {module}", got=str(problem), do=do) from None
        failure: Exception = problem
    except Exception as problem:  # code of a stranger: it raises whatever it runs into
        failure = problem
    raise InputError(
        f"{module} fails when it is imported",
        expected="a module that can be imported",
        got=_summarise(failure),
        do=f"run: python {module}" if module.endswith(".py") else f"run: python -c 'import {module}'",
    ) from failure


def _summarise(problem: Exception) -> str:
    """Say in a line what went wrong."""
    if isinstance(problem, InputError):
        return "; ".join(part.strip() for part in str(problem).splitlines())
    return f"{type(problem).__name__}: {problem}".splitlines()[0]
