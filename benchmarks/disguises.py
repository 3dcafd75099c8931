"""How far disguises move an audit: the paper's reading, ours, and the anchored one, before and after.

Real heads are read as ``stored.py`` keeps them; ``original`` is masked for each class that is asked for. Retrained ones
serve as references. The digits networks, which have encoders and so an anchored reading, are made on the spot.

    python benchmarks/disguises.py --heads DIR --heads DIR --classes 0 3 7 --digits 0 3 7
    python benchmarks/disguises.py --table     # only the table of docs/disguises.md, from the stored rows
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl

import sfra
from reproduction.report import include
from sfra.auditing.result import AuditReport
from sfra.auditing.verdicts import VERDICTS
from sfra.bench.tables import Column, Table
from sfra.bench.tables.table import make_table
from sfra.core.files import write_text
from sfra.core.head import Head
from sfra.data import FeatureSet
from sfra.data.noise import noise_images
from sfra.demo.models import digits_models
from sfra.unlearn import mask_head
from sfra.unlearn.disguises import DISGUISES
from stored import digits_features, find_models, read_model

ROOT = Path(__file__).parents[1]
ROWS = ROOT / "benchmarks" / "results" / "disguises.csv"
PAGE = ROOT / "docs" / "disguises.md"
N, M = 100_000, 200
NOISE = 2000
SEED = "another seed"
"""No disguise at all, but other random draws: how far any number moves by chance."""

READINGS = {"paper": "the paper's", "ours": "ours", "anchored": "anchored (digits)"}
KINDS = {code: verdict.kind for code, verdict in VERDICTS.items()}


@dataclass(frozen=True, kw_only=True, eq=False)
class Model:
    """A head with the features that it is measured on, and a reference for it."""

    data: str
    name: str
    forget: int
    head: Head
    test: FeatureSet
    reference: Model | None = None

    def disguised(self, name: str) -> Model:
        """Put the model into a disguise: head, features and anchor."""
        if name not in DISGUISES:
            return self
        other, test = DISGUISES[name](self.head, [self.forget]), self.test
        anchor = None if test.anchor is None else other.features(test.anchor)
        return replace(self, head=other.head, test=replace(test, features=other.features(test.features), anchor=anchor))

    def audit(self, disguise: str, scale: str) -> AuditReport:
        """Audit the disguised model beside its plain reference, which is audited once for all of them."""
        assert self.reference is not None
        other, seed = self.disguised(disguise), int(disguise == SEED)
        missing = other.head.classes < self.head.classes
        reference: dict[str, Any] = {"reference": self.reference.head, "reference_data": self.reference.test}
        if not missing:
            reference = {"reference": self.reference.alone(scale, seed)}
        settings: dict[str, Any] = {"scale": scale, "n": N, "m": M, "seed": seed}
        return sfra.audit(other.head, self.forget, data=other.test, missing_row=missing, **reference, **settings)

    @cache  # noqa: B019 (models live as long as the program)
    def alone(self, scale: str, seed: int) -> AuditReport:
        """Audit the plain model without a reference."""
        return sfra.audit(self.head, self.forget, data=self.test, scale=scale, n=N, m=M, seed=seed, self_controls=0)


def stored(folder: Path, classes: list[int]) -> Iterator[Model]:
    """Read heads and features; each with a retrained model of the same class, another one, as its reference."""
    found: list[Model] = []
    for kept in find_models(folder):
        head, test = read_model(kept.folder)
        data = f"CIFAR-{head.classes}"
        if kept.forget is not None:
            name = kept.folder.name.replace(f"-{kept.forget}", "", 1)
            found.append(Model(data=data, name=name, forget=kept.forget, head=head, test=test))
            continue
        for forget in classes:
            masked = mask_head(head, [forget])
            found.append(Model(data=data, name="masked", forget=forget, head=masked, test=test))
    for one in found:
        beside = [other for other in found if other.name.startswith("retrain") and other.forget == one.forget]
        others = [other for other in beside if other is not one]
        if one.forget in classes and others and (one is beside[0] or one not in beside):
            yield replace(one, reference=others[0])


def digits(forget: int, seed: int) -> Iterator[Model]:
    """Train small networks on the digits, with a masked output and without the class, and show them noise as well."""
    reference: Model | None = None
    for made in digits_models((forget,), seed=seed):
        if made.name not in ("reference", "masked", "retrained"):
            continue
        head, test = digits_features(made.model)
        test = replace(test, anchor=digits_features(made.model, noise_images(NOISE, (1, 8, 8)))[1].features)
        model = Model(data="digits", name=made.name, forget=forget, head=head, test=test, reference=reference)
        if made.role == "reference":
            reference = model
        else:
            yield model


def readings(model: Model, disguise: str) -> Iterator[dict[str, object]]:
    """Audit a model in a disguise and take the readings; an odd forget row is read as the verdict reads it, reset."""
    plain = model.audit(disguise, "canonical")
    reports = {"paper": plain, "ours": plain}
    if model.test.anchor is not None:
        reports["anchored"] = model.audit(disguise, "anchored")
    for reading, report in reports.items():
        odd = any(one.code == "forget-row-outlier" for one in report.findings)
        scale, rule = ("native", "worst-case") if reading == "paper" else (report.scale, "source-free")
        variant = "reset-row" if odd and reading != "paper" else report.variant
        score = next(one for one in report.results if (one.scale, one.rule, one.variant) == (scale, rule, variant))
        yield {
            "data": model.data,
            "model": model.name,
            "forget": model.forget,
            "disguise": disguise,
            "reading": reading,
            "retain_before": f"{score.retain_before:.4f}",
            "forget_before": f"{score.forget_before:.4f}",
            "rs": f"{score.rs:.4f}",
            "delta_rs": "" if score.delta_rs is None else f"{score.delta_rs:.4f}",
            "verdict": score.verdict if reading == "paper" else report.verdict,
        }


def moves(rows: pl.DataFrame) -> pl.DataFrame:
    """Set every disguised reading beside the plain one of the same model, and say which verdicts turned.

    A class that was found, in a model that is not retrained, may be cleared or end unclear; an honest one may alarm.
    """
    key = ["data", "model", "forget", "reading"]
    plain = rows.filter(pl.col("disguise") == "none").select(*key, plain="rs", plain_verdict="verdict")
    honest = pl.col("model").str.starts_with("retrain")
    kind, before = (pl.col(one).replace_strict(KINDS) for one in ("verdict", "plain_verdict"))
    return (
        rows.filter(pl.col("disguise") != "none")
        .join(plain, on=key)
        .with_columns(move=(pl.col("rs") - pl.col("plain")).abs(), found=~honest & (before == "back"))
        .with_columns(
            cleared=pl.col("found") & (kind == "clear"),
            unclear=pl.col("found") & ~kind.is_in(["back", "clear"]),
            alarm=honest & (before != "back") & (kind == "back"),
        )
    )


def summarise(rows: pl.DataFrame) -> pl.DataFrame:
    """Average and maximise the moves of each disguise and reading; count verdicts that it turned."""
    return (
        moves(rows)
        .group_by("disguise", "reading", maintain_order=True)
        .agg(
            models=pl.len(),
            mean=pl.col("move").mean(),
            most=pl.col("move").max(),
            cleared=pl.col("cleared").sum(),
            unclear=pl.col("unclear").sum(),
            found=pl.col("found").sum(),
            alarms=pl.col("alarm").sum(),
        )
    )


def table(rows: pl.DataFrame) -> Table:
    """Lay the summary out, a line for each disguise."""
    told = {SEED: "no disguise, other random draws"} | {name: one.sentence for name, one in DISGUISES.items()}
    found = {(one["disguise"], one["reading"]): one for one in summarise(rows).iter_rows(named=True)}
    columns = [Column(names=("disguise",), heading="Disguise", numeric=False)]
    lines = [{"disguise": sentence} for sentence in told.values()]
    for reading, heading in READINGS.items():
        columns += [
            Column(names=(f"{reading}_move",), heading=f"{heading}: mean (largest)"),
            Column(names=(f"{reading}_lost",), heading="cleared, unclear"),
        ]
        for line, name in zip(lines, told, strict=True):
            one = found.get((name, reading))
            if one is None:  # no model with an encoder
                continue
            line[f"{reading}_move"] = f"{one['mean']:.2f} ({one['most']:.2f})"
            line[f"{reading}_lost"] = f"{one['cleared']}, {one['unclear']} of {one['found']}"
    return make_table("disguises", "How far RS moves, and which classes are no longer found", tuple(columns), lines)


def main() -> None:
    """Audit every model in every disguise, keep the rows, and write the table into the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--heads", type=Path, action="append", default=[], help="folder of METHOD-CLASS folders")
    parser.add_argument("--classes", type=int, nargs="*", default=[0, 3, 7], help="forget classes of the heads")
    parser.add_argument("--digits", type=int, nargs="*", default=[0, 3, 7], help="digits to forget")
    parser.add_argument("--table", action="store_true", help="only write the table, from the stored rows")
    arguments = parser.parse_args()
    if not arguments.table:
        sources = [stored(folder, arguments.classes) for folder in arguments.heads]
        sources += [digits(forget, seed) for seed, forget in enumerate(arguments.digits)]
        made: list[dict[str, object]] = []
        for model in itertools.chain.from_iterable(sources):
            print(model.data, model.name, model.forget, flush=True)
            made += [row for name in ("none", SEED, *DISGUISES) for row in readings(model, name)]
            pl.DataFrame(made).write_csv(ROWS)
    write_text(PAGE, include(PAGE.read_text(encoding="utf-8"), {"disguises": [table(pl.read_csv(ROWS))]}))


if __name__ == "__main__":
    main()
