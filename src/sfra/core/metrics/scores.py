"""RS and what is made of it, from accuracies before and after relearning.

Throughout, `A_r` is the accuracy on retain classes and `A_f` on forget classes, `before` is the released
head and `after` the relearned one. Along a trajectory, epoch 0 is the released head.
"""

from __future__ import annotations

from collections.abc import Sequence, Sized
from statistics import fmean, stdev
from typing import SupportsFloat

import torch
from jaxtyping import Float
from torch import Tensor

from sfra.core.errors import InputError
from sfra.core.types import Curve

TOLERANCE = 1e-6
"""Slack at the edge of a bound: above the rounding of float32, far below one sample in 100,000.

Without it ``0.95 - 0.94``, a little above ``0.01`` in binary, would miss a budget of one point.
"""


def refuse_empty(values: Sized, name: str) -> None:
    """Refuse what has no value: there is no score of nothing."""
    if len(values) == 0:
        raise InputError(f"the {name} are empty", expected="one value or more")


def accuracies(*values: SupportsFloat) -> list[float]:
    """Check the four accuracies that every score starts from, in the order of its arguments."""
    names = (
        "retain accuracy before",
        "retain accuracy after",
        "forget accuracy before",
        "forget accuracy after",
    )
    return [fraction(value, name) for value, name in zip(values, names, strict=True)]


def fraction(value: SupportsFloat, name: str) -> float:
    """Return a float in [0, 1], or refuse it; a number from 1 to 100 looks like a percentage."""
    number = float(value)
    if 0.0 <= number <= 1.0:
        return number
    hint = "this looks like a percentage: divide by 100" if 1.0 < number <= 100.0 else None
    raise InputError(f"the {name} is out of range", expected="a fraction from 0 to 1", got=number, do=hint)


def curve(values: Curve, name: str) -> Curve:
    """Return a non-empty curve of fractions as float64."""
    refuse_empty(values, f"epochs of the {name}")
    found = values.double()
    fraction(found.min(), name)
    fraction(found.max(), name)
    return found


def recovery_terms(
    retain_before: SupportsFloat,
    retain_after: SupportsFloat,
    forget_before: SupportsFloat,
    forget_after: SupportsFloat,
) -> tuple[float, float]:
    """Return how much of the retain accuracy was kept and how much of the forget class came back.

    ``R_r = 1 - max(0, A_r before - A_r after)`` and ``R_f = max(0, A_f after - A_f before)``, both in [0, 1],
    higher for a more successful relearning.

    >>> kept, recovered = recovery_terms(0.75, 0.5, 0.0, 0.5)
    >>> kept, recovered
    (0.75, 0.5)
    """
    rb, ra, fb, fa = accuracies(retain_before, retain_after, forget_before, forget_after)
    return 1.0 - max(0.0, rb - ra), max(0.0, fa - fb)


def relearning_score(
    retain_before: SupportsFloat,
    retain_after: SupportsFloat,
    forget_before: SupportsFloat,
    forget_after: SupportsFloat,
) -> float:
    """Compute RS, the absolute recoverability of the forget class.

    ``RS = 2 R_r R_f / (R_r + R_f)``, the harmonic mean of :func:`recovery_terms`, and 0 if both are 0. In
    [0, 1]: 0 when nothing came back, 1 when all of the class did at no cost. Accuracies are fractions.

    >>> relearning_score(retain_before=0.9, retain_after=0.9, forget_before=0.0, forget_after=1.0)
    1.0
    >>> round(relearning_score(0.9519, 0.9267, 0.0, 0.379), 2)
    0.55
    """
    kept, recovered = recovery_terms(retain_before, retain_after, forget_before, forget_after)
    return 2.0 * kept * recovered / (kept + recovered) if kept + recovered > 0.0 else 0.0


def relearning_curve(retain: Curve, forget: Float[Tensor, " same"]) -> Curve:
    """Compute RS of every epoch against epoch 0, in float64.

    Args:
        retain: ``A_r`` of each epoch.
        forget: ``A_f`` of each epoch, as many.

    >>> relearning_curve(torch.tensor([0.75, 0.75, 0.5]), torch.tensor([0.0, 1.0, 0.75])).tolist()
    [0.0, 1.0, 0.75]
    """
    A_r, A_f = curve(retain, "retain accuracy"), curve(forget, "forget accuracy")
    if len(A_r) != len(A_f):
        raise InputError(
            "the accuracies cover different numbers of epochs",
            expected="one retain and one forget accuracy per epoch",
            got=f"{len(A_r)} and {len(A_f)}",
        )
    R_r, R_f = 1.0 - (A_r[0] - A_r).clamp(min=0.0), (A_f - A_f[0]).clamp(min=0.0)
    total = R_r + R_f
    return torch.where(total > 0.0, 2.0 * R_r * R_f / total.clamp(min=1e-300), 0.0)


def delta_rs(rs: SupportsFloat, reference_rs: SupportsFloat) -> float:
    """Compute ΔRS, what exceeds a model that never saw the class: ``RS - RS of the retrained reference``.

    In [-1, 1]: above 0 the model gives back more than its reference does, under the same audit of the same
    class; about 0 the class is relearnable from scratch, whatever RS is.

    >>> delta_rs(0.75, 0.5)
    0.25
    """
    return fraction(rs, "RS") - fraction(reference_rs, "RS of the reference")


def is_relearned(
    retain_before: SupportsFloat,
    retain_after: SupportsFloat,
    forget_before: SupportsFloat,
    forget_after: SupportsFloat,
    *,
    epsilon_r: SupportsFloat,
    delta_f: SupportsFloat,
) -> bool:
    """Say whether the class is (ε_r, δ_f)-relearned.

    ``A_f after - A_f before ≥ δ_f`` and ``A_r before - A_r after ≤ ε_r``, edges included.

    >>> is_relearned(0.95, 0.90, 0.0, 0.5, epsilon_r=0.05, delta_f=0.5)
    True
    """
    rb, ra, fb, fa = accuracies(retain_before, retain_after, forget_before, forget_after)
    within = rb - ra <= fraction(epsilon_r, "retain budget ε_r") + TOLERANCE
    return within and fa - fb >= fraction(delta_f, "recovery threshold δ_f") - TOLERANCE


def rs_at_budget(retain: Curve, forget: Float[Tensor, " same"], epsilon: SupportsFloat) -> float:
    """Compute RS@ε, the best RS among epochs with ``A_r after - A_r before ≥ -ε``.

    Epoch 0 always qualifies, so the result is at least 0; a larger budget ``ε`` never lowers it.

    >>> retain, forget = torch.tensor([0.94, 0.93, 0.5]), torch.tensor([0.0, 0.5, 1.0])
    >>> round(rs_at_budget(retain, forget, 0.01), 2)
    0.66
    """
    budget = fraction(epsilon, "retain budget ε")
    scores = relearning_curve(retain, forget)
    affordable = retain.double() - retain[0].double() >= -budget - TOLERANCE
    return float(scores[affordable].max())


def degenerate_floor(retain_before: SupportsFloat) -> float:
    """Compute RS of a head that always answers the forget class: ``2 (1 - A_r) / (2 - A_r)``.

    In [0, 1], higher for a weaker released model. A score that does not exceed it is no sign of recovery.

    >>> round(degenerate_floor(0.95), 2), round(degenerate_floor(0.70), 2)
    (0.1, 0.46)
    """
    A_r = fraction(retain_before, "retain accuracy before")
    return 2.0 * (1.0 - A_r) / (2.0 - A_r)


def mean_and_std(values: Sequence[SupportsFloat]) -> tuple[float, float | None]:
    """Compute the mean and the sample standard deviation (n - 1).

    A single value has no spread: its deviation is None, never 0.

    >>> mean_and_std([0.25, 0.75]), mean_and_std([0.5])
    ((0.5, 0.3535533905932738), (0.5, None))
    """
    refuse_empty(values, "values")
    numbers = [float(value) for value in values]
    return fmean(numbers), stdev(numbers) if len(numbers) > 1 else None
