"""Recipes: how a backbone is trained on a data set and made to forget, as data files that are checked when loaded.

>>> recipe = load("digits-small-cnn")
>>> recipe.training["epochs"], recipe.preprocess
(40, {})
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from tomllib import TOMLDecodeError
from typing import Any

from sfra.core.errors import InputError, meant
from sfra.core.text import parse_toml
from sfra.models.recipes.check import check_group

__all__ = ["Recipe", "describe", "find", "load", "names"]

SUFFIX = ".toml"
"""What a recipe's file name ends with."""

KEYS: dict[str, type] = {
    "dataset": str,
    "backbone": str,
    "pretrained": str,
    "training": dict,
    "preprocess": dict,
    "augment": dict,
    "methods": dict,
    "sources": dict,
}
"""What a recipe's file may hold at its top."""

REQUIRED = ("dataset", "backbone", "training")
"""What it must hold."""

WORDS: dict[type, str] = {str: "text", dict: "a table"}


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Settings for one data set and backbone; every group holds keyword arguments."""

    name: str
    """Name of its file, without the ending."""
    dataset: str
    """As in ``sfra list datasets``."""
    backbone: str
    """As in ``sfra list backbones``."""
    pretrained: str | None
    """Model directory or hub id of the weights that training starts from; None for a new initialisation."""
    training: dict[str, Any]
    """Of :class:`sfra.models.training.train.Training`; the retrained reference uses the same."""
    preprocess: dict[str, Any]
    """Of :class:`sfra.release.Preprocess`; empty for none."""
    augment: dict[str, Any] | None
    """Of :class:`sfra.data.Augment`; None for none."""
    methods: dict[str, dict[str, Any]]
    """Hyper-parameters of each unlearning method that differ from its published defaults."""
    sources: dict[str, str]
    """Where the values come from, in words: by group or method."""


def names() -> tuple[str, ...]:
    """List the recipes of this package in alphabetical order."""
    return tuple(sorted(entry.name.removesuffix(SUFFIX) for entry in _shipped()))


def load(source: str | Path) -> Recipe:
    """Read a recipe and check every key and value.

    Args:
        source: One of :func:`names`, or the path of a ``.toml`` file.
    """
    for entry in _shipped():
        if source == entry.name.removesuffix(SUFFIX):
            return _read(entry)
    path = Path(source)
    if path.suffix != SUFFIX:
        raise InputError(
            "there is no such recipe",
            expected=f"a .toml file, or one of {', '.join(names())}",
            got=source,
            do=meant(source, names()) or "choose one of sfra list recipes",
        )
    if not path.is_file():
        raise InputError("there is no such file", got=path, do="check the path")
    return _read(path)


def describe(name: str) -> str:
    """Say in one line what a recipe of this package is for: the comment that its file begins with."""
    text = next(entry for entry in _shipped() if entry.name == name + SUFFIX).read_text(encoding="utf-8")
    return text.partition("\n")[0].lstrip("# ").rstrip(".")


def find(dataset: str, backbone: str) -> Recipe | None:
    """Return the usual recipe for a data set and a backbone, called ``DATASET-BACKBONE``; None where there is none."""
    name = f"{dataset}-{backbone}"
    return load(name) if name in names() else None


def _shipped() -> list[Traversable]:
    return [entry for entry in files("sfra.models.recipes").iterdir() if entry.name.endswith(SUFFIX)]


def _read(file: Traversable) -> Recipe:
    try:
        content = parse_toml(file.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, TOMLDecodeError) as problem:
        raise InputError(f"{file.name} is not a TOML file", got=problem) from None
    except ValueError as problem:
        raise InputError(f"{file.name} cannot be used", expected="a recipe", got=problem) from None
    _check_shape(file.name, content)
    return Recipe(
        name=file.name.removesuffix(SUFFIX),
        dataset=content["dataset"],
        backbone=content["backbone"],
        pretrained=content.get("pretrained"),
        sources=content.get("sources", {}),
        **_check_groups(file.name, content),
    )


def _check_shape(file: str, content: dict[str, Any]) -> None:
    """Refuse what is not the layout of a recipe: unknown keys, missing ones, text for a table."""
    for key in content:
        if key not in KEYS:
            raise InputError(f"{file}: there is no key {key!r}", expected=", ".join(KEYS))
    for key in REQUIRED:
        if key not in content:
            raise InputError(f"{file}: {key} is missing", expected=", ".join(REQUIRED))
    inner: dict[str, tuple[object, type]] = {
        f"sources.{key}": (value, str) for key, value in _table(content, "sources").items()
    }
    inner |= {f"methods.{key}": (value, dict) for key, value in _table(content, "methods").items()}
    outer = {key: (value, KEYS[key]) for key, value in content.items()}
    for key, (value, kind) in (outer | inner).items():
        if not isinstance(value, kind):
            raise InputError(f"{file}: {key} is of the wrong kind", expected=WORDS[kind], got=repr(value))


def _table(content: dict[str, Any], key: str) -> dict[str, Any]:
    value = content.get(key, {})
    return value if isinstance(value, dict) else {}


def _check_groups(file: str, content: dict[str, Any]) -> dict[str, Any]:
    """Check the groups of settings against what they are settings of."""
    from sfra import unlearn
    from sfra.data import Augment
    from sfra.models.training.train import Training
    from sfra.release import Preprocess

    def check(group: str, values: dict[str, Any], target: Any) -> dict[str, Any]:
        return check_group(f"{file} [{group}]", values, target)

    return {
        "training": check("training", content["training"], Training),
        "preprocess": check("preprocess", content["preprocess"], Preprocess) if content.get("preprocess") else {},
        "augment": check("augment", content["augment"], Augment) if "augment" in content else None,
        "methods": {
            name: check(f"methods.{name}", settings, unlearn.get(name))
            for name, settings in content.get("methods", {}).items()
        },
    }
