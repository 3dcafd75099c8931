"""Tables of the terminal, readable at 80 columns and without colour."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from rich.table import Table
from rich.text import Text

from sfra.core.errors import printable

NONE = "-"
"""Stands for a number that was not measured."""

GRADES = {"critical": "bold red", "warning": "yellow", "info": "cyan"}
"""Colours of the severities; the words say the same."""


def plain(text: object) -> str:
    """Make text that came out of a file safe to print: one line, no control characters.

    >>> plain("cat" + chr(27) + "[2J")
    'cat?[2J'
    """
    return printable(" ".join(str(text).split()))


def percent(fraction: float | None) -> str:
    """Write an accuracy in percent.

    >>> percent(0.9385)
    '93.9 %'
    """
    return NONE if fraction is None else f"{100 * fraction:.1f} %"


def number(value: float | None) -> str:
    """Write a score."""
    return NONE if value is None else f"{value:.3f}"


def signed(value: float | None) -> str:
    """Write a difference of scores."""
    return NONE if value is None else f"{value:+z.3f}"


def points(before: float | None, after: float | None) -> str:
    """Write a difference of accuracies."""
    return NONE if before is None or after is None else f"{100 * (after - before):+z.1f} points"


def accuracy_table(retain: Mapping[str, float | None], forget: Mapping[str, float | None], forgotten: int = 1) -> Table:
    """Show accuracies before and after relearning."""
    table = _table("Accuracy", "", "before", "after", "")
    gone = "forgotten class" if forgotten == 1 else f"{forgotten} forgotten classes"
    for name, what, row in (("retain", "the other classes", retain), ("forget", gone, forget)):
        before, after = row["before"], row["after"]
        table.add_row(name, what, percent(before), percent(after), points(before, after))
    return table


def results_table(rows: Sequence[Mapping[str, Any]], chosen: tuple[str, str, str]) -> Table:
    """Show readings, the one of the verdict marked; a scale and variant is written once."""
    table = _table("", "Scale", "Forget row", "Rule", "RS", "ΔRS", "retain", "forget", "epoch", left=4)
    last: tuple[str, str] | None = None
    for row in rows:
        setting = (row["scale"], row["variant"])
        mark = "*" if (*setting, row["rule"]) == chosen else ""
        names = setting if setting != last else ("", "")
        table.add_row(mark, *names, row["rule"], *_scores(row), span(row["epochs"]))
        last = setting
    return table


def sweep_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Show the curve over the scales."""
    table = _table("Scale κ", "RS", "reference RS", "ΔRS", "retain", "forget", left=1)
    for row in rows:
        rs, delta, retain, forget = _scores(row)
        table.add_row(f"{row['kappa']:.2f}", rs, number(row["reference_rs"]), delta, retain, forget)
    return table


def findings_table(findings: Sequence[Any]) -> Table:
    """Show findings with their severity, code and message, in the order given."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for finding in findings:
        grade = GRADES[finding.severity]
        table.add_row(Text(finding.severity, style=grade), Text(finding.code, style="bold"))
        table.add_row("", Text(plain(finding.message)))
    return table


def demo_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Show the models of the demonstration side by side."""
    accuracies = ("retain_before", "retain_after", "forget_before", "forget_after")
    pairs = ("retain\nbefore", "\nafter", "forget\nbefore", "\nafter")
    table = _table("\nModel", *pairs, "\nRS", "\nΔRS", "\nVerdict", left=1)
    table.columns[-1].justify = "left"
    for row in rows:
        shares = (percent(row[name]).removesuffix(" %") for name in accuracies)
        table.add_row(plain(row["model"]), *shares, number(row["rs"]), signed(row["delta_rs"]), plain(row["verdict"]))
    return table


def span(epochs: Sequence[int]) -> str:
    """Write the epochs of several seeds.

    >>> span([100, 100]), span([7, 31, 12])
    ('100', '7-31')
    """
    low, high = min(epochs), max(epochs)
    return str(low) if low == high else f"{low}-{high}"


def _scores(row: Mapping[str, Any]) -> tuple[str, str, str, str]:
    return number(row["rs"]), signed(row["delta_rs"]), percent(row["retain_after"]), percent(row["forget_after"])


def _table(*headers: str, left: int = 2) -> Table:
    """Make a table without lines whose first columns are text and whose others are numbers."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for position, header in enumerate(headers):
        justify: Literal["left", "right"] = "left" if position < left else "right"
        table.add_column(header, justify=justify, no_wrap=position >= left, overflow="fold")
    return table
