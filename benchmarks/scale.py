"""How RS depends on the scale of the head: the evidence behind the canonical constant κ.

Every model is brought to each κ of a grid (median norm of its centred retain rows), audited there, and measured. The
digits models are made on the spot; real heads are read from folders named ``METHOD-CLASS`` with ``head.npz`` and
``features.npz`` (``features``, ``labels``).

    python benchmarks/scale.py --checkpoints DIR --out docs/scale
    python benchmarks/scale.py --plot docs/scale     # draw the figure again from the stored rows
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

from sfra.attack.grid import Setting, relearn_release
from sfra.attack.scale import KAPPA
from sfra.auditing.config import AuditConfig
from sfra.auditing.measure import Split, measure
from sfra.core.head import Head
from sfra.data import FeatureSet, ImageSet, extract_features, load_data
from sfra.demo.models import digits_models
from sfra.release import load
from sfra.unlearn import mask_head

GRID = tuple(2.0 ** (step / 4) for step in range(-4, 11))
TICKS = [0.5, 1, 2, 4]
NEVER_SAW = ("reference", "retrained", "retrain")
KINDS = ["hides the class", "finetuned", "never saw the class"]
COLOURS = ["#d55e00", "#0072b2", "#555555"]
DASHES = [[1, 0], [6, 3], [2, 2]]


@dataclass(frozen=True)
class Model:
    """A head with the features it is measured on."""

    data: str
    name: str
    forget: int
    head: Head
    test: FeatureSet


def checkpoints(folder: Path) -> Iterator[Model]:
    """Read stored heads and features; the masked row of a model that still knows the class is a positive control."""
    for path in sorted(folder.iterdir()):
        name, forget = path.name.rsplit("-", 1)
        test = load_data(path / "features.npz")
        assert isinstance(test, FeatureSet)
        yield Model("CIFAR-10", name, int(forget), Head.load(path / "head.npz"), test)


def digits(forget: int, seed: int) -> Iterator[Model]:
    """Train and unlearn small networks on the digits."""
    images = load_data("digits")
    assert isinstance(images, ImageSet)
    for made in digits_models((forget,), seed=seed):
        release = load(made.model, example=torch.zeros(1, 1, 8, 8))
        assert release.encoder is not None
        test = extract_features(release.encoder, images, model_fingerprint=release.fingerprint, cache=False)
        head = mask_head(release.head, [forget]) if made.name == "original" else release.head
        if made.name != "original":
            yield Model("digits", made.name, forget, head, test)


def curve(model: Model, config: AuditConfig) -> Iterator[dict[str, object]]:
    """Audit one model at every scale of the grid."""
    settings = [Setting(kappa=kappa, variant="released") for kappa in GRID]
    runs = relearn_release(model.head, [model.forget], settings, config)
    split = Split(report=model.test, select=None, own_validation=False)
    for one in measure(runs, split, [model.forget]):
        trace = one.test
        yield {
            "data": model.data,
            "model": model.name,
            "forget": model.forget,
            "kappa": f"{one.run.setting.kappa:.4g}",
            "native_kappa": f"{(one.run.setting.kappa or 0) / one.run.placed.gain:.4g}",
            "rs": f"{float(trace.rs[-1]):.4f}",
            "retain_drop": f"{float(trace.retain[0] - trace.retain[-1]):.4f}",
            "forget_after": f"{float(trace.forget[-1]):.4f}",
        }


def gaps(rows: list[dict[str, str]]) -> list[dict[str, object]]:
    """Average, per data set and κ, the RS of models that hide the class and of models that never saw it."""
    table = []
    for data in sorted({row["data"] for row in rows}):
        for kappa in GRID:
            mine = [row for row in rows if row["data"] == data and row["kappa"] == f"{kappa:.4g}"]
            hiding = [row for row in mine if row["model"] not in (*NEVER_SAW, "finetune")]
            unseen = [row for row in mine if row["model"] in NEVER_SAW]
            hidden_rs, unseen_rs = (sum(float(r["rs"]) for r in part) / len(part) for part in (hiding, unseen))
            drop = sum(float(r["retain_drop"]) for r in hiding) / len(hiding)
            table.append({"data": data, "kappa": kappa, "hiding": hidden_rs, "unseen": unseen_rs, "retain_drop": drop})
    return table


def plot(rows: list[dict[str, str]], target: Path) -> None:
    """Draw RS against κ, a panel per data set, a line per model, and above them what each kind of line is."""
    import altair as alt

    names = {"finetune": KINDS[1]} | dict.fromkeys(NEVER_SAW, KINDS[2])
    values = [
        {
            "data": row["data"],
            "rs": float(row["rs"]),
            "kappa": float(row["kappa"]),
            "constant": KAPPA,
            "kind": names.get(row["model"], KINDS[0]),
            "line": f"{row['model']} {row['forget']} {index // len(GRID)}",
        }
        for index, row in enumerate(rows)
    ]
    domain = alt.Scale(type="log", base=2, domain=[GRID[0], GRID[-1]], nice=False)
    x = alt.X("kappa:Q", scale=domain, title="κ, median norm of the centred retain rows", axis=alt.Axis(values=TICKS))
    key = alt.Legend(
        title=None,
        orient="top",
        symbolType="stroke",
        symbolSize=900,
        symbolStrokeWidth=2,
        labelLimit=0,
        labelFontSize=12,
    )
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
    panels = alt.layer(lines, rule, name, data=alt.Data(values=values))
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
        config = AuditConfig(n=500_000, m=500)
        with out.with_suffix(".csv").open("w", newline="") as file:
            writer = None
            for source in [
                *([checkpoints(arguments.checkpoints)] if arguments.checkpoints else []),
                *(digits(forget, seed) for seed, forget in enumerate(arguments.forget)),
            ]:
                for model in source:
                    print(model.data, model.name, model.forget, flush=True)
                    for row in curve(model, config):
                        writer = writer or csv.DictWriter(file, list(row))
                        if file.tell() == 0:
                            writer.writeheader()
                        writer.writerow(row)
    with out.with_suffix(".csv").open() as file:
        rows = list(csv.DictReader(file))
    print(f"{'data':<10}{'κ':>6}{'hides':>8}{'never saw':>11}{'gap':>7}{'drop':>7}")
    for row in gaps(rows):
        gap = float(row["hiding"]) - float(row["unseen"])  # type: ignore[arg-type]
        print(
            f"{row['data']:<10}{row['kappa']:>6.2f}{row['hiding']:>8.2f}{row['unseen']:>11.2f}{gap:>7.2f}"
            f"{row['retain_drop']:>7.3f}"
        )
    plot(rows, out.with_suffix(".svg"))


if __name__ == "__main__":
    main()
