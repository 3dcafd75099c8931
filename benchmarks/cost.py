"""What probes and relearning cost as C, d, N and M grow: a figure, exponents, and what they predict for 10^5 classes.

Around a head of random rows (C=200, d=512, N=10,000, M=10) one number changes at a time. Seconds are CPU time of all
cores together, so that other programs disturb them little; those of relearning are of one epoch. An exponent is the
slope of the last three points: what counts for larger ones.

    python benchmarks/cost.py                  # measure, ten CPU minutes; write the rows and docs/cost.svg
    python benchmarks/cost.py --plot           # draw the stored rows again
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import polars as pl
import torch

from sfra.attack.probes import sample_probes
from sfra.attack.relearn import relearn
from sfra.core.head import Head

ROWS = Path(__file__).parent / "results" / "cost.csv"
FIGURE = Path(__file__).parents[1] / "docs" / "cost.svg"
BASE = {"C": 200, "d": 512, "N": 10_000, "M": 10}
GRID = {
    "C": (10, 25, 50, 100, 200, 400, 800, 1600, 3200),
    "d": (64, 128, 256, 512, 1024, 2048),
    "N": (2_500, 5_000, 10_000, 20_000, 40_000, 80_000),
    "M": (5, 10, 20, 40, 80, 160),
}
MANY = 100_000
WORKS = {"probes": "drawing the probes", "relearning": "relearning, one epoch"}
COLOURS = ["#0072b2", "#d55e00"]


def cpu_seconds(work: Callable[[], object]) -> float:
    """Return the CPU time of all threads."""
    began = time.process_time()
    work()
    return time.process_time() - began


def measure(C: int, d: int, N: int, M: int) -> dict[str, float]:
    """Draw the probes of a head of random rows of equal lengths, and relearn it; its first loss is half an epoch."""
    rows = torch.randn(C, d, generator=torch.Generator().manual_seed(0))
    head = Head(2.0 * torch.nn.functional.normalize(rows, dim=1))
    found = []
    drawing = cpu_seconds(lambda: found.append(sample_probes(head, 0, n=N, m=M)))
    learning = cpu_seconds(lambda: relearn(head, found[0], epochs=2))
    return {"probes": drawing, "relearning": learning / 2.5, "draws": found[0].draws}


def rows() -> Iterator[dict[str, float | str]]:
    """Change one number at a time."""
    measure(10, 16, 1000, 5)
    measure(200, 16, 1000, 5)  # both paths are compiled now
    for axis, values in GRID.items():
        for value in values:
            row = {"axis": axis, "value": value, **measure(**BASE | {axis: value})}
            print(row, flush=True)
            yield row


def exponents(found: pl.DataFrame) -> dict[tuple[str, str], tuple[float, float]]:
    """Fit ``log seconds = a + e log value`` to the last three points of each curve; return ``e`` and ``a``."""
    fits = {}
    for axis in GRID:
        last = found.filter(pl.col("axis") == axis).sort("value").tail(3)
        for work in WORKS:
            slope, start = np.polyfit(np.log(last["value"].to_numpy()), np.log(last[work].to_numpy()), 1)
            fits[axis, work] = float(slope), float(start)
    return fits


def predict(found: pl.DataFrame, classes: int = MANY) -> dict[str, float]:
    """Extend the curves over C to many classes: CPU seconds at the other numbers of the grid's centre."""
    fits = exponents(found)
    return {work: float(np.exp(fits["C", work][1]) * classes ** fits["C", work][0]) for work in WORKS}


def plot(found: pl.DataFrame, target: Path) -> None:
    """Draw a panel for each number, both axes logarithmic, the exponents beside the lines."""
    import altair as alt

    long = found.unpivot(list(WORKS), index=["axis", "value"], variable_name="work", value_name="seconds")
    fits, panels = exponents(found), []
    for axis in GRID:
        part = long.filter(pl.col("axis") == axis)
        ends = [
            {**row, "text": f"{axis}^{fits[axis, row['work']][0]:.1f}"}
            for row in part.filter(pl.col("value") == max(GRID[axis])).to_dicts()
        ]
        x = alt.X("value:Q", scale=alt.Scale(type="log", nice=False), title=axis, axis=alt.Axis(format="~s"))
        y = alt.Y("seconds:Q", scale=alt.Scale(type="log"), title="CPU seconds", axis=alt.Axis(format="~g"))
        key = alt.Legend(title=None, orient="top", labelLimit=0, labelExpr=f"{WORKS!r}[datum.value]")
        colour = alt.Color("work:N", scale=alt.Scale(domain=list(WORKS), range=COLOURS), legend=key)
        lines = alt.Chart(alt.Data(values=part.to_dicts())).mark_line(point=True).encode(x=x, y=y, color=colour)
        names = alt.Chart(alt.Data(values=ends)).mark_text(align="left", dx=5, fontSize=12)
        panels.append(
            (lines + names.encode(x="value:Q", y="seconds:Q", text="text:N")).properties(width=190, height=170)
        )
    alt.vconcat(alt.hconcat(*panels[:2]), alt.hconcat(*panels[2:])).save(str(target))


def main() -> None:
    """Measure, write, predict."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plot", action="store_true", help="only draw the stored rows")
    if not parser.parse_args().plot:
        pl.DataFrame(list(rows())).write_csv(ROWS)
    found = pl.read_csv(ROWS)
    for (axis, work), (slope, _) in exponents(found).items():
        print(f"{work:12} {axis}^{slope:.2f}")
    for work, seconds in predict(found).items():
        print(f"{work:12} at {MANY:,} classes: {seconds / 3600:.1f} CPU hours")
    plot(found, FIGURE)


if __name__ == "__main__":
    main()
