"""Read the rows of ``power.py``: what each setting detects and at how many false alarms, and the figure of it.

With the RS ``h`` of a masked original and ``a``, ``b`` of two retrainings without the class, all with a fresh row, an
audit beside one reference sees ``h - a`` and ``h - b`` of a class that is hidden, ``a - b`` and ``b - a`` of one that
is not there. What exceeds 0.1 is detected, or a false alarm.

    python benchmarks/power_report.py --plot docs/power.svg
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl

RESULTS = Path(__file__).parent / "results"
SETTING = ["kappa", "n", "m", "exponent"]
LEAST = 0.1
"""Smallest ΔRS that counts."""
BEARABLE = 0.05
"""Largest share of false alarms of a setting that may be chosen."""
NAMES = {"cifar100": "CIFAR-100", "cifar10": "CIFAR-10", "digits": "digits"}
AXES = {"kappa": "κ", "n": "N, candidates per class", "m": "M, probes per class"}
KINDS = {"masked": "hidden class", "fresh": "never seen"}
WEIGHTS = {0.0: "published: a forget probe counts 1", 0.5: "balanced: it counts 1/√R"}
COLOURS, DASHES = ["#d55e00", "#555555"], [[1, 0], [5, 3]]


def load(name: str, results: Path = RESULTS) -> pl.DataFrame:
    """Read the rows of a data set."""
    return pl.read_csv(results / f"power-{name}.csv").with_columns(data=pl.lit(NAMES[name.partition("-")[0]]))


def judge(rows: pl.DataFrame, classes: Sequence[int] | None = None, *, score: str = "rs_100") -> pl.DataFrame:
    """Return per setting the mean RS of either kind, the shares detected and of false alarms, and their AUC.

    The AUC is the chance that a hidden class gives a larger ΔRS than one that is not there.
    """
    kept = rows.filter(pl.col("kind").is_in(list(KINDS)) & pl.col("forget").is_in(list(classes or rows["forget"])))
    table = kept.pivot(on="model", index=[*SETTING, "seed", "forget"], values=score)
    made = []
    for setting, part in table.group_by(SETTING, maintain_order=True):
        h, a, b = (part[name] for name in ("original", "a", "b"))
        hidden, absent = pl.concat([h - a, h - b]), pl.concat([a - b, b - a])
        pairs = hidden.to_frame("hidden").join(absent.to_frame("absent"), how="cross")
        wins = (pairs["hidden"] > pairs["absent"]).mean(), (pairs["hidden"] == pairs["absent"]).mean()
        made.append(
            dict(zip(SETTING, setting, strict=True))
            | {"masked": h.mean(), "retrained": pl.concat([a, b]).mean()}
            | {"detected": (hidden > LEAST).mean(), "alarms": (absent > LEAST).mean()}
            | {"auc": wins[0] + wins[1] / 2}  # type: ignore[operator]
        )
    return pl.DataFrame(made)


def halves(rows: pl.DataFrame) -> tuple[list[int], list[int]]:
    """Split the classes in two: every other one."""
    found = sorted(set(rows["forget"].to_list()))
    return found[::2], found[1::2]


def choose(rows: pl.DataFrame) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the setting that detects most at bearable false alarms on one half, there and on the other half."""
    one, other = (judge(rows, classes) for classes in halves(rows))
    best = one.filter(pl.col("alarms") <= BEARABLE).sort("detected", "auc", descending=True).row(0, named=True)
    return best, other.filter(*(pl.col(name) == best[name] for name in SETTING)).row(0, named=True)


def curves(rows: pl.DataFrame) -> pl.DataFrame:
    """Return mean RS over κ, N and M, the other two as the protocol has them, per kind and weight."""
    few = 500 in rows["m"]
    base = {"kappa": 1.7, "n": 500_000 if few else 100_000, "m": 500 if few else 50}
    first = rows.filter(
        (pl.col("seed") == 1) & pl.col("kind").is_in(list(KINDS)) & pl.col("exponent").is_in(list(WEIGHTS))
    )
    parts = []
    for axis in AXES:
        fixed = [pl.col(name) == value for name, value in base.items() if name != axis]
        part = first.filter(*fixed).group_by("data", axis, "kind", "exponent").agg(pl.col("rs_100").mean())
        parts.append(part.rename({axis: "x"}).with_columns(pl.col("x").cast(pl.Float64), axis=pl.lit(axis)))
    return pl.concat(parts, how="diagonal").sort("axis", "kind", "exponent", "x")


def plot(tables: Sequence[pl.DataFrame], target: Path) -> None:
    """Draw RS over κ, N and M, a row of panels per data set."""
    import altair as alt

    shape: dict[str, Any] = {"symbolType": "stroke", "symbolSize": 900, "symbolStrokeWidth": 2, "labelLimit": 0}
    key = alt.Legend(title=None, orient="top", columns=2, **shape)
    lines = [f"{kind}; {weight}" for kind in KINDS.values() for weight in WEIGHTS.values()]
    colour = alt.Scale(domain=lines, range=[one for one in COLOURS for _ in WEIGHTS])
    dash = alt.Scale(domain=lines, range=[one for _ in KINDS for one in DASHES])
    strips = []
    for rows in tables:
        names = pl.col("kind").replace_strict(KINDS), pl.col("exponent").replace_strict(WEIGHTS)
        values = curves(rows).with_columns(line=pl.concat_str(names, separator="; "))
        panels = []
        for axis, title in AXES.items():
            part = values.filter(pl.col("axis") == axis)
            data = alt.Data(values=part.to_dicts())  # type: ignore[no-untyped-call]
            ticks = alt.Axis(values=sorted(set(part["x"].to_list())), format="~s", grid=False)
            panels.append(
                alt.Chart(data, title=rows["data"][0] if axis == "kappa" else "")
                .mark_line(point=alt.OverlayMarkDef(size=20), strokeWidth=1.7)
                .encode(
                    x=alt.X("x:Q", title=title, scale=alt.Scale(type="log", nice=False, padding=8), axis=ticks),
                    y=alt.Y("rs_100:Q", title="mean RS", scale=alt.Scale(domain=[0, 1])),
                    color=alt.Color("line:N", scale=colour, legend=key),
                    strokeDash=alt.StrokeDash("line:N", scale=dash, legend=key),
                )
                .properties(width=190, height=150)
            )
        strips.append(alt.hconcat(*panels))
    alt.vconcat(*strips).save(str(target))


def main() -> None:
    """Print the tables and draw the figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plot", type=Path, help="where to draw the figure")
    given = parser.parse_args()
    pl.Config.set_tbl_rows(60).set_tbl_cols(12).set_tbl_width_chars(140).set_float_precision(2)
    for name in ("cifar100-seeds", "cifar10-seeds"):
        rows = load(name)
        for score in ("rs_100", "rs_mean"):
            print(name, score, judge(rows, score=score))
        for half, row in zip(("chosen on one half:", "on the other half:"), choose(rows), strict=True):
            print(half, row)
    tables = [load(name) for name in NAMES if (RESULTS / f"power-{name}.csv").exists()]
    for rows in tables:
        print(rows["data"][0], curves(rows))
    if given.plot:
        plot(tables, given.plot)


if __name__ == "__main__":
    main()
