"""Sentences about some models of a group at every scale.

They were written before the rows were there: each says what comes out whichever way it does, or that it is missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from reproduction.beside import class_names
from reproduction.sentences_beside import between
from reproduction.simple import joined, score, signed
from reproduction.stored import Kept
from reproduction.sweeps import ENDING, QUIET, Curve, Sweep, gaps, mean_gap, quiet_scales, read_sweep
from sfra.bench.plan import plan
from sfra.bench.protocol import load_protocol
from sfra.report.classes import class_name
from sfra.scale import KAPPA, SWEEP
from sfra.tables.names import method_name

HIDDEN = ("masked", "bad-teacher", "salun")
"""Models that have the class, by construction or by what the other audits found."""


def every_scale(kept: Kept, image: str = "") -> str:
    """Say which scales keep retrained models quiet, where the control stands out most, and how near κ is to that.

    Args:
        kept: The rows.
        image: The figure, which is shown where there are rows.
    """
    sweep, names = read_sweep(kept), class_names(kept)
    if not sweep.rs:
        asked = load_protocol(f"{kept.group}{ENDING}").forget
        labels = joined([class_name(label, names) for forget in asked for label in forget])
        return f"It has not been run: `{kept.group}{ENDING}` asks for {len(SWEEP)} scales of models of {labels}."
    lines = [*_quiet(sweep), *_gap(sweep, names)]
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


def _quiet(sweep: Sweep) -> list[str]:
    """Say up to which scale every retrained model is quiet, by either measure, and what others give there."""
    if "retrained" not in sweep.rs:
        return ["No retrained model is there yet, so nothing can be said of how quiet they are."]
    floors = [floor for curve in sweep.floors.values() for floor in curve.values()]
    limits: dict[str, tuple[Mapping[str, Curve] | float, str]] = {
        f"at or below RS {QUIET:.2f}": (QUIET, ""),
        "at or below its floor": (
            sweep.floors,
            f" ({between(floors)}: what answering every sample with the forget class would score)" if floors else "",
        ),
    }
    return [_limited(sweep, what, *limit) for what, limit in limits.items()]


def _limited(sweep: Sweep, what: str, limit: Mapping[str, Curve] | float, meaning: str) -> str:
    found, least = quiet_scales(sweep, limit), sweep.kappas[0]
    if not found:
        given = sweep.at("retrained", least)
        told = f"at the smallest, κ = {least:.2f}, retrained models give {between(given)}" if given else ""
        ends = "; ".join(part for part in (told, f"there {_others(sweep, least)}") if part)
        return f"At no scale of the sweep is every retrained model {what}{meaning}: {ends}."
    where = "up to" if found == sweep.kappas[: len(found)] else "at"
    scales = f"κ = {found[-1]:.2f}" if where == "up to" else f"κ = {joined([f'{kappa:.2f}' for kappa in found])}"
    there = "there" if len(found) == 1 or where == "up to" else f"at κ = {found[-1]:.2f}"
    return f"Every retrained model is {what}{meaning} {where} {scales}; {there} {_others(sweep, found[-1])}."


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


def _gap(sweep: Sweep, names: Sequence[str] | None) -> list[str]:
    """Say where masked is farthest above retrained, and whether the canonical scale is near that."""
    each = {forget: curve for forget, curve in gaps(sweep).items() if curve}
    if not each:
        return ["Masked and retrained models of the same class are not there yet, so their gap is not known."]
    tops = {forget: max(curve, key=curve.__getitem__) for forget, curve in each.items()}
    told = joined(
        [
            f"at κ = {kappa:.2f} for {class_name(int(forget), names)} ({signed(each[forget][kappa])})"
            for forget, kappa in tops.items()
        ]
    )
    mean = mean_gap(list(each.values()))
    if len(each) < 2 or not mean:
        return [f"Masked minus retrained is largest {told}.", *_near(sweep, mean, each)]
    best = max(mean, key=mean.__getitem__)
    average = f"on average over the {len(each)} at κ = {best:.2f} ({signed(mean[best])})"
    return [f"Masked minus retrained is largest {told}; {average}.", *_near(sweep, mean, each)]


def _near(sweep: Sweep, mean: Curve, each: Mapping[str, Curve]) -> list[str]:
    """Say how far the canonical scale is from that of the largest average gap, and what that costs."""
    if KAPPA not in mean:
        return [f"At κ = {KAPPA:.2f} there is nothing to compare."]
    best, chosen = max(mean, key=mean.__getitem__), f"κ = {KAPPA:.2f}, which was chosen on CIFAR-10 and digits"
    steps = list(mean).index(KAPPA) - list(mean).index(best)
    average = "average gap" if len(each) > 1 else "gap"
    quiet = f"retrained models give {between(sweep.at('retrained', KAPPA))} there"
    if not steps:
        return [f"{chosen}, is the scale of the largest {average}; {quiet}."]
    near = "near that" if abs(steps) == 1 else "not near that"
    away = f"{abs(steps)} step{'s' if abs(steps) > 1 else ''} of the sweep {'above' if steps > 0 else 'below'} it"
    return [
        f"{chosen}, is {near}: {away}, with {'an' if len(each) > 1 else 'a'} {average} of {signed(mean[KAPPA])}, "
        f"{score(mean[best] - mean[KAPPA])} less; {quiet}."
    ]


def _named(method: str) -> str:
    return method_name(method).removesuffix(" (control)")
