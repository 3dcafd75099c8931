"""How RS depends on the scale of the head: the evidence behind the canonical constant κ.

Every model is brought to each κ of a grid (median norm of its centred retain rows), audited there, and measured. The
digits models are made on the spot; real heads are read as ``stored.py`` keeps them.

    python benchmarks/scale.py --checkpoints DIR --out docs/scale
    python benchmarks/scale.py --plot docs/scale     # draw the figure again from the stored rows
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from sfra.attack.grid import Setting, relearn_release
from sfra.attack.scale import KAPPA, Canonical
from sfra.auditing.config import AuditConfig
from sfra.auditing.measure import measure
from sfra.auditing.subject import Measurable
from sfra.core.head import Head
from sfra.data import FeatureSet
from sfra.demo.models import digits_models
from stored import digits_features, find_models, read_model

GRID = tuple(2.0 ** (step / 4) for step in range(-4, 11))
NEVER_SAW = ("reference", "retrained", "retrain")
KINDS = ["hides the class", "finetuned", "never saw the class"]
COLOURS = ["#d55e00", "#0072b2", "#555555"]
DASHES = [[1, 0], [6, 3], [2, 2]]


class Model(NamedTuple):
    """A head with the features it is measured on."""

    data: str
    name: str
    forget: int
    head: Head
    test: FeatureSet


def checkpoints(folder: Path) -> Iterator[Model]:
    """Read stored heads and features; the masked row of a model that still knows the class is a positive control."""
    for one in find_models(folder):
        yield Model("CIFAR-10", one.name, one.forget or 0, *read_model(one.folder))


def digits(forget: int, seed: int) -> Iterator[Model]:
    """Train and unlearn small networks on the digits."""
    for made in digits_models((forget,), seed=seed):
        if made.name != "original":
            yield Model("digits", made.name, forget, *digits_features(made.model))


def curve(model: Model, config: AuditConfig) -> Iterator[dict[str, object]]:
    """Audit one model at every scale of the grid."""
    settings = [Setting(scale=Canonical(kappa), variant="released") for kappa in GRID]
    runs = relearn_release(model.head, [model.forget], settings, config)
    split = Measurable(report=model.test, validation=None, own_validation=False)
    for one in measure(runs, split, [model.forget]):
        trace = one.test
        yield {
            "data": model.data,
            "model": model.name,
            "forget": model.forget,
            "kappa": f"{one.run.setting.scale.kappa:.4g}",
            "native_kappa": f"{(one.run.setting.scale.kappa or 0) / one.run.placed.gain:.4g}",
            "rs": f"{float(trace.rs[-1]):.4f}",
            "retain_drop": f"{float(trace.retain[0] - trace.retain[-1]):.4f}",
            "forget_after": f"{float(trace.forget[-1]):.4f}",
        }


def gaps(rows: pl.DataFrame) -> pl.DataFrame:
    """Average, per data set and κ, the RS of models that hide the class and of models that never saw it."""
    unseen = pl.col("model").is_in(NEVER_SAW)
    hides = ~unseen & (pl.col("model") != "finetune")
    return rows.group_by("data", "kappa", maintain_order=True).agg(
        hides=pl.col("rs").filter(hides).mean(),
        unseen=pl.col("rs").filter(unseen).mean(),
        drop=pl.col("retain_drop").filter(hides).mean(),
    )


def plot(rows: pl.DataFrame, target: Path) -> None:
    """Draw RS against κ, a panel per data set, a line per model, and above them what each kind of line is."""
    import altair as alt

    names = {"finetune": KINDS[1]} | dict.fromkeys(NEVER_SAW, KINDS[2])
    values = [
        {
            "data": row["data"],
            "rs": row["rs"],
            "kappa": row["kappa"],
            "constant": KAPPA,
            "kind": names.get(row["model"], KINDS[0]),
            "line": f"{row['model']} {row['forget']} {index // len(GRID)}",
        }
        for index, row in enumerate(rows.to_dicts())
    ]
    domain = alt.Scale(type="log", base=2, domain=[GRID[0], GRID[-1]], nice=False)
    x = alt.X(
        "kappa:Q", scale=domain, title="κ, median norm of the centred retain rows", axis=alt.Axis(values=[0.5, 1, 2, 4])
    )
    shape: dict[str, Any] = {"symbolType": "stroke", "symbolSize": 900, "symbolStrokeWidth": 2}
    key = alt.Legend(title=None, orient="top", labelLimit=0, labelFontSize=12, **shape)
    lines = (
        alt.Chart()
        .mark_line(point=alt.OverlayMarkDef(size=16), strokeWidth=1.5, opacity=0.8)
        .encode(
            x=x,
            y=alt.Y("rs:Q", title="RS after 100 epochs", scale=alt.Scale(domain=[0, 1])),
            detail="line:N",
            color=alt.Color("kind:N", scale=alt.Scale(domain=KINDS, range=COLOURS), legend=key),
            strokeDash=alt.StrokeDash("kind:N", scale=alt.Scale(domain=KINDS, range=DASHES), legend=key),
        )
        .properties(width=320, height=240)
    )
    once = alt.Chart().transform_aggregate(at="max(constant)")
    rule = once.mark_rule(strokeWidth=1, color="black").encode(x="at:Q")
    name = once.mark_text(baseline="bottom", fontSize=12, text=f"κ = {KAPPA}").encode(x="at:Q", y=alt.value(-3))
    panels = alt.layer(lines, rule, name, data=alt.Data(values=values))  # type: ignore[no-untyped-call]
    header = alt.Header(labelFontSize=13, labelFontWeight="bold", labelAnchor="start")
    panels.facet(column=alt.Column("data:N", title=None, header=header)).save(str(target))


def main() -> None:
    """Run the grid, print the gaps, store rows and figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkpoints", type=Path, help="folder of METHOD-CLASS folders")
    parser.add_argument("--forget", type=int, nargs="*", default=[0, 3, 7], help="digits to forget")
    parser.add_argument("--out", type=Path, default=Path("docs/scale"), help="where to write NAME.csv and NAME.svg")
    parser.add_argument("--plot", type=Path, help="only draw the figure of a stored NAME.csv")
    arguments = parser.parse_args()
    out = arguments.plot or arguments.out
    if not arguments.plot:
        sources = [checkpoints(arguments.checkpoints)] if arguments.checkpoints else []
        sources += [digits(forget, seed) for seed, forget in enumerate(arguments.forget)]
        made = []
        for model in itertools.chain.from_iterable(sources):
            print(model.data, model.name, model.forget, flush=True)
            made += list(curve(model, AuditConfig(n=500_000, m=500)))
            pl.DataFrame(made).write_csv(out.with_suffix(".csv"))
    rows = pl.read_csv(out.with_suffix(".csv"))
    print(f"{'data':<10}{'κ':>6}{'hides':>8}{'never saw':>11}{'gap':>7}{'drop':>7}")
    for data, kappa, hides, unseen, drop in gaps(rows).sort("data", "kappa").iter_rows():
        print(f"{data:<10}{kappa:>6.2f}{hides:>8.2f}{unseen:>11.2f}{hides - unseen:>7.2f}{drop:>7.3f}")
    plot(rows, out.with_suffix(".svg"))


if __name__ == "__main__":
    main()
