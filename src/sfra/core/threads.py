"""How many cores there are, and one torch thread for a while."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from sfra.core.errors import InputError

MOST = 1024
"""Threads beyond it gain nothing, and systems refuse to start them."""


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch use a single thread inside the block, and as many as before after it."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def check_threads(threads: int) -> int:
    """Return a number of threads that can be started."""
    if not 1 <= threads <= MOST:
        raise InputError("the number of threads is out of range", expected=f"1 to {MOST}", got=threads)
    return threads


def cores() -> int:
    """Count the cores that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not every platform can say
        return os.cpu_count() or 1
