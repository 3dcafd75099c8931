"""95 % intervals of accuracies and of RS, from test samples and audit seeds together.

What is estimated is a mean over audit seeds of a number of the whole population. Two things keep the reported mean over
``S`` seeds from it: ``n`` samples stand for the population, the same ones in every seed, and ``S`` seeds for all seeds.

*Test samples.* Sample ``i`` is answered rightly in a share ``x_i`` of the seeds. The accuracy is the mean ``p`` of
``x_i`` and its sampling variance ``var(x_i) / n``, which is ``p (1 - p) / n`` if the seeds agree on every sample. So
Wilson's interval is taken at the effective number ``n / g`` with ``g = var(x_i) / p (1 - p)``, from ``1 / S`` to 1.
A few hits hardly tell if seeds agree, so ``g`` is the mean of that, weighted ``n p (1 - p)``, and of 1, weighted ½.
Before and after are measured on the same samples, so their correlation ``φ`` enters the interval of the change
``d = after - before`` (Newcombe's method for paired shares): with ``(l, u)`` the Wilson limits,
``low = d - √((p_a - l_a)² - 2 φ (p_a - l_a)(u_b - p_b) + (u_b - p_b)²)``, and ``high`` with the other limits.

RS rises in the change of the forget accuracy and in that of the retain accuracy, which are independent. It is
evaluated at the end of one with the other held, and the two distances from RS add up as squares, on each side.

*Audit seeds.* ``t √(max(0, s² - e) / S)``, with ``s`` the standard deviation over the seeds and ``t`` the 97.5 % point
of Student's distribution with ``S - 1`` degrees of freedom. On finite samples seeds differ anyway, by a variance of
``e = mean_i var_s(x_is) / n`` (for RS times its squared slope), which the part of the samples holds already. One seed
has no spread: its interval covers test samples alone.

Both parts add up as squares on each side, and the ends stay in [0, 1]. No interval has width zero at 0 or 1 hits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean, variance

from sfra.core.errors import InputError
from sfra.core.metrics.scores import relearning_score

Interval = tuple[float, float]

DOUBT = 0.5
"""Weight of the assumption that seeds agree on every sample: half a hit."""


def wilson_interval(successes: int | float, total: int | float, *, confidence: float = 0.95) -> Interval:
    """Compute Wilson's score interval of an accuracy of ``successes`` out of ``total``.

    With ``p = successes / total`` and ``z`` the normal quantile of the confidence, the interval is
    ``(p + z²/2n ± z √(p(1-p)/n + z²/4n²)) / (1 + z²/n)``. It stays in [0, 1] and has width at 0 and 1 hits.

    >>> low, high = wilson_interval(0, 1000)
    >>> round(low, 4), round(high, 4)
    (0.0, 0.0038)
    """
    if total == 0:
        raise InputError("the interval of an empty sample does not exist", expected="one sample or more")
    if not (0 <= successes <= total and 0.0 < confidence < 1.0):
        raise InputError(
            "the interval cannot be computed",
            expected="0 <= successes <= total and a confidence between 0 and 1",
            got=f"successes={successes}, total={total}, confidence={confidence}",
        )
    p, z = successes / total, NormalDist().inv_cdf(0.5 + confidence / 2.0)
    share = z * z / total
    centre, half = p + share / 2.0, z * (p * (1.0 - p) / total + share / (4.0 * total)) ** 0.5
    return max(0.0, (centre - half) / (1.0 + share)), min(1.0, (centre + half) / (1.0 + share))


@dataclass(frozen=True, kw_only=True)
class Accuracy:
    """An accuracy as the mean over seeds, and how surely the samples tell it."""

    mean: float
    size: float
    """Effective number of samples."""
    noise: float = 0.0
    """Variance between seeds that comes from the finite sample alone: ``e`` above."""

    @classmethod
    def of(cls, counts: Sequence[int]) -> Accuracy:
        """Take it from the numbers of samples that 0, 1, …, S of the S seeds answer rightly.

        >>> Accuracy.of([50, 50]), Accuracy.of([50, 0, 50])
        (Accuracy(mean=0.5, size=100.0, noise=0.0), Accuracy(mean=0.5, size=100.0, noise=0.0))
        """
        S, n = len(counts) - 1, sum(counts)
        total, squares = (sum(count * k**power for k, count in enumerate(counts)) for power in (1, 2))
        p, between = total / (S * n), (n * squares - total * total) / (S * n) ** 2
        weight = n * p * (1.0 - p)
        g = (n * max(between, p * (1.0 - p) / S) + DOUBT) / (weight + DOUBT)
        noise = (S * total - squares) / (S * (S - 1) * n * n) if S > 1 else 0.0
        return cls(mean=p, size=n / g, noise=noise)

    @property
    def limits(self) -> Interval:
        """Wilson's interval at the effective number of samples."""
        return wilson_interval(self.mean * self.size, self.size)


@dataclass(frozen=True, kw_only=True)
class Change:
    """An accuracy before and after relearning, measured on the same samples."""

    before: Accuracy
    after: Accuracy
    correlation: float = 0.0
    """Of being right before and after, over the samples; 0 where it is not known, which widens the intervals."""

    @classmethod
    def of(cls, table: Sequence[Sequence[int]]) -> Change:
        """Take it from the number of samples that ``b`` seeds answer rightly before and ``a`` after, ``table[b][a]``.

        >>> round(Change.of([[30, 20], [0, 50]]).correlation, 3)
        0.655
        """
        counts, S = [sum(row) for row in table], len(table) - 1
        before, after = Accuracy.of(counts), Accuracy.of([sum(column) for column in zip(*table, strict=True)])
        both = sum(count * b * a for b, row in enumerate(table) for a, count in enumerate(row))
        product = both / (S * S * sum(counts)) - before.mean * after.mean
        spread = math.sqrt(math.prod(one.mean * (1.0 - one.mean) / one.size for one in (before, after))) * sum(counts)
        return cls(before=before, after=after, correlation=product / spread if spread > 0.0 else 0.0)

    @property
    def limits(self) -> Interval:
        """Newcombe's interval of ``after - before`` for paired shares."""
        (low_b, high_b), (low_a, high_a) = self.before.limits, self.after.limits
        b, a = self.before.mean, self.after.mean

        def distance(x: float, y: float) -> float:
            return math.sqrt(max(0.0, x * x - 2.0 * self.correlation * x * y + y * y))

        return a - b - distance(a - low_a, high_b - b), a - b + distance(high_a - a, b - low_b)


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A number between 0 and 1 as the mean over seeds, with its two errors."""

    value: float
    samples: Interval
    """95 % interval from test samples alone."""
    error: float = 0.0
    """Standard error over seeds, without what finite samples cause; 0 for one seed, whose spread is unknown."""
    seeds: int = 1

    @classmethod
    def of(cls, seeds: Sequence[float], below: float, above: float, noise: float) -> Estimate:
        """Take it from the value of each seed, the distances to the ends that samples give, and the noise in seeds."""
        S, value = len(seeds), fmean(seeds)
        error = math.sqrt(max(0.0, variance(seeds) - noise) / S) if S > 1 else 0.0
        return cls(value=value, samples=(max(0.0, value - below), min(1.0, value + above)), error=error, seeds=S)

    @property
    def interval(self) -> Interval:
        """95 % interval from samples and seeds."""
        margin = _margin([self.error], [self.seeds])
        low, high = (math.hypot(self.value - end, margin) for end in self.samples)
        return max(0.0, self.value - low), min(1.0, self.value + high)


def estimate_accuracy(accuracy: Accuracy, seeds: Sequence[float]) -> Estimate:
    """Estimate an accuracy from its samples and from its values in each seed.

    >>> low, high = estimate_accuracy(Accuracy(mean=0.0, size=100.0), [0.0]).interval
    >>> round(low, 3), round(high, 3)
    (0.0, 0.037)
    """
    low, high = accuracy.limits
    return Estimate.of(seeds, accuracy.mean - low, high - accuracy.mean, accuracy.noise)


def estimate_rs(retain: Change, forget: Change, seeds: Sequence[float]) -> Estimate:
    """Estimate RS from the changes of both accuracies and from its values in each seed.

    >>> kept = Change(before=Accuracy(mean=0.95, size=900.0), after=Accuracy(mean=0.95, size=900.0))
    >>> back = Change(before=Accuracy(mean=0.0, size=100.0), after=Accuracy(mean=0.5, size=100.0))
    >>> low, high = estimate_rs(kept, back, [2 / 3]).interval
    >>> round(low, 2), round(high, 2)
    (0.57, 0.75)
    """

    def rs(kept: float, gained: float) -> float:
        """Return RS from the two changes."""
        return relearning_score(min(1.0, max(0.0, -kept)), 0.0, 0.0, min(1.0, max(0.0, gained)))

    r, f = (change.after.mean - change.before.mean for change in (retain, forget))
    centre, (low_r, high_r), (low_f, high_f) = rs(r, f), retain.limits, forget.limits
    below = math.hypot(centre - rs(r, low_f), centre - rs(low_r, f))
    above = math.hypot(rs(r, high_f) - centre, rs(high_r, f) - centre)
    kept, gained = 1.0 + min(0.0, r), max(0.0, f)
    slope_r, slope_f = (2.0 * (one / (kept + gained)) ** 2 if kept + gained else 0.0 for one in (gained, kept))
    noise = slope_r**2 * retain.after.noise * (r < 0.0) + slope_f**2 * forget.after.noise * (f > 0.0)
    return Estimate.of(seeds, below, above, noise)


def difference_interval(model: Estimate, others: Sequence[Estimate]) -> Interval:
    """Compute the interval of a number minus the mean of others, such as ΔRS.

    All are measured on the same samples, so the others' sampling errors are taken to go together: the mean of their
    distances counts, however many they are, and adds to that of the model as a square (Newcombe's hybrid method). That
    the model's error goes with them too would narrow the interval if it were known how much; leaving it out is the
    safe side. Errors of seeds are independent; their degrees of freedom are Satterthwaite's.

    >>> reference = Estimate(value=0.25, samples=(0.25, 0.25))
    >>> difference_interval(Estimate(value=0.75, samples=(0.5, 1.0)), [reference])
    (0.25, 0.75)
    """
    count = len(others)
    over = sum(one.samples[1] - one.value for one in others) / count
    under = sum(one.value - one.samples[0] for one in others) / count
    margin = _margin([model.error, *(one.error / count for one in others)], [one.seeds for one in (model, *others)])
    delta = model.value - fmean(one.value for one in others)
    below, above = model.value - model.samples[0], model.samples[1] - model.value
    return delta - math.hypot(below, over, margin), delta + math.hypot(above, under, margin)


def _margin(errors: Sequence[float], seeds: Sequence[int]) -> float:
    """Compute half the width of Student's interval of a sum of independent means over seeds; 0 without any error."""
    total = math.fsum(error**2 for error in errors)
    if total == 0.0:
        return 0.0
    from scipy.special import stdtrit

    known = zip(errors, seeds, strict=True)
    freedom = total**2 / math.fsum(error**4 / (count - 1) for error, count in known if error > 0.0)
    return float(stdtrit(freedom, 0.975)) * math.sqrt(total)
