"""Columns that several tables share, and the notes that go with them."""

from __future__ import annotations

from collections.abc import Iterable

from sfra.bench.tables.names import Row, backbone_name, dataset_name
from sfra.bench.tables.table import Cell, Column

DATASET = Column(names=("dataset",), heading="Data", numeric=False, fold=True)
BACKBONE = Column(names=("backbone",), heading="Backbone", numeric=False, fold=True)
METHOD = Column(names=("method",), heading="Method", numeric=False)
FORGET = Column(names=("forget_class",), heading="Forget class")
STAGE = Column(
    names=("variant",),
    heading="Stage",
    numeric=False,
    words=(("pra", "PRA"), ("sfra", "SFRA"), ("linear_probe", "linear probe")),
)
RETAIN = Column(names=("retain_acc",), heading="Retain (%)")
FORGOTTEN = Column(names=("forget_acc",), heading="Forget (%)")
RETAIN_SPREAD = Column(names=("retain_acc_mean", "retain_acc_std"), heading="Retain (%)", style="spread")
FORGET_RANGE = Column(
    names=("forget_acc_min", "forget_acc_mean", "forget_acc_max"), heading="Forget (%): min, mean, max", style="triple"
)
RS = Column(names=("rs", "rs_std"), heading="RS", style="spread")
DELTA = Column(names=("delta_rs",), heading="ΔRS")
CLASSES = Column(names=("classes",), heading="Classes")


def identity(dataset: str, backbone: str) -> tuple[Cell, Cell]:
    """Write where a line belongs."""
    return (dataset_name(dataset),), (backbone_name(backbone),)


def reading(scale: str, rule: str) -> str:
    """Say which reading of the audits a table shows."""
    best = {
        "worst-case": "best epoch on the test data itself, an upper bound",
        "validation": "best epoch on a validation split",
        "source-free": "last epoch",
    }
    return f"Scale {scale}; rule {rule} ({best[rule]})." if rule in best else f"Scale {scale}; rule {rule}."


def nothing(what: str, rows: Iterable[Row], scale: str, rule: str) -> tuple[str, ...]:
    """Say why a table is empty, and which readings there would be."""
    there = sorted({(str(row["scale"]), str(row["rule"])) for row in rows})
    listed = "; there are: " + ", ".join(f"{s}/{r}" for s, r in there) if there else "; there are no audits at all"
    return (f"Nothing to show: no {what} at scale {scale} under rule {rule}{listed}.",)
