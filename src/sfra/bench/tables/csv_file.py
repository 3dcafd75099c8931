"""Tables in CSV: one field per figure, empty where it is missing."""

from __future__ import annotations

import csv
import io

from sfra.bench.tables.table import Table


def to_csv(table: Table) -> str:
    """Write all columns of a table, also those that a reader sees in its title.

    >>> from sfra.bench.tables import Column, Table
    >>> one = Table(title="One", label="one", columns=(Column(names=("a",), heading="A"),), rows=((("1",),),))
    >>> to_csv(one).splitlines()
    ['a', '1']
    """
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, table.names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(table.records)
    return buffer.getvalue()
