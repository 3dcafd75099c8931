"""The examples: they compile, use the public names only, and can be found; ``make examples`` runs them."""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path

import pytest

import sfra

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


PACKAGES = {"sfra.models.backbones", "sfra.bench", "sfra.models.training.train", "sfra.unlearn"}
"""Public packages whose names are not repeated at the top."""


def parsed(example: Path) -> ast.Module:
    return ast.parse(example.read_text(encoding="utf-8"), filename=example.name)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_compiles_and_says_what_it_shows(example: Path) -> None:
    tree = parsed(example)
    compile(tree, example.name, "exec")
    assert (ast.get_docstring(tree) or "").endswith(".")


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_uses_public_names_only(example: Path) -> None:
    used = {
        node.attr
        for node in ast.walk(parsed(example))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "sfra"
    }
    imported = {node.module for node in ast.walk(parsed(example)) if isinstance(node, ast.ImportFrom) and node.module}
    packages = {module for module in imported if module.startswith("sfra.")}
    assert used or packages
    assert used <= set(sfra.__all__)
    assert packages <= PACKAGES


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_what_an_example_imports_from_a_public_package_is_listed_there(example: Path) -> None:
    for node in ast.walk(parsed(example)):
        if isinstance(node, ast.ImportFrom) and node.module in PACKAGES:
            listed = getattr(import_module(node.module), "__all__", None)
            assert listed is None or {alias.name for alias in node.names} <= set(listed)
