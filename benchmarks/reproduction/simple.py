"""Tables of a label and numbers, and how numbers are written in them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from sfra.bench.tables import Column, Table
from sfra.bench.tables.names import method_name

Text = str | None


def simple_table(
    label: str, title: str, columns: Mapping[str, str], rows: Iterable[Sequence[Text]], notes: Sequence[str] = ()
) -> Table:
    """Make a table from text; the first column is a name, the others are numbers.

    Args:
        label: Short name, of its files.
        title: Caption.
        columns: Heading by name in CSV.
        rows: What the columns hold; None for what is missing.
        notes: What a reader must know.
    """
    made = tuple(
        Column(names=(name,), heading=heading, numeric=i > 0) for i, (name, heading) in enumerate(columns.items())
    )
    return Table(
        title=title, label=label, columns=made, rows=tuple(tuple((t,) for t in row) for row in rows), notes=tuple(notes)
    )


def score(value: float | None, digits: int = 2) -> Text:
    """Write a score.

    >>> score(0.956), score(None)
    ('0.96', None)
    """
    return None if value is None else f"{value:.{digits}f}"


def signed(value: float | None, digits: int = 2) -> Text:
    """Write a difference with its sign, and none at zero.

    >>> signed(0.126), signed(-0.001)
    ('+0.13', '0.00')
    """
    if value is None:
        return None
    text = f"{value:+.{digits}f}"
    return text[1:] if float(text) == 0 else text.replace("-", "−")


def goes(before: float, after: float, verb: str = "goes ") -> str:
    """Write how a score changes.

    >>> goes(0.153, 0.162), goes(0.153, 0.147, "")
    ('goes from 0.15 to 0.16', 'stays at 0.15')
    """
    ends = [score(value) for value in (before, after)]
    return f"{verb}from {ends[0]} to {ends[1]}" if ends[0] != ends[1] else f"stays at {ends[0]}"


def percent(value: float | None, digits: int = 1) -> Text:
    """Write a fraction in percent, without the sign.

    >>> percent(0.0764)
    '7.6'
    """
    return None if value is None else f"{100 * value:.{digits}f}"


def joined(parts: Sequence[str]) -> str:
    """Write a list in a sentence.

    >>> joined(["0", "10", "20"]), joined(["0"])
    ('0, 10 and 20', '0')
    """
    return " and ".join([", ".join(parts[:-1]), parts[-1]]) if len(parts) > 1 else "".join(parts)


def number(count: int, what: str = "") -> str:
    """Count in a sentence, in a word where it is a small number, and things where they are named.

    >>> number(1, "class"), number(3, "drop"), number(12, "model"), number(2)
    ('one class', 'three drops', '12 models', 'two')
    """
    words = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
    many = f"{what}{'es' if what.endswith('s') else 's'}" if what else ""
    return f"{words[count] if count < len(words) else count} {what if count == 1 else many}".strip()


def trainings(seeds: int) -> str:
    """Say how many training seeds there are, and what a single one means.

    >>> trainings(3)
    'Training seeds: 3.'
    """
    if seeds > 1:
        return f"Training seeds: {seeds}."
    return "One training seed, so differences between the models of a method are differences between classes."


def listed(methods: Sequence[str]) -> str:
    """Name methods in a sentence.

    >>> listed(["delete", "salun", "scrub"])
    'DELETE, SalUn and SCRUB'
    """
    return joined([method_name(method) for method in methods])
