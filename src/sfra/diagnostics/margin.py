"""The first step of relearning: how one gradient step on the forget probes moves the margin on real samples.

With ``L`` the mean cross-entropy of the forget probes ``s`` of class ``c``, the gradient of row ``k`` is
``E_s[(p_k(s) - [k = c]) s]`` and that of its bias ``E_s[p_k(s) - [k = c]]``. So a step ``-η ∇L`` changes the mean
margin ``E_z[h_c(z) - h_j(z)]`` over real features ``z`` with mean ``μ_E`` by exactly

    η (E_s[α_j(s) s]ᵀ μ_E + E_s[α_j(s)]),    α_j(s) = 1 - p_c(s) + p_j(s)  in [0, 2],

the first term from the weight, the second from the bias. The weight term is ``η (μ_Sᵀμ_E + r_j)`` with
``r_j = E_s[(α_j(s) - 1) s]ᵀ μ_E``: alignment, plus what it leaves out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from sfra.attack.relearn import LabelledProbes
from sfra.core.errors import InputError
from sfra.core.head import Head
from sfra.diagnostics.alignment import forget_pair
from sfra.diagnostics.record import Record

Column = NDArray[np.float64]

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
"""Where the distribution of ``α_j`` is read."""

BINS = 20
"""Bars of the histogram of ``α_j``, of equal width from 0 to 2."""

BOOTSTRAP = 200
"""Default number of bootstrap samples."""

POINTS = 1000
"""Most pairs (exact, approximate) that are kept for a scatter plot."""


@dataclass(frozen=True, kw_only=True)
class Agreement(Record):
    """Exact values ``y`` against their approximation ``x``, pair by pair."""

    pairs: int
    pearson: float | None
    """Linear correlation, -1 to 1; None when one of the columns is constant."""
    spearman: float | None
    """Correlation of the ranks, ties sharing their mean rank; None when one of the columns is constant."""
    slope_through_origin: float | None
    """``Σ x y / Σ x²``: the factor between the two; None when all ``x`` are zero."""
    slope: float | None
    """Least squares of ``y`` on ``x`` with an intercept; None when ``x`` is constant."""
    intercept: float | None
    """The intercept of that line."""
    sign_agreement: float
    """Share of pairs of the same sign; a zero agrees with a zero only."""


@dataclass(frozen=True, kw_only=True)
class Competitor(Record):
    """The forget class against one retain class ``j``; changes of the margin are per unit of learning rate."""

    label: int
    """``j``."""
    alpha_mean: float
    alpha_std: float
    """Over the probes, divisor n."""
    alpha_quantiles: tuple[float, ...]
    """At ``QUANTILES``."""
    alpha_histogram: tuple[int, ...]
    """Probes in each of ``BINS`` equal parts of [0, 2]."""
    exact: float
    """``E_s[α_j(s) s]ᵀ μ_E``: what the weight does to the margin."""
    residual: float
    """``r_j``, what ``A_IP`` leaves out of it: ``exact = A_IP + r_j``."""
    bias: float
    """``E_s[α_j(s)]``: what the bias does to the margin; never negative."""
    total: float
    """``exact + bias``: the change of the mean margin of a head with a bias that is trained."""
    sufficient: bool
    """``A_IP > |r_j|``, which implies that ``exact`` is positive."""


@dataclass(frozen=True, kw_only=True)
class Margin(Record):
    """One forget class against all retain classes."""

    forget_class: int
    probes: int
    samples: int
    inner: float
    """``A_IP = μ_Sᵀ μ_E``."""
    inner_interval: tuple[float, float]
    """2.5 % and 97.5 % quantiles of ``A_IP`` over the bootstrap samples."""
    competitors: tuple[Competitor, ...]
    sufficient: int
    """Competitors for which ``A_IP > |r_j|``."""
    rising: int
    """Competitors over which the margin rises, bias included."""
    agreement: Agreement
    """``exact`` against ``A_IP`` over all pairs of a bootstrap sample and a competitor."""
    bootstrap: int
    """Bootstrap samples; each redraws probes and real samples with replacement."""
    points: tuple[tuple[int, float, float], ...]
    """Some of those pairs, evenly taken over samples and competitors: competitor, exact, approximate."""


def margin(
    head: Head,
    probes: LabelledProbes,
    features: Float[Tensor, "samples d"],
    labels: Int[Tensor, " samples"],
    forget: Sequence[int],
    *,
    gain: float = 1.0,
    bootstrap: int = BOOTSTRAP,
    points: int = POINTS,
    seed: int = 0,
) -> tuple[Margin, ...]:
    """Tell how far alignment explains the first gradient step, forget class by forget class.

    Several forget classes are looked at one by one: the step is on the probes of one class, and its competitors are the
    retain classes. Other forget classes are no competitors, since their own probes raise them in the same batch; they
    do count in the softmax.

    Args:
        head: The head at the scale of the probes.
        probes: Probes of that head.
        features: Real features, as released.
        labels: True class of each row of features.
        forget: Forget classes.
        gain: What the head's weight was multiplied by at that scale; features are divided by it. 1 is native.
        bootstrap: Bootstrap samples, 2 or more.
        points: Most pairs that are kept for a plot.
        seed: Seed of the bootstrap.

    >>> from types import SimpleNamespace
    >>> probes = SimpleNamespace(samples=torch.eye(3), labels=torch.tensor([2, 2, 2]))
    >>> found = margin(Head(torch.zeros(3, 3)), probes, torch.ones(1, 3), torch.tensor([2]), [2])
    >>> found[0].inner, found[0].competitors[0].alpha_mean
    (1.0, 1.0)
    """
    if bootstrap < 2:
        raise InputError("there are too few bootstrap samples", expected="2 or more", got=bootstrap)
    retain = [k for k in range(head.classes) if k not in set(forget)]
    if not retain:
        raise InputError("there is no competitor", expected="one retain class or more", got=list(forget))
    found = []
    for c in sorted(set(forget)):
        S, E = forget_pair(probes, features, labels, c, gain=gain)
        alpha, mu_E = alphas(head, S, c)[:, retain], E.mean(0)
        inner, exact = float(S.mean(0) @ mu_E), alpha.T @ (S @ mu_E) / len(S)
        competitors = tuple(_competitor(j, alpha[:, i], inner, float(exact[i])) for i, j in enumerate(retain))
        spread, spread_inner = _resample(S, E, alpha, bootstrap, seed)
        low, high = spread_inner.quantile(torch.tensor([0.025, 0.975], dtype=torch.float64)).tolist()
        found.append(
            Margin(
                forget_class=c,
                probes=len(S),
                samples=len(E),
                inner=inner,
                inner_interval=(low, high),
                competitors=competitors,
                sufficient=sum(one.sufficient for one in competitors),
                rising=sum(one.total > 0.0 for one in competitors),
                agreement=agreement(spread.numpy(), spread_inner[:, None].expand_as(spread).numpy()),
                bootstrap=bootstrap,
                points=_thin(retain, spread, spread_inner, points),
            )
        )
    return tuple(found)


def alphas(head: Head, samples: Float[Tensor, "n d"], forget_class: int) -> Float[Tensor, "n C"]:
    """Compute ``α_j(s) = 1 - p_c(s) + p_j(s)`` of every sample and class, in float64.

    >>> alphas(Head(torch.zeros(4, 2)), torch.zeros(1, 2), 3).tolist()
    [[1.0, 1.0, 1.0, 1.0]]
    """
    weight, bias = head.weight.double(), head.bias.double()
    p = torch.nn.functional.linear(samples.cpu().double(), weight, bias).softmax(1)
    return 1.0 - p[:, forget_class, None] + p


def _competitor(label: int, alpha: Float[Tensor, " n"], inner: float, exact: float) -> Competitor:
    mean = float(alpha.mean())
    residual = exact - inner
    return Competitor(
        label=label,
        alpha_mean=mean,
        alpha_std=float(alpha.std(correction=0)),
        alpha_quantiles=tuple(alpha.quantile(torch.tensor(QUANTILES, dtype=alpha.dtype)).tolist()),
        alpha_histogram=tuple(int(count) for count in alpha.histc(BINS, 0.0, 2.0).tolist()),
        exact=exact,
        residual=residual,
        bias=mean,
        total=exact + mean,
        sufficient=inner > abs(residual),
    )


def _resample(
    S: Float[Tensor, "n d"], E: Float[Tensor, "e d"], alpha: Float[Tensor, "n R"], bootstrap: int, seed: int
) -> tuple[Float[Tensor, "B R"], Float[Tensor, " B"]]:
    """Return ``E_s[α_j(s) s]ᵀ μ_E`` and ``μ_Sᵀ μ_E`` of every bootstrap sample.

    A sample is a count per row, so the means of all samples are a few products with matrices of counts.
    """
    generator = torch.Generator().manual_seed(seed)
    shares = []
    for rows in (S, E):
        drawn = torch.randint(len(rows), (bootstrap, len(rows)), generator=generator)
        counts = torch.zeros(bootstrap, len(rows), dtype=torch.float64)
        shares.append(counts.scatter_add_(1, drawn, torch.ones_like(drawn).double()) / len(rows))
    weighted = shares[0] * ((shares[1] @ E) @ S.T)
    return weighted @ alpha, weighted.sum(1)


def _thin(
    retain: Sequence[int], exact: Float[Tensor, "B R"], approximate: Float[Tensor, " B"], most: int
) -> tuple[tuple[int, float, float], ...]:
    """Take at most ``most`` pairs: bootstrap samples at even steps, competitors in turn."""
    samples, competitors = exact.shape
    count = min(most, samples * competitors)
    places = [(k * samples // count, k % competitors) for k in range(count)]
    return tuple((retain[i], float(exact[b, i]), float(approximate[b])) for b, i in places)


def agreement(exact: ArrayLike, approximate: ArrayLike) -> Agreement:
    """Compare exact values with approximate ones.

    >>> found = agreement([2.0, 4.0, -6.0], [1.0, 2.0, -3.0])
    >>> found.slope_through_origin, found.sign_agreement
    (2.0, 1.0)
    """
    y, x = (np.asarray(values, dtype=np.float64).ravel() for values in (exact, approximate))
    if len(x) == 0 or len(x) != len(y):
        raise InputError("the pairs do not match", expected="one exact value per approximate one", got=(len(y), len(x)))
    square, dx = float(x @ x), x - x.mean()
    slope = float(dx @ (y - y.mean()) / (dx @ dx)) if np.ptp(x) > 0.0 else None
    return Agreement(
        pairs=len(x),
        pearson=_correlation(x, y),
        spearman=_correlation(_ranks(x), _ranks(y)),
        slope_through_origin=float(x @ y) / square if square > 0.0 else None,
        slope=slope,
        intercept=None if slope is None else float(y.mean() - slope * x.mean()),
        sign_agreement=float((np.sign(x) == np.sign(y)).mean()),
    )


def _ranks(values: Column) -> Column:
    """Return ranks from 1, the mean of its places for each value of a tie."""
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(count)
    ranks: Column = (last - (count - 1) / 2.0)[place]
    return ranks


def _correlation(x: Column, y: Column) -> float | None:
    if np.ptp(x) == 0.0 or np.ptp(y) == 0.0:
        return None
    dx, dy = x - x.mean(), y - y.mean()
    return float(np.clip(dx @ dy / (np.linalg.norm(dx) * np.linalg.norm(dy)), -1.0, 1.0))
