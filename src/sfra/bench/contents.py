"""What cells say, checked before anything is made of it: a store may be damaged, or come from elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec

from sfra.bench.engine.cell import Cell
from sfra.bench.engine.store import Store
from sfra.core.errors import InputError, SfraError

Number = Annotated[float, msgspec.Meta(ge=-1e300, le=1e300)]
"""Finite; a whole number in JSON may have any number of digits."""

Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]


@dataclass(frozen=True, kw_only=True)
class Origin:
    """Where some content is from, for messages."""

    what: str
    """What it is, such as ``the cell audit of delete 3``."""
    do: str
    """How to get it anew."""

    def refused(self, got: object) -> InputError:
        """Say that it cannot be used."""
        what = f"{self.what} is damaged or incomplete"
        return InputError(what, expected="content as sfra writes it", got=got, do=self.do)

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Turn whatever readers run into, content of a stranger being anything, into one message."""
        try:
            yield
        except SfraError:
            raise
        except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError) as problem:
            raise self.refused(f"{type(problem).__name__}: {problem}") from None


def origin_of(store: Store, cell: Cell | str) -> Origin:
    """Say what to do about a cell that cannot be used."""
    folder = store.folder(cell)
    label = cell if isinstance(cell, str) else cell.label
    return Origin(what=f"the cell {label}", do=f"remove the folder {folder}, then run the benchmark again")


Change = tuple[Any, Number, Number]
"""Of the margin over a competitor: exact and approximate."""


class Bar(msgspec.Struct):
    """A part of a histogram of α."""

    competitor: Count
    count: Count


class Point(msgspec.Struct):
    """A point of a map."""

    space: str
    x: Number
    y: Number
    label: Count
    kind: Literal["real", "probe"]
