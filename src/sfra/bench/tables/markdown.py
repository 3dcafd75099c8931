"""Tables in Markdown."""

from __future__ import annotations

import re

from sfra.bench.tables.table import Table

_SPECIAL = re.compile(r"([\\`*_\[\]<>|&~$#])")


def to_markdown(table: Table) -> str:
    r"""Write a table as GitHub shows it: title, pipes, notes.

    >>> from sfra.bench.tables import Column, Table
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
    shown = table.display()
    parts = [f"**{escape_markdown(shown.title)}**"]
    if shown.rows:
        marks = ["--:" if column.numeric else ":--" for column in shown.columns]
        lines = [_line(shown.headings), f"|{'|'.join(marks)}|", *(_line(row) for row in shown.rows)]
        parts.append("\n".join(lines))
    parts += ["\n".join(f"- {escape_markdown(note)}" for note in table.notes)] if table.notes else []
    return "\n\n".join(parts) + "\n"


def escape_markdown(text: str) -> str:
    r"""Write text so that Markdown shows it as it is.

    >>> print(escape_markdown("a|b_c"))
    a\|b\_c
    """
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))


def _line(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(map(escape_markdown, cells))} |"
