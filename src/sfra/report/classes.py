"""What pages and figures call classes: by name and index, ``dog (5)``, where the names are known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sfra.bench.tables import Table

Names = Sequence[str] | None
"""Name of each class index, where known."""

COLUMNS = ("forget_class", "forget")
"""Columns of tables, as CSV names them, that hold a forget class."""


def label_name(label: int, names: Names) -> str:
    """Name a class by name and index, or by its index where that says as much.

    >>> label_name(1, ["cat", "dog"]), label_name(1, ["0", "1"]), label_name(1, None)
    ('dog (1)', '1', '1')
    """
    name = names[label] if names and 0 <= label < len(names) else label
    return str(label) if str(name) == str(label) else f"{name} ({label})"


def class_name(label: int, names: Names) -> str:
    """Name a class within a sentence.

    >>> class_name(1, ["cat", "dog"]), class_name(1, None)
    ('dog (1)', 'class 1')
    """
    name = label_name(label, names)
    return f"class {label}" if name == str(label) else name


def set_name(classes: Sequence[int], names: Names) -> str:
    """Name a forget set where there is little room: the names of several classes would not fit.

    >>> set_name((1,), ["cat", "dog"]), set_name((0, 1), ["cat", "dog"])
    ('dog (1)', '0+1')
    """
    return label_name(classes[0], names) if len(classes) == 1 else "+".join(map(str, classes))


def set_words(classes: Sequence[int], names: Names) -> str:
    """Name every class of a forget set.

    >>> set_words((0, 1), ["cat", "dog"]), set_words((0, 1), None)
    ('cat (0), dog (1)', '0+1')
    """
    words = [label_name(label, names) for label in classes]
    return set_name(classes, None) if words == [str(label) for label in classes] else ", ".join(words)


def names_of(originals: Iterable[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Return the class names of every data set, from the accuracies of its originals: all name the same classes.

    >>> names_of([{"dataset": "pets", "class_names": ["cat", "dog"]}, {"dataset": "mine", "class_names": None}])
    {'pets': ['cat', 'dog']}
    """
    found: dict[str, list[str]] = {}
    for row in originals:
        if row.get("class_names"):
            found.setdefault(row["dataset"], list(row["class_names"]))
    return found


def named_table(table: Table, names: Names) -> Table:
    """Let a table of one data set call single forget classes by name; files of it keep the indices.

    >>> from sfra.bench.tables.columns import FORGET
    >>> table = Table(title="T", label="t", columns=(FORGET,), rows=((("1",),), (("0+1",),)))
    >>> named_table(table, ["cat", "dog"]).to_dict()["rows"]
    [['dog (1)'], ['0+1']]
    """
    words = tuple((str(label), label_name(label, names)) for label in range(len(names or ())))
    columns = tuple(
        replace(c, words=words, numeric=False) if names and c.names[0] in COLUMNS else c for c in table.columns
    )
    return replace(table, columns=columns)
