"""The committed rows of a group of protocols, and the numbers that the paper printed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any

import polars as pl

from sfra.auditing.verdict import FORGET_LOW
from sfra.auditing.verdicts import VERDICTS
from sfra.bench.tables.names import BACKBONES, DATASETS, METHODS

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "reproduction"
PAPER = KEPT / "paper"
BASE = "cifar10-resnet18"
"""The group that other groups stand beside."""

RULES = ("worst-case", "validation", "source-free")
Reading = tuple[str, str]
"""Scale and rule."""
READINGS: tuple[Reading, ...] = tuple((scale, rule) for scale in ("native", "canonical") for rule in RULES)
PUBLISHED: Reading = ("native", "worst-case")
"""The reading of the paper's tables."""
VERDICT: Reading = ("canonical", "source-free")
"""The reading of a verdict."""

FIRST = 0.0
"""Seed of the models that tables show."""

METHOD_LIST = tuple(name for name in METHODS if name != "original")
"""The methods of the paper, in the order of every table."""

Values = Mapping[str, float]
"""A value by method."""
ByClass = Mapping[str, Values]
"""A value by method and forget class."""

TEXT = (
    *("protocol", "method", "forget", "audit", "varied", "scale", "variant", "rule", "verdict", "what", "name"),
    *("reason", "failed", "settings", "history", "head"),
    *("dataset", "backbone", "proposal", "distribution", "score", "row", "setting"),
    *("set", "kind", "order", "class"),
)
"""Columns that are no numbers, though some look like numbers."""


@cache
def read_rows(path: Path) -> pl.DataFrame:
    """Read a CSV file: text in the columns of text, numbers in all others, null for an empty field."""
    rows = pl.read_csv(path, infer_schema=False)
    if "forget" not in rows.columns:
        rows = rows.rename({"forget_class": "forget"}, strict=False)
    rows = rows.with_columns(pl.exclude(*TEXT).cast(pl.Float64))
    return rows.with_columns(verdict=verdict_now()) if {"verdict", "forget_before"} <= {*rows.columns} else rows


def verdict_now() -> pl.Expr:
    """Say what is said today of a release that kept more than a tenth of the class: when it was audited, it was clear.

    A fresh row answers the class by chance, so only the row as released counts.
    """
    clear = [code for code, verdict in VERDICTS.items() if verdict.kind == "clear"]
    kept = (pl.col("variant") == "released") & (pl.col("forget_before") > FORGET_LOW)
    return pl.when(kept & pl.col("verdict").is_in(clear)).then(pl.lit("not-unlearned")).otherwise("verdict")


def arrange(rows: pl.DataFrame, value: str) -> dict[str, dict[str, float]]:
    """Average a value by method and forget class."""
    found: dict[str, dict[str, float]] = {}
    means = rows.drop_nulls(value).group_by("method", "forget", maintain_order=True).agg(pl.mean(value))
    for method, forget, mean in means.iter_rows():
        found.setdefault(method, {})[forget] = mean
    return found


def means(values: ByClass) -> dict[str, float]:
    """Average over the forget classes of each method."""
    return {method: fmean(some.values()) for method, some in values.items() if some}


def averages(values: ByClass, classes: Mapping[str, list[str]]) -> dict[str, float]:
    """Average over the given forget classes; a method that lacks one of them is left out."""
    whole = {m: some for m, some in classes.items() if set(some) <= set(values.get(m, {}))}
    return means({m: {c: values[m][c] for c in some} for m, some in whole.items()})


@dataclass(frozen=True)
class Group:
    """The rows of the protocols of one data set and backbone."""

    name: str
    folder: Path = KEPT

    @property
    def dataset(self) -> str:
        """Data set, as the protocols call it."""
        return self.name.partition("-")[0].replace("tinyimagenet", "tiny-imagenet")

    @property
    def backbone(self) -> str:
        """Backbone, as the protocols call it."""
        name = self.name.partition("-")[2]
        return f"{name}-small" if f"{name}-small" in BACKBONES else name

    def all_rows(self, table: str) -> pl.DataFrame:
        """Read a table of all protocols of the group."""
        return read_rows(self.folder / self.name / f"{table}.csv")

    def rows(self, table: str, ending: str = "") -> pl.DataFrame:
        """Read a table of one protocol: the group's own, or one whose name adds an ending."""
        return self.all_rows(table).filter(pl.col("protocol") == f"{self.name}{ending}")

    def audits(
        self, reading: Reading, *, ending: str = "", audit: str = "main", variant: str = "released"
    ) -> pl.DataFrame:
        """Read the audits of a protocol in one reading; further references, of other seeds, are in the rows alone."""
        scale, rule = reading
        return self.rows("audits", ending).filter(seed=FIRST, scale=scale, rule=rule, audit=audit, variant=variant)

    def kept(self, reading: Reading, audit: str, variant: str) -> pl.DataFrame:
        """Read audits of the kept models, which rest on few test samples (``benchmarks/kept.py``)."""
        return self._kept().filter(scale=reading[0], rule=reading[1], audit=audit, variant=variant)

    def _kept(self) -> pl.DataFrame:
        path = self.folder / self.name / "kept.csv"
        return read_rows(path) if path.is_file() else self.all_rows("audits").clear()

    def rs(self, reading: Reading, value: str = "rs", *, ending: str = "") -> dict[str, dict[str, float]]:
        """Arrange a value of the main audits."""
        return arrange(self.audits(reading, ending=ending), value)

    def swept(self, rule: str = "source-free", *, ending: str = "") -> pl.DataFrame:
        """Read the main audits at a chosen κ, the canonical one too, by κ; ``-scales`` may be those of kept models."""
        rows = self.rows("audits", ending).filter(audit="main")
        if ending == "-scales" and rows.is_empty():
            rows = self._kept().filter(audit="scales")
        rows = rows.filter(variant="released", rule=rule)
        return rows.drop_nulls("kappa").sort("kappa", maintain_order=True)

    def diagnosed(self, value: str, scale: str = "native") -> dict[str, dict[str, float]]:
        """Arrange a diagnostic."""
        return arrange(self.rows("diagnostics").filter(seed=FIRST, scale=scale), value)

    def class_names(self) -> list[str]:
        """List the names of the classes."""
        return [str(name) for name in self.rows("originals").sort("label")["name"]]

    def original(self) -> tuple[dict[str, float], dict[str, float]]:
        """Compute the original's accuracy on all other classes, and on the class, for each forget class."""
        rows = self.rows("originals").with_columns(forget=pl.col("label").cast(pl.Int64).cast(pl.String))
        hits, samples = rows["hits"].sum(), rows["samples"].sum()
        wanted = self.audits(VERDICT)["forget"].unique(maintain_order=True)
        mine = {row["forget"]: row for row in rows.iter_rows(named=True)}
        retain = {c: (hits - mine[c]["hits"]) / (samples - mine[c]["samples"]) for c in wanted if c in mine}
        return retain, {c: mine[c]["hits"] / mine[c]["samples"] for c in retain}


def list_groups(folder: Path = KEPT) -> list[Group]:
    """List the groups with rows."""
    return [Group(path.parent.name, folder) for path in sorted(folder.glob("*/audits.csv"))]


def paper_backbone(backbone: str) -> str:
    """Name the paper's network that a backbone stands beside: that of the same family.

    >>> paper_backbone("vit-small"), paper_backbone("resnet18-224")
    ('ViT-B/16', 'ResNet-18')
    """
    return {"vit": "ViT-B/16", "swin": "Swin-T"}.get(backbone.partition("-")[0], "ResNet-18")


def paper_rows(name: str, backbone: str = "ResNet-18") -> pl.DataFrame:
    """Read a table of the paper, with our names of methods and without its averages over classes."""
    rows = read_rows(PAPER / f"{name}.csv")
    if "method" in rows.columns:
        rows = rows.with_columns(pl.col("method").replace({text: key for key, text in METHODS.items()}))
    if "backbone" in rows.columns:
        rows = rows.filter(backbone=backbone)
    return rows.filter(pl.col("forget") != "avg") if "forget" in rows.columns else rows


def printed(dataset: str, variant: str, value: str, backbone: str = "ResNet-18") -> dict[str, dict[str, float]]:
    """Read a column of the paper's per-class table; accuracies as fractions.

    Args:
        dataset: As the protocols call it.
        backbone: As the paper calls it.
        variant: ``original``, ``unlearned``, ``pra``, ``sfra`` or ``linear_probe``.
        value: ``rs``, ``delta_rs``, ``retain_acc`` or ``forget_acc``.
    """
    tables = [paper_rows(name, backbone) for name in ("per_class", "per_class_cifar100")]
    rows = pl.concat(tables).filter(dataset=DATASETS.get(dataset, dataset), variant=variant)
    unit = 100 if value.endswith("_acc") else 1
    return {m: {c: number / unit for c, number in some.items()} for m, some in arrange(rows, value).items()}


CONFIDENCE = {"correct_confidence": "correct_retain_conf", "assigned_confidence": "forget_assigned_conf", "gap": "gap"}
"""How sure a head is, in our rows and in the paper's."""


@dataclass(frozen=True, kw_only=True)
class Side:
    """The numbers of the paper or of a group."""

    rs: Mapping[Reading, ByClass]
    delta: Mapping[Reading, ByClass]
    retain: ByClass
    """Accuracy of the released models, the original among them."""
    forget: ByClass
    """The same of the forget class."""
    kept: ByClass
    """Accuracy on the other classes after relearning, in the reading of the paper."""
    pra: ByClass
    """RS of the cosine variant."""
    probe: ByClass
    """Forget accuracy of a linear probe."""
    inner: ByClass
    """Inner product of mean probe and mean feature."""
    cosine: ByClass
    """The same between unit vectors."""
    confidence: Values
    """How sure Bad Teacher's head is, on average."""


@cache
def paper_side(dataset: str, backbone: str = "resnet18") -> Side:
    """Read what the paper printed for a data set and backbone; its one reading stands beside each of ours."""
    theirs = paper_backbone(backbone)
    first = dataset == "cifar10" and theirs == "ResNet-18"
    sure = read_rows(PAPER / "confidence.csv").filter(forget="avg").row(0, named=True)
    aligned = paper_rows("alignment").filter(pl.lit(first))

    def column(variant: str, value: str) -> dict[str, dict[str, float]]:
        return printed(dataset, variant, value, theirs)

    return Side(
        rs=dict.fromkeys(READINGS, column("sfra", "rs")),
        delta=dict.fromkeys(READINGS, column("sfra", "delta_rs")),
        retain=column("original", "retain_acc") | column("unlearned", "retain_acc"),
        forget=column("original", "forget_acc") | column("unlearned", "forget_acc"),
        kept=column("sfra", "retain_acc"),
        pra=column("pra", "rs"),
        probe=column("linear_probe", "forget_acc"),
        inner=arrange(aligned, "a_ip"),
        cosine=arrange(aligned, "a_cos"),
        confidence={name: sure[theirs] for name, theirs in CONFIDENCE.items()} if first else {},
    )


@cache
def side_of(group: Group) -> Side:
    """Read the numbers of a group."""
    retain, forget = group.original()
    sure = {name: means(group.diagnosed(name)) for name in CONFIDENCE}
    return Side(
        rs={reading: group.rs(reading) for reading in READINGS},
        delta={reading: group.rs(reading, "delta_rs") for reading in READINGS},
        retain={"original": retain} | group.rs(PUBLISHED, "retain_before"),
        forget={"original": forget} | group.rs(PUBLISHED, "forget_before"),
        kept=group.rs(PUBLISHED, "retain_after"),
        pra=arrange(group.rows("pra").filter(variant="cosine"), "rs"),
        probe=arrange(group.rows("probes"), "forget_accuracy"),
        inner=group.diagnosed("inner"),
        cosine=group.diagnosed("cosine"),
        confidence={name: some["bad-teacher"] for name, some in sure.items() if "bad-teacher" in some},
    )


@cache
def paper_beside(group: Group) -> Side:
    """Read what the paper printed for the models that a group has too: means are over the same classes."""
    paper, own = paper_side(group.dataset, group.backbone), side_of(group)

    def common(theirs: ByClass, ours: ByClass) -> ByClass:
        kept = {m: {c: v for c, v in some.items() if c in ours.get(m, {})} for m, some in theirs.items()}
        return {method: some for method, some in kept.items() if some}

    sure = paper.inner.get("bad-teacher", {}).keys() == own.inner.get("bad-teacher", {}).keys()
    names = ("retain", "forget", "kept", "pra", "probe", "inner", "cosine")
    shared: dict[str, Any] = {name: common(getattr(paper, name), getattr(own, name)) for name in names}
    return replace(
        paper,
        rs={reading: common(some, own.rs[reading]) for reading, some in paper.rs.items()},
        delta={reading: common(some, own.delta[reading]) for reading, some in paper.delta.items()},
        confidence=paper.confidence if sure else {},
        **shared,
    )


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """Two sets of scores beside each other."""

    spearman: float | None
    difference: float
    """Mean absolute difference."""


def agree(ours: Values, theirs: Values) -> Agreement | None:
    """Compare the scores that both have; None where they share none, no correlation for fewer than three."""
    both = [name for name in ours if name in theirs]
    if not both:
        return None
    pairs = pl.DataFrame({"x": [ours[name] for name in both], "y": [theirs[name] for name in both]})
    numbers = pairs.select(
        spearman=pl.corr("x", "y", method="spearman"), difference=(pl.col("x") - pl.col("y")).abs().mean()
    ).row(0, named=True)
    if len(both) < 3 or numbers["spearman"] != numbers["spearman"]:
        numbers["spearman"] = None
    return Agreement(**numbers)
