"""Tables of diagnostics: alignment, confidence before relearning, and the first step's effect on the margin."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from sfra.bench.tables.columns import BACKBONE, DATASET, FORGET, METHOD, identity, reading
from sfra.bench.tables.format import deviation, fine, mean, percent, score
from sfra.bench.tables.names import Row, forget_of, method_name, method_rank, place
from sfra.bench.tables.stages import group, main_audits
from sfra.bench.tables.table import Cell, Column, Table

Key = tuple[Any, ...]

MODEL = ("dataset", "backbone", "method", "forget")
"""What a line is about; several models of it, by their seeds, are averaged."""

Line = Callable[[Key, Sequence[Row]], tuple[Cell, ...]]


def alignment_table(diagnostics: Sequence[Row], audits: Sequence[Row], *, scale: str, rule: str) -> Table:
    """Show where the mean forget probe lies to the mean real sample, beside RS."""
    scores = {
        key: mean(row["rs"] for row in same)
        for key, same in group(main_audits(audits, scale=scale, rule=rule), *MODEL).items()
    }

    def line(key: Key, rows: Sequence[Row]) -> tuple[Cell, ...]:
        return (score(scores.get(key[:4])),), _over_seeds(rows, "inner"), _over_seeds(rows, "cosine")

    columns = (
        Column(names=("rs",), heading="RS"),
        Column(names=("a_ip", "a_ip_std"), heading="Inner product", style="spread"),
        Column(names=("a_cos", "a_cos_std"), heading="Cosine", style="spread"),
    )
    notes = (
        f"RS: {reading(scale, rule)[0].lower()}{reading(scale, rule)[1:]}",
        "Mean forget probe against mean real feature of the forget class; ± over the seeds of the audit.",
    )
    return _table("Alignment", "alignment", diagnostics, scale, (*MODEL, "forget_class"), columns, line, notes)


def confidence_table(diagnostics: Sequence[Row], *, scale: str) -> Table:
    """Show how sure the released head is of correct retain samples, and of forget samples given to retain classes."""

    def line(key: Key, rows: Sequence[Row]) -> tuple[Cell, ...]:
        names = ("correct_confidence", "assigned_confidence", "gap")
        shares = [row["assigned"] / row["forget_samples"] for row in rows]
        return *((fine(mean(row[name] for row in rows)),) for name in names), (percent(mean(shares)),)

    columns = (
        Column(names=("correct_retain_conf",), heading="Correct retain"),
        Column(names=("forget_assigned_conf",), heading="Assigned forget"),
        Column(names=("gap",), heading="Gap"),
        Column(names=("assigned",), heading="Assigned (%)"),
    )
    notes = (
        "Mean confidence before relearning: of retain samples that are right, and of forget samples that are given to "
        "retain classes; assigned: share of the forget samples that are. avg: over single forget classes.",
    )
    whole = [{**row, "forget_class": None} for row in diagnostics]
    averaged = [{**row, "forget_class": "avg"} for row in _with_several_classes(whole)]
    return _table(
        "Confidence", "confidence", [*whole, *averaged], scale, (*MODEL, "forget_class"), columns, line, notes
    )


def margin_table(diagnostics: Sequence[Row], *, scale: str) -> Table:
    """Show how well alignment stands in for what the first gradient step does to the margin."""

    def line(key: Key, rows: Sequence[Row]) -> tuple[Cell, ...]:
        def share(name: str) -> Cell:
            return (percent(mean(row[name] / row["competitors"] for row in rows)),)

        return (
            (score(mean(row["inner"] for row in rows)),),
            (score(mean(row["alpha_mean"] for row in rows)), score(mean(row["alpha_std"] for row in rows))),
            *((score(mean(row[name] for row in rows)),) for name in ("pearson", "spearman", "slope")),
            (percent(mean(row["sign_agreement"] for row in rows)),),
            share("sufficient"),
            share("rising"),
        )

    columns = (
        Column(names=("a_ip",), heading="Inner product"),
        Column(names=("alpha", "alpha_std"), heading="α", style="spread"),
        Column(names=("pearson",), heading="Pearson"),
        Column(names=("spearman",), heading="Spearman"),
        Column(names=("slope",), heading="Slope"),
        Column(names=("sign_agreement",), heading="Same sign (%)"),
        Column(names=("sufficient",), heading="Sufficient (%)"),
        Column(names=("rising",), heading="Rising (%)"),
    )
    notes = (
        f"Scale {scale}. One gradient step on the forget probes: exact change of the margin through the weight against "
        "alignment, over bootstrap samples and competitors.",
        "Sufficient: share of the retain classes for which alignment alone guarantees a rise; rising: share over which "
        "the margin rises, bias included.",
    )
    return _table("Margin", "margin", diagnostics, scale, (*MODEL, "forget_class"), columns, line, notes)


def _table(
    title: str,
    label: str,
    diagnostics: Iterable[Row],
    scale: str,
    names: tuple[str, ...],
    columns: tuple[Column, ...],
    line: Line,
    notes: tuple[str, ...],
) -> Table:
    """Write a line for each model and forget class at one scale."""
    known = list(diagnostics)
    groups = group([row for row in known if row["scale"] == scale], *names)
    there = sorted({str(row["scale"]) for row in known})
    empty = f"Nothing to show: no diagnostics at scale {scale}; there are: {', '.join(there) or 'none at all'}."
    return Table(
        title=title,
        label=label,
        columns=(DATASET, BACKBONE, METHOD, FORGET, *columns),
        rows=tuple((*_start(key), *line(key, groups[key])) for key in sorted(groups, key=_rank)),
        notes=notes if groups else (empty,),
    )


def _start(key: Key) -> tuple[Cell, ...]:
    dataset, backbone, method, forget, one = key
    whole = "+".join(map(str, forget or ()))
    name = "avg" if one == "avg" else whole if one is None or len(forget) == 1 else f"{one} of {whole}"
    return *identity(dataset, backbone), (method_name(method),), (name,)


def _rank(key: Key) -> tuple[Any, ...]:
    dataset, backbone, method, forget, one = key
    last = (1, 0) if one == "avg" else (0, -1 if one is None else one)
    return *place(dataset, backbone), method_rank(method), last[0], len(forget), forget, last[1]


def _with_several_classes(rows: Sequence[Row]) -> list[Row]:
    """Keep the single forget classes of methods that have two or more, under one name."""
    single = [row for row in rows if len(forget_of(row)) == 1]
    groups = group(single, "dataset", "backbone", "method").values()
    several = [same for same in groups if len({forget_of(row) for row in same}) > 1]
    return [{**row, "forget_classes": [], "forget": ""} for same in several for row in same]


def _over_seeds(rows: Sequence[Row], name: str) -> Cell:
    """Write a mean with its deviation over models, or over the audit seeds of the only one."""
    spread = rows[0][f"{name}_std"] if len(rows) == 1 else deviation(row[name] for row in rows)
    return score(mean(row[name] for row in rows)), score(spread)
