"""Sentences about the norm of the head: what it explains between trainings, and where the paper's numbers lie."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from reproduction.experiments import FULL, NEARER, OWN, RATES, World, there, trained_otherwise
from reproduction.scales import (
    Reading,
    Retrained,
    Scaled,
    at_every_scale,
    mean_models,
    retrained_models,
    swept_worlds,
)
from reproduction.sentences_experiments import counted
from reproduction.sentences_references import EXPLAINED, PART
from reproduction.simple import joined, number, percent, score, signed
from reproduction.stored import Kept
from reproduction.tables_rs import correlation
from sfra.attack.scale import KAPPA
from sfra.bench.protocol import load_protocol
from sfra.bench.tables.names import method_name

APART = 0.02
"""Difference in RS at equal norm that counts: about two standard deviations of the seeds of an audit."""

OFF = 0.2
"""Difference from the paper's mean RS from which on a method is named."""


def norm(kept: Kept) -> str:
    """Say whether the norm of the head is what training changes in retrained models, and where the paper's lie."""
    models, others = retrained_models(kept), trained_otherwise(kept)
    if not models:
        return "No retrained model was audited over a sweep of scales."
    told = [_elsewhere(models, world, len(load_protocol(f"{kept.group}{world.ending}").seeds)) for world in others]
    if any(told):
        told = ["Retrained models depend on the training and on no unlearning rate.", *told]
    parts = (" ".join(part for part in told if part), f"{_reached(models)} {_interpolated(models)}")
    return "\n\n".join(part for part in parts if part)


def agreement_scales(kept: Kept) -> str:
    """Say at which scale each world is nearest to the paper, what stays off there, and what that is worth."""
    parts = [part for part in (_compared(kept, worlds) for worlds in swept_worlds(kept)) if part]
    if not parts:
        return "No model was audited over a sweep of scales."
    which = "Each of these scales was" if "".join(parts).count("is nearest to") > 1 else "This scale was"
    lacking = [f"({world.letter})" for world in (RATES, FULL) if world not in there(kept)]
    left = f" {joined(lacking)} {'has' if len(lacking) == 1 else 'have'} not been run." if lacking else ""
    end = f"{which} chosen after seeing the paper's numbers: it locates the difference, and does not predict it."
    end += f"{_order(kept)}{left}"
    return "\n\n".join([*parts[:-1], f"{parts[-1]} {end}"] if len(parts) == 1 else [*parts, end])


def _order(kept: Kept) -> str:
    """Say whether the order of the methods is nearest where the level is, over all that was swept."""
    sweeps = [
        [one for one in found if one.world is world and one.kappa is not None and one.agreement.spearman is not None]
        for worlds in swept_worlds(kept)
        for found in [at_every_scale(kept, worlds)[0]]
        for world in worlds
    ]
    nearest = [min(sweep, key=lambda one: one.agreement.difference) for sweep in sweeps if sweep]
    if not nearest:
        return ""
    best = max((one for sweep in sweeps for one in sweep), key=lambda one: one.agreement.spearman or -1.0)
    reached = sorted(one.agreement.spearman or 0.0 for one in nearest)
    if best in nearest or (best.agreement.spearman or 0.0) < reached[-1] + NEARER:
        return ""
    span = correlation(reached[0]) if len(reached) == 1 else f"{correlation(reached[0])} to {correlation(reached[-1])}"
    return (
        f" Scale mends the level, not the order: Spearman is {span} there. The highest of these sweeps, "
        f"{correlation(best.agreement.spearman)}, is that of ({best.world.letter}) at κ = {score(best.kappa)}, where "
        f"the mean difference is {signed(best.agreement.bias)}."
    )


def _compared(kept: Kept, worlds: Sequence[World]) -> str:
    """Say at which scale each of some worlds is nearest, over the models that they have in common."""
    found, classes = at_every_scale(kept, worlds)
    if not found:
        return ""
    sweeps = [[one for one in found if one.world is world] for world in worlds]
    sides = f"{joined([*(f'({world.letter})' for world in worlds), 'the paper'])} have"
    some = {forget for forgets in classes.values() for forget in forgets}
    few = f" ({_classes(sorted(some, key=int))})" if FULL in worlds else ""
    told = " ".join(_nearest(sweep) for sweep in sweeps)
    return f"Over the {counted(classes)} that {sides}{few}, worst-case, at {len(sweeps[0]) - 1} scales: {told}"


def _elsewhere(models: Sequence[Retrained], world: World, seeds: int) -> str:
    """Say whether the models of (a), scaled to the norm of another world's, give what those give."""
    here, letter = [one for one in models if world in one.worlds], f"({world.letter})"
    some = {one.forget[0]: one for one in here if one.worlds[world].own is not None}
    lost = [one.forget[0] for one in here if one.forget[0] not in some]
    left = f"Of {letter}, {_classes(lost)} cannot be compared: κ is not known, or outside of the sweep." if lost else ""
    if not some:
        return left
    mean = mean_models(list(some.values()))
    own, other = mean.worlds[OWN], mean.worlds[world]
    apart = max(one.worlds[world].apart or 0.0 for one in some.values())
    told = (
        f"In (a) and {letter} their heads have κ = {score(own.kappa)} and {score(other.kappa)} as released (median "
        f"norm of the centred retain rows, {_classes(list(some))}), and RS is {score(own.native)} and "
        f"{score(other.native)}. Scaled to the κ of {letter}, class by class, the models of (a) give "
        f"{score(other.own)}. {_accounted(list(some.values()), world, seeds)} Class by class, (a) scaled in this way "
        f"and {letter} differ by at most {score(apart)}."
    )
    return " ".join(part for part in (told, _equal(own, other, letter), left) if part)


def _accounted(some: Sequence[Retrained], world: World, seeds: int) -> str:
    """Decide whether scaling alone does what another training did, for the models of some classes."""
    mean, classes = mean_models(some), len(some)
    own, other = mean.worlds[OWN], mean.worlds[world]
    assert other.own is not None
    moved, scaled = other.native - own.native, other.own - own.native
    if abs(moved) < NEARER:
        return _hardly([one.worlds[world] for one in some], moved, scaled, f"({world.letter})")
    share = scaled / moved
    if share >= EXPLAINED and abs(scaled - moved) <= NEARER:
        these = f"these {number(classes * seeds, 'model')}" if classes * seeds > 1 else "this model"
        return (
            f"So for {these} the change of norm is enough to account for the change in RS ({signed(scaled)} against "
            f"{signed(moved)} measured). {_few(classes, seeds)} cannot show that nothing else matters."
        )
    if share >= EXPLAINED:
        return "So the norm of the head alone would change RS by more than the training does."
    if share > PART:
        return f"So the norm of the head accounts for {percent(share, 0)} % of what the training changes in RS."
    return "So the norm of the head does not account for what the training changes in RS."


def _hardly(some: Sequence[Reading], moved: float, scaled: float, letter: str) -> str:
    """Say whether a training that hardly changes RS does so at equal norm too."""
    apart = [one.native - one.own for one in some if one.own is not None]
    if abs(moved - scaled) < APART or min(apart) < 0 < max(apart):
        return "The training hardly changes RS, so there is nothing for the norm to account for."
    each = f", {score(min(map(abs, apart)))} to {score(max(map(abs, apart)))} by class" if len(apart) > 1 else ""
    return (
        f"So the training changes RS by {signed(moved)}, and the norm alone would change it by {signed(scaled)}: at "
        f"equal norm {letter} gives {score(abs(moved - scaled))} {'more' if moved > scaled else 'less'}{each}. The "
        "norm is not all that training changes."
    )


def _few(classes: int, seeds: int) -> str:
    """Count classes and trainings at the beginning of a sentence.

    >>> _few(3, 1), _few(1, 1)
    ('Three classes and one training each', 'One class and one training')
    """
    each = " each" if classes > 1 else ""
    return f"{number(classes, 'class').capitalize()} and {number(seeds, 'training')}{each}"


def _equal(own: Reading, other: Reading, letter: str) -> str:
    if own.canonical is None or other.canonical is None:
        return ""
    return (
        f"Measured at one norm, κ = {KAPPA:.2f}, (a) gives {score(own.canonical)} and {letter} "
        f"{score(other.canonical)}."
    )


def _reached(models: Sequence[Retrained]) -> str:
    """Say at which scale the models of (a) give the paper's RS, class by class and on average."""
    each = [one.reached for one in models if one.reached is not None]
    if not each:
        return f"At no scale of the sweep do the models of (a) give what the paper prints. {_one_scale(models)}"
    mean, lost = mean_models(models), len(models) - len(each)
    where = f"at κ = {min(each):.2f}" + (f" to {max(each):.2f}, class by class" if len(each) > 1 else "")
    never = f" (at none of the sweep for {lost} of {len(models)} classes)" if lost else ""
    average = ""
    if len(models) > 1 and mean.reached is not None:
        average = f", and its mean of {len(models)} classes, {score(mean.paper)}, at {score(mean.reached)}"
    return f"The models of (a) give what the paper prints {where}{never}{average}. {_one_scale(models)}"


def _one_scale(models: Sequence[Retrained]) -> str:
    """Say how near a single scale brings the retrained models to the paper's."""
    apart = {kappa: [abs(one.curve[kappa] - one.paper) for one in models] for kappa in mean_models(models).curve}
    best = min(apart, key=lambda kappa: fmean(apart[kappa]))
    native = fmean(abs(one.worlds[OWN].native - one.paper) for one in models)
    return (
        f"With one scale for all, κ = {best:.2f}, chosen from the sweep after seeing the paper's numbers, they "
        f"differ from these by {score(fmean(apart[best]))} on average over classes and by at most "
        f"{score(max(apart[best]))} (as released by {score(native)} on average). The paper prints no norms, so whether "
        "its heads are of that size is not known."
    )


def _interpolated(models: Sequence[Retrained]) -> str:
    mean = mean_models(models)
    own, check = mean.worlds[OWN], ""
    if own.own is not None:
        over = f" over {len(models)} classes" if len(models) > 1 else ""
        check = (
            f"; at the κ that (a) has as released this gives {score(own.own)}{over}, where {score(own.native)} was "
            "measured"
        )
    return (
        f"RS between two of the {len(mean.curve)} scales is interpolated, linearly in log κ, and so is κ at a given "
        f"RS{check}."
    )


def _classes(forget: Sequence[str]) -> str:
    return f"class{'es' if len(forget) > 1 else ''} {joined(forget)}"


def _nearest(some: Sequence[Scaled]) -> str:
    released, *swept = some
    best = min(swept, key=lambda one: one.agreement.difference)
    before, after = released.agreement, best.agreement
    rank = ""
    if after.spearman is not None and before.spearman is not None:
        rank = f", Spearman {correlation(after.spearman)} ({correlation(before.spearman)})"
    end = best.kappa in (swept[0].kappa, swept[-1].kappa) and len(swept) > 1
    edge = " The sweep ends there: it may be nearer beyond." if end else ""
    off = [f"{method_name(m)} {signed(best.rs[m] - best.paper[m])}" for m in best.off(OFF)]
    world = f"({best.world.letter})"
    return (
        f"{world} is nearest to the paper at κ = {score(best.kappa)}, with a mean absolute difference of "
        f"{score(after.difference)} (as released {score(before.difference)}){rank}; off by more than {OFF:.2f} there: "
        f"{joined(off) or 'none'}.{edge}"
    )
