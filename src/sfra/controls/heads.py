"""Several heads side by side, so that they are measured in one pass over the data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from sfra.attack.path import head_size
from sfra.auditing.evaluate import evaluate
from sfra.auditing.trace import Trace
from sfra.core.errors import counted
from sfra.core.head import Head
from sfra.data.sets import FeatureSet


@dataclass(frozen=True, kw_only=True, eq=False)
class Heads:
    """Heads of one shape, stacked."""

    weights: Float[Tensor, "heads C d"]
    """``W`` of each."""
    biases: Float[Tensor, "heads C"]
    """``b`` of each."""

    def __repr__(self) -> str:
        """Say how many and how large they are, without their weights."""
        return f"Heads({counted(len(self.weights), 'head', 'heads')} of {' and '.join(head_size(self.weights))})"


def measure_heads(heads: Sequence[Head], data: FeatureSet, forget: Sequence[int]) -> Trace:
    """Count what each head gets right; the "epochs" of the result are the heads, in order."""
    stacked = Heads(
        weights=torch.stack([head.weight for head in heads]), biases=torch.stack([head.bias for head in heads])
    )
    return evaluate(stacked, data.features, data.labels, forget)
