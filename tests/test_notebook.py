"""The example notebook: kept as it was executed, and executed anew."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

NOTEBOOK = Path(__file__).parents[1] / "examples" / "audit.ipynb"
LARGEST = 300_000
"""Bytes of a notebook with its outputs."""


MADE = """
import sfra.demo.models as models
from builders.demo import read_models
models.digits_models = lambda forget: read_models({folder!r}).models
"""
"""Runs before the first cell: the networks are those of the demonstration, which takes half a minute to train them."""


def execute(notebook: Path, folder: Path, made: Path) -> subprocess.CompletedProcess[str]:
    """Run every cell in a kernel of its own, and write what comes out into a folder."""
    start = folder / "ipython" / "profile_default" / "startup" / "made.py"
    start.parent.mkdir(parents=True)
    start.write_text(MADE.format(folder=str(made)), encoding="utf-8")
    environment = os.environ | {"IPYTHONDIR": str(folder / "ipython"), "PYTHONPATH": os.pathsep.join(sys.path)}
    options = ("--to", "notebook", "--execute", "--output-dir")
    command = [sys.executable, "-m", "nbconvert", *options, str(folder), str(notebook)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


def outputs(notebook: Path) -> list[list[dict[str, Any]]]:
    """What each code cell put out."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    return [cell["outputs"] for cell in cells if cell["cell_type"] == "code"]


def kinds(notebook: Path) -> list[list[str]]:
    """What each code cell put out, by kind; a stream comes in as many parts as it likes."""
    return [
        list(dict.fromkeys(" ".join([one["output_type"], *sorted(one.get("data", {}))]) for one in cell))
        for cell in outputs(notebook)
    ]


def test_the_notebook_is_kept_with_its_outputs_and_is_small() -> None:
    cells = [cell for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in cells] == [*range(1, len(cells) + 1)]
    assert NOTEBOOK.stat().st_size < LARGEST
    text = NOTEBOOK.read_text(encoding="utf-8")
    assert "text/html" in text
    assert "image/svg+xml" in text
    assert "https://" not in text.replace("https://www.w3.org", "")


def test_every_cell_of_the_notebook_runs_and_shows_what_is_kept(tmp_path: Path, demo_made: Path) -> None:
    ran = execute(NOTEBOOK, tmp_path, demo_made)
    assert ran.returncode == 0, ran.stderr[-3000:]
    assert kinds(tmp_path / NOTEBOOK.name) == kinds(NOTEBOOK)
    shown = outputs(tmp_path / NOTEBOOK.name)
    cards = ["".join(one["data"]["text/html"]) for cell in shown for one in cell if "text/html" in one.get("data", {})]
    assert ["recovered</strong>" in card for card in cards] == [True, False]
    honest = json.loads((demo_made / "out" / "retrained" / "audit.json").read_text(encoding="utf-8"))["verdict"]
    assert [f"{honest}</strong>" in card for card in cards] == [False, True]
