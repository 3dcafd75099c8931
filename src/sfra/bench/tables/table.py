"""A table as data, and its files: Markdown, CSV and LaTeX."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from sfra.core.errors import InputError, printable
from sfra.core.files import write_text

MISSING = "–"
"""Stands for a figure that does not exist or was not measured; CSV leaves the field empty."""

Cell = tuple[str | None, ...]
"""The figures of one cell, formatted; None for a missing one."""


def words(text: object) -> str | None:
    """Write text on one line without control characters; None and empty text are missing.

    >>> words("two" + chr(10) + "lines"), words("")
    ('two lines', None)
    """
    return printable(" ".join(str(text).split())) or None if text is not None else None


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
    write: Callable[[Any], str | None] = words
    """How a figure is written."""
    style: Literal["plain", "spread", "triple"] = "plain"
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

    def said(self, text: str) -> str:
        """Say the text of a cell in a title; a word speaks for itself, a number needs its heading.

        >>> Column(names=("n",), heading="N").said("500"), Column(names=("n",), heading="N", title="N = {}").said("500")
        ('N 500', 'N = 500')
        """
        form = ("{}" if not self.numeric else f"{self.heading} {{}}") if self.title is None else self.title
        return form.replace("{}", text)

    def text(self, cell: Cell) -> str:
        """Write a cell for a reader."""
        if all(figure is None for figure in cell):
            return MISSING
        first, *others = (MISSING if figure is None else figure for figure in cell)
        if self.style == "triple":
            return f"({', '.join((first, *others))})"
        if self.style == "spread" and cell[1] is not None:
            return f"{first} ± {others[0]}"
        return dict(self.words).get(first, first)


@dataclass(frozen=True, kw_only=True)
class Display:
    """A table as a reader sees it: plain text, not yet escaped for any format."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, kw_only=True)
class Table:
    """Formatted figures with their headings."""

    title: str
    label: str
    """Short name: of its files and of its LaTeX label."""
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()
    """What a reader must know to read the figures."""

    def __post_init__(self) -> None:
        if len(set(self.names)) != len(self.names):
            raise InputError(f"the table {self.label} needs columns of distinct names", got=list(self.names))

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
        said = [self.columns[i].said(texts[0][i]) for i in folded if texts[0][i] != MISSING]
        return Display(
            title=f"{self.title} ({', '.join(filter(None, said))})" if any(said) else self.title,
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


def make_table(
    label: str,
    title: str,
    columns: tuple[Column, ...],
    lines: Iterable[Mapping[str, Any]],
    *,
    notes: tuple[str, ...] = (),
) -> Table:
    """Write lines (figures by CSV heading) as their columns say."""
    rows = tuple(tuple(tuple(c.write(line.get(name)) for name in c.names) for c in columns) for line in lines)
    return Table(title=title, label=label, columns=columns, rows=rows, notes=notes)


def to_csv(table: Table) -> str:
    """Write all columns of a table, also those that a reader sees in its title.

    >>> one = Table(title="One", label="one", columns=(Column(names=("a",), heading="A"),), rows=((("1",),),))
    >>> to_csv(one).splitlines()
    ['a', '1']
    """
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, table.names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(table.records)
    return buffer.getvalue()


def to_markdown(table: Table) -> str:
    r"""Write a table as GitHub shows it: title, pipes, notes.

    >>> column = Column(names=("a",), heading="A")
    >>> two = Table(title="Two", label="two", columns=(column,), rows=((("1",),), ((None,),)))
    >>> print(to_markdown(two), end="")
    **Two**
    <BLANKLINE>
    | A |
    |--:|
    | 1 |
    | – |
    """

    def line(cells: tuple[str, ...]) -> str:
        return f"| {' | '.join(map(escape_markdown, cells))} |"

    shown = table.display()
    headings = tuple(column.heading for column in shown.columns)
    marks = "|".join("--:" if column.numeric else ":--" for column in shown.columns)
    parts = [
        f"**{escape_markdown(shown.title)}**",
        "\n".join([line(headings), f"|{marks}|", *map(line, shown.rows)]),
        "\n".join(f"- {escape_markdown(note)}" for note in table.notes),
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


def escape_markdown(text: str) -> str:
    r"""Write text so that Markdown shows it as it is.

    >>> print(escape_markdown("a|b_c"))
    a\|b\_c
    """
    return re.sub(r"([\\`*_\[\]<>|&~$#])", r"\\\1", " ".join(text.split()))


def write_tables(tables: Iterable[Table], folder: str | Path) -> None:
    """Write ``<label>.md``, ``.csv`` and ``.tex`` of each table, each file whole or not at all."""
    from sfra.bench.tables.latex import to_latex

    for table in tables:
        for suffix, render in {".md": to_markdown, ".csv": to_csv, ".tex": to_latex}.items():
            write_text(Path(folder) / f"{table.label}{suffix}", render(table))
