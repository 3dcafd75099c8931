"""Tables of the same audits in other worlds: other learning rates, other trainings, the norm of the heads."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean

import polars as pl

from reproduction.rows import METHOD_LIST, PUBLISHED, ByClass, Group, Side, averages
from reproduction.tables import METHOD_ROWS, Cells, Text, percent, score, shown, table
from sfra.attack.scale import KAPPA
from sfra.bench.tables import Table


@dataclass(frozen=True, kw_only=True)
class World:
    """A protocol that makes the models of the group in another way."""

    ending: str
    """What the name of its protocol adds to the group's."""
    what: str
    shares: tuple[str, ...] = ()
    """Methods whose models are the group's own: same network, same settings."""


WORLDS = {
    "a": World(ending="", what="our schedule and rates"),
    "b": World(
        ending="-published", what="our schedule, rates and settings of the paper's code", shares=("retrained", "delete")
    ),
    "c": World(ending="-steps", what="a step schedule, shortened, the paper's rates"),
    "d": World(ending="-long-steps", what="the schedule of the paper's code in full, the paper's rates"),
}
LEGEND = "; ".join(f"({letter}) {world.what}" for letter, world in WORLDS.items())
SAME = "Retrained and DELETE are the same models in (a) and (b)."


def values(group: Group, letter: str, value: str = "rs") -> dict[str, dict[str, float]]:
    """Arrange a value of a world's main audits in the paper's reading; shared models are the group's."""
    world = WORLDS[letter]
    found = group.rs(PUBLISHED, value, ending=world.ending)
    base = group.rs(PUBLISHED, value) if found and world.shares else {}
    return {m: base[m] for m in world.shares if m in base} | {m: found[m] for m in found if m in METHOD_LIST}


def common(sides: Sequence[ByClass]) -> dict[str, list[str]]:
    """List the forget classes of each method that all sides have that have the method at all.

    Of a method that a side lacks, only classes stay that methods of all sides have.
    """
    found = {}
    for method in METHOD_LIST:
        some = [set(side[method]) for side in sides if side.get(method)]
        found[method] = sorted(set.intersection(*some)) if some else []
    used = {c for m, classes in found.items() if all(side.get(m) for side in sides) for c in classes}
    some_used = {m: [c for c in classes if c in used or not used] for m, classes in found.items()}
    return {m: classes for m, classes in some_used.items() if classes}


def _experiment(label: str, title: str, classes: dict[str, list[str]], columns: list[Cells], note: str) -> Table:
    counts: Cells = ("classes", "Classes", {m: str(len(some)) for m, some in classes.items()})
    rows = {m: METHOD_ROWS[m] for m in classes}
    return table(label, title, rows, [counts, *columns], (f"{LEGEND}. {note} {SAME}",))


def experiments(group: Group, paper: Side) -> Table:
    """Show the mean RS of every world beside the paper's, over the classes that all have."""
    found = {letter: some for letter in WORLDS if (some := values(group, letter))}
    sides: dict[str, ByClass] = {"Paper": paper.rs[PUBLISHED]} | {f"({one})": some for one, some in found.items()}
    classes = common(list(sides.values())) if len(found) > 1 else {}
    columns: list[Cells] = [(_key(name), name, shown(averages(side, classes))) for name, side in sides.items()]
    note = "Native scale, worst-case, over the classes that all have."
    return _experiment("experiments", "Mean RS with other recipes", classes, columns, note)


def experiments_models(group: Group, paper: Side) -> Table:
    """Show the accuracies of the unlearned models of every world beside the paper's."""
    sides: dict[tuple[str, str], ByClass] = {}
    for what, theirs in (("retain", paper.retain), ("forget", paper.forget)):
        found = {f"({letter})": some for letter in WORLDS if (some := values(group, letter, f"{what}_before"))}
        sides |= {(what, "Paper"): theirs} | {(what, name): some for name, some in found.items()}
    classes = common(list(sides.values())) if len(sides) > 4 else {}
    columns: list[Cells] = [
        (f"{what}_{_key(name)}", f"{what.title()} (%): {name}", shown(averages(side, classes), percent, 1))
        for (what, name), side in sides.items()
    ]
    title = "Accuracies of the unlearned models of other recipes"
    note = "Before relearning, test split, over the classes that all have."
    return _experiment("experiments-models", title, classes, columns, note)


def _key(name: str) -> str:
    return name.strip("()").lower()


def kappa_at(curve: dict[float, float], value: float) -> float | None:
    """Find the smallest κ at which a curve rises to a value, linearly in log κ between points; None if it never does.

    >>> kappa_at({1.0: 0.0, 4.0: 0.5}, 0.25)
    2.0
    """
    for low, high in pairwise(sorted(curve)):
        if curve[low] <= value <= curve[high] and curve[low] < curve[high]:
            return low * math.pow(high / low, (value - curve[low]) / (curve[high] - curve[low]))
    return None


def reached(group: Group, paper: Side, classes: Sequence[str]) -> float | None:
    """Find the κ at which our retrained models give the paper's mean RS over some forget classes, worst-case."""
    rows = group.swept("worst-case").filter(pl.col("forget").is_in(classes), method="retrained")
    curve = dict(rows.group_by("kappa").agg(pl.mean("rs")).iter_rows())
    return kappa_at(curve, fmean(paper.rs[PUBLISHED]["retrained"][c] for c in classes))


def norm(group: Group, paper: Side) -> Table:
    """Show the norm of the heads of retrained models, their RS, and the norm at which it would be the paper's."""
    ours, theirs = (some.get("retrained", {}) for some in (group.rs(PUBLISHED), paper.rs[PUBLISHED]))
    gains = group.diagnosed("gain", "canonical").get("retrained", {})
    known = set(ours) & set(theirs) & set(gains)
    every = sorted(known, key=int) if group.swept()["kappa"].n_unique() > 1 else []
    lines = {c: [c] for c in every} | ({f"mean of all {len(every)}": every} if every else {})
    found: dict[str, dict[str, Text]] = {"κ": {}, "RS": {}, "Paper": {}, "κ at which ours gives the paper's": {}}
    for line, some in lines.items():
        numbers = (KAPPA / fmean(gains[c] for c in some), fmean(ours[c] for c in some), fmean(theirs[c] for c in some))
        for heading, value in zip(found, (*numbers, reached(group, paper, some)), strict=True):
            found[heading][line] = score(value)
    names = ("kappa", "rs", "paper", "paper_kappa")
    columns = [(name, heading, cells) for name, (heading, cells) in zip(names, found.items(), strict=True)]
    notes = (
        "RS, native, worst-case. κ: median norm of the centred retain rows of the head as released; its mean is "
        "harmonic. The last column is interpolated between the scales of the sweep, linearly in log κ; in the last "
        "line it is where the mean RS is the paper's mean.",
    )
    title, rows = "Retrained models and the norm of their heads", {line: line for line in lines}
    return table("retrained-norm", title, rows, columns, notes, ("forget_class", "Forget class"))
