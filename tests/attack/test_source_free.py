"""Steps 1 and 2 cannot see data: nothing that could open a data set is ever loaded, or could be, while they run."""

import json
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import sfra

PACKAGE = Path(sfra.__file__).parent

STEPS = """
import json, random, sys
state = random.getstate()
import torch, sfra.attack.probes
from sfra.core.head import Head
from sfra.attack.relearn import relearn
head = Head(torch.eye(4), torch.tensor([0.0, 0.0, -2.0, 0.0]))
for proposal in ("gaussian", "uniform"):
    probes = sfra.attack.probes.sample_probes(head, 1, n=400, m=10, proposal=proposal)
probes = sfra.attack.probes.sample_probes(head, (0, 1), n=400, m=10, assignment="optimal", max_draws=1)
assert probes.conditional, "the conditional sampler was not reached"
relearn(head, probes, epochs=2)
assert random.getstate() == state, "Python's global generator was used"
"""
ATTACK = sorted(
    ".".join(file.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")
    for file in (PACKAGE / "attack").rglob("*.py")
    if find_spec("triton") or not file.name.startswith("triton_")  # only streams on a GPU import them
)
IMPORTS = f"import json, sys, {', '.join(ATTACK)}"
TOPS = {"sfra", "PIL", "sklearn", "torchvision", "transformers", "datasets", "onnx", "onnxruntime"}
LIST = f"\nprint(json.dumps([name for name in sys.modules if name.split('.')[0] in {TOPS}]))"


def allowed(module: str) -> bool:
    return module in {"sfra", "sfra._version"} or f"{module}.".startswith(("sfra.core.", "sfra.attack."))


@pytest.fixture(scope="module")
def loaded() -> list[str]:
    """What a fresh interpreter has loaded once it imported every module of the steps and ran both."""
    own = os.environ | {"PYTHONPATH": str(PACKAGE.parent)}
    done = subprocess.run(
        [sys.executable, "-c", IMPORTS + STEPS + LIST], env=own, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    names: list[str] = json.loads(done.stdout)
    return names


def test_both_steps_run_in_an_interpreter_that_never_loads_anything_else(loaded: list[str]) -> None:
    rooms = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").is_file()} - {"core", "attack"}
    assert len(rooms) > 9
    assert not any(allowed(f"sfra.{room}") or allowed(f"sfra.{room}.anything") for room in rooms)
    assert [module for module in loaded if not allowed(module)] == []
    assert {"sfra.attack.probes.kernels", "sfra.attack.probes.tilting", "sfra.attack.relearn"} <= {*loaded}


DETOUR = re.compile(r"\b(import_module|__import__|exec|eval)\b|^\s*(from sfra import|import sfra$)", re.MULTILINE)


def test_none_of_these_modules_imports_by_name_or_through_the_package(loaded: list[str]) -> None:
    """Detours around ``lint-imports``, which tests/test_layers.py runs: it sees imports deep in functions, too."""
    for module in {*loaded, *ATTACK} - {"sfra", "sfra.core"}:
        base = PACKAGE.parent.joinpath(*module.split("."))
        text = (base / "__init__.py" if base.is_dir() else base.with_suffix(".py")).read_text(encoding="utf-8")
        assert not DETOUR.search(text), module
    for line in ("x = importlib.import_module('sfra.data')", "    from sfra import load_data", "    import sfra"):
        assert DETOUR.search(f"\n{line}\n")
