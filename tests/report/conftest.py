from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from builders.bench_run import make_benchmark
from builders.browser import Browser, started
from builders.once import made_once


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One browser for all tests of a process."""
    with started() as found:
        yield found


@pytest.fixture(scope="session")
def bench_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A benchmark that was really run, with its page."""
    return made_once(tmp_path_factory, "bench", make_benchmark)
