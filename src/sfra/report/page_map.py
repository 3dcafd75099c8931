"""Methods by forget sets as a table whose cells are coloured, numbered and lead to their audits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from sfra.bench.tables.names import forget_name, forget_of, method_name, method_rank
from sfra.report.classes import Names, set_name, set_words
from sfra.report.figures_colour import blend, contrast
from sfra.report.html import number, signed
from sfra.report.style import THEMES

STEPS = 20
"""Shades of a map, so that a page needs no colour per cell."""

TITLES = {"rs": "RS", "delta_rs": "ΔRS"}


def heat_map(rows: Sequence[Mapping[str, Any]], value: str, keys: set[str], names: Names = None) -> dict[str, Any]:
    """Arrange one reading; with several seeds a cell shows the mean and leads to the first.

    Args:
        rows: Rows of one data set, backbone, scale and rule.
        value: ``rs`` or ``delta_rs``.
        keys: Audits that the page has in detail.
        names: Names of the data set's classes.
    """
    shown = [row for row in rows if row[value] is not None and (value == "rs" or row["method"] != "retrained")]
    sets = sorted({(len(forget_of(row)), forget_of(row), forget_name(row)) for row in shown})
    lines = [
        {"name": method_name(method), "cells": [_cell(shown, method, name, value, keys) for _, _, name in sets]}
        for method in sorted({row["method"] for row in shown}, key=method_rank)
    ]
    named = [{"name": set_name(classes, names), "words": set_words(classes, names)} for _, classes, _ in sets]
    return {"title": TITLES[value], "sets": named, "lines": lines}


def _cell(
    rows: Sequence[Mapping[str, Any]], method: str, forget: str, value: str, keys: set[str]
) -> dict[str, Any] | None:
    mine = [row for row in rows if row["method"] == method and forget_name(row) == forget]
    if not mine:
        return None
    score = fmean(row[value] for row in mine)
    key = f"audit-{mine[0]['cell'][:12]}"
    text = number(score) if value == "rs" else signed(score)
    return {"text": text, "shade": shade(score, value), "key": key if key in keys else None}


def shade(score: float, value: str) -> str:
    """Name the shade of a score.

    >>> shade(0.0, "rs"), shade(1.0, "rs"), shade(0.0, "delta_rs")
    ('r0', 'r20', 'd10')
    """
    place = score if value == "rs" else (score + 1) / 2
    return f"{'r' if value == 'rs' else 'd'}{round(STEPS * min(max(place, 0.0), 1.0))}"


def heat_css() -> str:
    """Write the shades of both themes, each with the text colour that is easier to read on it."""
    light, dark = ("\n".join(_rules(theme)) for theme in ("light", "dark"))
    scoped = "\n".join(f':root[data-theme="dark"] {line}' for line in dark.splitlines())
    auto = "\n".join(f':root:not([data-theme="light"]) {line}' for line in dark.splitlines())
    return f"{light}\n@media screen and (prefers-color-scheme: dark) {{\n{auto}\n}}\n@media screen {{\n{scoped}\n}}"


def _rules(theme: str) -> list[str]:
    found = THEMES[theme]
    ramps = {"r": found.ramp, "d": found.diverging}
    fills = {f"{name}{i}": blend(stops, i / STEPS) for name, stops in ramps.items() for i in range(STEPS + 1)}
    return [f".map .{name} {{ background: {fill}; color: {_ink(fill)}; }}" for name, fill in fills.items()]


def _ink(fill: str) -> str:
    return max(("#ffffff", "#000000"), key=lambda ink: contrast(ink, fill))
