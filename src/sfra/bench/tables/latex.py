r"""Tables in LaTeX, with the rules of ``booktabs``; everything is escaped."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import replace
from itertools import groupby, pairwise

from sfra.bench.tables.latex_layout import FLOAT, Layout, break_heading, ems, lay_out
from sfra.bench.tables.table import Column, Display, Table

PACKAGES = ("booktabs", "longtable", "pdflscape")
"""What a document must load for any table; the first line of a file says what it needs."""

SPACE = r"\addlinespace"

KEPT = 6
"""Longest run of lines that stays together on a page; the name that such lines begin with is written once."""

_SYMBOLS = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "%": r"\%",
    "&": r"\&",
    "#": r"\#",
    "_": r"\_",
    "$": r"\$",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "`": r"\textasciigrave{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': "''",
    "[": "{[}",
    "]": "{]}",
    "*": "{*}",
    "–": "--",
    "—": "---",
    "…": r"\dots{}",
    "’": "'",
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


def to_latex(table: Table) -> str:
    r"""Write a table as a float, or over several pages when it is long, and those turned when it is wide.

    A float that is too wide for a column is a ``table*``, which in a document of one column is the same as ``table``.
    Columns that hold for many lines, such as the backbone, become lines of their own between the others.

    >>> from sfra.bench.tables import Column, Table
    >>> one = Table(title="50 %", label="one", columns=(Column(names=("a",), heading="A"),), rows=((("-1",),),))
    >>> r"\caption{50 \%}" in to_latex(one), r"$-$1 \\" in to_latex(one)
    (True, True)
    """
    shown = table.display()
    if not shown.rows:
        return "".join(f"% {' '.join(line.split())}\n" for line in (table.title, *table.notes))
    groups, rest = _grouped(shown)
    layout = lay_out(rest.columns, rest.headings, rest.rows)
    lines = _body(rest, groups)
    long = layout.turned or layout.height(len(lines), lines.count(SPACE)) > FLOAT
    body = (_long if long else _float)(table, rest, lines, layout)
    needs = ["booktabs", *(["longtable"] if long else []), *(["pdflscape"] if layout.turned else [])]
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
    code = rf"\texttt{{U+{ord(character):04X}}}"
    return _SYMBOLS.get(character) or (character if _is_basic(character) else code)


def _is_basic(character: str) -> bool:
    """Say whether LaTeX sets a character without further packages: ASCII, and Latin letters with common accents."""
    if character.isascii():
        return character.isprintable()
    parts = unicodedata.normalize("NFD", character)
    return parts[0].isascii() and parts[0].isalpha() and {ord(mark) for mark in parts[1:]} <= _ACCENTS


def _grouped(shown: Display) -> tuple[list[str], Display]:
    """Take the leading columns that hold for many lines out of a table: what they say of each line, and the rest."""
    count = next((i for i, column in enumerate(shown.columns) if not column.fold), 0)
    said = [[c.said(text) for c, text in zip(shown.columns[:count], row, strict=False)] for row in shown.rows]
    groups = [", ".join(part for part in parts if part) for parts in said]
    rows = tuple(row[count:] for row in shown.rows)
    return groups, replace(shown, headings=shown.headings[count:], columns=shown.columns[count:], rows=rows)


def _float(table: Table, shown: Display, lines: list[str], layout: Layout) -> list[str]:
    kind = "table" if layout.narrow else "table*"
    begin, end = (r"\makebox[\linewidth][c]{%", "}") if layout.reaching else ("", "")
    return [
        rf"\begin{{{kind}}}[tbp]",
        r"\centering",
        rf"\caption{{{escape_latex(shown.title)}}}",
        rf"\label{{tab:{table.label}}}",
        *_size(layout),
        *([begin] if begin else []),
        rf"\begin{{tabular}}{{{_alignment(shown, layout)}}}",
        r"\toprule",
        _headings(shown),
        r"\midrule",
        *lines,
        r"\bottomrule",
        rf"\end{{tabular}}{end}",
        *_notes(table),
        rf"\end{{{kind}}}",
    ]


def _long(table: Table, shown: Display, lines: list[str], layout: Layout) -> list[str]:
    head = [r"\toprule", _headings(shown), r"\midrule"]
    page = ["landscape"] if layout.turned else []
    return [
        *(rf"\begin{{{name}}}" for name in page),
        r"\begingroup",
        *_size(layout),
        r"\setlength{\LTleft}{0pt plus 1fill minus 1fill}",
        r"\setlength{\LTright}{0pt plus 1fill minus 1fill}",
        rf"\begin{{longtable}}{{{_alignment(shown, layout)}}}",
        rf"\caption{{{escape_latex(shown.title)}}}\label{{tab:{table.label}}} \\",
        *head,
        r"\endfirsthead",
        *head,
        r"\endhead",
        r"\bottomrule",
        r"\endfoot",
        *lines,
        r"\end{longtable}",
        *_notes(table),
        r"\endgroup",
        *(rf"\end{{{name}}}" for name in page),
    ]


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
            lines.append(_line(shown.columns, row) + ("*" if together and place != run[-1] else ""))
    return lines


def _headings(shown: Display) -> str:
    """Write the headings, the long ones in lines."""
    cells = []
    for i, (column, heading) in enumerate(zip(shown.columns, shown.headings, strict=True)):
        lines = [escape_latex(line) for line in break_heading(heading, max(ems(row[i]) for row in shown.rows))]
        side = "l" if column.wide or not column.numeric else "r"
        stack = r" \\ ".join(lines)
        begin = rf"\begin{{tabular}}[b]{{@{{}}{side}@{{}}}}"
        cells.append(rf"{begin}{stack}\end{{tabular}}" if len(lines) > 1 else stack)
    return " & ".join(cells) + r" \\"


def _line(columns: tuple[Column, ...], cells: tuple[str, ...]) -> str:
    return " & ".join(_cell(column, text) for column, text in zip(columns, cells, strict=True)) + r" \\"


def _cell(column: Column, text: str) -> str:
    escaped = escape_latex(text)
    if column.wide:
        breakable = re.sub(r"(?<=[/.,:+])(?=[^ ])", r"\\allowbreak{}", escaped)
        return rf"\raggedright\let\\\tabularnewline {breakable}"
    return re.sub(r"(?<![\w.])-(?=\d)", "$-$", escaped) if column.numeric else escaped


def _alignment(shown: Display, layout: Layout) -> str:
    text = rf"p{{{layout.text_share:g}\linewidth}}"
    return "".join(text if c.wide else "r" if c.numeric else "l" for c in shown.columns)


def _size(layout: Layout) -> list[str]:
    return [layout.size, rf"\setlength{{\tabcolsep}}{{{layout.gap:g}pt}}"] if layout.size else []


def _notes(table: Table) -> list[str]:
    if not table.notes:
        return []
    return [r"\par\smallskip", rf"{{\footnotesize {' '.join(map(escape_latex, table.notes))}\par}}"]
