"""The positive control and how well the original knows a class: what is hardly there hardly comes back."""

from __future__ import annotations

from collections.abc import Mapping

from reproduction.agreement import spearman
from reproduction.beside import originals
from reproduction.simple import percent, score
from reproduction.stored import VERDICT, Kept

RELATED = 0.5
"""Rank correlation from which on it is told."""


def known_well(kept: Kept) -> str:
    """Say, where it is so, that the control stands out more for classes that the original knows well.

    The correlation is that of masked minus retrained, canonical and source-free, with the original's accuracy. Nothing
    is said of fewer than three classes.
    """
    (_, known), rs = originals(kept), kept.by_class(*VERDICT)
    masked, retrained = (rs.get(name, {}) for name in ("masked", "retrained"))
    gaps = {c: masked[c] - retrained[c] for c in masked if c in retrained and c in known}
    rho = spearman([known[c] for c in gaps], list(gaps.values()))
    if rho is None or rho < RELATED:
        return ""
    found = {row["forget"]: row["verdict"] == "recovered" for row in kept.main(*VERDICT) if row["method"] == "masked"}
    return (
        f" The control stands out more for classes that the original knows well: over {len(gaps)} classes, Spearman "
        f"between its accuracy on the class and masked minus retrained is {score(rho)}.{_missed(known, found)} In part "
        "that must be so, as no more can come back than was there."
    )


def _missed(known: Mapping[str, float], found: Mapping[str, bool]) -> str:
    """Compare the accuracies of classes that are recovered with those of classes that are not, where there are both."""
    sides = [sorted(known[c] for c, back in found.items() if back == wanted and c in known) for wanted in (False, True)]
    if not all(sides):
        return ""
    missed, back = (f"{percent(some[0], 0)} to {percent(some[-1], 0)} %" for some in sides)
    return f" The original has {missed} on those that are not recovered, {back} on those that are."
