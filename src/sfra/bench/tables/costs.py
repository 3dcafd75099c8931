"""Tables about the run itself: cost of the probes, settings, and what failed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sfra.bench.tables.columns import BACKBONE, DATASET, METHOD, identity, nothing
from sfra.bench.tables.format import count, deviation, mean, millions, seconds, words
from sfra.bench.tables.names import Row, forget_of, method_name, method_rank, place
from sfra.bench.tables.stages import group, main_audits
from sfra.bench.tables.table import Cell, Column, Table

N = Column(names=("n",), heading="N")
M = Column(names=("m",), heading="M")
SETTINGS = (("single_class", "one class"), ("multi_class", "several classes"))
"""What a reader sees of the two settings."""


def probe_cost_table(audits: Sequence[Row], *, scale: str, rule: str) -> Table:
    """Show what it takes to draw the probes of one audit seed: raw draws and seconds, mean over forget sets."""
    groups = group(main_audits(audits, scale=scale, rule=rule), "dataset", "backbone", "n", "m", "method")
    ordered = sorted(groups, key=lambda k: (*place(k[0], k[1]), k[2] or 0, k[3] or 0, method_rank(k[4])))
    columns = (
        *(DATASET, BACKBONE, METHOD, N, M),
        Column(names=("draws_m",), heading="Draws (M)"),
        Column(names=("seconds", "seconds_std"), heading="Time (s)", style="spread"),
    )
    notes = (f"Probes alone, scale {scale}; mean ± standard deviation over forget sets.",)
    return Table(
        title="Cost of the probes",
        label="probe-cost",
        columns=columns,
        rows=tuple(_cost_line(key, groups[key]) for key in ordered),
        notes=notes if ordered else nothing("audit", audits, scale, rule),
    )


def settings_table(audits: Sequence[Row]) -> Table:
    """List the settings of the main audits, and the forget sets that each was used for."""
    rows = [{**row, "setting": _setting(row)} for row in audits if row.get("audit", "main") == "main"]
    names = ("setting", "dataset", "backbone", "n", "m", "proposal", "score", "assignment", "epochs", "seeds")
    groups = group(rows, *names)
    ordered = sorted(groups, key=lambda k: (k[0] != "single_class", *place(k[1], k[2]), str(k[3:])))
    words_of = {"proposal": "Proposal", "score": "Score", "assignment": "Assignment"}
    columns = (
        Column(names=("setting",), heading="Setting", numeric=False, words=SETTINGS),
        *(DATASET, BACKBONE, N, M),
        *(Column(names=(name,), heading=heading, numeric=False, fold=True) for name, heading in words_of.items()),
        Column(names=("epochs",), heading="Epochs"),
        Column(names=("seeds",), heading="Seeds"),
        Column(names=("forget",), heading="Forget classes", numeric=False, wide=True),
    )
    return Table(
        title="Settings of the audits",
        label="settings",
        columns=columns,
        rows=tuple(_settings_line(key, groups[key]) for key in ordered),
        notes=() if ordered else ("Nothing to show: there are no audits at all.",),
    )


def failures_table(failures: Sequence[Row]) -> Table:
    """List what failed and why."""
    columns = (
        Column(names=("label",), heading="What", numeric=False),
        Column(names=("kind",), heading="Kind", numeric=False),
        Column(names=("message",), heading="Message", numeric=False, wide=True),
    )
    return Table(
        title="Failures",
        label="failures",
        columns=columns,
        rows=tuple(tuple((words(row.get(name)),) for name in ("label", "kind", "message")) for row in failures),
        notes=() if failures else ("Nothing failed.",),
    )


def _cost_line(key: tuple[Any, ...], rows: Sequence[Row]) -> tuple[Cell, ...]:
    dataset, backbone, n, m, method = key
    times = [mean(row.get("probe_seconds") for row in same) for same in group(rows, "forget").values()]
    return (
        *identity(dataset, backbone),
        (method_name(method),),
        (count(n),),
        (count(m),),
        (millions(mean(row.get("draws") for row in rows)),),
        (seconds(mean(times)), seconds(deviation(times))),
    )


def _settings_line(key: tuple[Any, ...], rows: Sequence[Row]) -> tuple[Cell, ...]:
    setting, dataset, backbone, n, m, proposal, score, assignment, epochs, seeds = key
    forgets = sorted({forget_of(row) for row in rows}, key=lambda f: (len(f), f))
    return (
        (setting,),
        *identity(dataset, backbone),
        (count(n),),
        (count(m),),
        *((words(word),) for word in (proposal, score, assignment)),
        (count(epochs),),
        (count(seeds),),
        (", ".join("+".join(map(str, forget)) for forget in forgets),),
    )


def _setting(row: Row) -> str:
    return "single_class" if len(forget_of(row)) == 1 else "multi_class"
