"""How sure is the head? Three scores, each ranked in a form that does not saturate.

The uncertainty ``U`` of a draw is ``1 - max p`` (softmax), the entropy of ``p``, or the energy ``-logsumexp``. The
surest candidates of a pool all have ``max p = 1.0`` in float32, so ranking by ``U`` itself would tie them.
Selection uses *sureness* instead, strictly decreasing in ``U`` and exact far into the tail:

============  =======================================================================
``softmax``   ``z_k - logsumexp_{j≠k} z_j``, the log-odds of the winning class ``k``
``entropy``   ``-log H(p)``
``energy``    ``logsumexp z``
============  =======================================================================
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from sfra.attack.known import check_name
from sfra.attack.probes import codes
from sfra.core.types import Labels, Logits

MODERATE = 70.0
"""Logits up to which exponentials, and sums of a million of them, are far from both ends of float32."""


@dataclass(frozen=True, kw_only=True)
class Ranking:
    """A named uncertainty score."""

    name: str
    code: int
    """Number of the score in the compiled kernels."""


_SCORES = {
    score.name: score
    for score in (
        Ranking(name="softmax", code=codes.SOFTMAX),
        Ranking(name="entropy", code=codes.ENTROPY),
        Ranking(name="energy", code=codes.ENERGY),
    )
}


def names() -> tuple[str, ...]:
    """Return the names of the scores."""
    return tuple(_SCORES)


def get(name: str) -> Ranking:
    """Return a score by name."""
    check_name("score", name)
    return _SCORES[name]


def sureness(logits: Logits, score: Ranking) -> Float[Tensor, " n"]:
    """Return how sure the head is of each row; higher is surer, and ``U`` is strictly lower.

    >>> sureness(torch.tensor([[2.0, 0.0], [9.0, 0.0]]), get("softmax")).tolist()
    [2.0, 9.0]
    """
    return judge(logits.clone(), score)[1]


def judge(logits: Logits, score: Ranking, *, moderate: bool = False) -> tuple[Labels, Float[Tensor, " n"]]:
    """Return the winning class of each row and how sure the head is of it; the logits are used up.

    ``moderate`` promises logits within ±``MODERATE``: their exponentials are added up as they are, without a pass to
    find the largest and another to subtract it.
    """
    winner, label = logits.max(1)
    if score.code == codes.ENERGY:
        return label, _log_sum(logits, moderate)
    losers = logits.scatter_(1, label[:, None], -torch.inf)
    if score.code == codes.SOFTMAX:
        return label, winner - _log_sum(losers, moderate)
    log_odds = winner - losers.logsumexp(1)
    rest = (-log_odds).exp()  # the losers' mass relative to the winner's
    share = losers.softmax(1)
    spread = winner - (share * losers.masked_fill(share == 0, 0.0)).sum(1)
    entropy = rest.log1p() + rest / (1 + rest) * spread
    return label, torch.where(rest < 1e-6, log_odds - spread.log1p(), -entropy.clamp_min(1e-30).log())


def _log_sum(logits: Logits, moderate: bool) -> Float[Tensor, " n"]:
    return logits.exp_().sum(1).log_() if moderate else logits.logsumexp(1)
