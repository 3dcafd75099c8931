"""What the verdicts are worth: rates of false alarms, misses and false all-clears, from the rows of trust.py.

    python benchmarks/trust_report.py            # tables, from benchmarks/results/trust-*.csv
    python benchmarks/trust_report.py --docs     # and the figure and the table of docs/trust.md

Honest models are retrained ones: each is judged beside every choice of one, two or four other retrainings of the same
class, or beside none. Hiding models are originals without the output of a class, judged beside the same references. The
verdict is sfra's own, with the self-control of the judged model, or with another original as the control. A rate is the
mean over classes, which count alike.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from statistics import fmean, median, variance
from typing import Any, Literal
from unittest.mock import patch

import polars as pl
from msgspec.structs import replace

from checkpoints import put
from sfra.auditing.control import is_seen
from sfra.auditing.result import Control, Hidden, Score
from sfra.auditing.rules import VERDICT_RULE
from sfra.auditing.score import compare
from sfra.auditing.verdict import Sight, overall_verdict, verdict
from sfra.auditing.verdicts import VERDICTS
from sfra.core.files import write_text
from sfra.core.metrics import Accuracy, Change, degenerate_floor, estimate_rs

RESULTS, DOCS = (Path(__file__).parents[1] / name for name in ("benchmarks/results", "docs"))
GROUP = ("data", "arch", "forget")
REFERENCES = (0, 1, 2, 4)
KINDS = {"back": "#d55e00", "open": "#e8c35a", "blind": "#9a9a9a", "clear": "#0072b2"}
WORLDS = {
    ("digits", "small-mlp"): "digits, no norm",
    ("digits", "norm-mlp"): "digits, layer norm",
    ("digits", "small-cnn"): "digits, batch norm",
    ("cifar10", ""): "CIFAR-10, ResNet-18",
    ("cifar100", ""): "CIFAR-100, ResNet-18",
}
CLASSES = {"cifar100": 100}
MODELS = {"retrained": "never saw the class", "masked": "only hides it"}
PANELS = {0: "no reference", 1: "one reference", 2: "two references", 4: "four references"}
WORDS = {
    "back": "back: comes back",
    "open": "open: cannot tell",
    "blind": "blind: stays away, may be unseen",
    "clear": "clear: stays away, would be seen",
}
SPREADS = {"RETRAINING_SPREAD": "released", "FRESH_SPREAD": "fresh"}
REACHED = (pl.col("power", "lowest", "median").sum(), pl.len().alias("models"))
Row = Mapping[str, Any]


def read_rows(folder: Path = RESULTS) -> pl.DataFrame:
    """Read the rows of every data set."""
    parts = [
        pl.read_csv(path, schema_overrides={"arch": pl.String}).with_columns(
            data=pl.lit(path.stem.removeprefix("trust-")), arch=pl.col("arch").fill_null("")
        )
        for path in sorted(folder.glob("trust-*.csv"))
    ]
    return pl.concat(parts)


def angle(rs: float) -> float:
    """Return ``arcsin √RS``, on which scale separate trainings spread about alike at every level."""
    return math.asin(math.sqrt(min(1.0, max(0.0, rs))))


def pooled_spread(groups: Iterable[Sequence[float]]) -> tuple[float, int]:
    """Return the standard deviation within groups, and its degrees of freedom.

    >>> pooled_spread([[0.0, 2.0], [5.0, 5.0], [1.0]])
    (1.0, 2)
    """
    several = [group for group in groups if len(group) > 1]
    freedom = sum(len(group) - 1 for group in several)
    return math.sqrt(sum((len(group) - 1) * variance(group) for group in several) / freedom), freedom


def score_of(row: Row) -> Score:
    """Make a row what the verdict reads."""
    names = ("retain_before", "retain_after", "forget_before", "forget_after")
    known = [Accuracy(mean=row[name], size=float(row[f"{name.partition('_')[0]}_samples"])) for name in names]
    changes = Change(before=known[0], after=known[1]), Change(before=known[2], after=known[3])
    score = Score(
        scale="canonical",
        kappa=None,
        variant="released" if row["row"] == "released" else "reset-row",
        rule=VERDICT_RULE,
        rs=row["rs"],
        rs_std=None,
        rs_seeds=(row["rs"],),
        rs_interval=estimate_rs(*changes, [row["rs"]]).interval,
        **{name: row[name] for name in names},
        floor=degenerate_floor(row["retain_before"]),
        forget_samples=row["forget_samples"],
        epoch=0,
        epochs=(0,),
    )
    return replace(score, verdict=verdict(score))


def look(kind: Literal["self", "original"], hidden: Sequence[Score]) -> Control:
    """Say which hidden classes an audit sees that gives them these scores."""
    seen = (Hidden(classes=(0,), accuracy=1.0, seen=is_seen(score), score=score) for score in hidden)
    return Control(kind=kind, source="", hidden=tuple(seen))


def judgements(rows: pl.DataFrame, counts: Sequence[int] = REFERENCES) -> Iterator[dict[str, Any]]:
    """Judge every model beside every choice of other retrainings, with its self-control and with other originals."""
    for about, part in rows.group_by(GROUP, maintain_order=True):
        models = dict(part.group_by("model", "seed", maintain_order=True))
        own, hidden = (
            {
                key: [score_of(row) for row in some.filter(kept).sort("row", descending=True).to_dicts()]
                for key, some in models.items()
            }
            for kept in (pl.col("row") != "self", pl.col("row") == "self")
        )
        honest, originals = ([key for key in models if key[0] == name] for name in MODELS)
        choices = [chosen for k in counts for chosen in combinations(honest, k)]
        for chosen in choices:
            references = [own[key] for key in chosen]
            beside = {key: compare(scores, references) for key, scores in own.items() if key not in chosen}
            for key, scores in beside.items():
                looks = [look("self", compare(hidden[key], references))] if hidden[key] else []
                looks += [look("original", beside[other]) for other in originals if other != key]
                for control in looks:
                    sight = Sight.of([control], CLASSES.get(about[0], 10))
                    code = overall_verdict(scores, row_is_odd=False, sight=sight)
                    found = {"k": len(chosen), "control": control.kind, "kind": VERDICTS[code].kind}
                    about_model = dict(zip((*GROUP, "model", "seed"), (*about, *key), strict=True))
                    yield about_model | found | {"seen": control.seen}


def rates(judged: pl.DataFrame, *by: str) -> pl.DataFrame:
    """Return the share of each kind of verdict: the mean over architectures and classes, which count alike."""
    shares = [(pl.col("kind") == kind).mean().alias(kind) for kind in KINDS]
    counts = [pl.len().alias("judgements"), pl.struct("model", "seed").n_unique().alias("models")]
    each = judged.group_by(list(dict.fromkeys((*GROUP, *by))), maintain_order=True).agg(*shares, *counts)
    sums = [pl.col("judgements").sum(), pl.col("models").sum(), pl.len().alias("classes")]
    return each.group_by(by, maintain_order=True).agg(*(pl.col(kind).mean() for kind in KINDS), *sums)


def spreads(rows: pl.DataFrame) -> pl.DataFrame:
    """Return how far honest retrainings of a class lie apart, by world and row: standard deviations and the level."""
    honest = rows.filter(pl.col("model") == "retrained", pl.col("row") != "self")
    found = []
    for (data, arch, row), part in honest.group_by("data", "arch", "row", maintain_order=True):
        groups = [some["rs"].to_list() for _, some in part.group_by("forget", maintain_order=True)]
        (plain, freedom), (turned, _) = pooled_spread(groups), pooled_spread([[*map(angle, one)] for one in groups])
        about = {"data": data, "arch": arch, "row": row, "level": fmean(map(fmean, groups))}
        found.append(about | {"rs": plain, "angle": turned, "freedom": freedom})
    return pl.DataFrame(found)


def left_out(rows: pl.DataFrame) -> pl.DataFrame:
    """Judge honest models beside one reference by spreads of the other classes, in the network that spreads most."""
    honest, found = rows.filter(model="retrained"), []
    for (forget,), part in honest.group_by("forget", maintain_order=True):
        rest = spreads(honest.filter(pl.col("forget") != forget))
        most = {name: rest.filter(row=row)["angle"].max() for name, row in SPREADS.items()}
        with patch.multiple("sfra.auditing.verdict", **most):
            found += [one | most for one in judgements(part, [1])]
    return pl.DataFrame(found)


def places(rows: pl.DataFrame) -> pl.DataFrame:
    """Say of every model whether its forget class (fresh row) reaches the lowest and the median of its hidden classes.

    It counts only where the self-control has power without a reference: among classes that never come back, every
    class is at the median.
    """
    found = []
    for key, part in rows.group_by(*GROUP, "model", "seed", maintain_order=True):
        hidden = [score_of(row) for row in part.filter(row="self").to_dicts()]
        if hidden:
            own, beside = part.filter(row="fresh")["rs"].item(), [score.rs for score in hidden]
            power = Sight.of([look("self", hidden)], 10).power
            place = {"power": power, "lowest": power and own >= min(beside), "median": power and own >= median(beside)}
            found.append(dict(zip((*GROUP, "model", "seed"), key, strict=True)) | place)
    return pl.DataFrame(found)


def plot(judged: pl.DataFrame, target: Path) -> None:
    """Draw the share of each kind of verdict, a bar per world and kind of model, a panel per number of references."""
    import altair as alt

    values = []
    for row in rates(judged, "data", "arch", "model", "k").to_dicts():
        bar = {"world": WORLDS[row["data"], row["arch"]], "model": MODELS[row["model"]], "k": PANELS[row["k"]]}
        values += [bar | {"kind": kind, "order": i, "share": row[kind]} for i, kind in enumerate(KINDS)]
    scale = alt.Scale(domain=list(KINDS), range=list(KINDS.values()))
    words = "".join(f"datum.label == '{kind}' ? '{word}' : " for kind, word in WORDS.items()) + "''"
    legend = alt.Legend(title=None, orient="top", labelFontSize=12, labelLimit=0, labelExpr=words)
    axis = alt.Axis(format="%", values=[0, 0.5, 1])
    chart = (
        alt.Chart(alt.Data(values=values))
        .mark_bar(stroke="white", strokeWidth=0.5)
        .encode(
            x=alt.X("share:Q", title=None, scale=alt.Scale(domain=[0, 1]), axis=axis),
            y=alt.Y("world:N", title=None, sort=list(WORLDS.values()), axis=alt.Axis(labelLimit=0)),
            color=alt.Color("kind:N", scale=scale, legend=legend),
            order="order:Q",
        )
        .properties(width=150, height=100)
    )
    header = alt.Header(title=None, labelFontSize=12, labelFontWeight="bold")
    chart.facet(
        column=alt.Column("k:N", sort=list(PANELS.values()), title=None, header=header),
        row=alt.Row("model:N", sort=list(MODELS.values()), title=None, header=header),
    ).save(str(target))


def rate_table(judged: pl.DataFrame) -> str:
    """Write the rates that matter as Markdown, in percent for one, two and four references."""
    by = ("data", "arch", "model", "k")
    made = {tuple(row[name] for name in by): row for row in rates(judged, *by).to_dicts()}
    columns = {
        "never saw it: comes back (false alarm)": ("retrained", "back"),
        "never saw it: clear": ("retrained", "clear"),
        "only hides it: comes back": ("masked", "back"),
        "only hides it: clear (false all-clear)": ("masked", "clear"),
    }
    lines = [f"| network | {' | '.join(columns)} |", f"|---|{'---|' * len(columns)}"]
    for world, name in WORLDS.items():
        cells = [
            " / ".join(f"{100 * made[*world, model, k][kind]:.0f}" for k in REFERENCES[1:])
            for model, kind in columns.values()
        ]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Print the tables; write figure and table of the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--docs", action="store_true")
    asked = parser.parse_args()
    rows = read_rows()
    judged = pl.DataFrame(list(judgements(rows)))
    with pl.Config(tbl_rows=200, tbl_cols=20, float_precision=3, tbl_hide_dataframe_shape=True):
        print(spreads(rows))
        print(rates(left_out(rows), "data", "arch"))
        print(rates(judged, "control", "model", "data", "arch", "k"))
        print(places(rows).group_by("model", "data", "arch", maintain_order=True).agg(REACHED))
    if asked.docs:
        own = judged.filter(control="self")
        plot(own, DOCS / "trust.svg")
        page = (DOCS / "trust.md").read_text(encoding="utf-8")
        write_text(DOCS / "trust.md", put(page, "rates", rate_table(own)))


if __name__ == "__main__":
    main()
