"""How far two sets of scores agree: in order, in proportion and in size; and what the disagreement hangs on."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

Scores = Mapping[str, float]
"""A score by method."""


ByClass = Mapping[str, Mapping[str, float]]
"""A value by method and forget class."""


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """Two sets of scores beside each other."""

    n: int
    spearman: float | None
    pearson: float | None
    difference: float
    """Mean absolute difference."""
    bias: float
    """Mean difference, ours minus the other's."""


def ranks(values: Sequence[float]) -> list[float]:
    """Rank values from 1, equal ones by the mean of their places.

    >>> ranks([0.2, 0.9, 0.2])
    [1.5, 3.0, 1.5]
    """
    order = sorted(values)
    first = {value: order.index(value) for value in set(values)}
    return [first[value] + (order.count(value) + 1) / 2 for value in values]


def pearson(x: Sequence[float], y: Sequence[float]) -> float | None:
    """Compute the correlation ``Σ(x-x̄)(y-ȳ) / √(Σ(x-x̄)² Σ(y-ȳ)²)``; None for fewer than three or equal values."""
    if len(x) < 3:
        return None
    centre_x, centre_y = fmean(x), fmean(y)
    across = math.fsum((a - centre_x) * (b - centre_y) for a, b in zip(x, y, strict=True))
    spread = math.fsum((a - centre_x) ** 2 for a in x) * math.fsum((b - centre_y) ** 2 for b in y)
    return across / math.sqrt(spread) if spread > 0 else None


def spearman(x: Sequence[float], y: Sequence[float]) -> float | None:
    """Compute the correlation of the ranks.

    >>> spearman([0.1, 0.5, 0.3], [1, 25, 9])
    1.0
    """
    found = pearson(ranks(x), ranks(y))
    return None if found is None else round(found, 12)


def agree(ours: Scores, theirs: Scores) -> Agreement:
    """Compare the scores of what both have."""
    both = [name for name in ours if name in theirs]
    x, y = [ours[name] for name in both], [theirs[name] for name in both]
    differences = [a - b for a, b in zip(x, y, strict=True)]
    return Agreement(
        n=len(both),
        spearman=spearman(x, y),
        pearson=pearson(x, y),
        difference=fmean(map(abs, differences)),
        bias=fmean(differences),
    )


def without(ours: Scores, theirs: Scores, left_out: Collection[str]) -> Agreement:
    """Compare all but some."""
    return agree({name: score for name, score in ours.items() if name not in left_out}, theirs)


def leave_one_out(ours: Scores, theirs: Scores) -> dict[str, Agreement]:
    """Compare all but one, for each; the one whose absence raises the rank correlation most comes first."""
    found = {name: without(ours, theirs, (name,)) for name in ours if name in theirs}
    return dict(sorted(found.items(), key=lambda item: -(item[1].spearman or -1.0)))


def means(scores: ByClass) -> dict[str, float]:
    """Average the scores of each method over its forget sets."""
    return {method: fmean(some.values()) for method, some in scores.items() if some}


def averages(scores: ByClass, classes: Mapping[str, Sequence[str]]) -> dict[str, float]:
    """Average the scores of each method over the given forget sets; methods that lack one are left out."""
    whole = {method: some for method, some in classes.items() if set(some) <= set(scores.get(method, {}))}
    return means({method: {forget: scores[method][forget] for forget in some} for method, some in whole.items()})


def pairs(ours: ByClass, theirs: ByClass) -> dict[str, tuple[float, float]]:
    """Pair the scores of each model that both have, by ``method class``."""
    return {
        f"{method} {forget}": (score, theirs[method][forget])
        for method, some in ours.items()
        for forget, score in some.items()
        if forget in theirs.get(method, {})
    }


def shift_correlation(
    scores: Mapping[str, tuple[float, float]], facts: Mapping[str, tuple[float, float]]
) -> tuple[int, float | None]:
    """Correlate, over models, the size of the difference in a score with that in something else (Spearman's ρ)."""
    both = [name for name in scores if name in facts]
    x, y = ([abs(one[name][0] - one[name][1]) for name in both] for one in (scores, facts))
    return len(both), spearman(x, y)
