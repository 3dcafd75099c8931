"""Architectures of other packages, files and folders: ``package:factory(keyword=value)``, with literals only."""

from __future__ import annotations

import ast
import importlib
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import reduce
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import parse_qsl

from torch import nn

from sfra.core.errors import InputError, MissingPackageError, meant
from sfra.core.modules import import_file
from sfra.release.base import one_line

ZOOS = {"torchvision": ("torchvision.models", "get_model"), "timm": ("timm", "create_model")}
"""Packages whose models have names of their own, and what builds one of a name; both take ``num_classes``."""

FORMS = (
    "package:factory or ./file.py:Net, with arguments as in 'mynet:Net(num_classes=10)' or mynet:Net?num_classes=10; "
    "torchvision:resnet50; timm:vit_small_patch16_224"
)
_ARCH = re.compile(r"(?P<where>.+?):(?P<path>[\w.]+)(?P<arguments>\(.*\)|\?.*)?", re.DOTALL)


def constructor(arch: str) -> Callable[[int], nn.Module]:
    """Return a function from the number of classes to the named model, ready to be called again.

    Only a model of torchvision or timm without ``num_classes`` looks at that number: every other is built here, once.
    """
    parts = _ARCH.fullmatch(arch)
    if parts is None:
        raise InputError(f"there is no architecture {arch!r}", expected=FORMS, got=arch)
    where, path = parts["where"], parts["path"]
    positional, keywords = parse_arguments(parts["arguments"] or "")
    if where in ZOOS and not hasattr(_imported(where, arch), path.partition(".")[0]):
        package, creator = ZOOS[where]
        create = getattr(_imported(package, arch), creator)
        if "num_classes" not in keywords:
            return lambda classes: called(create, arch, path, *positional, **{**keywords, "num_classes": classes})
        model = called(create, arch, path, *positional, **keywords)
    else:
        file = Path(where).expanduser().resolve() if where.endswith(".py") else None
        with _findable(Path.cwd(), *(() if file is None else (file.parent,))):
            module = _imported(where, arch) if file is None else _executed(file)
            try:
                factory: Any = reduce(getattr, path.split("."), module)
            except AttributeError:
                do = meant(path, vars(module)) or "check the name"
                raise InputError(f"there is no {path} in {where}", expected=FORMS, got=arch, do=do) from None
            model = called(factory, f"{where}:{path}", *positional, **keywords)
    return lambda classes: model


def parse_arguments(text: str) -> tuple[list[Any], dict[str, Any]]:
    """Read ``(3, act='relu')`` or ``?act=relu``: values are literals, and nothing is ever evaluated.

    >>> parse_arguments("(3, widths=[64, 32], act='relu')")
    ([3], {'widths': [64, 32], 'act': 'relu'})
    >>> parse_arguments("?num_classes=10&act=relu")
    ([], {'num_classes': 10, 'act': 'relu'})
    """
    if not text.startswith("("):
        return [], {key: parse_value(value) for key, value in parse_qsl(text[1:], keep_blank_values=True)}
    try:
        call = ast.parse(f"f{text}", mode="eval").body
        if not (
            isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and all(one.arg for one in call.keywords)
        ):
            raise ValueError(text)  # noqa: TRY301 - one message for whatever is wrong
        keywords = {str(one.arg): ast.literal_eval(one.value) for one in call.keywords}
        return [ast.literal_eval(value) for value in call.args], keywords
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        raise InputError(
            "the arguments of the architecture cannot be read",
            expected="numbers, texts in quotes, True, False, None, and lists of them: (num_classes=10, act='relu')",
            got=one_line(text, 120),
        ) from None


def parse_value(text: str) -> bool | int | float | str | None:
    """Read a keyword's value: a boolean, none, an integer, a number, or else the text itself.

    >>> [parse_value(text) for text in ("10", "0.5", "true", "None", "tiny")]
    [10, 0.5, True, None, 'tiny']
    """
    word = text.capitalize()
    try:
        value: bool | int | float | str | None = ast.literal_eval(word if word in ("True", "False", "None") else text)
    except (ValueError, SyntaxError):
        return text
    return value


def called(factory: Callable[..., Any], name: str, *positional: Any, **keywords: Any) -> nn.Module:
    """Call what builds a model, or say why that is not possible."""
    try:
        model = factory(*positional, **keywords)
    except Exception as problem:
        given = ", ".join([*map(repr, positional), *(f"{key}={value!r}" for key, value in keywords.items())])
        raise InputError(
            f"{name} cannot be called with these arguments",
            expected="arguments that it takes, as in (num_classes=10) or ?num_classes=10",
            got=one_line(f"({given}): {problem}"),
        ) from problem
    if not isinstance(model, nn.Module):
        raise InputError(f"{name} does not build a model", expected="an nn.Module", got=type(model).__name__)
    return model


@contextmanager
def _findable(*folders: Path) -> Iterator[None]:
    """Look for modules in some folders too, after everything that is installed."""
    added = [folder for folder in dict.fromkeys(map(str, folders)) if folder not in sys.path]
    sys.path += added
    importlib.invalidate_caches()
    try:
        yield
    finally:
        for folder in added:
            if folder in sys.path:
                sys.path.remove(folder)


def _imported(package: str, arch: str) -> ModuleType:
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError as problem:
        missing, root = problem.name or package, package.partition(".")[0]
        if missing.partition(".")[0] != root:
            raise _broken(package, problem) from None
        own = (
            f"run sfra in the folder that holds {root}, or name your file: --arch ./{root}.py:{arch.partition(':')[2]}"
        )
        raise MissingPackageError(
            f"there is no module {missing} for --arch {arch}",
            expected="an installed package, or a module in the working folder",
            got=one_line(problem),
            do=f"pip install {root}" if root in ZOOS else own,
        ) from None
    except (TypeError, ValueError) as problem:  # a relative import, or no name at all
        raise InputError(f"there is no module {package}", expected=FORMS, got=one_line(problem)) from None
    except Exception as problem:
        raise _broken(package, problem) from problem


def _executed(file: Path) -> ModuleType:
    """Import a file of the user's by its path."""
    if not file.is_file():
        raise InputError("the file of --arch does not exist", got=file, do="check the path")
    try:
        return import_file(file)
    except Exception as problem:
        raise _broken(file.name, problem) from problem


def _broken(module: str, problem: Exception) -> InputError:
    relative = "relative import" in str(problem)
    return InputError(
        f"{module} cannot be imported",
        got=one_line(f"{type(problem).__name__}: {problem}"),
        do="name it by its package, in the folder that holds that: --arch package.module:Net"
        if relative
        else "run sfra in the environment and in the folder in which the model was trained",
    )
