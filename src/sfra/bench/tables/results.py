"""The main tables: methods before and after each audit, over forget classes, per class, and for several at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sfra.bench.tables.columns import (
    BACKBONE,
    CLASSES,
    DATASET,
    DELTA,
    FORGET,
    FORGET_RANGE,
    FORGOTTEN,
    METHOD,
    RETAIN,
    RETAIN_SPREAD,
    RS,
    STAGE,
    identity,
    nothing,
    reading,
)
from sfra.bench.tables.format import count, mean, percent, present, score
from sfra.bench.tables.names import Row, forget_of, method_name, method_rank, place
from sfra.bench.tables.stages import Stage, main_audits, stages_of
from sfra.bench.tables.table import Cell, Column, Table
from sfra.core.metrics import aggregate_classes
from sfra.unlearn.quality import aus

INDEPENDENT = "Maxima of RS and ΔRS are taken over the forget classes independently of each other."


def summary_table(
    audits: Sequence[Row], pra: Sequence[Row] = (), *, scale: str, rule: str, pra_variant: str = "cosine"
) -> Table:
    """Aggregate over single forget classes: per method unlearned, after PRA and after SFRA.

    Retain accuracy mean ± sample standard deviation (n - 1), forget accuracy (min, mean, max), highest RS, highest ΔRS.
    """
    stages = [s for s in _stages(audits, pra, (), scale, rule, pra_variant) if len(s.forget) == 1]
    lines: dict[tuple[str, ...], list[Stage]] = {}
    for stage in stages:
        lines.setdefault((stage.dataset, stage.backbone, stage.method, stage.variant), []).append(stage)
    ordered = sorted(lines.values(), key=lambda line: (*line[0].rank[:3], line[0].rank[-1]))
    columns = (
        *(DATASET, BACKBONE, METHOD, STAGE, RETAIN_SPREAD, FORGET_RANGE),
        Column(names=("rs_max",), heading="max RS"),
        Column(names=("delta_rs_max",), heading="max ΔRS"),
        CLASSES,
    )
    notes = (reading(scale, rule), INDEPENDENT, *_averaging(pra, pra_variant))
    return Table(
        title="Recovery over single forget classes",
        label="summary",
        columns=columns,
        rows=tuple(_summary_line(line) for line in ordered),
        notes=notes if ordered else nothing("audit of a single forget class", audits, scale, rule),
    )


def per_class_table(
    audits: Sequence[Row],
    pra: Sequence[Row] = (),
    probes: Sequence[Row] = (),
    *,
    scale: str,
    rule: str,
    pra_variant: str = "cosine",
) -> Table:
    """List every single forget class: unlearned, after PRA, after SFRA, and the linear probe."""
    stages = [s for s in _stages(audits, pra, probes, scale, rule, pra_variant) if len(s.forget) == 1]
    notes = (reading(scale, rule), *_averaging(pra, pra_variant))
    return Table(
        title="Every forget class",
        label="per-class",
        columns=(DATASET, BACKBONE, METHOD, FORGET, STAGE, RETAIN, FORGOTTEN, RS, DELTA),
        rows=tuple(_line(stage, (str(stage.forget[0]),)) for stage in stages),
        notes=notes if stages else nothing("audit of a single forget class", audits, scale, rule),
    )


def multi_class_table(
    audits: Sequence[Row],
    pra: Sequence[Row] = (),
    probes: Sequence[Row] = (),
    *,
    scale: str,
    rule: str,
    pra_variant: str = "cosine",
) -> Table:
    """List every set of two or more forget classes."""
    stages = [s for s in _stages(audits, pra, probes, scale, rule, pra_variant) if len(s.forget) > 1]
    stages.sort(key=lambda s: (*place(s.dataset, s.backbone), len(s.forget), s.forget, s.rank))
    number = Column(names=("num_forget",), heading="Classes", fold=True, title="")
    classes = Column(names=("forget_classes",), heading="Forget classes", numeric=False, fold=True, title="classes {}")
    notes = (reading(scale, rule), *_averaging(pra, pra_variant))
    return Table(
        title="Several classes forgotten at once",
        label="multi-class",
        columns=(DATASET, BACKBONE, number, classes, METHOD, STAGE, RETAIN, FORGOTTEN, RS, DELTA),
        rows=tuple(_line(s, (str(len(s.forget)),), ("+".join(map(str, s.forget)),)) for s in stages),
        notes=notes if stages else nothing("audit of several forget classes", audits, scale, rule),
    )


def unlearning_quality_table(audits: Sequence[Row], *, scale: str, rule: str) -> Table:
    """Show how well each method unlearned, before any audit: accuracies and their adaptive unlearning score."""
    groups: dict[tuple[str, str, int, str], list[Row]] = {}
    for row in main_audits(audits, scale=scale, rule=rule):
        groups.setdefault((row["dataset"], row["backbone"], len(forget_of(row)), row["method"]), []).append(row)
    ordered = sorted(groups, key=lambda key: (*place(key[0], key[1]), key[2], method_rank(key[3])))
    columns = (
        *(
            DATASET,
            BACKBONE,
            Column(names=("num_forget",), heading="Classes at once", fold=True, title="classes forgotten at once: {}"),
            METHOD,
        ),
        Column(names=("retain_acc_original",), heading="Original retain (%)"),
        *(RETAIN_SPREAD, FORGET_RANGE),
        Column(names=("aus",), heading="AUS"),
        Column(names=("models",), heading="Models"),
    )
    notes = ("AUS = (1 - (original retain accuracy - retain accuracy)) / (1 + forget accuracy), mean over models.",)
    return Table(
        title="Quality of unlearning",
        label="unlearning-quality",
        columns=columns,
        rows=tuple(_quality_line(*key, groups[key]) for key in ordered),
        notes=notes if ordered else nothing("audit", audits, scale, rule),
    )


def _averaging(pra: Sequence[Row], variant: str) -> tuple[str, ...]:
    """Say what the figures are means of; PRA only where there is any."""
    if not pra:
        return ("Several models of a class are averaged.",)
    return (f"PRA: {variant}.", "Several models of a class, and several draws of PRA's samples, are averaged.")


def _stages(
    audits: Iterable[Row], pra: Iterable[Row], probes: Iterable[Row], scale: str, rule: str, pra_variant: str
) -> list[Stage]:
    return stages_of(audits, pra, probes, scale=scale, rule=rule, pra_variant=pra_variant)


def _summary_line(line: Sequence[Stage]) -> tuple[Cell, ...]:
    first, known = line[0], [s for s in line if s.retain is not None and s.forgotten is not None]
    start = (*identity(first.dataset, first.backbone), (method_name(first.method),), (first.variant,))
    best: list[Cell] = [(_highest([s.rs for s in line]),), (_highest([s.delta_rs for s in line]),), (str(len(line)),)]
    if not known:
        return (*start, (None, None), (None, None, None), *best)
    total = aggregate_classes([s.retain or 0.0 for s in known], [s.forgotten or 0.0 for s in known])
    return (
        *start,
        (percent(total.retain_mean), percent(total.retain_std)),
        (percent(total.forget_min), percent(total.forget_mean), percent(total.forget_max)),
        *best,
    )


def _line(stage: Stage, *which: Cell) -> tuple[Cell, ...]:
    """Write a stage: where, ``which`` forget classes (before or after the method), and the figures."""
    where, method = identity(stage.dataset, stage.backbone), (method_name(stage.method),)
    middle = (method, *which) if len(which) == 1 else (*which, method)
    return (
        *where,
        *middle,
        (stage.variant,),
        (percent(stage.retain),),
        (percent(stage.forgotten),),
        (score(stage.rs), score(stage.rs_std)),
        (score(stage.delta_rs),),
    )


def _quality_line(dataset: str, backbone: str, number: int, method: str, rows: Sequence[Row]) -> tuple[Cell, ...]:
    total = aggregate_classes([row["retain_before"] for row in rows], [row["forget_before"] for row in rows])
    known = [row for row in rows if row.get("retain_original") is not None]
    quality = mean(aus(row["retain_original"], row["retain_before"], row["forget_before"]) for row in known)
    return (
        *identity(dataset, backbone),
        (str(number),),
        (method_name(method),),
        (percent(mean(row["retain_original"] for row in known)),),
        (percent(total.retain_mean), percent(total.retain_std)),
        (percent(total.forget_min), percent(total.forget_mean), percent(total.forget_max)),
        (score(quality),),
        (count(len(rows)),),
    )


def _highest(values: Iterable[float | None]) -> str | None:
    there = present(values)
    return score(max(there)) if there else None
