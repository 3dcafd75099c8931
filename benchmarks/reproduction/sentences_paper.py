"""Sentences about the run, its models and their RS beside the paper's; their numbers come from the rows."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Mapping
from statistics import fmean

from reproduction.agreement import agree, leave_one_out, means, pairs, without
from reproduction.beside import accuracy
from reproduction.claims import list_claims, our_numbers
from reproduction.experiments import OTHERS
from reproduction.failed import told_failures
from reproduction.simple import joined, listed, percent, score, signed, trainings
from reproduction.stored import (
    METHOD_LIST,
    PUBLISHED,
    ROOT,
    VERDICT,
    WHAT,
    Kept,
    count_goals,
    paper_rows,
    printed,
    probed_models,
)
from reproduction.tables_rs import (
    LEFT_OUT,
    class_correlations,
    explained_by,
    method_correlations,
    paper_scores,
    scores,
)
from sfra.bench.protocol import load_protocol
from sfra.bench.tables.names import method_name
from sfra.models import recipes

LEFT_WITH_MORE = ("random-label", "boundary-shrink", "salun")
"""Methods that the paper's recipes leave with far more forget accuracy than ours, and whose RS is not far."""

NAMES = {"cuda": "GPU", "cpu": "CPU"}
"""Kinds of devices, for readers."""


def coverage(kept: Kept) -> str:
    """Say what was computed, what is missing, and how long it took."""
    lines = []
    for protocol in dict.fromkeys(row["protocol"] for row in kept.coverage):
        mine = [row for row in kept.coverage if row["protocol"] == protocol and row["what"] in WHAT]
        told = [f"{row['done']:.0f} of {row['goals']:.0f} {WHAT[row['what']]}" for row in mine]
        lines.append(f"- `{protocol}`: {', '.join(told)}.")
    lacking = Counter(dict.fromkeys(WHAT, 0))
    for row in kept.coverage:
        if row["what"] in WHAT:
            lacking[row["what"]] += int(row["goals"] - row["done"])
    for row in kept.failures:
        lacking[row["what"]] -= 1
    missing = joined([count_goals(what, count) for what, count in lacking.items() if count])
    left = f"Not computed yet: {missing}." if missing else f"Nothing {'else ' if kept.failures else ''}is missing."
    return "\n".join([*lines, "", " ".join(filter(None, [_busy(kept), told_failures(kept.failures), left]))])


def _busy(kept: Kept) -> str:
    """Say how long it took, on each kind of device."""
    told = [
        f"{row['done']:.0f} cells in {row['seconds'] / 60:.0f} minutes on a {NAMES.get(device, device)}"
        for row in kept.coverage
        if (device := row["what"].removeprefix("all on ")) != row["what"]
    ]
    return f"Computed, several at a time: {joined(told)} (a cell is a model, its features or a result)."


def settings(kept: Kept) -> str:
    """Say what the audits and the trainings were set to."""
    protocol = load_protocol(kept.group)
    assert protocol.recipe is not None
    training, audit = recipes.load(protocol.recipe).training, protocol.audit
    return (
        f"Audits have N = {audit['n']:,}, M = {audit['m']}, {audit['epochs']} epochs and {audit['seeds']} seeds, as "
        f"published. Original and references were trained for {training['epochs']} epochs with a "
        f"{training['schedule']} schedule; the paper's code trains for 150 in steps. Unlearning "
        "settings are published ones or were chosen by AUS on the validation split, for class 0 "
        "([methods.md](methods.md), `benchmarks/recipes/`), never by RS; the paper's rates for this data set are "
        "known, and often of another order of magnitude. "
        f"{trainings(len(protocol.seeds))}"
    )


def original(kept: Kept) -> str:
    """Give the accuracy of the original beside the paper's."""
    rows = [row for row in kept.originals if row["protocol"] == kept.group]
    ours = sum(row["hits"] for row in rows) / sum(row["samples"] for row in rows)
    theirs = next(
        row["retain_acc_mean"]
        for row in paper_rows("summary_single_class")
        if (row["backbone"], row["method"]) == ("ResNet-18", "Original")
    )
    return f"The original has {percent(ours, 2)} % on the test split, the paper's {theirs:.2f} %.{_references(kept)}"


def _references(kept: Kept) -> str:
    """Give the accuracy of retrained models beside the paper's, and that of originals that are trained otherwise."""
    here, there = kept.by_class(*PUBLISHED, "retain_before"), printed("unlearned", "retain_acc")
    found = pairs({"retrained": here.get("retrained", {})}, there)
    told = ""
    if found:
        ours, theirs = (fmean(some) for some in zip(*found.values(), strict=True))
        apart = max(abs(a - b) for a, b in found.values())
        told = (
            f" Retrained models have {percent(ours, 2)} % on the retain classes, the paper's {percent(theirs, 2)} %; "
            f"class by class they are within {percent(apart, 2)} points."
        )
    others = {
        world.letter: rows
        for world in OTHERS
        if (rows := [row for row in kept.originals if row["protocol"] == f"{kept.group}{world.ending}"])
    }
    if others:
        letters = joined([f"({letter})" for letter in others])
        numbers = joined([f"{percent(accuracy(rows), 2)} %" for rows in others.values()])
        told += f" Of other trainings, {letters} below, the original has {numbers}."
    return told


def unlearned(kept: Kept) -> str:
    """Say which models are less forgotten than the paper's, and which lost more retain accuracy."""
    forget, retain = (
        {m: ours[m] - paper[m] for m in METHOD_LIST if m in ours and m in paper}
        for ours, paper in (
            (means(kept.by_class(*PUBLISHED, f"{what}_before")), means(printed("unlearned", f"{what}_acc")))
            for what in ("forget", "retain")
        )
    )
    more, less = ([m for m in forget if sign * forget[m] > 0.01] for sign in (1, -1))
    worse = [m for m in retain if retain[m] < -0.02]
    return (
        f"By more than a point, {listed(less)} are left with less forget accuracy here than in the paper, "
        f"{listed(more)} with more. {listed(worse)} lost over two points more retain accuracy than the paper's."
    )


def agreement(kept: Kept) -> str:
    """Say how far RS agrees with the paper's."""
    found = agree(scores(kept, *PUBLISHED), paper_scores())
    classes = [rho for rho in class_correlations(kept).values() if rho is not None]
    return (
        f"Over {found.n} methods, in the paper's reading: Spearman {score(found.spearman)}, Pearson "
        f"{score(found.pearson)}, mean absolute difference {score(found.difference)}, mean difference "
        f"{signed(found.bias)}. Class by class Spearman is {min(classes):.2f} to {max(classes):.2f}."
    )


def held(kept: Kept) -> str:
    """Count the claims that hold."""
    claims, readings = list_claims(), [our_numbers(kept, *reading) for reading in (PUBLISHED, VERDICT)]
    counts = [sum(claim.holds(numbers) for claim in claims) for numbers in readings]
    return (
        f"Each line is a condition that the paper's printed numbers meet. Of {len(claims)}, ours meet {counts[0]} in "
        f"the paper's reading and {counts[1]} at canonical scale with the source-free rule. The wording and the "
        "thresholds are ours and were written when both sets of numbers were known, so read the lines rather than "
        f"count them. The line on linear probes rests on {probed_models(kept)} models."
    )


def disagreement(kept: Kept) -> str:
    """Say what the rank correlation hangs on."""
    ours, paper = scores(kept, *PUBLISHED), paper_scores()
    first, best = next(iter(leave_one_out(ours, paper).items()))
    far = sorted((m for m in ours if m in paper), key=lambda m: -abs(ours[m] - paper[m]))[:4]
    pair, triple, four = (score(without(ours, paper, group).spearman) for group in LEFT_OUT)
    retain, forget = (explained_by(kept)[what] for what in ("retain", "forget"))
    near = max(abs(ours[m] - paper[m]) for m in LEFT_WITH_MORE)
    return (
        f"Spearman is {score(agree(ours, paper).spearman)}. Four methods differ most: "
        f"{', '.join(f'{method_name(m)} {signed(ours[m] - paper[m])}' for m in far)}. Without Negative Gradient and "
        f"Learn to Unlearn it is {pair}, without the retrained models too {triple}, without fine-tuning as well "
        f"{four}. The single method that costs most is {method_name(first)} ({score(best.spearman)} without it). "
        "These groups were formed with the differences in view, and leaving out what disagrees raises any correlation: "
        "this locates the difference, and excuses nothing. Model by model, the size of the difference in RS hardly "
        f"goes with that in forget accuracy after unlearning (Spearman {score(forget[1])} over {forget[0]} models) or "
        f"in retain accuracy ({score(retain[1])}): {listed(LEFT_WITH_MORE)} were left with far more forget accuracy by "
        f"the paper's recipes than by ours, and their RS differs by at most {near:.2f}. In general, then, accuracies "
        "after unlearning do not explain it; for a single method they may."
    )


def scale_of_paper(kept: Kept) -> str:
    """Say how retrained models stand to the paper's, class by class, before the scale explains it."""
    ours, paper = kept.by_class(*PUBLISHED)["retrained"], printed("sfra", "rs")["retrained"]
    both = [forget for forget in ours if forget in paper]
    less = sum(ours[forget] < paper[forget] for forget in both)
    return (
        f"Retrained models, which ΔRS is measured from, give back less than the paper's in {less} of {len(both)} "
        f"classes, yet class by class in its order (Spearman {score(method_correlations(kept)['retrained'])}). What "
        "training and scale have to do with that is below."
    )


def candidates(kept: Kept) -> str:
    """Quote what validation said of a rate near the paper's for Negative Gradient."""
    path = ROOT / "benchmarks" / "recipes" / f"{load_protocol(kept.group).recipe}.csv"
    with path.open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["method"] == "negative-gradient" and row["retain"]]
    low = next(row for row in rows if json.loads(row["settings"]) == {"learning_rate": 3e-05})
    chosen = next(row for row in rows if row["chosen"])
    return (
        f"Negative Gradient at a rate of 3e-5, near the paper's 5e-5, left {_pair(low)} % (retain, forget) of class 0 "
        f"on the validation split, close to what the paper prints; the rate that AUS chose, {_pair(chosen)} %."
    )


def _pair(row: Mapping[str, str]) -> str:
    return f"{percent(float(row['retain']))} and {percent(float(row['forget_accuracy']))}"
