"""Threads: who has them, and functions that are compiled for them."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from sfra.core.cpu import share_out


def test_the_package_can_be_used_where_neither_it_nor_a_home_can_be_written_to() -> None:
    program = (
        "import numba.core.caching as caching\n"
        "for one in caching.CacheImpl._locator_classes:\n"
        "    one.from_function = classmethod(lambda cls, *given: None)\n"
        "import sfra.attack.adam_kernels, sfra.attack.probes.kernels\n"
        "print(sfra.attack.adam_kernels.visit.stats.cache_path)\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr


def test_work_that_is_shared_out_is_done_with_one_thread_each_and_a_failure_is_heard_of() -> None:
    before = torch.get_num_threads()
    seen: list[tuple[int, int]] = []
    share_out(lambda task: seen.append((task, torch.get_num_threads())), range(5), 3)
    assert sorted(seen) == [(task, 1) for task in range(5)]
    assert torch.get_num_threads() == before
    with pytest.raises(ZeroDivisionError):
        share_out(lambda task: seen.append((1 // task, 1)), [1, 0], 2)
