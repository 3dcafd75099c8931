"""The processor: its cores, the threads of torch, and functions compiled for it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

Task = TypeVar("Task")


def cores() -> int:
    """Count the cores that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not every platform can say
        return os.cpu_count() or 1


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch use a single thread inside the block, and as many as before after it."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def share_out(work: Callable[[Task], None], tasks: Sequence[Task], threads: int) -> None:
    """Do work on every task, as many at a time as there are threads; torch uses one for each.

    Threads of a single operation wait for one another at each of its ends: on a busy machine that takes longer than
    what they do in between.
    """
    with one_thread(), ThreadPoolExecutor(threads) as pool:
        for _ in pool.map(work, tasks):
            pass


def compiled(**options: Any) -> Any:
    """Make a decorator that compiles a function; without the interpreter's lock, as several run side by side.

    The machine code is cached beside the module or in the user's cache. Where neither can be written to, as in a
    container without a home, it is compiled anew in every process.

    Args:
        options: Of :func:`numba.njit`.
    """
    _prefer_wide_vectors()
    from numba import njit

    def wrap(function: Callable[..., Any]) -> Any:
        try:
            return njit(nogil=True, cache=True, **options)(function)
        except RuntimeError:  # no place for a cache
            return njit(nogil=True, **options)(function)

    return wrap


def _prefer_wide_vectors() -> None:
    """Ask for vectors of 512 bits where the processor has them: on Intel's the compiler uses half of that by itself.

    A program that imports numba before, or sets NUMBA_CPU_FEATURES, has made its own choice.
    """
    if "numba" in sys.modules:
        return
    from llvmlite.binding import get_host_cpu_features
    from numba import config

    try:
        features = get_host_cpu_features()
    except RuntimeError:  # not every platform can say
        return
    if features.get("avx512f") and config.CPU_FEATURES is None:
        config.CPU_FEATURES = f"{features.flatten()},-prefer-256-bit"
