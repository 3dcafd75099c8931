"""Sentences about two methods whose published rates can hardly move a weight: what is left of the class, and why."""

from __future__ import annotations

from statistics import fmean

from reproduction.agreement import ByClass, averages, pairs
from reproduction.experiments import FULL, OWN, RATES, STEPS, World, classes_of, values
from reproduction.simple import joined, listed, percent, score
from reproduction.stored import PUBLISHED, Kept, printed
from sfra.bench.protocol import load_protocol
from sfra.bench.tables.names import method_name
from sfra.models import recipes

BARELY = ("random-label", "boundary-shrink")
"""Methods whose rates in the paper's code, 1e-7 and 1e-8, can hardly move a weight."""

SAME = 0.03
"""Accuracies of two models that differ by less, class by class, are called the same."""


def alike(kept: Kept) -> str:
    """Compare the two methods whose rates hardly move weights, as the paper prints them."""
    del kept
    forget, retain = (_apart(printed("unlearned", f"{what}_acc")) for what in ("forget", "retain"))
    rs = _apart(printed("sfra", "rs"))
    return (
        f"{listed(BARELY)} have rates of 1e-7 and 1e-8 in the paper's code. What it prints of them is nearly the same, "
        f"class by class: forget accuracies differ by at most {percent(max(forget))} points, retain accuracies by "
        f"{percent(max(retain))}, RS by {score(max(rs))}, though the two losses are not alike. That is what one would "
        "see if neither moved the weights much and both lost the class to batch-norm statistics, which follow the "
        "forget samples in either; the printed numbers cannot tell. An experiment with our networks is below."
    )


def other_settings(kept: Kept) -> str:
    """Name what else than the rate is other in (b), method by method."""
    names = [load_protocol(f"{kept.group}{world.ending}").recipe for world in (OWN, RATES)]
    base, other = (recipes.load(name).methods for name in names if name is not None)
    told = []
    for method in load_protocol(f"{kept.group}{RATES.ending}").methods:
        mine, theirs = (some.get(method, {}) for some in (base, other))
        differing = sorted(n for n in {*mine, *theirs} - {"learning_rate"} if mine.get(n) != theirs.get(n))
        if differing:
            told.append(f"{method_name(method)} ({', '.join(n.replace('_', ' ') for n in differing)})")
    return f", which changes more than the rate for {joined(told)}" if told else ""


def barely(kept: Kept) -> list[str]:
    """Say what the models are like that rates of 1e-7 and 1e-8 leave, in (b) where it has them, whose original is ours.

    In (d), whose original has the schedule of the paper's code, they are told after that.
    """
    found = {world: sum(method in values(kept, world) for method in BARELY) for world in (RATES, FULL, STEPS)}
    world = max(found, key=found.__getitem__)
    if not found[world]:
        return []
    forget = values(kept, world, PUBLISHED, "forget_before")
    again = ""
    if found[FULL] and world is not FULL:
        classes = sorted({c for some in values(kept, FULL).values() for c in some}, key=int)
        again = f" In (d), classes {joined(classes)}, where drift alone was not measured: {_left(kept, FULL)}."
    return [
        f"What rates of 1e-7 and 1e-8 leave, in ({world.letter}), retain and forget accuracy: {_left(kept, world)}; "
        f"the original's forget accuracy is {_original(kept, world)}. {_still_alike(forget, values(kept, world))}"
        f"{_drift(kept)}{again}"
    ]


def _left(kept: Kept, world: World) -> str:
    """Give the accuracies that the two leave in a world, beside the paper's over the same classes."""
    sides = {w: values(kept, world, PUBLISHED, f"{w}_before") for w in ("retain", "forget")}
    theirs = {w: printed("unlearned", f"{w}_acc") for w in ("retain", "forget")}
    told = []
    for method in (m for m in BARELY if m in sides["forget"]):
        classes = classes_of([sides["forget"], theirs["forget"]], [method])
        ours, paper = (
            [percent(averages(s[w], classes)[method]) for w in ("retain", "forget")] for s in (sides, theirs)
        )
        told.append(f"{method_name(method)} {ours[0]} and {ours[1]} % (paper {paper[0]} and {paper[1]} %)")
    return "; ".join(told)


def _original(kept: Kept, world: World) -> str:
    rows = [row for row in kept.originals if row["protocol"] == f"{kept.group}{world.ending}"]
    rows = rows or [row for row in kept.originals if row["protocol"] == kept.group and world is RATES]
    classes = {forget for some in values(kept, world).values() for forget in some}
    mine = [row["hits"] / row["samples"] for row in rows if str(int(row["label"])) in classes]
    return f"{percent(fmean(mine))} %" if mine else "not kept"


def _still_alike(before: ByClass, rs: ByClass) -> str:
    if not all(m in rs for m in BARELY):
        return "The other of the two is not there to compare."
    forget, scores = _apart(before), _apart(rs)
    if not forget:
        return "They have no class in common yet."
    return (
        f"Class by class, the two differ by at most {percent(max(forget))} points of forget accuracy and "
        f"{score(max(scores))} in RS."
    )


def _drift(kept: Kept) -> str:
    """Compare the two with what batches of the class do to batch-norm averages alone, in the same original."""
    passes = max((row["passes"] for row in kept.drift), default=0)
    moved = {str(row["forget"]): row for row in kept.drift if row["passes"] == passes}
    sides = {"retain": "retain_before", "forget_accuracy": "forget_before"}
    apart = [
        abs(moved[label][name] - value)
        for name, before in sides.items()
        for method, some in values(kept, RATES, PUBLISHED, before).items()
        for label, value in some.items()
        if method in BARELY and label in moved
    ]
    if not apart:
        return ""
    left = [percent(fmean(row[name] for row in moved.values())) for name in sides]
    alike = "as far as accuracies tell, nothing else happens there"
    told = alike if max(apart) < SAME else "other things moved too"
    return (
        f" With no weight changed at all, {passes} passes over the class in training mode, which move only batch-norm "
        f"averages, leave {left[0]} and {left[1]} % (`benchmarks/drift.py`), class by class within "
        f"{percent(max(apart))} points of either in (b): {told}.{_audited(kept)}"
    )


def _audited(kept: Kept) -> str:
    """Say what audits find in networks that only drifted, beside the models of the two methods."""
    found = {str(row["forget"]): row["rs"] for row in kept.drift_audits if (row["scale"], row["rule"]) == PUBLISHED}
    rs = values(kept, RATES)
    sides = {m: {label: value for label, value in rs.get(m, {}).items() if label in found} for m in BARELY}
    if not all(sides.values()):
        return " No such network was audited."
    apart = max(abs(found[label] - value) for some in sides.values() for label, value in some.items())
    told = joined([f"{method_name(m)} {score(fmean(some.values()))}" for m, some in sides.items()])
    return (
        f" Audited, such networks of classes {joined(sorted(found))} give RS {score(fmean(found.values()))} in the "
        f"paper's reading ({told}), class by class within {score(apart, 3)} of either."
    )


def _apart(side: ByClass) -> list[float]:
    """List how far the two methods are apart, class by class."""
    one, other = ({"it": side.get(method, {})} for method in BARELY)
    return [abs(a - b) for a, b in pairs(one, other).values()]
