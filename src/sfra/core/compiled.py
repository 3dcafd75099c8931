"""Compile functions for the CPU, and keep what was compiled for the next process where there is a place for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit


def compiled(**options: Any) -> Any:
    """Make a decorator that compiles a function; without the interpreter's lock, as several run side by side.

    The machine code is cached beside the module or in the user's cache. Where neither can be written to, as in a
    container without a home, it is compiled anew in every process.

    Args:
        options: Of :func:`numba.njit`.
    """

    def wrap(function: Callable[..., Any]) -> Any:
        try:
            return njit(nogil=True, cache=True, **options)(function)
        except RuntimeError:  # no place for a cache
            return njit(nogil=True, **options)(function)

    return wrap
