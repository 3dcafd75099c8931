"""Independent references for draws from an arg-max region: quadrature, rejection and two-sample tests."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import special, stats
from torch import Tensor

Floats = NDArray[np.float64]
GRID = np.linspace(-10.0, 60.0, 70_001)


def random_head(classes: int, width: int, *, seed: int, handicap: float = 0.0) -> tuple[Tensor, Tensor]:
    """Rows of norm about 2, as in trained heads, and a bias that holds class 0 back."""
    generator = torch.Generator().manual_seed(seed)
    bias = torch.zeros(classes)
    bias[0] = -handicap
    return torch.randn(classes, width, generator=generator) * 2 / width**0.5, bias


def independent_logits(classes: int, handicap: float) -> tuple[float, Floats]:
    """Log probability of class 0 for ``A = I`` and bias ``-handicap``, and the distribution of ``u_0`` given it.

    All other logits are independent: ``P = ∫ φ(t) Φ(t - handicap)^(C-1) dt``, here by quadrature in logarithms.
    """
    density = stats.norm.logpdf(GRID) + (classes - 1) * special.log_ndtr(GRID - handicap)
    log_probability = float(special.logsumexp(density) + np.log(GRID[1] - GRID[0]))
    weights = np.exp(density - density.max())
    return log_probability, np.cumsum(weights) / weights.sum()


def by_rejection(A: Tensor, b: Tensor, label: int, count: int, *, seed: int) -> Floats:
    """Plain rejection: draw Gaussians until ``count`` of them have the arg-max asked for."""
    generator = np.random.default_rng(seed)
    weight, bias = A.double().numpy(), b.double().numpy()
    found: list[Floats] = []
    for _ in range(50):
        u = generator.standard_normal((100_000, A.shape[1]))
        found.append(u[(u @ weight.T + bias).argmax(axis=1) == label])
        if sum(map(len, found)) >= count:
            return np.concatenate(found)[:count]
    raise AssertionError("the class is too rare for rejection")


def views(samples: Floats, A: Tensor, b: Tensor, label: int) -> dict[str, Floats]:
    """One-dimensional views: coordinates, random directions, the norm and the margin."""
    r = samples.shape[1]
    directions = np.random.default_rng(0).standard_normal((r, 4))
    logits = samples @ A.double().numpy().T + b.double().numpy()
    margin = logits[:, label] - np.delete(logits, label, axis=1).max(axis=1)
    named = {f"coordinate {i}": samples[:, i] for i in range(min(r, 4))}
    named |= {f"direction {i}": samples @ directions[:, i] for i in range(4)}
    return named | {"norm": (samples**2).sum(axis=1), "margin": margin, "logit": logits[:, label]}


def smallest_p_value(first: Floats, second: Floats, A: Tensor, b: Tensor, label: int) -> float:
    """Smallest Kolmogorov-Smirnov p-value over the views, times their number (Bonferroni)."""
    left, right = views(first, A, b, label), views(second, A, b, label)
    return len(left) * min(float(stats.ks_2samp(left[name], right[name]).pvalue) for name in left)


def moment_z_scores(first: Floats, second: Floats) -> Floats:
    """Z-scores of the differences of all first and second moments of two independent samples."""

    def moments(x: Floats) -> Floats:
        i, j = np.triu_indices(x.shape[1])
        return np.concatenate([x, x[:, i] * x[:, j]], axis=1)

    a, b = moments(first), moments(second)
    spread = np.sqrt(a.var(axis=0) / len(a) + b.var(axis=0) / len(b))
    return np.asarray((a.mean(axis=0) - b.mean(axis=0)) / spread)
