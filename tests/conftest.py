"""Instrument the package: every jaxtyping shape in a signature is checked while the tests run."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from jaxtyping import install_import_hook

from made_once import made_once

install_import_hook("sfra", "beartype.beartype")


@pytest.fixture(scope="session")
def demo_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the demonstration leaves behind; it takes a minute."""
    from sfra.demo.story import run_demo

    return made_once(tmp_path_factory, "demo", run_demo)


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Let new processes hear an interrupt: a shell's background job, and so all it starts, ignores them."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
