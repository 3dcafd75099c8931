"""Sentences about what other rates and other schedules change; they say what the rows say, whichever are there."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from reproduction.agreement import ByClass, Scores, agree, averages, leave_one_out
from reproduction.experiments import (
    FULL,
    NEARER,
    OTHERS,
    OWN,
    RATES,
    STEPS,
    STEPS_TAKEN,
    Change,
    World,
    change,
    classes_of,
    pra_values,
    progress,
    same_models,
    there,
    values,
    verdicts,
)
from reproduction.sentences_rates import barely, other_settings
from reproduction.sentences_references import references
from reproduction.simple import goes, joined, listed, number, percent, score
from reproduction.stored import METHOD_LIST, PUBLISHED, Kept, printed
from reproduction.tables_rs import correlation
from sfra.bench.protocol import load_protocol
from sfra.bench.tables.names import method_name
from sfra.core import errors
from sfra.models import recipes

LEAST = 0.01
"""Change of the mean distance from the paper's RS that counts."""

MUCH = 0.10
"""Forget accuracy before relearning from which on a method's models are named."""


def experiments(kept: Kept) -> str:
    """Say which experiments ask where the difference comes from, and what they found."""
    if there(kept) == (OWN,):
        return f"{_asked(kept)} None of them has been run."
    parts = (_agreements, _steps, references, barely, _pra)
    lines = [line for part in parts for line in part(kept)]
    return "\n".join([f"{_asked(kept)} {_how_much(kept)}", "", *(f"- {line}" for line in lines)])


def _asked(kept: Kept) -> str:
    """Say what the experiments change."""
    (short, few), (full, all_drops) = (_schedule(kept, world) for world in (STEPS, FULL))
    drops = f"with {number(few, 'drop')} of the rate instead of {number(all_drops)}, "
    return (
        "Three experiments ask whether it is the recipe. "
        f"(b), `{kept.group}{RATES.ending}`: the same networks, unlearned at the paper's rates and otherwise with the "
        f"methods' defaults{other_settings(kept)}. "
        f"(c), `{kept.group}{STEPS.ending}`: original, references and methods with a step schedule of {short} epochs, "
        f"and with the paper's rates, for classes {joined(_of_protocol(kept, STEPS))}. "
        f"(d), `{kept.group}{FULL.ending}`: the training of the paper's code in full, {full} epochs with a tenth of "
        f"the rate every 40, and its rates, for classes {joined(_of_protocol(kept, FULL))}; (c) is a shortened (d), "
        f"{drops if few != all_drops else 'with '}fewer epochs of DELETE and fewer steps of Learn to Unlearn. (c) and "
        "(d) also train without Nesterov momentum; (b) and what is above, (a), train with it."
    )


def changes(kept: Kept) -> str:
    """Compare the sizes of the changes, and say which bring ours nearer to the paper's."""
    found = [one for one in (change(kept, step) for step in STEPS_TAKEN) if one is not None]
    told = ", ".join(f"{one.step.what} {score(one.size)}" for one in found)
    missing = [f"({world.letter})" for world in OTHERS if world not in there(kept)]
    left = f" What {joined(missing)} would change is not known yet." if missing else ""
    return f"Mean RS of a method moves, on average, by: {told}. {_nearer(found)}{left}"


def _nearer(found: Sequence[Change]) -> str:
    """Say which changes bring the mean absolute difference down, the largest gain first, and what order does."""
    some = sorted((one for one in found if _gain(one) >= LEAST), key=_gain, reverse=True)
    if not some:
        return f"None of them brings the mean absolute difference from the paper's down by {LEAST}."
    which = "Only one of them brings" if len(some) == 1 else f"{number(len(some)).capitalize()} of them bring"
    told = "; ".join(f"{one.step.what}, {_down(one)}" for one in some)
    return f"{which} the mean absolute difference from the paper's down by {LEAST} or more: {told}."


def _error(found: Change) -> str:
    """Say how far the methods differ in it."""
    mean, error = found.gain
    doubt = ", so it may be chance" if abs(mean) < 2 * error else ""
    return f" (standard error over methods {score(error, 3)}{doubt})" if error < math.inf else ""


def _down(found: Change) -> str:
    before, after = found.agreements
    rank = ""
    if before.spearman is not None and after.spearman is not None:
        ends, falls = [correlation(one.spearman) for one in (before, after)], after.spearman < before.spearman
        moved = f"goes from {ends[0]} to {ends[1]}" if ends[0] != ends[1] else f"stays at {ends[0]}"
        rank = f", {'while' if falls and ends[0] != ends[1] else 'and'} Spearman {moved}"
    over = f"over {found.models} models{_error(found)}"
    return f"from {score(before.difference, 3)} to {score(after.difference, 3)} {over}{rank}"


def _agreements(kept: Kept) -> list[str]:
    """Compare every world with the paper, over the methods and classes that all have."""
    paper = printed("sfra", "rs")
    sides = {world.letter: values(kept, world) for world in there(kept)}
    classes = classes_of([paper, *sides.values()], _everywhere(paper, sides))
    if not classes:
        return []
    theirs = averages(paper, classes)
    told = []
    for letter, side in sides.items():
        found = agree(averages(side, classes), theirs)
        told.append(f"({letter}) {score(found.difference)}{_rank(averages(side, classes), theirs)}")
    return [
        f"Mean absolute difference from the paper's RS, over the means of {counted(classes)} that all have: "
        f"{'; '.join(told)}."
    ]


def _rank(ours: Scores, theirs: Scores) -> str:
    """Give the rank correlation, and between which numbers it moves when one method is left out."""
    rho = agree(ours, theirs).spearman
    some = [one.spearman for one in leave_one_out(ours, theirs).values() if one.spearman is not None]
    if rho is None:
        return ""
    around = f" (leaving out any one method {score(min(some))} to {score(max(some))})" if some else ""
    return f", Spearman {score(rho)}{around}"


def _steps(kept: Kept) -> list[str]:
    """Say what each change does, those that lead to the same world in one line."""
    lines: dict[World, list[str]] = {}
    last: dict[World, Change] = {}
    for step in (one for one in STEPS_TAKEN if one.told is not None):
        found = change(kept, step)
        if found is not None:
            lines.setdefault(step.after[0], []).append(f"{step.told}: {_moved(found)}")
            last[step.after[0]] = found
    return [
        " ".join([*some, *_kept_class(kept, world, last[world]), *_verdicts(kept, world)])
        for world, some in lines.items()
    ]


def _kept_class(kept: Kept, world: World, found: Change) -> list[str]:
    """Name the methods whose models still had much of the class, which RS does not count."""
    left = averages(values(kept, world, PUBLISHED, "forget_before"), found.classes)
    much = [f"{method_name(m)} ({percent(share)} %)" for m, share in left.items() if share > MUCH]
    if not much:
        return []
    unlearned = {m: some for m, some in found.classes.items() if left.get(m, 0.0) <= MUCH}
    sides = [{m: side[m] for m in unlearned} for side in (found.before, found.after, found.paper)]
    rest = ""
    if unlearned:
        before, after = (agree(side, sides[2]) for side in sides[:2])
        rest = f" Without them the difference {goes(before.difference, after.difference)}"
        if before.spearman is not None and after.spearman is not None:
            rest += f", Spearman {goes(before.spearman, after.spearman, '')}"
        rest += "."
    return [
        f"Models of ({world.letter}) that still had more than {percent(MUCH, 0)} % of the class before relearning, on "
        f"average: {joined(much)}; RS counts only what comes back on top of that.{rest}"
    ]


def _verdicts(kept: Kept, world: World) -> list[str]:
    """Say of which methods the verdicts are others than those of our own models, over the same classes."""
    own, other = (verdicts(kept, one) for one in (OWN, world))
    told = []
    for method in (m for m in METHOD_LIST if m in own and m in other):
        classes = [forget for forget in own[method] if forget in other[method]]
        before, after = (Counter(side[method][forget] for forget in classes) for side in (own, other))
        if before != after:
            told.append(f"{method_name(method)} from {_tally(before)} to {_tally(after)}")
    changed = "; ".join(told) or "none"
    return [f"Verdicts, at canonical scale with the last epoch, that differ from those in (a): {changed}."]


def _tally(found: Mapping[str, int]) -> str:
    return joined([f"{count} {verdict}" for verdict, count in sorted(found.items(), key=lambda one: -one[1])])


def _moved(found: Change) -> str:
    before, after = found.agreements
    nearer, further = found.nearer(NEARER), found.nearer(NEARER, -1)
    rank = ""
    if before.spearman is not None and after.spearman is not None:
        rank = f", Spearman {goes(before.spearman, after.spearman, '')}"
    return (
        f"over {counted(found.classes)}, mean absolute difference from the paper's RS "
        f"{goes(before.difference, after.difference)}{rank}. By more than {NEARER:.2f} nearer: "
        f"{listed(nearer) or 'none'}; further: {listed(further) or 'none'}."
    )


def _pra(kept: Kept) -> list[str]:
    """Say how far PRA agrees, which has no epoch to choose."""
    paper, worlds = printed("pra", "rs"), there(kept)
    sides = {world.letter: pra_values(kept, world) for world in worlds}
    sides = {letter: side for letter, side in sides.items() if side}
    if len(sides) < 2:
        return []
    classes = classes_of([paper, *sides.values()], _everywhere(paper, sides))
    if not classes:
        return []
    theirs = averages(paper, classes)
    told = {letter: agree(averages(side, classes), theirs) for letter, side in sides.items()}
    apart = ", ".join(f"{score(one.difference)} in ({letter})" for letter, one in told.items())
    return [
        f"PRA, at native scale and with no epoch to choose: over {counted(classes)} it differs from the paper's by "
        f"{apart}."
    ]


def _how_much(kept: Kept) -> str:
    told = []
    for world in OTHERS:
        if world not in there(kept):
            told.append(f"({world.letter}) has not been run.")
            continue
        done, goals = progress(kept, world)
        if done < goals:
            name = f"{kept.group}{world.ending}"
            failed = [row for row in kept.failures if (row["protocol"], row["what"]) == (name, "audit")]
            why = "; the others cannot be computed ([why](#what-was-run))" if done + len(failed) == goals else ""
            told.append(f"Of ({world.letter}) {done} of {goals} audits are there{why}.")
        else:
            told.append(f"({world.letter}) is there in full{_left_out(kept, world)}.")
    return " ".join(told)


def _left_out(kept: Kept, world: World) -> str:
    """Name the methods that a protocol does not ask for, and one that could not have been trained."""
    asked = {*load_protocol(f"{kept.group}{world.ending}").methods, *same_models(kept, world), "retrained"}
    lacking = [method for method in METHOD_LIST if method not in asked]
    diverged = {row["method"] for row in kept.failures if row["failed"] == "unlearn"}
    why = ", which diverges at the paper's rate" if lacking and set(lacking) <= diverged else ""
    return f", without {listed(lacking)}{why}" if lacking else ""


def _everywhere(paper: ByClass, sides: Mapping[str, ByClass]) -> list[str]:
    """List the methods that the paper and every side have."""
    return [method for method in paper if all(side.get(method) for side in sides.values())]


def counted(classes: Mapping[str, Sequence[str]]) -> str:
    """Count methods and models in words.

    >>> counted({"delete": ["0", "3"]})
    '1 method and 2 models'
    """
    models = sum(map(len, classes.values()))
    return f"{errors.counted(len(classes), 'method', 'methods')} and {errors.counted(models, 'model', 'models')}"


def _gain(found: Change) -> float:
    before, after = found.agreements
    return before.difference - after.difference


def _of_protocol(kept: Kept, world: World) -> list[str]:
    return ["+".join(map(str, one)) for one in load_protocol(f"{kept.group}{world.ending}").forget]


def _schedule(kept: Kept, world: World) -> tuple[int, int]:
    """Give the epochs of a world's training, and how often its rate drops."""
    recipe = load_protocol(f"{kept.group}{world.ending}").recipe
    assert recipe is not None
    training = recipes.load(recipe).training
    return int(training["epochs"]), len(training["milestones"])
