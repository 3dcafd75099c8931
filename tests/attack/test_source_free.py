"""Steps 1 and 2 cannot see data: nothing that could open a data set is ever loaded, or could be, while they run."""

import ast
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import sfra

ALLOWED = ("sfra.core", "sfra.attack")
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
)
IMPORTS = f"import json, sys, {', '.join(ATTACK)}"
LIST = "\nprint(json.dumps([name for name in sys.modules if name.split('.')[0] in {TOPS}]))"
TOPS = {"sfra", "PIL", "sklearn", "torchvision", "transformers", "datasets", "onnx", "onnxruntime"}


def allowed(module: str) -> bool:
    return module in {"sfra", "sfra._version", "sfra.attack.adam_kernels", "sfra.core.cpu"} or any(
        module == name or module.startswith(f"{name}.") for name in ALLOWED
    )


def loaded_by(script: str, root: Path) -> list[str]:
    """Run a script in a fresh interpreter with the package of a folder; return the modules that were loaded."""
    done = subprocess.run(
        [sys.executable, "-c", script + LIST.replace("{TOPS}", repr(TOPS))],
        env=os.environ | {"PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    modules: list[str] = json.loads(done.stdout)
    return modules


def test_both_steps_run_in_an_interpreter_that_never_loads_anything_else() -> None:
    rooms = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").is_file()} - {"core", "attack"}
    assert len(rooms) > 9
    assert not any(allowed(f"sfra.{room}") or allowed(f"sfra.{room}.anything") for room in rooms)
    loaded = loaded_by(STEPS, PACKAGE.parent)
    assert [module for module in loaded if not allowed(module)] == []
    assert {"sfra.attack.probes.kernels", "sfra.attack.probes.tilting", "sfra.attack.relearn"} <= set(
        loaded
    )  # they did run


def test_the_check_of_the_interpreter_would_notice_a_data_loader(tmp_path: Path) -> None:
    copy = changed(tmp_path, "attack/probes/select.py", "\n\n\n", "\n\n\nimport sfra.data.sets\n\n\n")
    assert "sfra.data.sets" in [module for module in loaded_by(IMPORTS, copy) if not allowed(module)]


def changed(tmp_path: Path, name: str, old: str, new: str) -> Path:
    """Copy the package with one change in one file; return the folder that holds it."""
    copy = tmp_path / "sfra"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    text = (copy / name).read_text(encoding="utf-8")
    assert old in text
    (copy / name).write_text(text.replace(old, new, 1), encoding="utf-8")
    return tmp_path


def imports_of(path: Path, package: Path) -> set[str]:
    """Every module that a file names in an import, at its top or deep inside a function, but not for types alone."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            node.body = [ast.Pass()]
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name} has a relative import"
            parent = node.module or ""
            inner = package.parent.joinpath(*parent.split(".")).is_dir()  # the names may be modules, or lazy ones
            found |= {f"{parent}.{alias.name}" for alias in node.names} if inner else {parent}
        elif isinstance(node, ast.Attribute):
            assert node.attr != "import_module", f"{path.name} uses import_module"
        elif isinstance(node, ast.Name):
            assert node.id not in {"import_module", "__import__", "exec", "eval"}, f"{path.name} uses {node.id}"
    return {name for name in found if name.split(".")[0] == "sfra"}


def reachable(package: Path, *starts: str) -> set[str]:
    """Every module of the package that the given ones can ever import."""
    seen: set[str] = set()
    waiting = list(starts)
    while waiting:
        name = waiting.pop()
        base = package.parent.joinpath(*name.split("."))
        path = base / "__init__.py" if base.is_dir() else base.with_suffix(".py")
        if name in seen or name == "sfra":
            continue
        seen.add(name)
        if not allowed(name):
            continue  # found out; where it leads to does not matter
        if path.is_file():
            waiting += imports_of(path, package)
        elif name.rpartition(".")[0] != "sfra":  # a name inside a package, such as a class
            seen.discard(name)
            waiting.append(name.rpartition(".")[0])
    return seen


def test_no_import_however_deep_leads_from_the_steps_to_data() -> None:
    found = reachable(PACKAGE, *ATTACK)
    assert sorted(module for module in found if not allowed(module)) == []
    assert {
        "sfra.attack.probes.kernels",
        "sfra.attack.probes.tilting",
        "sfra.attack.adam_kernels",
        "sfra.core.head",
    } <= found


@pytest.mark.parametrize(
    ("file", "line", "culprit"),
    [
        ("attack/probes/select.py", "import sfra.data", "sfra.data"),
        (
            "attack/relearn.py",
            "def late() -> None:\n    from sfra.auditing.evaluate import evaluate",
            "sfra.auditing.evaluate",
        ),
        ("core/head.py", "from sfra import load_data", "sfra.load_data"),
    ],
)
def test_the_check_of_the_imports_would_notice_one(file: str, line: str, culprit: str, tmp_path: Path) -> None:
    copy = changed(tmp_path, file, "\n\n\n", f"\n\n\n{line}\n\n\n") / "sfra"
    found = reachable(copy, *ATTACK)
    assert culprit in {module for module in found if not allowed(module)}


def test_the_check_of_the_imports_would_notice_a_detour(tmp_path: Path) -> None:
    copy = (
        changed(tmp_path, "attack/relearn.py", "\n\n\n", "\n\n\nx = importlib.import_module('sfra.data')\n\n\n")
        / "sfra"
    )
    with pytest.raises(AssertionError, match=r"relearn\.py uses import_module"):
        reachable(copy, *ATTACK)
