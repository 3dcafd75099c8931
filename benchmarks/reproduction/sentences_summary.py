"""What came out, in a few lines: does it carry over from one data set to another?

The lines were written before the rows: each says what comes out whichever way it does, or that it is missing.
"""

from __future__ import annotations

from reproduction.agreement import means
from reproduction.beside import place_name, side_of
from reproduction.simple import listed, percent
from reproduction.stored import METHOD_LIST, VERDICT, Kept, own
from reproduction.tables_audit import false_alarms
from reproduction.tables_rs import compared, correlation, scores

FORGOTTEN, BACK = 0.10, 0.8
"""Forget accuracy below which a model looks forgotten, and RS above which the class is back."""

ORDERS = ((0.8, "much the same as"), (0.5, "only roughly the same as"), (-1.0, "not the same as"))
"""How an order agrees with another, by the least rank correlation."""


def summary(kept: Kept, other: Kept) -> str:
    """Say in four lines what came out in the reading of a verdict."""
    if not kept.main(*VERDICT):
        return "No audit is computed yet."
    lines = [_order(kept, other), _hiding(kept, other), _alarms(kept, other), _masked(kept)]
    rows = [row for row in own(kept.coverage, kept) if row["what"] == "audit" and row["done"] < row["goals"]]
    some = [f", from {row['done']:.0f} of {row['goals']:.0f} audits" for row in rows]
    return "\n".join([f"In short, in the reading of the verdict{''.join(some)}:", "", *(f"- {line}" for line in lines)])


def hiding(kept: Kept) -> list[str]:
    """List the methods whose models look forgotten and give the class back, on average over forget classes."""
    rs, forget = scores(kept, *VERDICT), means(side_of(kept).forget)
    return [m for m in METHOD_LIST if m != "retrained" and m in rs and rs[m] > BACK and forget[m] < FORGOTTEN]


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
    here, there = (listed(hiding(one)) or "none" for one in (kept, other))
    return (
        f"Methods that look forgotten (below {percent(FORGOTTEN, 0)} % of forget accuracy) and give the class back "
        f"(mean RS above {BACK}): {here}; on {place_name(other)}: {there}."
    )


def _alarms(kept: Kept, other: Kept) -> str:
    (here, count), (there, total) = (false_alarms(one, *VERDICT) for one in (kept, other))
    if not count:
        return "No retrained model is audited yet, so false alarms cannot be counted."
    return f"False alarms: {here} of {count} retrained models ({place_name(other)}: {there} of {total})."


def _masked(kept: Kept) -> str:
    found = [row["verdict"] for row in kept.main(*VERDICT) if row["method"] == "masked"]
    if not found:
        return "The positive control is not computed yet."
    return f"The positive control is recovered for {found.count('recovered')} of {len(found)} classes."
