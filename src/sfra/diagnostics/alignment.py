"""Alignment: do the forget probes point to where the real samples of the forget class are?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from jaxtyping import Float, Int
from torch import Tensor

from sfra.attack.relearn import LabelledProbes
from sfra.core.errors import InputError
from sfra.core.metrics import mean_and_std
from sfra.diagnostics.record import Record


@dataclass(frozen=True, kw_only=True)
class Alignment(Record):
    """Mean forget probe against mean real sample, for one forget class."""

    forget_class: int
    inner: float
    """``A_IP = μ_S·μ_E``."""
    cosine: float | None
    """``A_cos = μ_S·μ_E / (‖μ_S‖ ‖μ_E‖)``, -1 to 1; None when one of the means is zero."""
    error: float | None
    """Standard error of ``A_IP`` over probes and samples, ``√(var(s·μ_E)/n_S + var(z·μ_S)/n_E)``; None for one of
    either."""
    probe_norm: float
    """``‖μ_S‖``."""
    chance_norm: float | None
    """``√(Σ var(s_i)/n_S)``, the norm to expect of ``μ_S`` from as many probes whose true mean is zero."""
    feature_norm: float
    """``‖μ_E‖``."""
    probes: int
    """Forget probes of this class."""
    samples: int
    """Real samples of this class."""


@dataclass(frozen=True, kw_only=True)
class AlignmentOverSeeds(Record):
    """Mean and sample deviation of the alignment over audit seeds, for one forget class."""

    forget_class: int
    seeds: int
    inner: float
    inner_std: float | None
    """None for one seed."""
    cosine: float | None
    """Over the seeds that have one."""
    cosine_std: float | None
    per_seed: tuple[Alignment, ...]


def alignment(
    probes: LabelledProbes,
    features: Float[Tensor, "samples d"],
    labels: Int[Tensor, " samples"],
    forget: Sequence[int],
    *,
    gain: float = 1.0,
) -> tuple[Alignment, ...]:
    """Compare the mean forget probe with the mean real feature, forget class by forget class.

    ``A_IP = μ_S·μ_E`` and its cosine ``A_cos``, with ``μ_S`` the mean of the probes labelled with the class and ``μ_E``
    the mean of the real features of the class. Computed in float64.

    Args:
        probes: Probes of the head at some scale.
        features: Real features, as released.
        labels: True class of each row of features.
        forget: Forget classes.
        gain: What the head's weight was multiplied by at that scale (``Placed.gain``); features are
            divided by it. 1 is the native scale.

    >>> import torch
    >>> from types import SimpleNamespace
    >>> probes = SimpleNamespace(samples=torch.tensor([[1.0, 1.0], [3.0, 1.0]]), labels=torch.tensor([2, 2]))
    >>> found = alignment(probes, torch.tensor([[0.0, 2.0]]), torch.tensor([2]), [2])
    >>> found[0].inner, round(found[0].cosine, 4)
    (2.0, 0.4472)
    """
    return tuple(_align(c, *forget_pair(probes, features, labels, c, gain=gain)) for c in sorted(set(forget)))


def over_seeds(rows: Sequence[Sequence[Alignment]]) -> tuple[AlignmentOverSeeds, ...]:
    """Summarise the alignment of several seeds, given one result of :func:`alignment` per seed."""
    found = []
    for same in zip(*rows, strict=True):
        inner, inner_std = mean_and_std([one.inner for one in same])
        cosines = [one.cosine for one in same if one.cosine is not None]
        cosine, cosine_std = mean_and_std(cosines) if cosines else (None, None)
        found.append(
            AlignmentOverSeeds(
                forget_class=same[0].forget_class,
                seeds=len(same),
                inner=inner,
                inner_std=inner_std,
                cosine=cosine,
                cosine_std=cosine_std,
                per_seed=same,
            )
        )
    return tuple(found)


def forget_pair(
    probes: LabelledProbes,
    features: Float[Tensor, "samples d"],
    labels: Int[Tensor, " samples"],
    forget_class: int,
    *,
    gain: float,
) -> tuple[Float[Tensor, "probes d"], Float[Tensor, "real d"]]:
    """Return the probes labelled with a forget class and its real features, in float64 and the same coordinates."""
    if not gain > 0.0:
        raise InputError("the gain is not a scale", expected="a positive number", got=gain)
    S = probes.samples[probes.labels == forget_class].detach().cpu().double()
    E = features[labels == forget_class].detach().cpu().double() / gain
    for what, found in (("probe", S), ("sample", E)):
        if len(found) == 0:
            raise InputError(f"there is no {what} of forget class {forget_class}", expected="one or more", got="none")
    if S.shape[1] != E.shape[1]:
        raise InputError(
            "probes and features differ in width",
            expected=f"features {S.shape[1]} wide, as the head takes them",
            got=E.shape[1],
        )
    return S, E


def _align(forget_class: int, S: Float[Tensor, "probes d"], E: Float[Tensor, "real d"]) -> Alignment:
    mu_S, mu_E = S.mean(0), E.mean(0)
    inner, norms = float(mu_S @ mu_E), (float(mu_S.norm()), float(mu_E.norm()))
    columns = (S @ mu_E, E @ mu_S)
    many = all(len(column) > 1 for column in columns)
    return Alignment(
        forget_class=forget_class,
        inner=inner,
        cosine=inner / (norms[0] * norms[1]) if all(norms) else None,
        error=math.sqrt(sum(float(one.var()) / len(one) for one in columns)) if many else None,
        probe_norm=norms[0],
        chance_norm=math.sqrt(float(S.var(0).sum()) / len(S)) if len(S) > 1 else None,
        feature_norm=norms[1],
        probes=len(S),
        samples=len(E),
    )
