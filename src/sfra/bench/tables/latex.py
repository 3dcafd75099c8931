r"""Tables in LaTeX, with the rules of ``booktabs``; everything is escaped.

A table is set in the largest type in which its characters, counted as if each were as wide as a digit, fit into a
line of ``article``. It is centred and may reach into both margins, so a count that is a little off does no harm.
"""

from __future__ import annotations

import re
import textwrap
import unicodedata
from dataclasses import dataclass, replace
from itertools import groupby, pairwise

from sfra.bench.tables.table import Column, Display, Table

PACKAGES = ("booktabs", "longtable", "pdflscape")
"""What a document must load for any table; the first line of a file says what it needs."""

PAGE, TWO_COLUMNS, MARGIN, FLOAT = 345.0, 240.0, 60.0, 440.0
"""Points: a line of ``article``, one of a two-column paper, the most in a margin, height of the tallest float."""

KEPT = 6
"""Longest run of lines that stays together on a page; the name that such lines begin with is written once."""

SPACE = r"\addlinespace"

_SYMBOLS = {
    **{c: rf"\{c}" for c in "{}%&#_$"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "`": r"\textasciigrave{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "…": r"\dots{}",
    '"': "''",
    "’": "'",
    "[": "{[}",
    "]": "{]}",
    "*": "{*}",
    "–": "--",
    "—": "---",
    "±": r"$\pm$",
    "×": r"$\times$",
    "→": r"$\rightarrow$",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
    "²": r"$^2$",
    "√": r"$\surd$",
    "‖": r"$\Vert$",
    "Δ": r"$\Delta$",
    "α": r"$\alpha$",
    "δ": r"$\delta$",
    "ε": r"$\varepsilon$",
    "κ": r"$\kappa$",
    "σ": r"$\sigma$",
}
_ACCENTS = {0x300, 0x301, 0x302, 0x303, 0x308, 0x30A, 0x30C, 0x327}


@dataclass(frozen=True)
class Size:
    """A type size of LaTeX; lengths in points."""

    command: str
    digit: float
    """Width of a digit."""
    gap: float
    """Half the space between columns."""
    line: float
    """Height of a line."""


SIZES = (
    Size("", 5.0, 6.0, 12.0),
    Size(r"\small", 4.7, 4.0, 11.0),
    Size(r"\footnotesize", 4.3, 3.0, 9.5),
    Size(r"\scriptsize", 4.0, 2.0, 8.0),
)


def to_latex(table: Table) -> str:
    r"""Write a table as a float, or over several pages when it is long, and those turned when it is wide.

    A float that is too wide for a column is a ``table*``, which in a document of one column is the same as ``table``.
    Columns that hold for many lines, such as the backbone, become lines of their own between the others.

    >>> one = Table(title="50 %", label="one", columns=(Column(names=("a",), heading="A"),), rows=((("-1",),),))
    >>> r"\caption{50 \%}" in to_latex(one), r"$-$1 \\" in to_latex(one)
    (True, True)
    """
    shown = table.display()
    groups, rest = _grouped(shown)
    headings = [_break(column, [row[i] for row in rest.rows]) for i, column in enumerate(rest.columns)]
    size, width, share = _fit(rest, headings)
    turned = width > PAGE + 2 * MARGIN
    lines = _body(rest, groups)
    long = turned or size.line * (len(lines) - lines.count(SPACE) / 2) > FLOAT
    alignment = "".join(rf"p{{{share:g}\linewidth}}" if c.wide else "r" if c.numeric else "l" for c in rest.columns)
    head = [r"\toprule", _heading_line(rest.columns, headings), r"\midrule"]
    title = [rf"\caption{{{escape_latex(shown.title)}}}", rf"\label{{tab:{table.label}}}"]
    notes = " ".join(map(escape_latex, table.notes))
    below = [r"\par\smallskip", rf"{{\footnotesize {notes}\par}}"] if notes else []
    small = [size.command, rf"\setlength{{\tabcolsep}}{{{size.gap:g}pt}}"] if size.command else []
    if long:
        start = [rf"\begin{{longtable}}{{{alignment}}}", rf"{''.join(title)} \\"]
        heads = [*head, r"\endfirsthead", *head, r"\endhead", r"\bottomrule", r"\endfoot"]
        tabular = [*start, *heads, *lines, r"\end{longtable}"]
        centred = [rf"\setlength{{\LT{side}}}{{0pt plus 1fill minus 1fill}}" for side in ("left", "right")]
        body = [r"\begingroup", *small, *centred, *tabular, *below, r"\endgroup"]
        body = [r"\begin{landscape}", *body, r"\end{landscape}"] if turned else body
    else:
        kind = "table" if width <= TWO_COLUMNS else "table*"
        tabular = [rf"\begin{{tabular}}{{{alignment}}}", *head, *lines, r"\bottomrule", r"\end{tabular}}"]
        centred = [r"\makebox[\linewidth][c]{%", *tabular]
        body = [rf"\begin{{{kind}}}[tbp]", r"\centering", *title, *small, *centred, *below, rf"\end{{{kind}}}"]
    needs = ["booktabs", *(["longtable"] if long else []), *(["pdflscape"] if turned else [])]
    return "\n".join([f"% needs {', '.join(needs)}", *body]) + "\n"


def escape_latex(text: str) -> str:
    r"""Write text so that LaTeX sets it as it is; a character that its basic fonts lack becomes its code.

    >>> print(escape_latex("50 % of A_r ± 1"))
    50 \% of A\_r $\pm$ 1
    """
    return "".join(_escape(c, following) for c, following in pairwise([*text, ""]))


def _escape(character: str, following: str) -> str:
    if character == following == "-":
        return "-{}"  # two hyphens would become a dash
    if character in _SYMBOLS:
        return _SYMBOLS[character]
    parts = unicodedata.normalize("NFD", character)
    accented = parts[0].isascii() and parts[0].isalpha() and {ord(mark) for mark in parts[1:]} <= _ACCENTS
    basic = character.isprintable() if character.isascii() else accented
    return character if basic else rf"\texttt{{U+{ord(character):04X}}}"


def _grouped(shown: Display) -> tuple[list[str], Display]:
    """Take the leading columns that hold for many lines out of a table: what they say of each line, and the rest."""
    count = next((i for i, column in enumerate(shown.columns) if not column.fold), 0)
    said = [[c.said(text) for c, text in zip(shown.columns[:count], row, strict=False)] for row in shown.rows]
    rest = replace(shown, columns=shown.columns[count:], rows=tuple(row[count:] for row in shown.rows))
    return [", ".join(filter(None, parts)) for parts in said], rest


def _body(shown: Display, groups: list[str]) -> list[str]:
    """Write the rows: a line where a group begins, a little space where the first column changes."""
    keys = [(group, row[0]) for group, row in zip(groups, shown.rows, strict=True)]
    runs = [list(run) for _, run in groupby(range(len(keys)), key=keys.__getitem__)]
    together = len(runs) < len(keys) and max(map(len, runs)) <= KEPT
    lines: list[str] = []
    for run in runs:
        group, previous = groups[run[0]], groups[run[0] - 1] if run[0] else ""
        if run[0] and (len(runs) < len(keys) or group != previous):
            lines.append(SPACE)
        if group != previous:
            lines += [rf"\multicolumn{{{len(shown.columns)}}}{{l}}{{\textit{{{escape_latex(group)}}}}} \\*"]
        for place in run:
            row = ("", *shown.rows[place][1:]) if together and place != run[0] else shown.rows[place]
            cells = " & ".join(_cell(column, text) for column, text in zip(shown.columns, row, strict=True))
            lines.append(rf"{cells} \\" + ("*" if together and place != run[-1] else ""))
    return lines


def _fit(shown: Display, headings: list[list[str]]) -> tuple[Size, float, float]:
    """Choose the largest type that fits; return it, the width in points, and the share of a line for running text."""
    characters = [
        max(map(len, [*lines, *(row[i] for row in shown.rows)]))
        for i, (column, lines) in enumerate(zip(shown.columns, headings, strict=True))
        if not column.wide
    ]
    widths = [sum(size.digit * one + 2 * size.gap for one in characters) for size in SIZES]
    text = 0.3 * PAGE if len(characters) < len(shown.columns) else 0.0
    chosen = next((i for i, width in enumerate(widths) if width + text <= PAGE), len(SIZES) - 1)
    share = round(min(0.6, max(0.3, 1 - widths[chosen] / PAGE)), 2)
    return SIZES[chosen], widths[chosen] + (share * PAGE if text else 0.0), share


def _break(column: Column, cells: list[str]) -> list[str]:
    """Break a heading into lines that are about as wide as the cells below it."""
    longest = max(map(len, [*column.heading.split(), *cells]))
    return textwrap.wrap(column.heading, max(longest, 9), break_long_words=False) or [""]


def _heading_line(columns: tuple[Column, ...], headings: list[list[str]]) -> str:
    cells = []
    for column, lines in zip(columns, headings, strict=True):
        side = "l" if column.wide or not column.numeric else "r"
        stack = r" \\ ".join(map(escape_latex, lines))
        cells.append(rf"\begin{{tabular}}[b]{{@{{}}{side}@{{}}}}{stack}\end{{tabular}}" if len(lines) > 1 else stack)
    return " & ".join(cells) + r" \\"


def _cell(column: Column, text: str) -> str:
    escaped = escape_latex(text)
    if column.wide:
        breakable = re.sub(r"(?<=[/.,:+])(?=[^ ])", r"\\allowbreak{}", escaped)
        return rf"\raggedright\let\\\tabularnewline {breakable}"
    return re.sub(r"(?<![\w.])-(?=\d)", "$-$", escaped) if column.numeric else escaped
