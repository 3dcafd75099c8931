"""What came out, in a few lines: does it carry over from one data set to another?

The lines were written before the rows: each says what comes out whichever way it does, or that it is missing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from reproduction.agreement import means
from reproduction.beside import alarm, class_names, floors, place_name, side_of
from reproduction.sentences_beside import between
from reproduction.sentences_sweeps import tally
from reproduction.simple import joined, listed, percent
from reproduction.stored import METHOD_LIST, VERDICT, Kept, own
from reproduction.sweeps import outcomes, read_sweep
from reproduction.tables_audit import false_alarms
from reproduction.tables_rs import compared, correlation, scores
from sfra.attack.scale import KAPPA
from sfra.auditing.verdict import DELTA
from sfra.report.classes import class_name

FORGOTTEN, BACK = 0.10, 0.8
"""Forget accuracy below which a model looks forgotten, and RS above which the class is back."""

ORDERS = ((0.8, "much the same as"), (0.5, "only roughly the same as"), (-1.0, "not the same as"))
"""How an order agrees with another, by the least rank correlation."""

MEANING = {
    "generic": f"ΔRS at most {DELTA}",
    "inconclusive": "an interval of ΔRS that touches 0",
    "not-recovered": "an RS that answering blindly would have",
    "degenerate": "retain classes given up",
}
"""What a verdict says of a model whose class did not come back for certain."""


def summary(kept: Kept, other: Kept) -> str:
    """Say in four lines what came out in the reading of a verdict, and in one what other scales would change."""
    if not kept.main(*VERDICT):
        return "No audit is computed yet."
    lines = [_order(kept, other), _hiding(kept, other), _alarms(kept, other), _masked(kept), *_swept(kept)]
    rows = [row for row in own(kept.coverage, kept) if row["what"] == "audit" and row["done"] < row["goals"]]
    some = [f", from {row['done']:.0f} of {row['goals']:.0f} audits" for row in rows]
    return "\n".join([f"In short, in the reading of the verdict{''.join(some)}:", "", *(f"- {line}" for line in lines)])


def hiding(kept: Kept) -> list[str]:
    """List the methods whose models look forgotten and give the class back, on average over forget classes."""
    rs, forget = scores(kept, *VERDICT), means(side_of(kept).forget)
    return [m for m in METHOD_LIST if m != "retrained" and m in rs and rs[m] > BACK and forget[m] < FORGOTTEN]


def broken(kept: Kept, methods: list[str]) -> dict[str, tuple[int, int]]:
    """Count the degenerate verdicts, and all, of those methods that have them for more than half of their models."""
    found = {m: [row["verdict"] for row in kept.main(*VERDICT) if row["method"] == m] for m in methods}
    counts = {m: (some.count("degenerate"), len(some)) for m, some in found.items()}
    return {m: (n, total) for m, (n, total) in counts.items() if 2 * n > total}


def order_word(rho: float) -> str:
    """Say how far an order agrees.

    >>> order_word(0.9), order_word(0.2)
    ('much the same as', 'not the same as')
    """
    return next(text for least, text in ORDERS if rho >= least)


def _order(kept: Kept, other: Kept) -> str:
    found = compared(scores(kept, *VERDICT), scores(other, *VERDICT))
    if found is None or found.spearman is None:
        return "There are too few methods, or their RS are too equal, to compare their order."
    rho = f"(Spearman {correlation(found.spearman)})"
    return f"The order of {found.n} methods by mean RS is {order_word(found.spearman)} on {place_name(other)} {rho}."


def _hiding(kept: Kept, other: Kept) -> str:
    here, there = _methods(kept), _methods(other, said=_how(broken(kept, hiding(kept))))
    return (
        f"Methods that look forgotten (below {percent(FORGOTTEN, 0)} % of forget accuracy) and give the class back "
        f"(mean RS above {BACK}): {here}. On {place_name(other)}: {there}."
    )


def _methods(kept: Kept, *, said: str = "") -> str:
    """Name the methods that hide the class, and apart those that give up the retain classes for it."""
    found = hiding(kept)
    apart = broken(kept, found)
    plain, how = listed([m for m in found if m not in apart]), _how(apart)
    if not apart:
        return plain or "none"
    names, counts = listed(list(apart)), joined([f"{n} of {total}" for n, total in apart.values()])
    if not plain:
        return f"only {names}, and {how} (degenerate for {counts})"
    return f"{plain}; {names} " + (
        f"likewise ({counts})" if how == said else f"too, but {how} (degenerate for {counts})"
    )


def _how(apart: Mapping[str, tuple[int, int]]) -> str:
    share = "only" if all(n == total for n, total in apart.values()) else "mostly"
    return f"{share} by giving up the retain classes" if apart else ""


def _alarms(kept: Kept, other: Kept) -> str:
    (here, count), (there, total) = (false_alarms(one, *VERDICT) for one in (kept, other))
    if not count:
        return "No retrained model is audited yet, so false alarms cannot be counted."
    scored = f"what answering everything with the forget class would score: {between(floors(kept))} here"
    beside = f", {between(floors(other))} on {place_name(other)}" if total else ""
    theirs = f"; {place_name(other)}: {there} of {total}" if total else ""
    what = alarm(kept, VERDICT, whose="their")
    return f"False alarms: {here} of {count} retrained models have {what} ({scored}{beside}){theirs}."


def _swept(kept: Kept) -> list[str]:
    """Say at which scale of the sweep most controls are recovered, and how many at the canonical one."""
    found = {kappa: here for kappa, here in outcomes(kept).items() if here.controls}
    if not found:
        return []
    names, classes = class_names(kept), read_sweep(kept).rs["masked"]
    over = f"Over {len(found)} scales, for {joined([class_name(int(c), names) for c in sorted(classes, key=int)])}"
    best = max(found, key=lambda kappa: len(found[kappa].recovered))
    if not found[best].recovered:
        return [f"{over}: no control is recovered at any of them."]
    chosen, there = found.get(KAPPA), ""
    if chosen and best != KAPPA:
        alarms = f" and {chosen.alarms}" if chosen.references else ""
        there = f", {len(chosen.recovered)}{alarms} at κ = {KAPPA:.2f}"
    more = "; at no scale are more controls recovered"
    return [f"{over}: {tally(found[best])} at κ = {best:.2f}{there}{more}."]


def _masked(kept: Kept) -> str:
    found = [row["verdict"] for row in kept.main(*VERDICT) if row["method"] == "masked"]
    if not found:
        return "The positive control is not computed yet."
    back = found.count("recovered")
    if back == len(found):
        return f"The positive control is recovered for {back} of {len(found)} classes."
    rest = Counter(one for one in found if one != "recovered")
    others = joined([f"{one} ({n}{f': {MEANING[one]}' if one in MEANING else ''})" for one, n in rest.most_common()])
    missed = f": here the audit misses {'part of ' if back else ''}what is hidden by construction"
    return (
        f"The positive control is recovered for only {back} of {len(found)} classes; the others are {others}"
        f"{missed if set(rest) & set(MEANING) else ''}."
    )
