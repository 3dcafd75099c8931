"""Audits with one setting varied, ours and the paper's, by level of what is varied, method and forget class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from reproduction.agreement import averages, spearman
from reproduction.simple import score
from reproduction.stored import METHOD_LIST, METHOD_OF, PUBLISHED, VERDICT, Kept, Row, arrange, paper_rows
from sfra.bench.tables.names import BACKBONES

Levels = Mapping[str, Mapping[str, Mapping[str, float]]]
"""A value by level of what is varied, method and forget class."""


@dataclass(frozen=True, kw_only=True)
class Factor:
    """A setting that an ablation varies; one of its levels is that of the main audits."""

    audit: str
    """Name of the ablation in the rows."""
    names: Mapping[str, str]
    """Heading by level, in the order of the columns; the first level is the main audits'."""
    variant: str = "released"
    """Forget row of the ablation's audits."""
    main_level: str | None = None
    """Level of the main audits, where it is not the first."""

    @property
    def main(self) -> str:
        """Level of the main audits."""
        return self.main_level or next(iter(self.names))


PROPOSALS = Factor(audit="proposals", names={"gaussian": "Gaussian", "uniform": "uniform", "laplace": "Laplace"})
SCORES = Factor(audit="scores", names={"softmax": "softmax", "entropy": "entropy", "energy": "energy"})
ROWS = Factor(audit="missing row", names={"False": "released row", "True": "random row"}, variant="restored-row")
SUPPORT = Factor(
    audit="support", names={"gaussian": "signed", "relu-gaussian": "ReLU", "abs-gaussian": "absolute value"}
)
SIZES = {
    "M": Factor(audit="M", names={str(m): f"{m:,}" for m in (50, 100, 200, 500, 1000, 2000)}, main_level="500"),
    "N": Factor(
        audit="N",
        names={str(n): f"{n:,}" for n in (50_000, 100_000, 200_000, 500_000, 1_000_000, 2_000_000)},
        main_level="500000",
    ),
}


def level_rows(kept: Kept, factor: Factor, reading: tuple[str, str]) -> dict[str, Sequence[Row]]:
    """Sort the audits of an ablation, and the main ones, by level; levels without audits are left out."""
    wanted = (f"{kept.group}-ablations", factor.audit, factor.variant, *reading)
    names = ("protocol", "audit", "variant", "scale", "rule")
    found: dict[str, list[Row]] = {}
    for row in kept.audits:
        if tuple(row[name] for name in names) == wanted:
            found.setdefault(str(row["varied"]).partition("=")[2], []).append(row)
    found[factor.main] = kept.main(*reading)
    return {level: found[level] for level in factor.names if level in found}


def levels(kept: Kept, factor: Factor, reading: tuple[str, str], value: str = "rs") -> Levels:
    """Arrange a value of an ablation and of the main audits, level by level; levels without audits are left out."""
    return {level: arrange(rows, value) for level, rows in level_rows(kept, factor, reading).items()}


def shared(found: Levels, factor: Factor, paper: Levels | None = None) -> dict[str, list[str]]:
    """List the forget classes of each method that all its levels have, and the paper's where it has the method.

    Methods that were audited at the main level alone are left out, and so are those without a common class.
    """
    classes = {}
    for method in METHOD_LIST:
        mine = [level for level in found if found[level].get(method)]
        theirs = [some[method] for level, some in (paper or {}).items() if level in mine and method in some]
        if factor.main in mine and len(mine) > 1:
            sets = [set(one) for one in (*(found[level][method] for level in mine), *theirs)]
            classes[method] = sorted(set.intersection(*sets))
    return {method: some for method, some in classes.items() if some}


def level_averages(found: Levels, classes: Mapping[str, Sequence[str]]) -> dict[str, dict[str, float]]:
    """Average a value over the given classes, by level and method."""
    return {level: averages(some, classes) for level, some in found.items()}


def order(found: Mapping[str, Mapping[str, float]], one: str, other: str) -> float | None:
    """Correlate the ranks of the methods between two levels; None for fewer than three of them."""
    a, b = found.get(one, {}), found.get(other, {})
    both = [method for method in a if method in b]
    return spearman([a[method] for method in both], [b[method] for method in both])


@dataclass(frozen=True, kw_only=True)
class Compared:
    """Means by level and method, of the methods that were audited at every level that has any audits."""

    factor: Factor
    ours: Mapping[str, Mapping[str, float]]
    """Native scale, worst-case."""
    verdict: Mapping[str, Mapping[str, float]]
    """Canonical scale, source-free."""
    paper: Mapping[str, Mapping[str, float]]
    classes: Mapping[str, Sequence[str]]
    """Forget classes behind each mean."""
    lost: Sequence[str] = ()
    """Methods of which a level cannot be computed."""

    def mean(self, side: Mapping[str, Mapping[str, float]], level: str) -> float | None:
        """Average a level over methods."""
        return fmean(side[level].values()) if side.get(level) else None

    def told(self, side: Mapping[str, Mapping[str, float]]) -> str:
        """Write the mean of every level."""
        values = {name: self.mean(side, level) for level, name in self.factor.names.items()}
        return ", ".join(f"{name} {score(value)}" for name, value in values.items() if value is not None)

    @property
    def others(self) -> list[str]:
        """Levels beside the main one."""
        return [level for level in self.ours if level != self.factor.main]


def compare(kept: Kept, factor: Factor, paper: Levels) -> Compared | None:
    """Average an ablation over the classes of all its levels; None where no method has more than its main audits."""
    found = levels(kept, factor, PUBLISHED)
    classes = shared(found, factor, paper)
    means = level_averages(found, classes)
    used = [level for level in means if means[level]]
    whole = {m: some for m, some in classes.items() if all(m in means[level] for level in used)}
    if not whole:
        return None
    ours, verdict, theirs = (level_averages(side, whole) for side in (found, levels(kept, factor, VERDICT), paper))
    of = (f"{kept.group}-ablations", factor.audit)
    lost = {row["method"] for row in kept.failures if (row["protocol"], row["audit"]) == of} - set(whole)
    return Compared(
        factor=factor,
        ours={level: ours[level] for level in used},
        verdict=verdict,
        paper=theirs,
        classes=whole,
        lost=[method for method in METHOD_LIST if method in lost],
    )


def paper_proposals() -> Levels:
    """Read the paper's RS by proposal."""
    return _by_level("distribution_ablation", "distribution", "rs")


def paper_scores_ablation(value: str = "rs_mean") -> Levels:
    """Read the paper's RS by score, or its deviation over seeds."""
    return _by_level("uncertainty_ablation", "score", value)


def paper_missing_row() -> Levels:
    """Read the paper's RS with the forget row as released and drawn anew; all of it is of class 7."""
    found = _by_level("missing_row", "row", "rs")
    return {"False": found["unlearned"], "True": found["random"]}


def paper_support() -> Levels:
    """Read the paper's RS by support of the Gaussian; its table is of Bad Teacher and class 7."""
    rows = {row["proposal"]: row["rs"] for row in paper_rows("gaussian_support")}
    names = {"gaussian": "signed", "relu-gaussian": "relu", "abs-gaussian": "absolute"}
    return {level: {"bad-teacher": {"7": rows[name]}} for level, name in names.items()}


def _by_level(table: str, level: str, value: str) -> dict[str, dict[str, dict[str, float]]]:
    """Read a table of the paper by level, method and forget class; one without classes is of class 7."""
    rows = [
        row | {"method": METHOD_OF[row["method"]], "forget": str(row.get("forget", "7"))}
        for row in paper_rows(table)
        if row.get("backbone", BACKBONES["resnet18-small"]) == BACKBONES["resnet18-small"]
        and row.get("forget") != "avg"
    ]
    names = dict.fromkeys(row[level] for row in rows)
    return {name: arrange([row for row in rows if row[level] == name], value) for name in names}
