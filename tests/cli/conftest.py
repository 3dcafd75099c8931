from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from builders import cli
from builders.cli import Files, Run


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Files:
    """The small release in an empty folder, which is also the working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    return Files(tmp_path)


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Run:
    """Run a command in this process."""
    return partial(cli.run, capfd)
