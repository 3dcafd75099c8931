"""Sentences about retrained models of other trainings: which part of the gap to the paper's they close."""

from __future__ import annotations

from collections.abc import Sequence

from reproduction.agreement import ByClass, averages
from reproduction.experiments import NEARER, OWN, STEPS, World, classes_of, native_kappa, trained_otherwise, values
from reproduction.simple import joined, percent, score
from reproduction.stored import VERDICT, Kept, printed

EXPLAINED, PART = 0.8, 0.2
"""Shares of a gap: from the first on it counts as closed, up to the second as open."""


def references(kept: Kept) -> list[str]:
    """Say of every training with retrained models of its own what it does to them."""
    return [_reference(kept, world) for world in trained_otherwise(kept)]


def _reference(kept: Kept, world: World) -> str:
    """Say what a training does to retrained models, and whether that is what sets ours apart from the paper's."""
    sides, letter = [printed("sfra", "rs"), values(kept, OWN), values(kept, world)], f"({world.letter})"
    classes = classes_of(sides, ["retrained"])
    paper, own, other = (averages(side, classes)["retrained"] for side in sides)
    quiet = values(kept, world, VERDICT).get("retrained", {})
    canonical = f" At canonical scale, source-free, the highest of {letter} is {score(max(quiet.values()))}."
    last = [averages(values(kept, one, ("native", "source-free")), classes).get("retrained") for one in (OWN, world)]
    ends = f" (with the last epoch {score(last[0])} and {score(last[1])})" if None not in last else ""
    return (
        f"Retrained models, classes {joined(classes['retrained'])}: {score(own)} in (a), {score(other)} in {letter}"
        f"{ends}, {score(paper)} in the paper{_kappas(kept, world, classes['retrained'])}. "
        f"{_verdict(own, other, paper, world)}{_shares(sides, classes['retrained'])}{canonical if quiet else ''}"
    )


def _shares(sides: Sequence[ByClass], classes: Sequence[str]) -> str:
    """Say how much of the gap is closed class by class, where every class has one."""
    each = [tuple(side["retrained"][forget] for side in sides) for forget in classes]
    if len(each) < 2 or any(abs(paper - own) < NEARER for paper, own, _ in each):
        return ""
    found = [(other - own) / (paper - own) for paper, own, other in each]
    low, high = (percent(share, 0) for share in (min(found), max(found)))
    return f" By class it is {low} to {high} % of it." if low != high else ""


def _verdict(own: float, other: float, paper: float, world: World) -> str:
    """Say which share of the gap between ours and the paper's a training closes."""
    if abs(paper - own) < NEARER:
        return "There is hardly a gap to close."
    share, training = (other - own) / (paper - own), f"So the training of ({world.letter})"
    if share > 2 - EXPLAINED:
        return f"That is past the paper's, by {score(abs(other - paper))}."
    if share >= EXPLAINED:
        return f"{training} closes the gap."
    if share > PART:
        return f"{training} closes {percent(share, 0)} % of the gap."
    form = f", {'a shortened form of ' if world is STEPS else ''}the schedule of the paper's code,"
    if round(100 * share) > 0:
        return f"{training}{form} closes only {percent(share, 0)} % of the gap."
    return f"{training}{form} does not close the gap."


def _kappas(kept: Kept, world: World, classes: Sequence[str]) -> str:
    own, other = (native_kappa(kept, one, classes) for one in (OWN, world))
    if own is None or other is None:
        return ""
    return f"; median norm of the retain rows {score(own)} in (a), {score(other)} in ({world.letter})"
