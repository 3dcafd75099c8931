"""Sentences about the run of a group, its models and their RS beside those of another group.

They were written before the rows were there: each says what comes out whichever way it does, or that it is missing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean

from reproduction import sentences_paper as paper
from reproduction.agreement import means
from reproduction.beside import Reading, accuracy, originals, place_name, side_of
from reproduction.simple import joined, percent, score, signed, trainings
from reproduction.stored import METHOD_LIST, PUBLISHED, VERDICT, Kept, own, paper_rows, probed_models
from reproduction.sweeps import ENDING
from reproduction.tables_beside import decided, in_both, single_claims
from reproduction.tables_rs import compared, correlation, scores
from sfra.bench.protocol import load_protocol
from sfra.bench.tables.names import method_name
from sfra.models import recipes

FAR = 0.2
"""Difference in mean RS between two data sets that is named."""

LEFT = 0.01
"""Forget accuracy of a released model that is named."""

LOST = 0.02
"""Retain accuracy lost to unlearning that is named."""

READINGS = {PUBLISHED: "in the paper's reading", VERDICT: "at canonical scale with the last epoch"}


def coverage(kept: Kept) -> str:
    """Say what was computed of the group's own protocol and of its sweep, and which forget classes are complete."""
    protocol, both = load_protocol(kept.group), (kept.group, f"{kept.group}{ENDING}")
    covered, failures = ([row for row in rows if row["protocol"] in both] for rows in (kept.coverage, kept.failures))
    run = paper.coverage(replace(kept, coverage=covered, failures=failures))
    wanted = len(protocol.seeds) * (len(protocol.methods) + len(protocol.controls))
    counts = Counter(row["forget"] for row in kept.main(*VERDICT))
    classes = ["+".join(map(str, forget)) for forget in protocol.forget]
    if all(counts[one] == wanted for one in classes):
        return f"{run}\n\nAll {wanted} models of each forget class are audited: {joined(classes)}."
    some = {
        "all models are audited of": [one for one in classes if counts[one] == wanted],
        "some of": [f"{one} ({counts[one]} of {wanted})" for one in classes if 0 < counts[one] < wanted],
        "no model of": [one for one in classes if not counts[one]],
    }
    told = "; ".join(f"{what} {joined(labels)}" for what, labels in some.items() if labels)
    return (
        f"{run}\n\n*The rows are incomplete.* By forget class: {told}. Means below are over the "
        "classes that a method has, so methods may be compared over different ones."
    )


def settings(kept: Kept) -> str:
    """Say what the audits and the trainings were set to, and where the recipe has its settings from."""
    protocol = load_protocol(kept.group)
    assert protocol.recipe is not None
    recipe, audit = recipes.load(protocol.recipe), protocol.audit
    published = [
        (row["n"], row["m"])
        for row in paper_rows("hyperparameters")
        if (row["setting"], row["dataset"]) == ("single_class", place_name(kept))
    ]
    as_published = bool(published) and published[0] == (audit["n"], audit["m"])
    where = "N and M as published" if as_published else "N and M of our own"
    sources = [f"- {name}: {text}" for name, text in recipe.sources.items()]
    return "\n".join(
        [
            f"Audits have N = {audit['n']:,}, M = {audit['m']}, {audit['epochs']} epochs and {audit['seeds']} seeds, "
            f"{where}. Original and references were trained for {recipe.training['epochs']} epochs with a "
            f"{recipe.training['schedule']} schedule. {trainings(len(protocol.seeds))} What the "
            f"recipe, `{recipe.name}`, says of its settings:",
            "",
            *sources,
        ]
    )


def original(kept: Kept, other: Kept) -> str:
    """Give the accuracy of the original, of all classes and of those that are forgotten."""
    here, there = (own(one.originals, one) for one in (kept, other))
    if not here:
        return "The accuracy of the original is not computed yet."
    beside = f" ({place_name(other)}: {percent(accuracy(there), 2)} %)" if there else ""
    classes = list(originals(kept)[1].values())
    those = f"; single forget classes have {between(classes, percent)} %" if classes else ""
    return f"The original has {percent(accuracy(here), 2)} % on the test split{beside}{those}."


def unlearned(kept: Kept) -> str:
    """Say which models still know the class, and which lost retain accuracy."""
    ours = side_of(kept)
    forget = {m: value for m, value in means(ours.forget).items() if m in METHOD_LIST}
    if not forget:
        return "No unlearned model is audited yet."
    before = ours.retain["original"]
    lost = {
        m: fmean(before[c] - kept_accuracy for c, kept_accuracy in ours.retain[m].items() if c in before)
        for m in forget
        if set(ours.retain[m]) & set(before)
    }
    left = {m: f"{percent(value)} %" for m, value in forget.items() if value > LEFT}
    fell = {m: f"{percent(value)}" for m, value in lost.items() if value > LOST}
    known = f"{named(left)}. What of the class was never lost cannot come back, and RS is smaller for it"
    return (
        f"Left with more than {percent(LEFT, 0)} % of the forget class, on average: {known if left else 'none'}. More "
        f"than {percent(LOST, 0)} points of the original's retain accuracy were lost by {named(fell) or 'no method'}."
    )


def agreement(kept: Kept, other: Kept) -> str:
    """Say how far the methods' mean RS agrees between the two groups."""
    told = [_agreement(kept, other, reading) for reading in READINGS]
    there = [one for one in told if one]
    return " ".join(there) if there else f"No method is audited yet that {place_name(other)} has."


def _agreement(kept: Kept, other: Kept, reading: Reading) -> str:
    ours, theirs = (scores(one, *reading) for one in (kept, other))
    found = compared(ours, theirs)
    if found is None:
        return ""
    apart = {m: signed(ours[m] - theirs[m]) for m in ours if m in theirs and abs(ours[m] - theirs[m]) > FAR}
    order = (
        f"Spearman {correlation(found.spearman)}, Pearson {correlation(found.pearson)}"
        if found.spearman is not None
        else "too few or too equal for a correlation"
    )
    return (
        f"Over {found.n} methods, {READINGS[reading]}: {order}; mean difference to {place_name(other)} "
        f"{signed(found.bias)}, mean absolute difference {score(found.difference)}; more than {FAR} apart: "
        f"{named(apart) if apart else 'none'}."
    )


def held(kept: Kept, other: Kept) -> str:
    """Count the claims that hold, here and there."""
    claims = single_claims()
    here, there = ([decided(claims, numbers) for numbers in in_both(one)] for one in (kept, other))
    undecided = any(claim.lacking(numbers) for claim in claims if "probe" in claim.needs for numbers in in_both(kept))
    probed = probed_models(kept)
    rests = f"cannot be decided yet: {probed} models have one." if undecided else f"rests on {probed} models."
    return (
        f"Of {len(claims)} lines, {_counts(here, len(claims))}; on {place_name(other)}, {_counts(there, len(claims))}."
        f" The line on linear probes {rests}"
    )


def _counts(found: Sequence[Sequence[bool]], total: int) -> str:
    """Say how many hold in each reading, and how many could not be decided."""
    told = [
        f"{sum(some)} hold {where}{f' (numbers are missing for {total - len(some)})' if len(some) < total else ''}"
        for some, where in zip(found, READINGS.values(), strict=True)
    ]
    return " and ".join(told)


def named(values: Mapping[str, str | None]) -> str:
    """Name methods with a number each.

    >>> named({"delete": "+0.21", "scrub": "−0.30"})
    'DELETE (+0.21) and SCRUB (−0.30)'
    """
    return joined([f"{method_name(m)} ({text})" for m, text in values.items()])


def between(values: Sequence[float], form: Callable[[float], str | None] = score) -> str:
    """Write a range, or the one number that it is.

    >>> between([0.25, 0.5]), between([0.5])
    ('0.25 to 0.50', '0.50')
    """
    low, high = form(min(values)), form(max(values))
    return f"{low} to {high}" if low != high else f"{low}"
