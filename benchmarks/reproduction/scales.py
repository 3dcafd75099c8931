"""The same models at other scales: retrained heads at the norm of another schedule's, and every method's at every κ."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, harmonic_mean

from reproduction.agreement import Agreement, ByClass, Scores, agree, averages
from reproduction.experiments import FULL, OWN, RATES, World, classes_of, native_kappa, trained_otherwise, values
from reproduction.stored import PUBLISHED, Kept, printed
from sfra.attack.scale import KAPPA

Curve = Mapping[float, float]
"""RS by κ."""


def rs_at(curve: Curve, kappa: float | None) -> float | None:
    """Interpolate RS at a scale, linearly in log κ between neighbours; None outside of the sweep.

    >>> rs_at({1.0: 0.0, 4.0: 0.5}, 2.0)
    0.25
    """
    if kappa is None:
        return None
    for low, high in pairwise(sorted(curve)):
        if low <= kappa <= high:
            return curve[low] + math.log(kappa / low) / math.log(high / low) * (curve[high] - curve[low])
    return None


def kappa_at(curve: Curve, value: float) -> float | None:
    """Find the smallest scale at which a curve rises to a value, interpolated likewise; None if it does nowhere.

    >>> kappa_at({1.0: 0.0, 4.0: 0.5}, 0.25)
    2.0
    """
    for low, high in pairwise(sorted(curve)):
        if curve[low] <= value <= curve[high] and curve[low] < curve[high]:
            share = (value - curve[low]) / (curve[high] - curve[low])
            return low * math.pow(high / low, share)
    return None


def scale_names(kept: Kept, world: World) -> dict[float, str]:
    """Name the scales κ that a world's main audits were made at, in ascending order."""
    mine = (f"{kept.group}{world.ending}", "main", "released")
    rows = [row for row in kept.audits if (row["protocol"], row["audit"], row["variant"]) == mine]
    return dict(sorted({row["kappa"]: row["scale"] for row in rows if row["kappa"] is not None}.items()))


def curves_of(kept: Kept, world: World, method: str) -> dict[str, dict[float, float]]:
    """Arrange the worst-case RS of a method's models by forget class and κ."""
    found: dict[str, dict[float, float]] = {}
    for kappa, name in scale_names(kept, world).items():
        for forget, rs in values(kept, world, (name, "worst-case")).get(method, {}).items():
            found.setdefault(forget, {})[kappa] = rs
    return found


@dataclass(frozen=True, kw_only=True)
class Reading:
    """Retrained models of one forget class, or their mean over several, in one world."""

    native: float
    """RS as released."""
    kappa: float | None
    """Norm as released."""
    canonical: float | None
    """RS at canonical scale."""
    own: float | None
    """RS of the models of (a) at this norm, interpolated; for (a) itself it shows what interpolating costs."""

    @property
    def apart(self) -> float | None:
        """Give how far that is from these models as released."""
        return None if self.own is None else abs(self.own - self.native)


@dataclass(frozen=True, kw_only=True)
class Retrained:
    """Retrained models of one forget class, or their mean over several, in every world and in the paper."""

    forget: tuple[str, ...]
    curve: Curve
    """RS of (a) by κ."""
    paper: float
    worlds: Mapping[World, Reading]

    @property
    def reached(self) -> float | None:
        """Find the scale at which (a) gives the RS of the paper."""
        return kappa_at(self.curve, self.paper)


def retrained_models(kept: Kept) -> list[Retrained]:
    """Read the retrained models of each class that (a) has over a sweep and the paper has too."""
    paper, curves = printed("sfra", "rs")["retrained"], curves_of(kept, OWN, "retrained")
    native, canonical = (
        {world: values(kept, world, reading).get("retrained", {}) for world in (OWN, *trained_otherwise(kept))}
        for reading in (PUBLISHED, ("canonical", "worst-case"))
    )
    found = []
    for forget in sorted((c for c in native[OWN] if c in paper and len(curves.get(c, {})) > 1), key=int):
        worlds = {}
        for world in (one for one in native if forget in native[one]):
            kappa = native_kappa(kept, world, [forget])
            worlds[world] = Reading(
                native=native[world][forget],
                kappa=kappa,
                canonical=canonical[world].get(forget),
                own=rs_at(curves[forget], kappa),
            )
        found.append(Retrained(forget=(forget,), curve=curves[forget], paper=paper[forget], worlds=worlds))
    return found


def mean_models(some: Sequence[Retrained]) -> Retrained:
    """Average over classes, for the worlds that all have: κ harmonically, as gains are; what one lacks is missing."""
    shared = set.intersection(*(set(one.curve) for one in some))
    worlds = [world for world in some[0].worlds if all(world in one.worlds for one in some)]
    return Retrained(
        forget=tuple(forget for one in some for forget in one.forget),
        curve={kappa: fmean(one.curve[kappa] for one in some) for kappa in sorted(shared)},
        paper=fmean(one.paper for one in some),
        worlds={world: _mean_reading([one.worlds[world] for one in some]) for world in worlds},
    )


def _mean_reading(some: Sequence[Reading]) -> Reading:
    kappas = [one.kappa for one in some if one.kappa is not None]
    return Reading(
        native=fmean(one.native for one in some),
        kappa=harmonic_mean(kappas) if len(kappas) == len(some) else None,
        canonical=_mean([one.canonical for one in some]),
        own=_mean([one.own for one in some]),
    )


def _mean(some: Sequence[float | None]) -> float | None:
    known = [one for one in some if one is not None]
    return fmean(known) if len(known) == len(some) else None


@dataclass(frozen=True, kw_only=True)
class Scaled:
    """The methods of a world at one scale beside the paper's, over models that every line compared has."""

    world: World
    kappa: float | None
    """None as released."""
    rs: Scores
    paper: Scores

    @property
    def agreement(self) -> Agreement:
        """Compare with the paper's."""
        return agree(self.rs, self.paper)

    def off(self, by: float) -> list[str]:
        """List the methods whose RS differs from the paper's by more than an amount."""
        return [m for m in self.rs if abs(self.rs[m] - self.paper[m]) > by]


def swept_worlds(kept: Kept) -> list[tuple[World, ...]]:
    """List what is compared at every scale: (a) with (b), and (a) with (d), each as far as it has a sweep.

    (d) has fewer forget classes, so it stands beside (a) over its own ones and takes none away from (b).
    """
    swept = [world for world in (OWN, RATES, FULL) if set(scale_names(kept, world)) - {KAPPA}]
    parts = [(OWN, RATES), *([(OWN, FULL)] if FULL in swept else [])]
    return [found for part in parts if (found := tuple(world for world in part if world in swept))]


def at_every_scale(kept: Kept, worlds: Sequence[World]) -> tuple[list[Scaled], dict[str, list[str]]]:
    """Compare worlds with a sweep with the paper at every scale, worst-case.

    Returns:
        The comparisons, world by world, as released first and then by κ; and the classes of each method that they
        are over: those that the paper and every one of the worlds have at every scale.
    """
    paper, sides = printed("sfra", "rs"), _sides(kept, worlds)
    everywhere = [m for m in paper if sides and all(side.get(m) for side in sides.values())]
    classes = classes_of([paper, *sides.values()], everywhere)
    theirs = averages(paper, classes)
    made = [
        Scaled(world=world, kappa=kappa, rs=averages(side, classes), paper=theirs)
        for (world, kappa), side in sides.items()
    ]
    return (made if classes else []), classes


def _sides(kept: Kept, worlds: Sequence[World]) -> dict[tuple[World, float | None], ByClass]:
    """Arrange RS of worlds, as released and at the scales that they share."""
    names = {world: scale_names(kept, world) for world in worlds}
    sides: dict[tuple[World, float | None], ByClass] = {}
    for world, some in names.items():
        sides[world, None] = values(kept, world, PUBLISHED)
        for kappa in (one for one in some if all(one in other for other in names.values())):
            sides[world, kappa] = values(kept, world, (some[kappa], "worst-case"))
    return sides
