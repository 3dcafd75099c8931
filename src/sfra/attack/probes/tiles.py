"""Run the tiles of a computation on several threads, and take their results in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

import torch

Result = TypeVar("Result")


def in_order(work: Callable[[int], Result], indices: Iterable[int], threads: int | None = None) -> Iterator[Result]:
    """Yield ``work(i)`` for each index, in order, on several threads (by default as many as torch uses).

    What the caller sees does not depend on the number of threads, also when it stops early.

    >>> list(in_order(lambda i: i * i, range(4)))
    [0, 1, 4, 9]
    """
    threads = threads or torch.get_num_threads()
    waiting: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(threads, thread_name_prefix="sfra-tiles") as pool:
        try:
            for index in indices:
                waiting.append(pool.submit(work, index))
                if len(waiting) > threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
