"""The code that CONTRIBUTING shows for adding a method: extracted, and run."""

from __future__ import annotations

import importlib
import re
import runpy
import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path

import pytest
import torch

from builders.models import net, samples
from sfra import unlearn
from sfra.unlearn import registry

ROOT = Path(__file__).parents[2]


def block(file: str) -> str:
    """Return the only block of code in CONTRIBUTING whose first line names a file."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    found: list[str] = [
        code for code in re.findall(r"^```\w+\n(.*?)^```", text, re.M | re.S) if code.startswith(f"# {file}")
    ]
    assert len(found) == 1, file
    return found[0]


@pytest.fixture
def methods(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a test register what it likes."""
    monkeypatch.setattr(registry, "_METHODS", dict(registry._METHODS))


@pytest.fixture
def own_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "my_unlearning.py").write_text(block("my_unlearning.py"), encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "my_unlearning", raising=False)
    return tmp_path


def test_the_class_in_a_file_of_ones_own_unlearns_by_its_address(own_file: Path) -> None:
    address = "my_unlearning:Uniform"
    model, data = net(), samples()
    result = unlearn.get(address)(learning_rate=0.1, batch_size=4)(model, data, (3,))
    with torch.no_grad():
        before, after = (float(m(data.images[data.labels == 3]).softmax(1).std()) for m in (model, result.model))
    assert after < before / 2
    assert result.method == address
    assert unlearn.get(result.method)(**result.settings) == unlearn.get(address)(learning_rate=0.1, batch_size=4)
    about = unlearn.describe(address)
    assert (about.name, about.needs, about.summary.partition(":")[0]) == (
        address,
        ("forget",),
        "Teach the forget data the uniform answer",
    )
    assert address not in unlearn.names()


def test_the_package_announces_the_method_to_a_new_interpreter(own_file: Path) -> None:
    project = tomllib.loads(block("pyproject.toml"))["project"]
    ((group, entries),) = project["entry-points"].items()
    info = own_file / f"my_unlearning-{project['version']}.dist-info"
    info.mkdir()
    metadata = f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    (info / "METADATA").write_text(metadata)
    lines = [f"[{group}]", *(f"{name} = {value}" for name, value in entries.items())]
    (info / "entry_points.txt").write_text("\n".join(lines))
    script = f"""
        import sys; sys.path.insert(0, {str(own_file)!r})
        from sfra import unlearn
        assert "my_unlearning" not in sys.modules
        assert "uniform" in unlearn.names()
        print(unlearn.get("uniform")().name, unlearn.describe("uniform").needs[0])
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == ("uniform forget", "")


@pytest.mark.usefixtures("methods")
def test_the_method_inside_the_project_passes_the_golden_test_that_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    imports = "from sfra.unlearn.registry import register\n"
    source = block("my_unlearning.py").replace("@dataclass", '@register("uniform")\n@dataclass')
    (tmp_path / "uniform.py").write_text(imports + source, encoding="utf-8")
    monkeypatch.setattr(unlearn, "__path__", [*unlearn.__path__, str(tmp_path)])
    monkeypatch.delitem(sys.modules, "sfra.unlearn.uniform", raising=False)
    importlib.invalidate_caches()
    shown: dict[str, object] = {}
    exec(block("src/sfra/unlearn/__init__.py"), shown)  # noqa: S102
    assert unlearn.get("uniform") is shown["Uniform"]
    golden = runpy.run_path(str(ROOT / "tests/unlearn/test_golden.py"))
    before = set(golden)
    exec(block("tests/unlearn/test_golden.py"), golden)  # noqa: S102
    (name,) = {name for name in golden if name.startswith("test_")} - before
    golden[name]()
    monkeypatch.delitem(sys.modules, "sfra.unlearn.uniform")
