"""How much forget probes count in the loss beside retain probes.

With ``R`` retain classes a forget class gets ``R·m`` probes and a retain class ``m``: the more classes, the more the
loss is about the forget class. A weight ``R^-p`` of each forget probe takes some of that back.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from sfra.attack.known import check_name
from sfra.attack.probes import Probes


@dataclass(frozen=True, kw_only=True)
class ForgetWeight:
    """A weight of forget probes that falls with the number of retain classes."""

    exponent: float
    """``p`` in ``R^-p``."""

    def probe_weights(self, probes: Probes, retain_classes: int) -> Float[Tensor, " P"]:
        """Return 1 for every retain probe and ``R^-p`` for every forget probe."""
        weights = torch.ones(len(probes.labels))
        weights[probes.retain_count :] = retain_classes**-self.exponent
        return weights


FORGET_WEIGHTS = {
    "published": ForgetWeight(exponent=0.0),
    "balanced": ForgetWeight(exponent=0.5),
}
"""Weights of forget probes by name."""


def choose_weight(name: str) -> ForgetWeight:
    """Return the weight of a name."""
    check_name("forget_weight", name)
    return FORGET_WEIGHTS[name]
