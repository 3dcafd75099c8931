"""What cells say, checked before anything is made of it: a store may be damaged, or come from elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sfra.bench.engine.cell import Cell
from sfra.bench.engine.store import Store
from sfra.core.errors import InputError, SfraError

LARGEST = 1e300
"""No measured number is larger; a whole number in JSON may have any number of digits."""

Kind = tuple[Callable[[Any], bool], str]
"""A test of a value, and what passes it in words."""


@dataclass(frozen=True, kw_only=True)
class Origin:
    """Where some content is from, for messages."""

    what: str
    """What it is, such as ``the cell audit of delete 3``."""
    do: str
    """How to get it anew."""

    def refused(self, got: object, expected: str = "content as sfra writes it") -> InputError:
        """Say that it cannot be used."""
        return InputError(f"{self.what} is damaged or incomplete", expected=expected, got=got, do=self.do)

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Turn whatever readers run into, content of a stranger being anything, into one message."""
        try:
            yield
        except SfraError:
            raise
        except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError) as problem:
            raise self.refused(f"{type(problem).__name__}: {problem}") from None

    def check(self, row: Mapping[str, Any], kinds: Mapping[str, Kind]) -> None:
        """Refuse a row that lacks a value, or has one of the wrong kind."""
        for name, (fits, words) in kinds.items():
            if name not in row or not fits(row[name]):
                raise self.refused(repr(row[name])[:80] if name in row else "nothing", f"{words} as {name}")


def origin_of(store: Store, cell: Cell | str) -> Origin:
    """Say what to do about a cell that cannot be used."""
    folder = store.folder(cell)
    label = cell if isinstance(cell, str) else cell.label
    return Origin(what=f"the cell {label}", do=f"remove the folder {folder}, then run the benchmark again")


def _is_number(value: object) -> bool:
    """Say whether this is a finite number; JSON as Python reads it has others too."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= LARGEST


NUMBER: Kind = (_is_number, "a number")
COUNT: Kind = (lambda value: isinstance(value, int) and _is_number(value) and value >= 0, "a whole number from 0")

PAIR = {"exact": NUMBER, "approximate": NUMBER}
"""Of the change of a margin."""

BAR = {"competitor": COUNT, "count": COUNT}
"""Of a histogram of α."""

POINT = {
    "space": (lambda value: isinstance(value, str), "text"),
    "x": NUMBER,
    "y": NUMBER,
    "label": COUNT,
    "kind": (lambda value: value in ("real", "probe"), "real or probe"),
}
"""Of a map."""
