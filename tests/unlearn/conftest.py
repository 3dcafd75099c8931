"""Run these tests on one thread: their nets are far too small for two."""

from collections.abc import Iterator

import pytest

from sfra.core import cpu


@pytest.fixture(autouse=True, scope="package")
def one_thread() -> Iterator[None]:
    with cpu.one_thread():
        yield
