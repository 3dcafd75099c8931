"""Sentences about the controls of a group and what its probes do, beside another group.

They were written before the rows were there: each says what comes out whichever way it does, or that it is missing.
"""

from __future__ import annotations

from statistics import fmean

from reproduction.agreement import means
from reproduction.beside import class_names, place_name, side_of
from reproduction.sentences_beside import between
from reproduction.sentences_checks import NOTHING
from reproduction.simple import percent, score, signed
from reproduction.stored import PUBLISHED, VERDICT, Kept, arrange, own
from reproduction.tables_beside import reset_pair
from reproduction.tables_rs import compared, correlation, of_methods
from sfra.report.classes import class_name
from sfra.tables.names import method_name


def control(kept: Kept, other: Kept) -> str:
    """Say how the positive control did."""
    here, there = (one.by_class(*VERDICT) for one in (kept, other))
    masked, reference = (here.get(name, {}) for name in ("masked", "retrained"))
    if not masked:
        return "The positive control is not computed yet."
    beside = f" ({place_name(other)}: {fmean(there['masked'].values()):.2f})" if "masked" in there else ""
    low = min(masked, key=masked.__getitem__)
    found = [row["verdict"] for row in kept.main(*VERDICT) if row["method"] == "masked"]
    above = sum(masked[c] > reference[c] for c in masked if c in reference)
    pairs = sum(c in reference for c in masked)
    return (
        f"Hidden by construction, the class comes back with RS {between(list(masked.values()))}, mean "
        f"{fmean(masked.values()):.2f}{beside}, least for {class_name(int(low), class_names(kept))}. "
        f"{found.count('recovered')} of {len(found)} have the verdict recovered; {above} of {pairs} are above the "
        "retrained model of their class."
    )


def reset(kept: Kept) -> str:
    """Say what drawing the forget row anew changes."""
    released, anew = (of_methods(one) for one in reset_pair(kept, "source-free"))
    change = {m: anew[m] - released[m] for m in anew if m in released}
    if not change:
        return NOTHING
    most = max(change, key=lambda m: abs(change[m]))
    reference = (
        f"; retrained models go from {released['retrained']:.2f} to {anew['retrained']:.2f}"
        if "retrained" in change
        else ""
    )
    return (
        f"Drawn anew, the forget row gives {signed(fmean(change.values()))} of RS on average over methods, most for "
        f"{method_name(most)} ({signed(change[most])}){reference}."
    )


def controls(kept: Kept, other: Kept) -> str:
    """Say what the audits with real samples find, on retrained models too."""
    ours, theirs = side_of(kept), side_of(other)
    pra, sfra = of_methods(ours.pra), of_methods(ours.rs[PUBLISHED])
    found, both = compared(pra, of_methods(theirs.pra)), [m for m in pra if m in sfra]
    told = []
    if found is not None:
        order = f"Spearman {correlation(found.spearman)}, " if found.spearman is not None else ""
        told.append(f"PRA beside {place_name(other)}: {order}mean absolute difference {score(found.difference)}.")
    if both:
        more = sum(sfra[m] > pra[m] for m in both)
        told.append(f"SFRA in the paper's reading brings back more than PRA for {more} of {len(both)} methods.")
    l2 = means(arrange([row for row in own(kept.pra, kept) if row["variant"] == "l2"], "rs"))
    if "retrained" in l2:
        told.append(f"PRA's l2 variant has a mean RS of {score(l2['retrained'])} on retrained models.")
    probes = of_methods(ours.probe)
    if probes:
        count = sum(len(ours.probe[m]) for m in probes)
        never = f"; of retrained ones {percent(probes['retrained'])} %" if "retrained" in probes else ""
        read = between(list(probes.values()), percent)
        told.append(f"Linear probes of {count} models read the class with {read} % by method{never}.")
    return " ".join(told) or NOTHING


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
