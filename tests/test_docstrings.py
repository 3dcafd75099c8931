"""Every example in a docstring of the package runs and shows what it says."""

import ast
import doctest
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

import sfra

PACKAGE = Path(sfra.__file__).parent


def modules_with_examples() -> Iterator[str]:
    for file in sorted(PACKAGE.rglob("*.py")):
        if ">>> " in file.read_text(encoding="utf-8"):
            yield ".".join(file.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")


@pytest.mark.parametrize("name", list(modules_with_examples()))
def test_the_examples_in_the_docstrings_hold(name: str) -> None:
    module = import_module(name)
    assert module.__file__ is not None
    source = Path(module.__file__).read_text(encoding="utf-8")
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef)
    texts = [ast.get_docstring(node) or "" for node in ast.walk(ast.parse(source)) if isinstance(node, kinds)]
    parser, runner = doctest.DocTestParser(), doctest.DocTestRunner()
    for text in texts:
        if ">>> " in text:
            runner.run(parser.get_doctest(text, dict(vars(module)), name, module.__file__, None))
    assert runner.summarize().attempted > 0
    assert runner.failures == 0
