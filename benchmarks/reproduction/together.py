"""Tables of several classes hidden at once in one network."""

from __future__ import annotations

from typing import Any

import polars as pl

from reproduction.rows import Group
from reproduction.tables import Cells, Text, percent, score, table
from sfra.bench.tables import Table

ORDERS = {"ascending": "greedy, ascending", "descending": "greedy, descending", "optimal": "optimal"}
KINDS = {"masked": "rows zero", "fresh": "rows drawn anew", "silenced": "rows as trained, bias −15"}
SETS = {"paper": "the paper's", "tens": "tens"}


def several(group: Group) -> Table:
    """Show RS of every set under each assignment, and what share is answered with any of the hidden classes."""
    rows = several_rows(group)
    whole = rows.filter(pl.col("class").is_null())
    names, columns = _names(whole), list[Cells]()
    for order, text in ORDERS.items():
        mine = {_key(row): row for row in whole.filter(order=order).iter_rows(named=True)}
        columns.append((f"rs_{order}", f"RS, {text}", {key: score(row["rs"]) for key, row in mine.items()}))
    for order in ("ascending", "optimal"):
        mine = {_key(row): row for row in whole.filter(order=order).iter_rows(named=True)}
        shares = {key: f"{percent(row['own'] / row['samples'], 0)}, {percent(row['any'] / row['samples'], 0)}"
                  for key, row in mine.items()}  # fmt: skip
        columns.append((f"own_{order}", f"Own, any (%), {ORDERS[order].partition(',')[0]}", dict(shares)))
        worst: dict[str, Text] = {}
        for key in mine:
            single = [row["own"] / row["samples"] for row in _classes(rows, order) if _key(row) == key]
            worst[key] = f"{percent(min(single), 0)} to {percent(max(single), 0)}"
        columns.append((f"single_{order}", f"Single classes (%), {ORDERS[order].partition(',')[0]}", worst))
    notes = (
        "The original with classes hidden at the head; canonical scale, N = 20,000, M = 50, 60 epochs, last epoch. "
        "Own: samples of hidden classes that are answered with their class; any: with any of the hidden ones. "
        "10 test samples of each class of the paper's sets, 50 of each ten.",
    )
    title = "Two, five and ten classes hidden at once"
    return table("several", title, names, columns, notes, ("hidden", "Hidden"))


def several_rows(group: Group) -> pl.DataFrame:
    """Read the rows; none where a group has no such file."""
    if (group.folder / group.name / "several.csv").is_file():
        return group.rows("several")
    columns = ("set", "kind", "order", "class", "classes", "samples", "own", "any", "rs")
    return pl.DataFrame({name: [] for name in columns}, schema=dict.fromkeys(columns, pl.String))


def _key(row: dict[str, object]) -> str:
    return f"{row['classes']} {row['set']} {row['kind']}"


def _names(whole: pl.DataFrame) -> dict[str, str]:
    return {
        _key(row): f"{row['classes']:.0f} of {SETS[row['set']]}, {KINDS[row['kind']]}"
        for row in whole.filter(order="optimal").iter_rows(named=True)
    }


def _classes(rows: pl.DataFrame, order: str) -> list[dict[str, Any]]:
    return list(rows.drop_nulls("class").filter(order=order).iter_rows(named=True))
