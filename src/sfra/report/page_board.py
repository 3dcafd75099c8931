"""The leaderboard of a benchmark's page: readings as rows, and the values of each filter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sfra.bench.tables.names import (
    backbone_name,
    dataset_name,
    forget_name,
    forget_of,
    method_name,
    method_rank,
)
from sfra.report import vega
from sfra.report.classes import set_name, set_words

Row = Mapping[str, Any]

COLUMNS = (
    *("method", "name", "dataset", "backbone", "place", "forget", "where", "scale", "rule"),
    *("rs", "delta_rs", "forget_before", "forget_after", "retain_before", "retain_after"),
)
"""What the script of the page knows of a reading."""


def place_name(dataset: str, backbone: str) -> str:
    """Name a data set and a backbone.

    >>> place_name("cifar10", "resnet18-small")
    'CIFAR-10, ResNet-18'
    """
    return f"{dataset_name(dataset)}, {backbone_name(backbone)}"


def board_data(
    audits: Sequence[Row], scale: str, rule: str, *, several: bool, names: Mapping[str, Sequence[str]] | None = None
) -> dict[str, Any]:
    """Return what the leaderboard and the comparison need: readings as rows, and the values of each filter.

    Args:
        audits: Rows of the main audits.
        scale: Scale that the board opens with.
        rule: Rule that the board opens with.
        several: Whether there is more than one data set or backbone.
        names: Class names by data set.
    """
    seeds = len({row["seed"] for row in audits}) > 1
    rows = [_board_row(row, names or {}, several=several, seeds=seeds) for row in audits]
    methods = [(key, method_name(key)) for key in sorted({row["method"] for row in audits}, key=method_rank)]
    sets = sorted({(len(forget_of(row)), forget_of(row), forget_name(row)) for row in audits})
    simple = {name: sorted({str(row[name]) for row in audits}) for name in ("scale", "rule")}
    return {
        "rows": {name: _column([row[name] for row in rows]) for name in COLUMNS},
        "several": several,
        "methods": methods,
        "pair": ([key for key, _ in methods if key != "retrained"] * 2)[:2] or [methods[0][0]] * 2,
        "defaults": {"scale": scale, "rule": rule},
        "filters": {
            "dataset": [(name, dataset_name(name)) for name in sorted({row["dataset"] for row in audits})],
            "backbone": [(name, backbone_name(name)) for name in sorted({row["backbone"] for row in audits})],
            "forget": [(name, _called(name, audits, names or {})) for _, _, name in sets],
            **{name: [(value, value) for value in values] for name, values in simple.items()},
        },
    }


def _column(values: Sequence[Any]) -> dict[str, list[Any]]:
    """Write each value of a column once, and where it goes.

    >>> _column(["a", "b", "a"])
    {'values': ['a', 'b'], 'places': [0, 1, 0]}
    """
    places = {value: place for place, value in enumerate(dict.fromkeys(values))}
    return {"values": list(places), "places": [places[value] for value in values]}


def _called(name: str, audits: Sequence[Row], names: Mapping[str, Sequence[str]]) -> str:
    """Name a forget set in words, unless data sets mean other classes by the same indices."""
    mine = [row for row in audits if forget_name(row) == name]
    words = {set_words(forget_of(row), names.get(row["dataset"])) for row in mine}
    return words.pop() if len(words) == 1 else name


def _board_row(row: Row, names: Mapping[str, Sequence[str]], *, several: bool, seeds: bool) -> dict[str, Any]:
    place = place_name(row["dataset"], row["backbone"])
    forgotten = set_name(forget_of(row), names.get(row["dataset"]))
    parts = [forgotten, *([f"seed {row['seed']}"] if seeds else []), *([place] if several else [])]
    words = {"name": method_name(row["method"]), "place": place, "forget": forget_name(row), "where": ", ".join(parts)}
    return dict(vega.rounded({**row, **words}))
