"""How figures are written, the columns that several tables share, and the notes that go with them."""

from __future__ import annotations

import math
from collections.abc import Callable

from sfra.auditing.rules import RULES
from sfra.bench.tables.names import backbone_name, dataset_name, method_name
from sfra.bench.tables.table import Column

Number = float | int
Write = Callable[[Number | None], str | None]


def decimals(digits: int, factor: Number = 1) -> Write:
    """Write numbers with a fixed number of decimals, never as minus zero; a missing one stays missing.

    >>> score(0.987), score(-0.001), percent(0.9465), percent(None)
    ('0.99', '0.00', '94.65', None)
    """

    def write(value: Number | None) -> str | None:
        return None if value is None or math.isnan(value) else f"{factor * value:z.{digits}f}"

    return write


percent, score, fine, count = decimals(2, 100), decimals(2), decimals(3), decimals(0)


def millions(value: Number | None) -> str | None:
    """Write a count in millions with two decimals."""
    return score(None if value is None else value / 1e6)


def seconds(value: Number | None) -> str | None:
    """Write a duration: two decimals, but whole from 100 on and two significant digits below 1.

    >>> seconds(204.3), seconds(12.345), seconds(0.00512)
    ('204', '12.35', '0.0051')
    """
    if value is None or math.isnan(value):
        return None
    return f"{value:.0f}" if value >= 100 else f"{value:.2f}" if value >= 1 else f"{value:.2g}"


DATASET = Column(names=("dataset",), heading="Data", numeric=False, fold=True, write=dataset_name)
BACKBONE = Column(names=("backbone",), heading="Backbone", numeric=False, fold=True, write=backbone_name)
METHOD = Column(names=("method",), heading="Method", numeric=False, write=method_name)
FORGET = Column(names=("forget_class",), heading="Forget class")
STAGE = Column(
    names=("variant",),
    heading="Stage",
    numeric=False,
    words=(("pra", "PRA"), ("sfra", "SFRA"), ("linear_probe", "linear probe")),
)
RETAIN = Column(names=("retain_acc",), heading="Retain (%)", write=percent)
FORGOTTEN = Column(names=("forget_acc",), heading="Forget (%)", write=percent)
RETAIN_SPREAD = Column(names=("retain_acc_mean", "retain_acc_std"), heading="Retain (%)", style="spread", write=percent)
FORGET_RANGE = Column(
    names=("forget_acc_min", "forget_acc_mean", "forget_acc_max"),
    heading="Forget (%): min, mean, max",
    style="triple",
    write=percent,
)
RS = Column(names=("rs", "rs_std"), heading="RS", style="spread", write=score)
DELTA = Column(names=("delta_rs",), heading="ΔRS", write=score)
CLASSES, N, M = (Column(names=(name.lower(),), heading=name, write=count) for name in ("Classes", "N", "M"))
PLACE = (DATASET, BACKBONE)
AFTER = (RETAIN, FORGOTTEN, RS)


def figure(name: str, heading: str, write: Write = score) -> Column:
    """Make a column of one figure."""
    return Column(names=(name,), heading=heading, write=write)


def word(name: str, heading: str) -> Column:
    """Make a column of words."""
    return Column(names=(name,), heading=heading, numeric=False)


def reading(scale: str, rule: str) -> str:
    """Say which scores of the audits a table shows."""
    known = f" ({RULES[rule].sentence})" if rule in RULES else ""
    return f"Scale {scale}; rule {rule}{known}."
