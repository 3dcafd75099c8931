"""A table as data: what Markdown, LaTeX, CSV and the page are made of."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal

from sfra.core.errors import InputError

MISSING = "–"
"""Stands for a figure that does not exist or was not measured; CSV leaves the field empty."""

Cell = tuple[str | None, ...]
"""The figures of one cell, formatted; None for a missing one."""

Style = Literal["plain", "spread", "triple"]


@dataclass(frozen=True, kw_only=True)
class Column:
    """One column for a reader; one or more in CSV.

    >>> column = Column(names=("acc_mean", "acc_std"), heading="Accuracy", style="spread")
    >>> column.text(("94.65", "0.31")), column.text(("94.65", None)), column.text((None, None))
    ('94.65 ± 0.31', '94.65', '–')
    """

    names: tuple[str, ...]
    """Headings in CSV, one for each figure of a cell."""
    heading: str
    """Heading for a reader."""
    style: Style = "plain"
    """How a reader sees the figures of a cell: ``a``, ``a ± b`` or ``(a, b, c)``."""
    numeric: bool = True
    """Set flush right."""
    fold: bool = False
    """Where all rows agree, a reader sees it once, in the title."""
    title: str | None = None
    """How a title says a folded figure, with ``{}`` for it; empty: not at all; None: a word, or heading and number."""
    wide: bool = False
    """Holds running text, which is broken into lines."""
    words: tuple[tuple[str, str], ...] = ()
    """What a reader sees instead of a figure, where CSV has a short name."""

    def __post_init__(self) -> None:
        expected = {"plain": 1, "spread": 2, "triple": 3}[self.style]
        if len(self.names) != expected:
            raise InputError(f"a column of style {self.style} needs other names", expected=expected, got=self.names)

    def said(self, text: str) -> str:
        """Say the text of a cell in a title; a word speaks for itself, a number needs its heading.

        >>> Column(names=("n",), heading="N").said("500"), Column(names=("n",), heading="N", title="N = {}").said("500")
        ('N 500', 'N = 500')
        """
        form = ("{}" if not self.numeric else f"{self.heading} {{}}") if self.title is None else self.title
        return form.replace("{}", text)

    def text(self, cell: Cell) -> str:
        """Write a cell for a reader."""
        first = cell[0]
        if all(figure is None for figure in cell):
            return MISSING
        if self.style == "triple":
            return f"({', '.join(MISSING if figure is None else figure for figure in cell)})"
        if self.style == "spread" and cell[1] is not None:
            return f"{MISSING if first is None else first} ± {cell[1]}"
        return MISSING if first is None else dict(self.words).get(first, first)


@dataclass(frozen=True, kw_only=True)
class Display:
    """A table as a reader sees it: plain text, not yet escaped for any format."""

    title: str
    headings: tuple[str, ...]
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, kw_only=True)
class Table:
    """Formatted figures with their headings; a table without rows says in its notes what is missing."""

    title: str
    label: str
    """Short name: of its files and of its LaTeX label."""
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()
    """What a reader must know to read the figures."""

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-z0-9-]+", self.label):
            raise InputError(
                "a table's label cannot be so", expected="small letters, digits and hyphens", got=self.label
            )
        names = self.names
        if not names or len(set(names)) != len(names):
            raise InputError(f"the table {self.label} needs columns of distinct names", got=list(names))
        shape = [len(column.names) for column in self.columns]
        for row in self.rows:
            if [len(cell) for cell in row] != shape:
                raise InputError(f"a row of the table {self.label} does not fit its columns", expected=shape, got=row)

    @property
    def names(self) -> tuple[str, ...]:
        """Headings in CSV."""
        return tuple(name for column in self.columns for name in column.names)

    @property
    def records(self) -> list[dict[str, str | None]]:
        """Every row as figures by CSV heading."""
        return [dict(zip(self.names, (f for cell in row for f in cell), strict=True)) for row in self.rows]

    def display(self) -> Display:
        """Arrange the table for a reader: cells as text, agreeing columns folded into the title."""
        texts = [tuple(c.text(cell) for c, cell in zip(self.columns, row, strict=True)) for row in self.rows]
        folded = [i for i, c in enumerate(self.columns) if c.fold and len({row[i] for row in texts}) == 1]
        shown = [i for i in range(len(self.columns)) if i not in folded]
        named = [self.columns[i].said(texts[0][i]) for i in folded if texts[0][i] != MISSING]
        named = [part for part in named if part]
        return Display(
            title=f"{self.title} ({', '.join(named)})" if named else self.title,
            headings=tuple(self.columns[i].heading for i in shown),
            columns=tuple(self.columns[i] for i in shown),
            rows=tuple(tuple(row[i] for i in shown) for row in texts),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return what a page shows, as plain values for JSON."""
        shown = self.display()
        return {
            "label": self.label,
            "title": shown.title,
            "columns": [{"heading": c.heading, "numeric": c.numeric} for c in shown.columns],
            "rows": [list(row) for row in shown.rows],
            "notes": list(self.notes),
        }
