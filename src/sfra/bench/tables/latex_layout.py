r"""How wide a table becomes in LaTeX, and from that its type size, its headings in lines, and whether a page is turned.

Widths are estimates for Computer Modern; a document with another typeface or wider pages has a little more room.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sfra.bench.tables.table import Column

PAGE = 345.0
"""Width of a line of ``article`` at 10 points, which is narrow; in points."""

COLUMN = 240.0
"""Width of a column of a two-column paper, in points."""

MARGIN = 60.0
"""How far a table may reach into each margin, in points."""

FLOAT = 440.0
"""Height of the body of the tallest float, with room for caption, headings and notes on a page of ``article``."""

SIZES = (
    ("", 10.0, 6.0, 12.0),
    (r"\small", 9.25, 4.0, 11.0),
    (r"\footnotesize", 8.5, 3.0, 9.5),
    (r"\scriptsize", 8.0, 2.0, 8.0),
)
"""Command, size, half the space between columns and height of a line, in points; small sizes are relatively wide."""

_EMS = {
    **dict.fromkeys("0123456789–", 0.5),
    **dict.fromkeys(".,:;'|il!", 0.28),
    **dict.fromkeys(" -fjrt", 0.36),
    **dict.fromkeys("()[]", 0.39),
    **dict.fromkeys("mw%&±+=−×", 0.8),
}


@dataclass(frozen=True, kw_only=True)
class Layout:
    """What a table needs to fit."""

    size: str
    """Command for the type size; empty for that of the text."""
    gap: float
    """Half the space between columns, in points."""
    line: float
    """Height of a line, in points."""
    widths: tuple[float, ...]
    """Of the columns, in points."""
    narrow: bool
    """Fits into a column of a two-column paper."""
    reaching: bool = False
    """Wider than a line: it reaches into both margins."""
    turned: bool = False
    """Only a page turned on its side is wide enough."""

    def height(self, lines: int, spaces: int) -> float:
        """Estimate the height of so many lines, some of which are but a little space; in points."""
        return (lines - spaces) * self.line + spaces * self.line / 2

    @property
    def text_share(self) -> float:
        """Share of the line that is left for a column of running text."""
        return round(min(0.6, max(0.3, 1 - self.total / PAGE)), 2)

    @property
    def total(self) -> float:
        """Width of all columns but those of running text, in points."""
        return sum(self.widths) + 2 * self.gap * len(self.widths)


def ems(text: str) -> float:
    """Estimate the width of a text, in ems.

    >>> ems("0.55")
    1.78
    """
    return round(sum(_EMS.get(c, 0.72 if c.isupper() or not c.isascii() else 0.49) for c in text), 3)


def break_heading(heading: str, widest: float) -> list[str]:
    """Break a heading into lines that are no wider than the cells below it, as far as its words allow.

    >>> break_heading("Original retain (%)", ems("94.65"))
    ['Original', 'retain (%)']
    """
    parts = heading.replace("+", "+ ").split(" ") if heading.replace("+", "").isdigit() else heading.split(" ")
    room = max(widest, *(ems(part) for part in parts), min(4.6, 0.62 * ems(heading)))
    lines: list[str] = []
    for part in parts:
        glue = "" if lines and lines[-1].endswith("+") else " "
        if lines and ems(lines[-1] + glue + part) <= room:
            lines[-1] += glue + part
        else:
            lines.append(part)
    return lines


def lay_out(columns: Sequence[Column], headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Layout:
    """Choose the largest type with which a table fits into a line; failing that, use the margins or turn the page."""
    widths = []
    for i, (column, heading) in enumerate(zip(columns, headings, strict=True)):
        cells = max((ems(row[i]) for row in rows), default=0.0)
        lines = max(ems(line) for line in break_heading(heading, cells))
        widths.append(0.0 if column.wide else max(cells, lines))
    least = 0.3 * PAGE if any(column.wide for column in columns) else 0.0
    options = [_option(*size, widths) for size in SIZES]
    fits = [one for one in options if one.total + least <= PAGE]
    turned = options[-1].total + least > PAGE + 2 * MARGIN
    return fits[0] if fits else replace(options[-1], turned=turned, reaching=not turned)


def _option(size: str, points: float, gap: float, line: float, widths: Sequence[float]) -> Layout:
    made = tuple(points * width for width in widths)
    narrow = 0.0 not in made and sum(made) + 2 * gap * len(made) <= COLUMN
    return Layout(size=size, gap=gap, line=line, widths=made, narrow=narrow)
