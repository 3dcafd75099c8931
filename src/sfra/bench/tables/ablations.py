"""Tables of audits with one setting varied: proposals, scores, support of the proposals, and the missing row."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sfra.bench.tables.columns import (
    BACKBONE,
    DATASET,
    FORGET,
    FORGOTTEN,
    METHOD,
    RETAIN,
    RS,
    identity,
    nothing,
    reading,
)
from sfra.bench.tables.format import count, deviation, mean, millions, percent, score, seconds
from sfra.bench.tables.names import Row, forget_name, forget_of, level_rank, method_name, method_rank, place
from sfra.bench.tables.stages import group, select, spread
from sfra.bench.tables.table import Cell, Column, Table

SETTINGS = ("proposal", "score", "assignment", "n", "m", "epochs")
"""What must be equal for audits to differ in one thing only."""

NON_NEGATIVE = ("relu-gaussian", "abs-gaussian")
"""Proposals with a support of their own, compared in a table of their own."""

FRESH = {"released": "unlearned", "reset-row": "reset", "restored-row": "random"}
"""How the forget row of each variant came about: as released, drawn anew, or drawn because it was missing."""


def distributions_table(audits: Sequence[Row], *, scale: str, rule: str) -> Table:
    """Compare the proposal distributions that probes are drawn from: RS per forget class."""
    rows = [row for row in audits if row.get("proposal") not in NON_NEGATIVE]
    heading = Column(names=("distribution",), heading="Distribution", numeric=False)
    return _factor_table(rows, "proposal", heading, "Proposal distributions", "distributions", scale, rule)


def scores_table(audits: Sequence[Row], *, scale: str, rule: str) -> Table:
    """Compare the uncertainty scores that rank the candidates: RS per forget class."""
    heading = Column(names=("score",), heading="Score", numeric=False)
    return _factor_table(audits, "score", heading, "Uncertainty scores", "scores", scale, rule)


def support_table(audits: Sequence[Row], *, scale: str, rule: str) -> Table:
    """Compare signed and non-negative proposals: what comes back, what it costs and where the probes lie."""
    rows = [
        row
        for row in select(audits, scale=scale, rule=rule)
        if row.get("proposal") in ("gaussian", *NON_NEGATIVE) and row.get("support")
    ]
    compared = [row for same in _comparable(rows, "proposal") for row in same]
    lines = _sorted(group(_distinct(compared, "proposal"), "dataset", "backbone", "method", "forget", "proposal"))
    columns = (
        *(DATASET, BACKBONE, METHOD, FORGET),
        Column(names=("proposal",), heading="Proposal", numeric=False),
        *(RETAIN, FORGOTTEN, RS),
        Column(names=("draws_m",), heading="Draws (M)"),
        Column(names=("time_s",), heading="Time (s)"),
        Column(names=("neg_coord",), heading="Negative (%)"),
        Column(names=("zero_coord",), heading="Zero (%)"),
        Column(names=("nonneg_vectors",), heading="Non-negative vectors (%)"),
        Column(names=("mean_l2",), heading="Mean norm"),
    )
    notes = (reading(scale, rule), "Draws and time are those of the probes alone.")
    return Table(
        title="Support of the proposals",
        label="support",
        columns=columns,
        rows=tuple(_support_line(key, same) for key, same in lines),
        notes=notes if lines else nothing("audits with two or more of these proposals", audits, scale, rule),
    )


def missing_row_table(audits: Sequence[Row], *, scale: str, rule: str) -> Table:
    """Compare the forget row as released with one drawn anew, as for a model that was released without it."""
    rows = _like_main(select(audits, scale=scale, rule=rule, variant=None))
    fresh = {_model(row) for row in rows if row["variant"] in FRESH and row["variant"] != "released"}
    compared = [row for row in rows if _model(row) in fresh and row["variant"] in FRESH]
    lines = _sorted(group(_distinct(compared, "variant"), "dataset", "backbone", "method", "forget", "variant"))
    columns = (
        *(DATASET, BACKBONE, METHOD, FORGET),
        Column(names=("row",), heading="Forget row", numeric=False),
        *(RETAIN, Column(names=("forget_acc_before",), heading="Forget before (%)"), FORGOTTEN, RS),
    )
    notes = (
        reading(scale, rule),
        "Forget row: unlearned = as released; reset = drawn anew; random = drawn for a head that lacks it.",
    )
    return Table(
        title="Missing forget row",
        label="missing-row",
        columns=columns,
        rows=tuple(_row_line(key, same) for key, same in lines),
        notes=notes if lines else nothing("audit with a forget row drawn anew", audits, scale, rule),
    )


def _factor_table(
    audits: Sequence[Row], factor: str, heading: Column, title: str, label: str, scale: str, rule: str
) -> Table:
    """Show RS of each forget class, one line per method and value of the factor, and the mean over classes."""
    compared = _comparable(select(audits, scale=scale, rule=rule), factor)
    forgets = sorted({forget_of(row) for same in compared for row in same}, key=lambda f: (len(f), f))
    lines = [line for same in compared for line in _factor_lines(same, factor, forgets)]
    lines.sort(key=lambda line: line[0])
    columns = (
        *(
            DATASET,
            BACKBONE,
            Column(names=("n",), heading="N", fold=True, title="N = {}"),
            Column(names=("m",), heading="M", fold=True, title="M = {}"),
        ),
        *(METHOD, heading),
        *(_class_column("+".join(map(str, forget))) for forget in forgets),
        _class_column("avg"),
    )
    notes = (reading(scale, rule), "RS of each forget class; ± over the seeds of the audit; avg = mean over classes.")
    return Table(
        title=title,
        label=label,
        columns=columns,
        rows=tuple(line for _, line in lines),
        notes=notes if lines else nothing(f"audits that differ in their {factor} alone", audits, scale, rule),
    )


def _factor_lines(
    rows: Sequence[Row], factor: str, forgets: Sequence[tuple[int, ...]]
) -> list[tuple[tuple[Any, ...], tuple[Cell, ...]]]:
    lines = []
    for (dataset, backbone, n, m, method, level), same in group(
        _distinct(rows, factor), "dataset", "backbone", "n", "m", "method", factor
    ).items():
        by_class = group(same, "forget")
        means = [mean(row["rs"] for row in by_class.get((forget,), [])) for forget in forgets]
        spreads = [spread(by_class[(forget,)]) if (forget,) in by_class else None for forget in forgets]
        start = (*identity(dataset, backbone), (count(n),), (count(m),), (method_name(method),), (str(level),))
        cells = [(score(a), score(b)) for a, b in zip(means, spreads, strict=True)]
        rank = (*place(dataset, backbone), n or 0, m or 0, method_rank(method), level_rank(str(level)))
        lines.append((rank, (*start, *cells, (score(mean(means)), score(deviation(means))))))
    return lines


def _class_column(name: str) -> Column:
    return Column(names=(f"rs_{name}", f"rs_{name}_std"), heading=name, style="spread")


def _comparable(rows: Iterable[Row], factor: str) -> list[list[Row]]:
    """Gather audits that agree in every setting but one, and of which there are two values or more."""
    held = [name for name in SETTINGS if name != factor]
    groups = group([row for row in rows if row.get(factor) is not None], "dataset", "backbone", *held)
    return [same for same in groups.values() if len({row[factor] for row in same}) > 1]


def _distinct(rows: Iterable[Row], factor: str) -> list[Row]:
    """Keep one row of each model and value, that of the ablation itself before others with the same settings."""
    found: dict[tuple[Any, ...], Row] = {}
    for row in sorted(rows, key=lambda row: factor not in (row.get("varied") or {})):
        found.setdefault((_model(row), *(row.get(name) for name in (*SETTINGS, factor))), row)
    return list(found.values())


def _like_main(rows: Sequence[Row]) -> list[Row]:
    """Keep the audits with the settings of the main audit of their model; all of a model that has none."""
    main = {_model(row): _settings(row) for row in rows if row.get("audit", "main") == "main"}
    return [row for row in rows if main.get(_model(row), _settings(row)) == _settings(row)]


def _settings(row: Row) -> tuple[Any, ...]:
    return tuple(row.get(name) for name in SETTINGS)


def _model(row: Row) -> tuple[Any, ...]:
    return row["dataset"], row["backbone"], row.get("seed"), row["method"], forget_name(row)


def _sorted(groups: dict[tuple[Any, ...], list[Row]]) -> list[tuple[tuple[Any, ...], list[Row]]]:
    order = list(FRESH)

    def rank(key: tuple[Any, ...]) -> tuple[Any, ...]:
        dataset, backbone, method, forget, level = key
        last = (order.index(level), "") if level in order else level_rank(level)
        return *place(dataset, backbone), method_rank(method), len(forget), forget, last

    return sorted(groups.items(), key=lambda item: rank(item[0]))


def _start(key: tuple[Any, ...]) -> tuple[Cell, ...]:
    dataset, backbone, method, forget, _ = key
    return *identity(dataset, backbone), (method_name(method),), ("+".join(map(str, forget)),)


def _support_line(key: tuple[Any, ...], rows: Sequence[Row]) -> tuple[Cell, ...]:
    def share(name: str) -> Cell:
        return (percent(mean(row["support"].get(name) for row in rows)),)

    return (
        *_start(key),
        (str(key[-1]),),
        *_after(rows),
        (millions(mean(row.get("draws") for row in rows)),),
        (seconds(mean(row.get("probe_seconds") for row in rows)),),
        share("negative_coordinates"),
        share("zero_coordinates"),
        share("nonnegative_vectors"),
        (score(mean(row["support"].get("mean_norm") for row in rows)),),
    )


def _row_line(key: tuple[Any, ...], rows: Sequence[Row]) -> tuple[Cell, ...]:
    retain, forgotten, rs = _after(rows)
    before = (percent(mean(row["forget_before"] for row in rows)),)
    return *_start(key), (FRESH[key[-1]],), retain, before, forgotten, rs


def _after(rows: Sequence[Row]) -> tuple[Cell, Cell, Cell]:
    return (
        (percent(mean(row["retain_after"] for row in rows)),),
        (percent(mean(row["forget_after"] for row in rows)),),
        (score(mean(row["rs"] for row in rows)), score(spread(rows))),
    )
