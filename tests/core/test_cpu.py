"""Compiled functions run where nothing can be cached."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numba
import pytest

from sfra.core.cpu import compiled


def test_without_a_place_for_the_cache_a_function_is_compiled_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    real, asked = numba.njit, []

    def refuse(*functions: Any, **options: Any) -> Any:
        if functions:  # numba's own
            return real(*functions, **options)
        asked.append(options.get("cache", False))
        if options.get("cache"):

            def locate(function: object) -> None:
                raise RuntimeError("cannot cache function: no locator available")

            return locate
        return real(**options)

    monkeypatch.setattr(numba, "njit", refuse)

    @compiled(fastmath={"contract"})  # type: ignore[untyped-decorator]
    def twice(x: float) -> float:
        return 2 * x

    assert twice(21.0) == 42.0
    assert asked == [True, False]


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
