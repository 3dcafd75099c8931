"""Algorithm 1 as the method words it: slow, plain, float64. The fast sampler must match it in distribution.

Class by class, a pool of ``n`` draws of the full ``d``-dimensional proposal is collected by rejection, once for the
retain probes and once more for the forget probes. ``share_pool`` takes both selections from one pool instead, as the
fast sampler does; it changes no marginal distribution.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sfra.attack.probes import codes, kernels
from sfra.core.head import Head

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Draw = Callable[[np.random.Generator, tuple[int, int]], Floats]

PROPOSALS: dict[str, Draw] = {
    "gaussian": lambda rng, size: rng.standard_normal(size),
    "uniform": lambda rng, size: rng.uniform(-(3.0**0.5), 3.0**0.5, size),
    "laplace": lambda rng, size: rng.laplace(0.0, 0.5**0.5, size),
    "relu-gaussian": lambda rng, size: np.maximum(rng.standard_normal(size), 0.0),
    "abs-gaussian": lambda rng, size: np.abs(rng.standard_normal(size)),
}
BATCH = 256


def normal(*shape: int, seed: int = 0) -> Tensor:
    """Draw a standard normal tensor from a generator of its own."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


HEAD = Head(normal(8, 32) / 3, normal(8, seed=1) / 4)
SMALL = Head(torch.eye(5, 8) + normal(5, 8, seed=11) / 8, normal(5, seed=12) / 8)


def compiled_draws(
    indices: NDArray[Any], r: int, *, stream: int = 0, seed: int = 7, proposal: int = codes.GAUSSIAN
) -> NDArray[Any]:
    """Make the draws of these indices with the kernels of the compiled stream."""
    out = np.empty((len(indices), r), np.float32)
    kernels.make_draws(indices.astype(np.int64), stream, np.uint64(seed), proposal, out)
    return out


@dataclass(frozen=True, kw_only=True)
class Reference:
    """Probes of the reference: retain probes first, then forget probes, each by pool, most extreme first."""

    samples: Floats
    labels: Ints
    sources: Ints
    retain_count: int


def logits_of(head: Head, samples: NDArray[Any]) -> Floats:
    """Return ``W z + b`` in float64."""
    W, b = head.weight.double().numpy(), head.bias.double().numpy()
    logits: Floats = samples.astype(np.float64) @ W.T + b
    return logits


def log_softmax(logits: Floats) -> Floats:
    """Return ``log p``."""
    shifted = logits - logits.max(1, keepdims=True)
    log_p: Floats = shifted - np.log(np.exp(shifted).sum(1, keepdims=True))
    return log_p


def sureness(logits: Floats, score: str) -> Floats:
    """Return a strictly decreasing function of the uncertainty: log-odds, ``-log`` entropy, or ``-`` energy."""
    ordered = -np.sort(-logits, axis=1)
    rest: Floats = np.exp(ordered[:, 1:] - ordered[:, :1])  # the losers relative to the winner
    odds: Floats = ordered[:, 0] - ordered[:, 1] - np.log(np.exp(ordered[:, 1:] - ordered[:, 1:2]).sum(1))
    if score == "softmax":
        return odds
    minus_log_winner = np.log1p(rest.sum(1))
    energy: Floats = ordered[:, 0] + minus_log_winner
    if score == "energy":
        return energy
    p_rest = rest / (1.0 + rest.sum(1, keepdims=True))
    p_winner = 1.0 / (1.0 + rest.sum(1))
    losers = (p_rest * (minus_log_winner[:, None] + ordered[:, :1] - ordered[:, 1:])).sum(1)
    entropy: Floats = p_winner * minus_log_winner + losers
    return -np.log(entropy)


def pool(head: Head, label: int, n: int, proposal: str, rng: np.random.Generator) -> Floats:
    """Draw until exactly ``n`` candidates have their arg-max at ``label``."""
    parts: list[Floats] = []
    while sum(len(part) for part in parts) < n:
        draws = PROPOSALS[proposal](rng, (BATCH, head.width))
        parts.append(draws[logits_of(head, draws).argmax(1) == label])
    return np.concatenate(parts)[:n]


def share_greedily(log_p: Floats, m: int) -> Ints:
    """Let each forget class in turn take the ``m`` free candidates with the highest probability of it."""
    owner = np.full(len(log_p), -1)
    for position in range(log_p.shape[1]):
        free = np.flatnonzero(owner < 0)
        best = free[np.argsort(-log_p[free, position], kind="stable")[:m]]
        owner[best] = position
    return owner


def reference_probes(
    head: Head,
    forget: Sequence[int],
    *,
    n: int,
    m: int,
    proposal: str = "gaussian",
    score: str = "softmax",
    seed: int = 0,
    share_pool: bool = False,
) -> Reference:
    """Build retain and forget probes class by class, by rejection in full dimension."""
    rng = np.random.default_rng(seed)
    targets, bottom = np.array(sorted(forget)), m * len(forget)
    retain, unsure, labels = [], [], []
    classes = [k for k in range(head.classes) if k not in forget]
    for k in classes:
        candidates = pool(head, k, n, proposal, rng)
        order = np.argsort(-sureness(logits_of(head, candidates), score), kind="stable")
        retain.append(candidates[order[:m]])
        if not share_pool:
            candidates = pool(head, k, n, proposal, rng)
            order = np.argsort(-sureness(logits_of(head, candidates), score), kind="stable")
        unsure.append(candidates[order[::-1][:bottom]])
        labels.append(targets[share_greedily(log_softmax(logits_of(head, unsure[-1]))[:, targets], m)])
    return Reference(
        samples=np.concatenate(retain + unsure),
        labels=np.concatenate([np.repeat(classes, m), *labels]),
        sources=np.concatenate([np.repeat(classes, m), np.repeat(classes, bottom)]),
        retain_count=len(classes) * m,
    )
