"""The rooms look down only: ``lint-imports`` holds it, and turns red when a room looks up."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]
    environment = os.environ | {"PYTHONPATH": str(folder / "src")}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def test_no_room_looks_up(copy: Path) -> None:
    done = lint_imports(copy)
    assert done.returncode == 0, done.stdout
    assert "0 broken" in done.stdout


def test_a_room_that_looks_up_turns_the_check_red(copy: Path) -> None:
    first = "from __future__ import annotations\n"
    upwards = {"attack/scale.py": "import sfra.data.sets", "auditing/score.py": "import sfra.models.forward"}
    for file, line in upwards.items():
        changed = copy / "src" / "sfra" / file
        changed.write_text(changed.read_text(encoding="utf-8").replace(first, f"{first}{line}\n"), encoding="utf-8")
    done = lint_imports(copy)
    assert done.returncode == 1
    assert "sfra.attack is not allowed to import sfra.data" in done.stdout
    assert "sfra.auditing is not allowed to import sfra.models" in done.stdout
