"""Steps 1 and 2 cannot see data: nothing that could open a data set is ever loaded, or could be, while they run."""

import json
import os
import re
import shutil
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


def output_of(script: str, root: Path) -> list[str]:
    """Run a script in a fresh interpreter with the package of a folder; return the names that it prints."""
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=os.environ | {"PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    names: list[str] = json.loads(done.stdout)
    return names


def test_both_steps_run_in_an_interpreter_that_never_loads_anything_else() -> None:
    rooms = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").is_file()} - {"core", "attack"}
    assert len(rooms) > 9
    assert not any(allowed(f"sfra.{room}") or allowed(f"sfra.{room}.anything") for room in rooms)
    loaded = output_of(STEPS + LIST, PACKAGE.parent)
    assert [module for module in loaded if not allowed(module)] == []
    assert {"sfra.attack.probes.kernels", "sfra.attack.probes.tilting", "sfra.attack.relearn"} <= {*loaded}


def test_the_check_of_the_interpreter_would_notice_a_data_loader(tmp_path: Path) -> None:
    copy = changed(tmp_path, ("attack/probes/select.py", "import sfra.data.sets"))
    assert "sfra.data.sets" in [module for module in output_of(IMPORTS + LIST, copy) if not allowed(module)]


def changed(tmp_path: Path, *changes: tuple[str, str]) -> Path:
    """Copy the package with a line more in some files; return the folder that holds it."""
    copy = tmp_path / "sfra"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    for name, line in changes:
        text = (copy / name).read_text(encoding="utf-8")
        assert "\n\n\n" in text
        (copy / name).write_text(text.replace("\n\n\n", f"\n\n\n{line}\n\n\n", 1), encoding="utf-8")
    return tmp_path


UPSTREAM = """
import grimp, json
graph = grimp.build_graph("sfra", exclude_type_checking_imports=True, cache_dir=None)
print(json.dumps(sorted(graph.find_upstream_modules("sfra.attack", as_package=True))))
"""
DETOUR = re.compile(r"\b(import_module|__import__|exec|eval)\b")


def reachable(root: Path) -> set[str]:
    """Every module outside the steps that they can ever import, at the top of a file or deep inside a function."""
    found = set(output_of(UPSTREAM, root))
    for module in (*ATTACK, *filter(allowed, found - {"sfra"})):
        base = root.joinpath(*module.split("."))
        text = (base / "__init__.py" if base.is_dir() else base.with_suffix(".py")).read_text(encoding="utf-8")
        assert not DETOUR.search(text), f"{module} can import by name"
    return found


def test_no_import_however_deep_leads_from_the_steps_to_data() -> None:
    found = reachable(PACKAGE.parent)
    assert sorted(module for module in found if module == "sfra" or not allowed(module)) == []
    assert {"sfra.core.head", "sfra.core.cpu"} <= found


def test_the_check_of_the_imports_would_notice_one_and_a_detour(tmp_path: Path) -> None:
    culprits = {
        "sfra.data": ("attack/probes/select.py", "import sfra.data"),
        "sfra.auditing.evaluate": ("attack/relearn.py", "def late() -> None:\n    import sfra.auditing.evaluate"),
        "sfra": ("core/head.py", "from sfra import load_data"),
    }
    copy = changed(tmp_path, *culprits.values())
    assert {*culprits} <= reachable(copy)
    assert not any(map(allowed, {*culprits} - {"sfra"}))
    file = copy / "sfra" / "attack" / "relearn.py"
    file.write_text(f"{file.read_text(encoding='utf-8')}\nx = importlib.import_module('sfra.data')\n", encoding="utf-8")
    with pytest.raises(AssertionError, match=r"attack\.relearn can import by name"):
        reachable(copy)
