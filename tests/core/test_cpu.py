"""Threads: who has them, and functions that are compiled for them."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch
from llvmlite.binding import get_host_cpu_features

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


def run(program: str, **settings: str) -> str:
    around = {name: value for name, value in os.environ.items() if name != "NUMBA_CPU_FEATURES"} | settings
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=around
    ).stdout.strip()


@pytest.mark.skipif(not get_host_cpu_features().get("avx512f"), reason="the processor has no vectors of 512 bits")
def test_compiled_loops_use_the_widest_vectors() -> None:
    program = (
        "import numpy as np\n"
        "from sfra.core.cpu import compiled\n"
        "def square(x):\n"
        "    for i in range(x.size):\n"
        "        x[i] = x[i] * x[i]\n"
        "square = compiled()(square)\n"
        "square(np.ones(9, np.float32))\n"
        "print('zmm' in ''.join(square.inspect_asm().values()))\n"
    )
    assert run(program) == "True"


CHOSEN = "from sfra.core.cpu import compiled; compiled(); import numba; print(numba.config.CPU_FEATURES)"


def test_a_users_own_choice_of_vectors_stays() -> None:
    own = get_host_cpu_features().flatten()
    assert run(CHOSEN, NUMBA_CPU_FEATURES=own) == own
    assert run(f"import numba; {CHOSEN}") == "None"


def test_programs_that_are_started_afterwards_choose_for_their_own_processor() -> None:
    assert run(f"{CHOSEN}; import os; print(os.environ.get('NUMBA_CPU_FEATURES'))").splitlines()[1] == "None"


def test_work_that_is_shared_out_is_done_with_one_thread_each_and_a_failure_is_heard_of() -> None:
    before = torch.get_num_threads()
    seen: list[tuple[int, int]] = []
    share_out(lambda task: seen.append((task, torch.get_num_threads())), range(5), 3)
    assert sorted(seen) == [(task, 1) for task in range(5)]
    assert torch.get_num_threads() == before
    with pytest.raises(ZeroDivisionError):
        share_out(lambda task: seen.append((1 // task, 1)), [1, 0], 2)
