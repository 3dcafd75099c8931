"""Recipes: how a backbone is trained on a data set and made to forget, as data files that are checked when loaded.

>>> recipe = load("digits-small-cnn")
>>> recipe.training["epochs"], recipe.preprocess
(40, {})
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from sfra.core.errors import InputError, meant
from sfra.core.text import parse_toml
from sfra.data import Augment
from sfra.models.training.train import Training
from sfra.release import Preprocess

__all__ = ["Recipe", "describe", "find", "load", "make_settings", "names"]

SUFFIX = ".toml"
"""What a recipe's file name ends with."""

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Settings for one data set and backbone; every group holds keyword arguments, those that its file gives."""

    name: str = ""
    """Name of its file, without the ending."""
    dataset: str
    """As in ``sfra list datasets``."""
    backbone: str
    """As in ``sfra list backbones``."""
    pretrained: str | None = None
    """Model directory or hub id of the weights that training starts from; None for a new initialisation."""
    training: dict[str, Any]
    """Of :class:`sfra.models.training.train.Training`; the retrained reference uses the same."""
    preprocess: dict[str, Any] = field(default_factory=dict)
    """Of :class:`sfra.release.Preprocess`; empty for none."""
    augment: dict[str, Any] | None = None
    """Of :class:`sfra.data.Augment`; None for none."""
    methods: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Hyper-parameters of each unlearning method that differ from its published defaults; checked by the method."""
    sources: dict[str, str] = field(default_factory=dict)
    """Where the values come from, in words: by group or method."""


def names() -> tuple[str, ...]:
    """List the recipes of this package in alphabetical order."""
    return tuple(sorted(_shipped()))


def load(source: str | Path) -> Recipe:
    """Read a recipe, one of :func:`names` or a ``.toml`` file, and check every key and value."""
    if str(source) in _shipped():
        return _read(_shipped()[str(source)])
    path = Path(source)
    if path.suffix != SUFFIX:
        raise InputError(
            "unknown recipe",
            expected=f"a .toml file, or one of {', '.join(names())}",
            got=source,
            do=meant(source, names()) or "choose one of sfra list recipes",
        )
    if not path.is_file():
        raise InputError("the file does not exist", got=path, do="check the path")
    return _read(path)


def describe(name: str) -> str:
    """Say in one line what a recipe of this package is for: the comment that its file begins with."""
    return _shipped()[name].read_text(encoding="utf-8").partition("\n")[0].lstrip("# ").rstrip(".")


def find(dataset: str, backbone: str) -> Recipe | None:
    """Return the usual recipe for a data set and a backbone, called ``DATASET-BACKBONE``; None if there is none."""
    name = f"{dataset}-{backbone}"
    return load(name) if name in _shipped() else None


def make_settings(kind: type[T], values: Mapping[str, Any], *, where: str) -> T:
    """Make a dataclass of settings, which has names, types and checks, out of values from a file or a command line.

    Lists serve as tuples, and whole numbers as floats; ``where`` is file and group, for messages.

    >>> make_settings(Training, {"epochs": 2, "learning_rate": 1}, where="mine").learning_rate
    1.0
    """
    known = [entry.name for entry in fields(kind) if entry.init]  # type: ignore[arg-type]
    unknown = next((key for key in values if key not in known), None)
    if unknown is not None:
        raise InputError(f"{where}: there is no setting {unknown!r}", expected=", ".join(known))
    try:
        return msgspec.convert(dict(values), kind)
    except msgspec.ValidationError as problem:
        what, *rest = str(problem).replace(" - at `$.", " for `").splitlines()
        raise InputError("\n".join([f"{where}: {what}", *rest])) from None


def _shipped() -> dict[str, Traversable]:
    entries = files("sfra.models.recipes").iterdir()
    return {entry.name.removesuffix(SUFFIX): entry for entry in entries if entry.name.endswith(SUFFIX)}


def _read(file: Traversable) -> Recipe:
    try:
        content = parse_toml(file.read_text(encoding="utf-8"))
    except ValueError as problem:  # not text, not TOML, or too large
        raise InputError(f"{file.name} cannot be read", expected="a recipe as a TOML file", got=problem) from None
    content["name"] = file.name.removesuffix(SUFFIX)
    make_settings(Recipe, content, where=file.name)
    groups: dict[str, type] = {"training": Training, "preprocess": Preprocess, "augment": Augment}
    for group, kind in groups.items():
        if group in content and (content[group] or group != "preprocess"):
            made: object = make_settings(kind, content[group], where=f"{file.name} [{group}]")
            content[group] = {key: getattr(made, key) for key in content[group]}
    return Recipe(**content)
