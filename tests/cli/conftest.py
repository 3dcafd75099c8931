from __future__ import annotations

from pathlib import Path

import pytest

from builders.cli import Files


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Files:
    """The small release in an empty folder, which is also the working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    return Files(tmp_path)
