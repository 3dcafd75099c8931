"""Sentences about some models of a group at every scale.

They were written before the rows were there: each says what comes out whichever way it does, or that it is missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from reproduction.beside import class_names
from reproduction.sentences_beside import between
from reproduction.simple import joined, percent, score, signed
from reproduction.stored import Kept
from reproduction.sweeps import (
    ENDING,
    QUIET,
    Curve,
    Outcome,
    Sweep,
    broken_from,
    gaps,
    mean_gap,
    outcomes,
    quiet_scales,
    read_sweep,
)
from sfra.attack.scale import KAPPA, SWEEP
from sfra.bench.plan import plan
from sfra.bench.protocol import load_protocol
from sfra.bench.tables.names import method_name
from sfra.report.classes import class_name

HIDDEN = ("masked", "bad-teacher", "salun")
"""Models that have the class, by construction or by what the other audits found."""

APART = 0.05
"""Masked minus retrained up to which the control of a class does not stand out."""


def every_scale(kept: Kept, image: str = "") -> str:
    """Say which scales keep retrained models quiet, where the control is recovered or stands out, and what κ costs.

    Args:
        kept: The rows.
        image: The figure, which is shown where there are rows.
    """
    sweep, names = read_sweep(kept), class_names(kept)
    if not sweep.rs:
        asked = load_protocol(f"{kept.group}{ENDING}").forget
        labels = joined([class_name(label, names) for forget in asked for label in forget])
        return f"It has not been run: `{kept.group}{ENDING}` asks for {len(SWEEP)} scales of models of {labels}."
    found = outcomes(kept)
    lines = [*_quiet(sweep, found), *_back(sweep, found, names), *_broken(found), *_gap(sweep, found, names)]
    told = "\n".join([_there(kept, sweep), "", *(f"- {line}" for line in lines)])
    return f"{told}\n\n{image}" if image else told


def _there(kept: Kept, sweep: Sweep) -> str:
    name, names = f"{kept.group}{ENDING}", class_names(kept)
    wanted = sum(goal.what == "audit" for goal in plan(load_protocol(name)))
    done = sum(len(some) for some in sweep.rs.values())
    part = f"all {wanted}" if done == wanted else f"{done} of {wanted}"
    labels = joined([class_name(int(forget), names) for forget in sweep.classes])
    return (
        f"`{name}`: {part} models of {labels}, at {len(sweep.kappas)} scales, κ = {between(sweep.kappas)}, last epoch."
    )


def _quiet(sweep: Sweep, found: Mapping[float, Outcome]) -> list[str]:
    """Say up to which scale every retrained model is quiet, by either measure, and what others give there."""
    if "retrained" not in sweep.rs:
        return ["No retrained model is there yet, so nothing can be said of how quiet they are."]
    floors = [floor for curve in sweep.floors.values() for floor in curve.values()]
    meaning = f" ({between(floors)}: what answering every sample with the forget class would score)" if floors else ""
    scales = quiet_scales(sweep, sweep.floors)
    above = f"; {_above(found[scales[-1]])}" if scales and found[scales[-1]].controls else ""
    return [
        f"{_limited(sweep, f'at or below RS {QUIET:.2f}', quiet_scales(sweep, QUIET))}.",
        f"{_limited(sweep, f'at or below its floor{meaning}', scales)}{above}.",
    ]


def _limited(sweep: Sweep, what: str, found: Sequence[float]) -> str:
    least = sweep.kappas[0]
    if not found:
        given = sweep.at("retrained", least)
        told = f"at the smallest, κ = {least:.2f}, retrained models give {between(given)}" if given else ""
        ends = "; ".join(part for part in (told, f"there {_others(sweep, least)}") if part)
        return f"At no scale of the sweep is every retrained model {what}: {ends}"
    there = "there" if len(found) == 1 or _first(sweep, found) else f"at κ = {found[-1]:.2f}"
    return f"Every retrained model is {what} {_range(sweep, found)}; {there} {_others(sweep, found[-1])}"


def _first(sweep: Sweep, found: Sequence[float]) -> bool:
    return list(found) == sweep.kappas[: len(found)]


def _range(sweep: Sweep, found: Sequence[float]) -> str:
    """Name scales: the smallest, all up to one, or each."""
    if list(found) == sweep.kappas[:1]:
        return f"only at the smallest scale, κ = {found[0]:.2f}"
    return f"up to κ = {found[-1]:.2f}" if _first(sweep, found) else f"at {_scales(found)}"


def _scales(found: Sequence[float]) -> str:
    return f"κ = {joined([f'{kappa:.2f}' for kappa in found])}"


def _above(here: Outcome) -> str:
    return f"{here.above} of {here.controls} controls {_are(here.above)} above their floor"


def _others(sweep: Sweep, kappa: float) -> str:
    """Say what the models that have the class give at a scale."""
    found = {method: sweep.at(method, kappa) for method in HIDDEN}
    told = [
        f"{between(some)}{f' (mean {score(sweep.mean(method, kappa))})' if len(some) > 1 else ''} for {_named(method)}"
        for method, some in found.items()
        if some
    ]
    lacking = [_named(method) for method, some in found.items() if not some]
    parts = [f"RS is {joined(told)}" if told else "", f"of {joined(lacking)} nothing is there" if lacking else ""]
    return ", and ".join(part for part in parts if part)


def tally(here: Outcome) -> str:
    """Count the controls that are recovered at a scale and the retrained models that raise an alarm.

    >>> counts = {"recovered": ("0",), "above": 2, "controls": 3, "alarms": 2, "references": 3}
    >>> tally(Outcome(**counts, degenerate=0, audits=6, lost=()))
    '1 of 3 controls is recovered and 2 of 3 retrained models raise an alarm'
    """
    count = len(here.recovered)
    alarms = f" and {_alarms(here)}" if here.references else ""
    return f"{count} of {here.controls} controls {_are(count)} recovered{alarms}"


def _alarms(here: Outcome) -> str:
    raised = "raises" if here.alarms == 1 else "raise"
    return f"{here.alarms} of {here.references} retrained models {raised} an alarm"


def _back(sweep: Sweep, found: Mapping[float, Outcome], names: Sequence[str] | None) -> list[str]:
    """Say at which scale most controls are recovered, and whose are at none."""
    there = {kappa: here for kappa, here in found.items() if here.controls}
    if not there:
        return []
    most = max(len(here.recovered) for here in there.values())
    if not most:
        return ["No control is recovered at any scale."]
    scales = [kappa for kappa, here in there.items() if len(here.recovered) == most]
    best, ever = there[scales[0]], {forget for here in there.values() for forget in here.recovered}
    where = f"at κ = {scales[0]:.2f}" if len(scales) > 1 else "there"
    loud = f"; {_alarms(best)} {where}" if best.references else ""
    if len(scales) == len(there) and most == best.controls:
        return [f"All {most} controls are recovered at every scale{loud}."]
    same = len({there[kappa].recovered for kappa in scales}) == 1
    whose = f"{most} of {best.controls}{f' ({_classes(best.recovered, names)})' if same else ''}"
    never = [forget for forget in sweep.classes if forget in sweep.rs["masked"] and forget not in ever]
    rest = f" Recovered at no scale: {_classes(never, names)}." if never else ""
    return [f"Controls are recovered most often at {_scales(scales)}: {whose}{loud}.{rest}"]


def _broken(found: Mapping[float, Outcome]) -> list[str]:
    """Say from which scale on audits break the classifier, and how much of it."""
    least = broken_from(found)
    if least is None:
        return []
    lost = [one for kappa, here in found.items() if kappa >= least for one in here.lost]
    every = "Every" if least == min(found) else f"From κ = {least:.2f} on every"
    falls = between(lost, lambda value: percent(value, 0))
    return [f"{every} audit is degenerate: retain accuracy falls by {falls} points."]


def _gap(sweep: Sweep, found: Mapping[float, Outcome], names: Sequence[str] | None) -> list[str]:
    """Say where masked is farthest above retrained, and what the canonical scale costs beside that."""
    both = gaps(sweep)
    each = {forget: curve for forget, curve in both.items() if curve}
    if not each:
        shared = any(set(sweep.rs["masked"][c]) & set(sweep.rs["retrained"][c]) for c in both)
        broken = "At every scale masked or retrained audits of a class are degenerate, so their gap says nothing."
        lacking = "Masked and retrained models of the same class are not there yet, so their gap is not known."
        return [broken if shared else lacking]
    mean = mean_gap(list(each.values()))
    average = ""
    if len(each) > 1 and mean:
        best = max(mean, key=mean.__getitem__)
        average = f"; on average over the {len(each)} at κ = {best:.2f} ({signed(mean[best])})"
    return [
        f"Masked minus retrained, where neither audit is degenerate, is {_tops(each, names)}{average}.",
        *_near(sweep, found, mean, each),
    ]


def _tops(each: Mapping[str, Curve], names: Sequence[str] | None) -> str:
    """Name the scale of the largest gap of every class that stands out at one, and then those that do at none."""
    tops = {forget: max(curve, key=curve.__getitem__) for forget, curve in each.items()}
    high = {forget: kappa for forget, kappa in tops.items() if round(each[forget][kappa], 2) > APART}
    low = {forget: kappa for forget, kappa in tops.items() if forget not in high}
    most = [
        f"at κ = {kappa:.2f} for {_classes([forget], names)} ({signed(each[forget][kappa])})"
        for forget, kappa in high.items()
    ]
    nowhere = "stands out nowhere " if high else ""
    least = [
        f"{_classes([forget], names)} {nowhere}(at most {signed(each[forget][kappa])}, at κ = {kappa:.2f})"
        for forget, kappa in low.items()
    ]
    if not high:
        return f"nowhere above {APART}: {joined(least)}"
    return f"largest {joined(most)}" + (f"; {joined(least)}" if low else "")


def _near(sweep: Sweep, found: Mapping[float, Outcome], mean: Curve, each: Mapping[str, Curve]) -> list[str]:
    """Say how far the canonical scale is from that of the largest average gap, and what that costs in verdicts."""
    if KAPPA not in mean:
        return [f"At κ = {KAPPA:.2f} there is nothing to compare."]
    best, chosen = max(mean, key=mean.__getitem__), f"κ = {KAPPA:.2f}, which was chosen on CIFAR-10 and digits"
    steps = sweep.kappas.index(KAPPA) - sweep.kappas.index(best)
    average = "average gap" if len(each) > 1 else "gap"
    here, there = found[KAPPA], found[best]
    given = f"retrained models give {between(sweep.at('retrained', KAPPA))}"
    if not steps:
        return [f"{chosen}, is the scale of the largest {average}: {tally(here)} there; {given}."]
    away = f"{abs(steps)} step{'s' if abs(steps) > 1 else ''} of the sweep {'above' if steps > 0 else 'below'} that"
    count, at = len(here.recovered), f"at κ = {best:.2f}"
    return [
        f"{chosen}, is {away}, with {'an' if len(each) > 1 else 'a'} {average} of {signed(mean[KAPPA])}: {count} of "
        f"{here.controls} controls {_are(count)} recovered there ({len(there.recovered)} {at}), and {_alarms(here)} "
        f"({there.alarms} {at}); {given}."
    ]


def _classes(some: Sequence[str], names: Sequence[str] | None) -> str:
    return joined([class_name(int(forget), names) for forget in some])


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def _named(method: str) -> str:
    return method_name(method).removesuffix(" (control)")
