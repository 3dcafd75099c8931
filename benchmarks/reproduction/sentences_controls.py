"""Sentences about the controls of a group and what its probes do, beside another group.

They were written before the rows were there: each says what comes out whichever way it does, or that it is missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean

from reproduction.agreement import means
from reproduction.beside import Side, class_names, common_gap, place_name, side_of
from reproduction.known import known_well
from reproduction.sentences_beside import between
from reproduction.sentences_checks import NOTHING
from reproduction.simple import listed, percent, score, signed
from reproduction.stored import METHOD_LIST, PUBLISHED, VERDICT, Kept, arrange, own
from reproduction.tables_beside import reset_pair
from reproduction.tables_rs import compared, correlation, of_methods
from sfra.auditing.verdict import DELTA
from sfra.bench.tables.names import method_name
from sfra.report.classes import class_name

HIGH = 0.75
"""Share of the other methods that retrained models exceed where they are among the highest."""


def control(kept: Kept, other: Kept) -> str:
    """Say how the positive control did."""
    here, there = (one.by_class(*VERDICT) for one in (kept, other))
    masked, reference = (here.get(name, {}) for name in ("masked", "retrained"))
    if not masked:
        return "The positive control is not computed yet."
    beside = f" ({place_name(other)}: {fmean(there['masked'].values()):.2f})" if "masked" in there else ""
    low = min(masked, key=masked.__getitem__)
    found = [row["verdict"] for row in kept.main(*VERDICT) if row["method"] == "masked"]
    gaps = [masked[c] - reference[c] for c in masked if c in reference]
    above, near = sum(gap > 0 for gap in gaps), sum(0 < gap < DELTA for gap in gaps)
    return (
        f"Hidden by construction, the class comes back with RS {between(list(masked.values()))}, mean "
        f"{fmean(masked.values()):.2f}{beside}, least for {class_name(int(low), class_names(kept))}. "
        f"{found.count('recovered')} of {len(found)} have the verdict recovered; {above} of {len(gaps)} are above "
        f"the retrained model of their class{f', {near} of them by less than {DELTA}' if near else ''}."
        f"{known_well(kept)}"
    )


def reset(kept: Kept) -> str:
    """Say what drawing the forget row anew changes."""
    released, anew = reset_pair(kept, "source-free")
    change = {m: gap for m, gap in common_gap(anew, released).items() if m in METHOD_LIST}
    if not change:
        return NOTHING
    ends = dict.fromkeys(signed(end(change.values())) for end in (min, max))
    told = [
        f"{text} ({listed([m for m in METHOD_LIST if m in change and signed(change[m]) == text])})" for text in ends
    ]
    reference = ""
    if "retrained" in change:
        both = [c for c in anew["retrained"] if c in released["retrained"]]
        before, after = (fmean(some["retrained"][c] for c in both) for some in (released, anew))
        reference = f"; retrained models go from {before:.2f} to {after:.2f}"
    return (
        f"Drawing the forget row anew changes mean RS by {' to '.join(told)}, {signed(fmean(change.values()))} on "
        f"average over methods{reference}."
    )


def controls(kept: Kept, other: Kept) -> str:
    """Say what the audits with real samples find, on retrained models too."""
    ours, theirs = side_of(kept), side_of(other)
    found, more = compared(of_methods(ours.pra), of_methods(theirs.pra)), common_gap(ours.rs[PUBLISHED], ours.pra)
    gaps = [more[m] for m in METHOD_LIST if m in more]
    told = []
    if found is not None:
        order = f"Spearman {correlation(found.spearman)}, " if found.spearman is not None else ""
        told.append(f"PRA beside {place_name(other)}: {order}mean absolute difference {score(found.difference)}.")
    if gaps:
        told.append(
            f"Over the classes that both have, SFRA in the paper's reading brings back more than PRA for "
            f"{sum(gap > 0 for gap in gaps)} of {len(gaps)} methods."
        )
    l2 = means(arrange([row for row in own(kept.pra, kept) if row["variant"] == "l2"], "rs"))
    if "retrained" in l2:
        told.append(f"PRA's l2 variant has a mean RS of {score(l2['retrained'])} on retrained models.")
    return " ".join([*told, *_probes(ours)]) or NOTHING


def _probes(ours: Side) -> list[str]:
    """Say how far linear probes read the class, and of which models there are any."""
    probes = of_methods(ours.probe)
    if not probes:
        return []
    count, read = sum(len(ours.probe[m]) for m in probes), between(list(probes.values()), percent)
    if len(probes) == 1:
        (method,) = probes
        whose = "retrained models" if method == "retrained" else f"models of {method_name(method)}"
        every = "the " if set(ours.rs[VERDICT].get(method, {})) <= set(ours.probe[method]) else ""
        return [f"Linear probes exist of {every}{count} {whose}{' only' if len(ours.probe) == 1 else ''}: {read} %."]
    never = f"; of retrained ones {percent(probes['retrained'])} %{_high(probes)}" if "retrained" in probes else ""
    uneven = len({tuple(sorted(ours.probe[m])) for m in probes}) > 1
    over = ", each over the classes that it has" if uneven else ""
    return [f"Linear probes of {count} models read the class with {read} % by method{over}{never}."]


def _high(probes: Mapping[str, float]) -> str:
    """Say that a probe shows no memory where those of models that never saw the class are among the highest.

    >>> _high({"retrained": 0.8, "scrub": 0.7})
    ', more than of 1 of the 1 other methods, so a probe that reads the class is no evidence of memory'
    """
    others = [value for method, value in probes.items() if method != "retrained"]
    below = sum(value < probes["retrained"] for value in others)
    if below < HIGH * len(others):
        return ""
    what = "so a probe that reads the class is no evidence of memory"
    return f", more than of {below} of the {len(others)} other methods, {what}"


def alignment(kept: Kept, other: Kept) -> str:
    """Say where forget probes point, for retrained models and for others."""
    cosine, theirs = (of_methods(side_of(one).cosine) for one in (kept, other))
    if not cosine:
        return NOTHING
    rest = [value for m, value in cosine.items() if m != "retrained"]
    told = []
    if "retrained" in cosine:
        beside = f" ({place_name(other)}: {signed(theirs['retrained'])})" if "retrained" in theirs else ""
        told.append(f"The cosine is {signed(cosine['retrained'])} for retrained models{beside}.")
    if rest:
        told.append(f"For the other methods it is {between(rest, signed)}.")
    found = compared(cosine, theirs)
    if found is not None and found.pearson is not None:
        told.append(
            f"Beside {place_name(other)} it differs by {score(found.difference)} on average (Pearson "
            f"{correlation(found.pearson)})."
        )
    return " ".join(told)
