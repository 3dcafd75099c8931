"""Instrument the package: every jaxtyping shape in a signature is checked while the tests run."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from builders.instrument import install
from builders.once import made_once

install("sfra")
if (processes := int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))) > 1:  # they share the cores
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // processes)))
settings.register_profile("repeatable", derandomize=True)
settings.load_profile("repeatable")


@pytest.fixture(autouse=True)
def _same_numbers_every_time() -> None:
    """Seed what draws without a generator of its own, such as the weights of a fresh layer."""
    import torch  # not sooner: it reads the number of threads once

    torch.manual_seed(0)


@pytest.fixture(scope="session")
def demo_made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demonstration and its models; it takes a minute."""
    from builders.demo import make_demo

    return made_once(tmp_path_factory, "demo", make_demo)


@pytest.fixture(scope="session")
def demo_folder(demo_made: Path) -> Path:
    """What the demonstration leaves behind."""
    return demo_made / "out"


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Let new processes hear an interrupt: a shell's background job, and so all it starts, ignores them."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
