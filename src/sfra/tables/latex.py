r"""Tables in LaTeX, with the rules of ``booktabs``; everything is escaped."""

from __future__ import annotations

import re
import unicodedata
from itertools import pairwise

from sfra.tables.table import Column, Display, Table

PACKAGES = ("booktabs", "longtable")
"""What a document must load."""

PAGE_ROWS = 45
"""Longer tables run over several pages."""

WIDE = 9
"""Tables of more columns are set smaller."""

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
    r"""Write a table as a float, or over several pages when it is long.

    >>> from sfra.tables import Column, Table
    >>> one = Table(title="50 %", label="one", columns=(Column(names=("a",), heading="A"),), rows=((("-1",),),))
    >>> r"\caption{50 \%}" in to_latex(one), r"$-$1 \\" in to_latex(one)
    (True, True)
    """
    shown = table.display()
    if not shown.rows:
        return "".join(f"% {' '.join(line.split())}\n" for line in (table.title, *table.notes))
    body = _long(table, shown) if len(shown.rows) > PAGE_ROWS else _float(table, shown)
    needs = "booktabs, longtable" if len(shown.rows) > PAGE_ROWS else "booktabs"
    return "\n".join([f"% needs {needs}", *body]) + "\n"


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


def _float(table: Table, shown: Display) -> list[str]:
    return [
        r"\begin{table}[htbp]",
        r"\centering",
        rf"\caption{{{escape_latex(shown.title)}}}",
        rf"\label{{tab:{table.label}}}",
        *_size(shown),
        rf"\begin{{tabular}}{{{_alignment(shown)}}}",
        r"\toprule",
        _line(shown.columns, shown.headings),
        r"\midrule",
        *_body(shown),
        r"\bottomrule",
        r"\end{tabular}",
        *_notes(table),
        r"\end{table}",
    ]


def _long(table: Table, shown: Display) -> list[str]:
    head = [r"\toprule", _line(shown.columns, shown.headings), r"\midrule"]
    return [
        r"\begingroup",
        *_size(shown),
        rf"\begin{{longtable}}{{{_alignment(shown)}}}",
        rf"\caption{{{escape_latex(shown.title)}}}\label{{tab:{table.label}}} \\",
        *head,
        r"\endfirsthead",
        *head,
        r"\endhead",
        r"\bottomrule",
        r"\endfoot",
        *_body(shown),
        r"\end{longtable}",
        *_notes(table),
        r"\endgroup",
    ]


def _body(shown: Display) -> list[str]:
    """Write the rows, with a little space where the first column changes, if it has runs at all."""
    firsts = [row[0] for row in shown.rows]
    has_runs = any(one == other for one, other in pairwise(firsts))
    lines = []
    for position, row in enumerate(shown.rows):
        if has_runs and position and row[0] != firsts[position - 1]:
            lines.append(r"\addlinespace")
        lines.append(_line(shown.columns, row))
    return lines


def _line(columns: tuple[Column, ...], cells: tuple[str, ...]) -> str:
    return " & ".join(_cell(column, text) for column, text in zip(columns, cells, strict=True)) + r" \\"


def _cell(column: Column, text: str) -> str:
    escaped = escape_latex(text)
    return re.sub(r"(?<![\w.])-(?=\d)", "$-$", escaped) if column.numeric else escaped


def _alignment(shown: Display) -> str:
    return "".join("p{0.5\\linewidth}" if c.wide else "r" if c.numeric else "l" for c in shown.columns)


def _size(shown: Display) -> list[str]:
    return [r"\footnotesize", r"\setlength{\tabcolsep}{3pt}"] if len(shown.columns) > WIDE else []


def _notes(table: Table) -> list[str]:
    if not table.notes:
        return []
    return [r"\par\smallskip", rf"{{\footnotesize {' '.join(map(escape_latex, table.notes))}\par}}"]
