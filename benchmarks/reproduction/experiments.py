"""The same audits in other worlds: other learning rates, other training schedules; what each changes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from reproduction.agreement import Agreement, ByClass, Scores, agree, averages
from reproduction.stored import METHOD_LIST, PUBLISHED, VERDICT, Kept, Row, arrange, printed
from sfra.attack.scale import KAPPA
from sfra.bench.protocol import load_protocol
from sfra.models import recipes


@dataclass(frozen=True, kw_only=True)
class World:
    """A protocol that makes the models of the group in another way."""

    letter: str
    ending: str
    """What the name of its protocol adds to the group's."""
    what: str
    """Schedule and rates, in words."""


OWN = World(letter="a", ending="", what="our schedule and rates")
RATES = World(letter="b", ending="-published", what="our schedule, the paper's rates")
STEPS = World(letter="c", ending="-steps", what="a step schedule, shortened, the paper's rates")
FULL = World(letter="d", ending="-long-steps", what="the schedule of the paper's code in full, the paper's rates")
WORLDS = (OWN, RATES, STEPS, FULL)
OTHERS = WORLDS[1:]

NEARER = 0.05
"""Change of the distance from the paper's RS that is told of a single method."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """One thing changed: a world or a reading before and after."""

    what: str
    before: tuple[World, tuple[str, str]]
    after: tuple[World, tuple[str, str]]
    told: str | None = None
    """How a sentence of its own begins, where it has one."""


def _between(before: World, after: World, what: str, told: str) -> Step:
    """Change the world, read as published."""
    return Step(
        what=f"{what}, ({before.letter}) to ({after.letter})",
        before=(before, PUBLISHED),
        after=(after, PUBLISHED),
        told=f"{told}, ({after.letter}) instead of ({before.letter})",
    )


STEPS_TAKEN = (
    Step(what="reading the last epoch", before=(OWN, PUBLISHED), after=(OWN, ("native", "source-free"))),
    Step(what="canonical scale", before=(OWN, PUBLISHED), after=(OWN, ("canonical", "worst-case"))),
    _between(OWN, RATES, "the paper's rates", "The rates"),
    _between(RATES, STEPS, "another training", "The training"),
    _between(OWN, STEPS, "rates and training", "Rates and training"),
    _between(STEPS, FULL, "the training in full", "The training in full"),
    _between(OWN, FULL, "rates and full training", "Rates and full training"),
)


def values(kept: Kept, world: World, reading: tuple[str, str] = PUBLISHED, value: str = "rs") -> ByClass:
    """Arrange a value of a world's main audits by method and forget class.

    Where a world has audits, methods that it would make just as the group does are the group's own.
    """
    return _filled(kept, world, _of(kept, world, reading, value), _of(kept, OWN, reading, value))


def _of(kept: Kept, world: World, reading: tuple[str, str], value: str) -> dict[str, dict[str, float]]:
    return arrange(_main_rows(kept, world, reading), value)


def _main_rows(kept: Kept, world: World, reading: tuple[str, str]) -> list[Row]:
    mine = [row for row in kept.audits if row["protocol"] == f"{kept.group}{world.ending}"]
    wanted, names = ("main", "released", *reading), ("audit", "variant", "scale", "rule")
    rows = [row for row in mine if tuple(row[name] for name in names) == wanted]
    return [row for row in rows if row["method"] in METHOD_LIST]


def verdicts(kept: Kept, world: World) -> dict[str, dict[str, str]]:
    """List the verdicts of a world's own main audits by method and forget class."""
    found: dict[str, dict[str, str]] = {}
    for row in _main_rows(kept, world, VERDICT):
        found.setdefault(row["method"], {})[row["forget"]] = row["verdict"]
    return found


def pra_values(kept: Kept, world: World) -> ByClass:
    """Arrange the RS of PRA, cosine variant, of a world's models; the group's own where they are the same."""

    def of(protocol: str) -> dict[str, dict[str, float]]:
        rows = [row for row in kept.pra if (row["protocol"], row["variant"]) == (protocol, "cosine")]
        return arrange([row for row in rows if row["method"] in METHOD_LIST], "rs")

    return _filled(kept, world, of(f"{kept.group}{world.ending}"), of(kept.group))


def _filled(kept: Kept, world: World, found: ByClass, base: ByClass) -> ByClass:
    """Add the group's own numbers of the methods whose models another world shares with it."""
    if world is OWN or not found:
        return found
    return {m: base[m] for m in same_models(kept, world) if m in base and m not in found} | dict(found)


def same_models(kept: Kept, world: World) -> tuple[str, ...]:
    """List the methods whose models in another world are the group's: same networks, same settings."""
    named = [load_protocol(name).recipe for name in (kept.group, f"{kept.group}{world.ending}")]
    base, other = (recipes.load(name) for name in named if name is not None)
    if (base.training, base.preprocess, base.augment) != (other.training, other.preprocess, other.augment):
        return ()
    return tuple(m for m in METHOD_LIST if base.methods.get(m, {}) == other.methods.get(m, {}))


def there(kept: Kept) -> tuple[World, ...]:
    """List the worlds with audits."""
    return tuple(world for world in WORLDS if values(kept, world))


def trained_otherwise(kept: Kept) -> tuple[World, ...]:
    """List the worlds with retrained models of their own."""
    found = [world for world in OTHERS if "retrained" in values(kept, world)]
    return tuple(world for world in found if "retrained" not in same_models(kept, world))


def progress(kept: Kept, world: World) -> tuple[int, int]:
    """Count the audits of a world that are there, and all that it asks for."""
    wanted = (f"{kept.group}{world.ending}", "audit")
    row = next(one for one in kept.coverage if (one["protocol"], one["what"]) == wanted)
    return int(row["done"]), int(row["goals"])


def classes_of(sides: Sequence[ByClass], methods: Sequence[str] = METHOD_LIST) -> dict[str, list[str]]:
    """List the forget classes of each method that all of several sides have that have the method at all."""
    found = {}
    for method in methods:
        some = [set(side[method]) for side in sides if side.get(method)]
        found[method] = sorted(set.intersection(*some)) if some else []
    return {method: classes for method, classes in found.items() if classes}


def classes_of_all(sides: Sequence[ByClass]) -> dict[str, list[str]]:
    """List the classes of each method as above, those of a method that a side lacks among those of the others."""
    found = classes_of(sides)
    whole = [method for method in found if all(side.get(method) for side in sides)]
    used = {forget for method in whole for forget in found[method]}
    if not used:
        return found
    some = {method: [forget for forget in classes if forget in used] for method, classes in found.items()}
    return {method: classes for method, classes in some.items() if classes}


@dataclass(frozen=True, kw_only=True)
class Change:
    """What a step changes, over the methods and classes that before, after and the paper have."""

    step: Step
    classes: Mapping[str, Sequence[str]]
    before: Scores
    after: Scores
    paper: Scores

    @property
    def models(self) -> int:
        """Count the models compared."""
        return sum(map(len, self.classes.values()))

    @property
    def size(self) -> float:
        """Average the size of the change over methods."""
        return fmean(abs(self.after[m] - self.before[m]) for m in self.before)

    @property
    def agreements(self) -> tuple[Agreement, Agreement]:
        """Compare with the paper, before and after."""
        return agree(self.before, self.paper), agree(self.after, self.paper)

    @property
    def gain(self) -> tuple[float, float]:
        """Give the mean over methods by which the distance from the paper falls, and its standard error."""
        gains = [abs(self.before[m] - self.paper[m]) - abs(self.after[m] - self.paper[m]) for m in self.before]
        return fmean(gains), stdev(gains) / len(gains) ** 0.5 if len(gains) > 1 else math.inf

    def nearer(self, by: float, sign: int = 1) -> list[str]:
        """List the methods that come nearer to the paper by more than an amount; with ``sign=-1``, that go away."""
        gains = {m: abs(self.before[m] - self.paper[m]) - abs(self.after[m] - self.paper[m]) for m in self.before}
        return [m for m, gain in gains.items() if sign * gain > by]


def change(kept: Kept, step: Step) -> Change | None:
    """Compare before and after a step; None where one of them has no audits."""
    before, after = (values(kept, *side) for side in (step.before, step.after))
    paper = printed("sfra", "rs")
    both = [m for m in METHOD_LIST if before.get(m) and after.get(m) and m in paper]
    classes = classes_of((before, after, paper), both)
    if not classes:
        return None
    sides = [averages(side, classes) for side in (before, after, paper)]
    return Change(step=step, classes=classes, before=sides[0], after=sides[1], paper=sides[2])


def native_kappa(kept: Kept, world: World, classes: Sequence[str]) -> float | None:
    """Give the median norm of the centred retain rows of retrained heads as released, over some classes."""
    rows = [
        row["gain"]
        for row in kept.diagnostics
        if (row["protocol"], row["method"], row["scale"]) == (f"{kept.group}{world.ending}", "retrained", "canonical")
        and row["forget"] in classes
    ]
    return KAPPA / fmean(rows) if rows else None
