"""Compiled functions run where nothing can be cached."""

from __future__ import annotations

import subprocess
import sys


def test_the_package_can_be_used_where_neither_it_nor_a_home_can_be_written_to() -> None:
    program = (
        "import numba.core.caching as caching\n"
        "for one in caching.CacheImpl._locator_classes:\n"
        "    one.from_function = classmethod(lambda cls, *given: None)\n"
        "import sfra.attack.adam_kernels, sfra.attack.probes.kernels\n"
        "print(sfra.attack.adam_kernels.train_epoch.stats.cache_path)\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
