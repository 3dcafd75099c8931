"""Check every annotation of the package while tests run, at the price that each needs."""

from __future__ import annotations

import typing
from collections.abc import Callable
from types import FunctionType
from typing import Any

import jaxtyping
from beartype import BeartypeConf, beartype

Decorated = Callable[..., Any] | type
checked = beartype(conf=BeartypeConf(violation_type=jaxtyping.TypeCheckError))  # the error that jaxtyping raises, too


def install(package: str) -> None:
    """Check arguments and results in every module of a package that is imported from now on.

    What jaxtyping does around a function is for the names of axes: they must mean one size throughout a call. It costs
    some 20 µs a call, which is most of the time of small functions; those without an axis get beartype's checks alone.
    """
    jaxtyping.jaxtyped = _choose(jaxtyping.jaxtyped)  # the hook looks it up by this name in each module
    jaxtyping.install_import_hook(package, "beartype.beartype")


def has_axes(hint: object) -> bool:
    """Whether a type has an array with axes anywhere in it."""
    if isinstance(hint, type) and issubclass(hint, jaxtyping.AbstractArray):
        return True
    parts = hint if isinstance(hint, list | tuple) else typing.get_args(hint)
    return any(has_axes(part) for part in parts)


def _choose(jaxtyped: Callable[..., Any]) -> Callable[..., Any]:
    def decorator(*, typechecker: Any) -> Callable[[Decorated], Decorated]:
        def decorate(target: Decorated) -> Decorated:
            if isinstance(target, FunctionType):
                if "tl.constexpr" in target.__annotations__.values():
                    return target  # a kernel of Triton is compiled from its source
                if "<locals>" in target.__qualname__:
                    return target  # made anew by every call of the function around it, and a check takes 1 ms to make
                hints = {name: _resolved(hint, target.__globals__) for name, hint in target.__annotations__.items()}
                if not any(map(has_axes, hints.values())):
                    target.__annotations__ = hints
                    return checked(target)
            with_axes: Decorated = jaxtyped(target, typechecker=typechecker)
            return with_axes

        return decorate

    return decorator


def _resolved(hint: object, names: dict[str, Any]) -> object:
    """Evaluate an annotation; one of names that only a type checker sees is anything, as it is to jaxtyping."""

    def holder() -> None: ...

    holder.__annotations__ = {"hint": hint}
    try:
        return typing.get_type_hints(holder, names, include_extras=True)["hint"]
    except Exception:
        return Any
