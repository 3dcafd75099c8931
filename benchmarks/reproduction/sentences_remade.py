"""Sentences about models that were made more than once: is what different sittings measured of the same models?"""

from __future__ import annotations

from collections.abc import Sequence

from reproduction.simple import joined, number
from reproduction.stored import Kept, Row
from sfra.bench.tables.names import method_name

NAMED = 5
"""Models up to which those whose heads were not compared are named."""


def remade(kept: Kept) -> str:
    """Say how many models were made again, and whether they are the same to the last digit."""
    rows = kept.remade
    if not rows:
        return "No model was made twice, so these rows do not show whether one made again would be the same."
    twice = all(row["makings"] == 2 for row in rows)
    made = f"{'was' if len(rows) == 1 else 'were'} made in {'two' if twice else 'more than one'}"
    history, heads = _apart(kept, "history"), _apart(kept, "head")
    compared = [row for row in rows if row["head"] is not None]
    alone = [_name(row, kept.group) for row in rows if row["head"] is None]
    sentences = [
        f"Not all was computed in one sitting: {number(len(rows), 'model')} {made}.",
        f"The losses of every epoch and the validation accuracies {_equal('to the last digit', history, len(rows))}.",
        f"Heads of more than one making were kept of {number(len(compared), 'model')}"
        + (f": they {_equal('bit for bit', heads, len(compared))}{_alone(alone)}." if compared else "."),
        "Where a model differs, audits and linear probes of different sittings may be of different models."
        if history or heads
        else "As far as this shows, audits and linear probes of different sittings are of the same models.",
    ]
    return " ".join(sentences)


def _apart(kept: Kept, column: str) -> list[str]:
    return [_name(row, kept.group) for row in kept.remade if row[column] == "no"]


def _name(row: Row, group: str) -> str:
    classes = f" of class {row['forget']}" if row["forget"] else ""
    return f"{method_name(row['method'])}{classes}" + (f" (`{row['protocol']}`)" if row["protocol"] != group else "")


def _alone(names: Sequence[str]) -> str:
    """Name the models whose heads were not compared, or count them where they are many.

    >>> _alone(["Original"]), _alone([])
    ('; not compared: Original', '')
    """
    if len(names) > NAMED:
        return f"; of {number(len(names), 'model')} they were not compared"
    return f"; not compared: {joined(names)}" if names else ""


def _equal(how: str, apart: Sequence[str], total: int) -> str:
    """Say in how many models something is equal, and in which it is not.

    >>> _equal("bit for bit", [], 7), _equal("bit for bit", ["SCRUB"], 7)
    ('are equal bit for bit in all seven', 'are equal bit for bit in six of seven, not in SCRUB')
    """
    if not apart:
        return f"are equal {how}" + {1: "", 2: " in both"}.get(total, f" in all {number(total)}")
    if len(apart) == total:
        return f"are not equal {how}, in {joined(apart)}"
    return f"are equal {how} in {number(total - len(apart))} of {number(total)}, not in {joined(apart)}"
