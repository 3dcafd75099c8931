"""Sentences about what the audit itself does; their numbers come from the rows."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean

from reproduction.agreement import agree, means
from reproduction.beside import alarm, floors, paper_alignment
from reproduction.known import known_well
from reproduction.sentences_beside import between
from reproduction.sentences_checks import below_last, most_added
from reproduction.simple import listed, percent, score, signed
from reproduction.stored import METHOD_LIST, PUBLISHED, VERDICT, Kept, arrange, diagnosed, own, printed
from reproduction.tables_audit import best_of_sweep, false_alarms, mean_of, selection_parts
from reproduction.tables_models import paper_multi
from reproduction.tables_rs import over_scales, scores
from sfra.bench.tables.names import method_name

SHARED = 0.1
"""RS that an epoch must add in other seeds too, for a method to count as passing through a better state."""

NO_FLOOR = -0.03
"""Worst-case minus validation below this: the choice on a validation split took an epoch that worst-case may not."""


def scales(kept: Kept) -> str:
    """Say what the canonical scale changes."""
    both = [scores(kept, "native", "source-free"), scores(kept, *VERDICT)]
    order = [sorted(some, key=some.__getitem__) for some in both]
    before, after = (fmean(some.values()) for some in both)
    readings = (("native", "source-free"), PUBLISHED, VERDICT)
    last, best, verdict = (false_alarms(kept, *reading) for reading in readings)
    return (
        "Canonical heads are smaller than ours are natively, so less comes back (mean RS "
        f"{before:.2f} to {after:.2f}, last epoch), in {'the same' if order[0] == order[1] else 'another'} order. What "
        f"it buys is a quiet reference: {last[0]} of {last[1]} retrained models raise an alarm at native scale with "
        f"the last epoch, {best[0]} with the best one, {verdict[0]} at canonical scale; their highest RS there is "
        f"{max(kept.by_class(*VERDICT)['retrained'].values()):.2f}. An alarm is {alarm(kept, *readings)}, what "
        f"answering everything with the forget class would score ({between(floors(kept))}). κ was fixed before, on "
        "other models of this data set and backbone ([scale.md](scale.md))."
    )


def curves(kept: Kept) -> str:
    """Say which methods are above their references at every scale of the sweep, and which at none."""
    found = over_scales(kept, "source-free")
    gaps = {m: [some[m] - some["retrained"] for some in found.values()] for m in METHOD_LIST if m != "retrained"}
    above, never = [m for m in gaps if min(gaps[m]) > 0.25], [m for m in gaps if max(gaps[m]) < 0.05]
    return (
        "The curves say more than any one scale ([scale.md](scale.md)). From κ = "
        f"{min(found):.2f} to {max(found):.2f}, with the last epoch, {listed(above)} are more than 0.25 above the mean "
        f"of their references at every scale; {listed(never)} are nowhere 0.05 above it."
    )


def selection(kept: Kept) -> str:
    """Say what choosing the best epoch adds, and where it comes from."""
    native, canonical = (selection_parts(kept, scale) for scale in ("native", "canonical"))
    total = {m: native["best"][m] - native["last"][m] for m in METHOD_LIST}
    passing = [m for m in METHOD_LIST if native["shared"][m] > SHARED]
    spiking = [m for m in METHOD_LIST if m not in passing]
    other = {m: canonical["best"][m] - canonical["last"][m] for m in METHOD_LIST}
    added = [mean_of(part["best"]) - mean_of(part["last"]) for part in (native, canonical)]
    return (
        f"The best of 500 epochs on the test data adds {added[0]:.2f} to the last epoch at native scale and "
        f"{added[1]:.2f} at canonical scale, on average over methods, most for "
        f"{most_added(total, other)}.{below_last(total, other)} For {listed(passing)} "
        "most of it, at native scale, is an earlier epoch that is better in every seed: relearning comes and goes. For "
        "the others it is a spike of the one run: the best epoch of a seed, read from another seed, "
        f"adds {signed(fmean(native['shared'][m] for m in spiking))} instead of "
        f"{signed(fmean(total[m] for m in spiking))}. The spikes are states of that head, not luck with the test "
        f"samples: {_validated(native['test'])}. So an auditor with labelled data finds them, and one without cannot "
        "know when to stop."
    )


def _validated(gains: Mapping[str, float]) -> str:
    freed = [m for m in METHOD_LIST if gains[m] < NO_FLOOR]
    largest = max(abs(gains[m]) for m in METHOD_LIST if m not in freed)
    but = f" (but for {listed(freed)}: that choice has no floor for retain accuracy)" if freed else ""
    return f"an epoch chosen on a validation split gives the same RS on the test split to within {largest:.2f}{but}"


def control(kept: Kept) -> str:
    """Say how the positive control did."""
    masked, reference = (kept.by_class(*VERDICT)[name] for name in ("masked", "retrained"))
    best = [value for value, _ in best_of_sweep(kept, "masked").values()]
    low = min(masked, key=masked.__getitem__)
    return (
        f"Hidden by construction, the class comes back with RS {masked[low]:.2f} (class {low}) to "
        f"{max(masked.values()):.2f}, mean {fmean(masked.values()):.2f}; retrained models stay at or below "
        f"{max(reference.values()):.2f}. The best scale of the sweep gives {min(best):.2f} to {max(best):.2f}: the "
        f"canonical scale gives up some of the hardest classes for the quiet reference.{known_well(kept)}"
    )


def two_classes(kept: Kept) -> str:
    """Say what comes back when two classes were forgotten at once."""
    ours = {row["method"]: row["rs"] for row in kept.main(*PUBLISHED, forget="1+6") if row["method"] in METHOD_LIST}
    found = agree(ours, {m: some["sfra"]["rs"] for m, some in paper_multi().items() if "sfra" in some})
    rows = [row for row in kept.confusion if row["method"] == "masked"]
    answered = sum(row["own"] + row["other"] for row in rows) / sum(row["samples"] for row in rows)
    lowest = min(row["own"] / row["samples"] for row in rows)
    return (
        f"Over {found.n} methods, in the paper's reading: Spearman {score(found.spearman)}, mean absolute difference "
        f"{score(found.difference)}. Even of the masked original only half comes back: at canonical scale, with the "
        f"first seed, {percent(answered, 0)} % of the forget samples are answered with one of the two classes, but "
        f"with the same one; {percent(lowest, 0)} % of the other class get their own label. Nothing says which "
        "of the two outputs is to learn which class; that may be why, and is untested. With one class of two back, RS "
        "is at most 0.67: read it as recovery of the set, not of its classes."
    )


def controls(kept: Kept) -> str:
    """Say how far PRA agrees with the paper's."""
    rows = [row for row in own(kept.pra, kept) if row["variant"] == "cosine" and row["method"] in METHOD_LIST]
    found = agree(means(arrange(rows, "rs")), means(printed("pra", "rs")))
    return (
        f"PRA beside the paper's: Spearman {score(found.spearman)}, Pearson {score(found.pearson)}, mean absolute "
        f"difference {score(found.difference)}."
    )


def alignment(kept: Kept) -> str:
    """Say how far the alignment agrees with the paper's."""
    cosine = {m: one for m, one in means(diagnosed(kept, "cosine")).items() if m in METHOD_LIST}
    paper = paper_alignment("a_cos")
    found = agree(cosine, paper)
    far = max(cosine, key=lambda m: abs(cosine[m] - paper[m]))
    return (
        f"Cosines differ from the paper's by {score(found.difference)} on average (Pearson {score(found.pearson)}), "
        f"most for {method_name(far)} ({signed(cosine[far] - paper[far])}). No choice of epoch enters them."
    )
