"""Tables of audits with one setting varied, ours and the paper's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import polars as pl

from reproduction.rows import PUBLISHED, VERDICT, ByClass, Group, Reading, arrange, averages, paper_rows
from reproduction.tables import WITH_CONTROL, Cells, Text, score, table
from sfra.bench.tables import Table

Levels = Mapping[str, ByClass]
"""A value by level of what is varied, method and forget class."""


@dataclass(frozen=True, kw_only=True)
class Factor:
    """A setting that an ablation varies; one of its levels is that of the main audits."""

    audit: str
    """Name of the ablation in the rows."""
    main: str
    """Level of the main audits."""
    names: Mapping[str, str]
    """Heading by level, in the order of the columns."""
    variant: str = "released"
    """Forget row of the ablation's audits."""
    printed: tuple[str, str, str] = ("", "", "")
    """The paper's table, and its columns of levels and of RS; empty where it has no such table."""
    printed_levels: Mapping[str, str] = field(default_factory=dict)
    """The paper's name of each level, where it is another."""
    label: str
    title: str
    note: str = ""

    def paper(self, value: str | None = None) -> Levels:
        """Read the paper's RS, or another value, by level.

        A table without forget classes is of class 7, one without methods of Bad Teacher.
        """
        name, level, rs = self.printed
        if not name:
            return {}
        rows = paper_rows(name)
        for column, default in (("forget", "7"), ("method", "bad-teacher")):
            rows = rows if column in rows.columns else rows.with_columns(pl.lit(default).alias(column))
        found = {str(key): arrange(some, value or rs) for (key,), some in rows.group_by(level, maintain_order=True)}
        return {ours: found[self.printed_levels.get(ours, ours)] for ours in self.names}


PROPOSALS = Factor(
    audit="proposals",
    main="gaussian",
    names={"gaussian": "Gaussian", "uniform": "uniform", "laplace": "Laplace"},
    printed=("distribution_ablation", "distribution", "rs"),
    label="proposals-beside-paper",
    title="Mean RS by proposal",
    note="Gaussian: the main audits, of three seeds; the others have one.",
)
SCORES = Factor(
    audit="scores",
    main="softmax",
    names={"softmax": "softmax", "entropy": "entropy", "energy": "energy"},
    printed=("uncertainty_ablation", "score", "rs_mean"),
    label="scores-beside-paper",
    title="Mean RS by score",
    note="±: standard deviation over the three seeds of an audit, averaged over classes. Softmax: the main audits.",
)
ROWS = Factor(
    audit="missing row",
    main="False",
    names={"False": "released row", "True": "random row"},
    variant="restored-row",
    printed=("missing_row", "row", "rs"),
    printed_levels={"False": "unlearned", "True": "random"},
    label="missing-row-beside-paper",
    title="RS without the forget row",
    note="The paper counts what comes back from a forget accuracy of 0, we from that of the restored head. Of the "
    "released row its main table prints other values; here are those of its table on the missing row.",
)
SUPPORT = Factor(
    audit="support",
    main="gaussian",
    names={"gaussian": "signed", "relu-gaussian": "ReLU", "abs-gaussian": "absolute value"},
    printed=("gaussian_support", "proposal", "rs"),
    printed_levels={"gaussian": "signed", "relu-gaussian": "relu", "abs-gaussian": "absolute"},
    label="support-beside-paper",
    title="RS by support of the proposal",
    note="The paper's table is of Bad Teacher alone, class 7.",
)
SIZES = {
    size: Factor(
        audit=size,
        main=main,
        names={str(unit * number): f"{size} = {unit * number:,}" for number in (50, 100, 200, 500, 1000, 2000)},
        label=f"sensitivity-{size.lower()}",
        title=f"RS by {size}",
    )
    for size, main, unit in (("M", "500", 1), ("N", "500000", 1000))
}
KEPT = (
    "Audits of the kept models, the main ones too: over 100 test samples of the class and 10 of every other one. "
    "The paper's values are left out where it has none of these classes."
)
FACTORS = (PROPOSALS, SCORES, ROWS, SUPPORT, *SIZES.values())


def varied_rows(group: Group, factor: Factor, reading: Reading) -> pl.DataFrame:
    """Read the audits of an ablation of the group's protocols."""
    return group.audits(reading, ending="-ablations", audit=factor.audit, variant=factor.variant)


def uses_kept(group: Group, factor: Factor) -> bool:
    """Say whether more of the kept models were audited for an ablation than of all models."""
    kept = group.kept(PUBLISHED, factor.audit, factor.variant)
    return len(kept) > len(varied_rows(group, factor, PUBLISHED))


def level_rows(group: Group, factor: Factor, reading: Reading) -> dict[str, pl.DataFrame]:
    """Sort the audits of an ablation, and the main ones, by level; those of kept models where they are more."""
    if uses_kept(group, factor):
        main, rows = (group.kept(reading, *one) for one in (("main", "released"), (factor.audit, factor.variant)))
    else:
        main, rows = group.audits(reading), varied_rows(group, factor, reading)
    rows = rows.with_columns(level=pl.col("varied").str.split("=").list.get(1, null_on_oob=True))
    found = {level: rows.filter(level=level) for level in factor.names} | {factor.main: main}
    return {level: found[level] for level in factor.names if len(found[level])}


def levels(group: Group, factor: Factor, reading: Reading, value: str = "rs") -> Levels:
    """Arrange a value of an ablation and of the main audits, level by level."""
    return {level: arrange(rows, value) for level, rows in level_rows(group, factor, reading).items()}


def shared(found: Levels, factor: Factor, paper: Levels) -> dict[str, list[str]]:
    """List the forget classes of each method that all its levels have, and the paper's where it has any of them."""
    classes = {}
    for method in WITH_CONTROL:
        mine = [level for level in found if found[level].get(method)]
        theirs = [some[method] for level, some in paper.items() if level in mine and method in some]
        if factor.main in mine and len(mine) > 1:
            ours = set.intersection(*(set(found[one][method]) for one in mine))
            classes[method] = sorted(ours.intersection(*theirs) or ours)
    return {method: some for method, some in classes.items() if some}


def _cells(found: Levels, spread: Levels, classes: dict[str, list[str]]) -> dict[str, dict[str, Text]]:
    cells: dict[str, dict[str, Text]] = {}
    for level, values in found.items():
        deviation = averages(spread.get(level, {}), classes)
        cells[level] = {
            m: f"{score(value)}{f' ± {score(deviation[m])}' if m in deviation else ''}"
            for m, value in averages(values, classes).items()
        }
    return cells


def ablation(group: Group, factor: Factor) -> Table:
    """Show RS by level, beside the paper's where it has such a table; with the deviation over seeds if it has that."""
    found, paper = levels(group, factor, PUBLISHED), factor.paper()
    spreads: tuple[Levels, Levels] = ({}, {})
    if factor is SCORES:
        spreads = levels(group, factor, PUBLISHED, "rs_std"), factor.paper("rs_std")
    classes = shared(found, factor, paper)
    ours, theirs = _cells(found, spreads[0], classes), _cells(paper, spreads[1], classes)
    verdict = _cells(levels(group, factor, VERDICT), {}, classes)
    columns: list[Cells] = [("classes", "Classes", {m: str(len(some)) for m, some in classes.items()})]
    for level, text in factor.names.items():
        columns.append((level, text, ours.get(level, {})))
        if paper:
            columns.append((f"{level}_paper", "Paper", theirs.get(level, {})))
    columns += [
        (f"{level}_canonical", f"{text}, canonical, source-free", verdict.get(level, {}))
        for level, text in factor.names.items()
    ]
    forget = sorted({c for some in classes.values() for c in some})
    reading = "Native scale, worst-case, unless said otherwise; ours and the paper's over the same classes."
    named = f"Forget class{'' if len(forget) == 1 else 'es'} {', '.join(forget)}."
    notes = [reading, named, *filter(None, [factor.note]), *[KEPT] * uses_kept(group, factor)]
    return table(factor.label, factor.title, {m: WITH_CONTROL[m] for m in classes}, columns, notes)
