"""Tables of the same audits in other worlds: other learning rates, other trainings, the norm of the heads."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, harmonic_mean

from reproduction.rows import METHOD_LIST, PUBLISHED, ByClass, Group, Side, arrange, averages
from reproduction.tables import METHOD_ROWS, Cells, percent, score, shown, table
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
    "b": World(ending="-published", what="our schedule, the paper's rates", shares=("retrained", "delete")),
    "c": World(ending="-steps", what="a step schedule, shortened, the paper's rates"),
    "d": World(ending="-long-steps", what="the schedule of the paper's code in full, the paper's rates"),
}
LEGEND = "; ".join(f"({letter}) {world.what}" for letter, world in WORLDS.items())


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
    return table(label, title, rows, [counts, *columns], (f"{LEGEND}. {note}",))


def experiments(group: Group, paper: Side) -> Table:
    """Show the mean RS of every world beside the paper's, over the classes that all have, and over all classes."""
    found = {letter: some for letter in WORLDS if (some := values(group, letter))}
    sides: dict[str, ByClass] = {"Paper": paper.rs[PUBLISHED]} | {f"({one})": some for one, some in found.items()}
    classes = common(list(sides.values())) if len(found) > 1 else {}
    every = {m: list(some) for m, some in sides["Paper"].items()}
    columns: list[Cells] = [(_key(name), name, shown(averages(side, classes))) for name, side in sides.items()]
    columns += [
        (f"{_key(name)}_all", f"{name}, all classes", shown(whole))
        for name, side in sides.items()
        if (whole := averages(side, every))
    ]
    note = "Native scale, worst-case. Over the classes that all have, unless it says all classes."
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


Curve = dict[float, float]
"""RS by κ."""


def rs_at(curve: Curve, kappa: float) -> float | None:
    """Interpolate RS at a scale, linearly in log κ between neighbours; None outside the sweep.

    >>> rs_at({1.0: 0.0, 4.0: 0.5}, 2.0)
    0.25
    """
    for low, high in pairwise(sorted(curve)):
        if low <= kappa <= high:
            return curve[low] + math.log(kappa / low) / math.log(high / low) * (curve[high] - curve[low])
    return None


def kappa_at(curve: Curve, value: float) -> float | None:
    """Find the smallest scale at which a curve rises to a value, interpolated likewise; None if it never does.

    >>> kappa_at({1.0: 0.0, 4.0: 0.5}, 0.25)
    2.0
    """
    for low, high in pairwise(sorted(curve)):
        if curve[low] <= value <= curve[high] and curve[low] < curve[high]:
            return low * math.pow(high / low, (value - curve[low]) / (curve[high] - curve[low]))
    return None


@dataclass(frozen=True, kw_only=True)
class Retrained:
    """Retrained models as released, and over κ; of one forget class, or the mean of some."""

    kappa: float
    """Median norm of the centred retain rows as released, harmonic mean."""
    native: float
    canonical: float
    interpolated: float | None
    """RS at the own κ, interpolated: shows what interpolating costs."""
    paper: float
    reached: float | None
    """κ at which the mean RS is the paper's."""


def retrained(group: Group, paper: Side, classes: Sequence[str]) -> Retrained:
    """Average worst-case RS of the group's retrained models over forget classes."""
    gains = arrange(group.rows("diagnostics").filter(method="retrained", scale="canonical"), "gain")["retrained"]
    kappas = {c: KAPPA / gains[c] for c in classes}
    native, canonical = (group.rs((scale, "worst-case"))["retrained"] for scale in ("native", "canonical"))
    theirs = fmean(paper.rs[PUBLISHED]["retrained"][c] for c in classes)
    curves = retrained_curves(group)
    own = [rs_at(curves[c], kappas[c]) for c in classes]
    return Retrained(
        kappa=harmonic_mean(list(kappas.values())),
        native=fmean(native[c] for c in classes),
        canonical=fmean(canonical[c] for c in classes),
        interpolated=None if None in own else fmean(one for one in own if one is not None),
        paper=theirs,
        reached=kappa_at({k: fmean(curves[c][k] for c in classes) for k in curves[classes[0]]}, theirs),
    )


def retrained_curves(group: Group) -> dict[str, Curve]:
    """Arrange worst-case RS of the group's retrained models by forget class and κ."""
    found: dict[str, Curve] = {}
    for forget, kappa, rs in (
        group.swept("worst-case").filter(method="retrained").select("forget", "kappa", "rs").rows()
    ):
        found.setdefault(forget, {})[kappa] = rs
    return found


def norm(group: Group, paper: Side) -> Table:
    """Show retrained models at their own norm and at one, and where they give the paper's RS."""
    curves = retrained_curves(group)
    every = sorted((c for c in curves if c in paper.rs[PUBLISHED].get("retrained", {})), key=int)
    some = [c for c in every if c in values(group, "c").get("retrained", {})]
    lines = {c: [c] for c in every if len(curves[c]) > 1}
    if lines:
        lines |= {f"mean of {', '.join(some[:-1])} and {some[-1]}": some} if some else {}
        lines |= {f"mean of all {len(every)}": every}
    found = {name: retrained(group, paper, classes) for name, classes in lines.items()}
    headings = {
        "kappa": ("a_kappa", "κ of (a)"),
        "native": ("a", "(a)"),
        "interpolated": ("a_scaled", "(a) at κ of (a)*"),
        "canonical": ("a_canonical", f"(a) at κ = {KAPPA:.2f}"),
        "paper": ("paper", "Paper"),
        "reached": ("paper_kappa", "κ at which (a) gives the paper's*"),
    }
    columns: list[Cells] = [
        (*names, {line: score(getattr(one, value)) for line, one in found.items()}) for value, names in headings.items()
    ]
    kappas = sorted({kappa for curve in curves.values() for kappa in curve})
    notes = (
        "RS, worst-case, as released unless κ is named. κ of (a): median norm of the centred retain rows of the head "
        "as released; its means are harmonic.",
        f"* Interpolated between the scales of the sweep, κ = {kappas[0]:.2f} to {kappas[-1]:.2f}, linearly in log κ. "
        "(a) at κ of (a) shows what interpolating costs. In the last column, of a mean row: κ at which the mean RS is "
        "the paper's mean.",
    )
    title, rows = "Retrained models and the norm of their heads", {name: name for name in lines}
    return table("retrained-norm", title, rows, columns, notes, ("forget_class", "Forget class"))
