"""What the keys of a protocol's file must look like, checked before anything is made of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from sfra.core.errors import InputError

KINDS = ("train", "unlearn", "mask", "features", "audit", "pra", "linear-probe", "diagnostics", "geometry")
"""The kinds of cells, which limits and resources are given for."""

RESOURCES = ("num_cpus", "num_gpus", "memory")
"""What Ray may be told to reserve."""

Shape = tuple[Callable[[Any], bool], str]


def check_shapes(content: Mapping[str, Any], source: str) -> None:
    """Refuse keys that mean nothing and values of the wrong kind."""
    _check(content, PROTOCOL, source)
    for one in content.get("ablation", ()):
        _check(one, ABLATION, f"an ablation of {source}")
    _check(content.get("diagnostics") or {}, DIAGNOSTICS, f"[diagnostics] of {source}")
    _check_kinds("limits", content.get("limits", {}), source, also=("default",))
    _check_kinds("resources", content.get("resources", {}), source, also=("*",))


def check_controls(name: str, pra: Mapping[str, Any] | None, linear_probe: Mapping[str, Any] | None) -> None:
    """Refuse settings of the two controls that these do not have."""
    from sfra.controls import linear_probe as probe

    _check(pra or {}, PRA, f"[pra] of {name}")
    settings = inspect.signature(probe).parameters.values()
    named = {one.name for one in settings if one.kind is one.KEYWORD_ONLY} - {"classes", "device"}
    _check(linear_probe or {}, dict.fromkeys(sorted(named), (_is_number, "a number")), f"[linear_probe] of {name}")


def _check(content: Mapping[str, Any], shapes: Mapping[str, Shape], where: str) -> None:
    unknown = sorted(set(content) - set(shapes))
    if unknown:
        raise InputError(f"{where} has keys that mean nothing", expected=", ".join(sorted(shapes)), got=unknown)
    for name, value in content.items():
        fits, words = shapes[name]
        if not fits(value):
            raise InputError(f"{where}: {name} is of the wrong kind", expected=words, got=repr(value))


def _check_kinds(name: str, table: Mapping[str, Any], source: str, also: tuple[str, ...] = ()) -> None:
    unknown = sorted(set(table) - {*KINDS, *also})
    if unknown:
        raise InputError(f"{source}: [{name}] has no such kind", expected=", ".join((*also, *KINDS)), got=unknown)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_count(value: object) -> bool:
    return _is_whole(value) and value != 0


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_positive(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0


def _is_table(value: object) -> bool:
    return isinstance(value, dict)


def _list_of(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list | tuple) and all(map(fits, value))


def _table_of(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, dict) and all(map(fits, value.values()))


def _is_reserve(value: object) -> bool:
    return _table_of(lambda amount: _is_number(amount) and amount >= 0)(value) and set(value) <= set(RESOURCES)  # type: ignore[call-overload]


_TEXT: Shape = (_is_text, "text")
_TEXTS: Shape = (_list_of(_is_text), 'a list of text, such as ["retrained", "delete"]')
_SETS: Shape = (
    _list_of(lambda value: bool(value) and _list_of(_is_whole)(value)),
    "a list of lists of class indices, such as [[3], [1, 6]]",
)
_TABLE: Shape = (_is_table, "a table")
_SWITCH: Shape = (lambda value: value is False or _is_table(value), "a table, or false to leave it out")

PROTOCOL: dict[str, Shape] = {
    "name": _TEXT,
    "description": (lambda value: isinstance(value, str), "text"),
    "dataset": _TEXT,
    "backbone": _TEXT,
    "recipe": _TEXT,
    "pretrained": _TEXT,
    "seeds": (_list_of(_is_whole), "a list of whole numbers from 0, such as [0, 1]"),
    "forget": _SETS,
    "methods": _TEXTS,
    "controls": _TEXTS,
    "audit": _TABLE,
    "pra": _SWITCH,
    "linear_probe": _SWITCH,
    "diagnostics": _SWITCH,
    "ablation": (_list_of(_is_table), "tables: [[ablation]]"),
    "feature_type": _TEXT,
    "limits": (_table_of(_is_positive), "a table of seconds above 0"),
    "resources": (_table_of(_is_reserve), f"tables of numbers from 0: {', '.join(RESOURCES)}"),
}
"""Keys of a protocol."""

ABLATION: dict[str, Shape] = {
    "name": _TEXT,
    "vary": (_table_of(lambda value: bool(value) and isinstance(value, list | tuple)), "a table of lists of values"),
    "methods": _TEXTS,
    "forget": _SETS,
    "audit": _TABLE,
}
"""Keys of an ablation."""

DIAGNOSTICS: dict[str, Shape] = {"methods": _TEXTS, "forget": _SETS, "geometry": _TEXTS}
"""Keys of the diagnostics."""

PRA: dict[str, Shape] = {
    "variants": (_list_of(lambda value: value in ("cosine", "l2")), "cosine, l2 or both"),
    "k": (_is_count, "samples of each class, 1 or more"),
    "supports": (_is_count, "draws of samples, 1 or more"),
}
"""Settings of the prototypical control."""
