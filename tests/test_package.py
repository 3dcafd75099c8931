"""The package as it is imported: public names, functions that modules do not shadow, and nothing heavy too early."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path
from types import FunctionType, ModuleType

import pytest

import sfra


def in_a_new_interpreter(script: str) -> str:
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_importing_the_package_imports_nothing_heavy() -> None:
    loaded = in_a_new_interpreter("import sfra, sys; print(*sorted(sys.modules))").split()
    assert not {"torch", "numpy", "numba", "scipy", "typer", "rich", "sklearn"} & {m.split(".")[0] for m in loaded}
    assert [m for m in loaded if m.startswith("sfra.")] == ["sfra._version", "sfra.core", "sfra.core.views"]


def test_what_only_some_audits_need_is_not_imported_for_all() -> None:
    loaded = in_a_new_interpreter("import sfra, sys; sfra.audit; print(*sorted(sys.modules))").split()
    assert "sfra.attack.probes.assign" in loaded
    assert not {"scipy.optimize", "scipy.special", "scipy.linalg", "sklearn", "transformers", "altair"} & {*loaded}


def test_every_public_name_resolves() -> None:
    for name in sfra.__all__:
        assert getattr(sfra, name) is not None, name
    assert isinstance(sfra.metrics, ModuleType)
    assert sorted(sfra.__all__) == sfra.__all__
    kinds = {name: type(getattr(sfra, name)) for name in sfra.__all__}
    assert {name for name, kind in kinds.items() if kind is FunctionType} == {
        "audit",
        "diagnose",
        "evaluate",
        "load",
        "load_data",
        "relearn",
        "sample_probes",
    }


def test_a_name_that_does_not_exist_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'sfra' has no attribute 'adit'"):
        sfra.adit  # noqa: B018
    assert not hasattr(sfra, "_secret")


def test_the_package_is_typed_and_its_version_is_that_of_the_metadata() -> None:
    assert (Path(sfra.__file__).parent / "py.typed").is_file()
    assert sfra.__version__ == version("sfra")


def test_extras_have_the_same_names_everywhere() -> None:
    root = Path(__file__).parents[1]
    extras = {*tomllib.loads((root / "pyproject.toml").read_text())["project"]["optional-dependencies"]}
    pages = [root / "README.md", root / "CONTRIBUTING.md", *root.glob("docs/*.md"), *root.glob("examples/ci/*.yml")]
    named: set[str] = set()
    for path in (*pages, *root.glob("src/sfra/**/*.py")):
        text = path.read_text(encoding="utf-8")
        for found in re.findall(r"sfra\[([a-z,]+)\]|extra `([a-z]+)`|EXTRAS: \"\[([a-z,]+)\]", text):
            named.update("".join(found).split(","))
    listed = re.findall(r"^\| `([a-z]+)` \|", (root / "docs/install.md").read_text(), flags=re.MULTILINE)
    assert {*listed} == extras - {"dev", "docs"}
    assert named <= extras


def test_every_name_of_the_benchmark_resolves_on_first_use_and_no_other_does() -> None:
    import sfra.bench

    assert set(sfra.bench._HOMES) == set(sfra.bench.__all__)
    for name in sfra.bench.__all__:
        assert getattr(sfra.bench, name).__module__ == sfra.bench._HOMES[name]
    with pytest.raises(AttributeError, match=r"module 'sfra\.bench' has no attribute 'run_protocols'"):
        sfra.bench.run_protocols  # noqa: B018
