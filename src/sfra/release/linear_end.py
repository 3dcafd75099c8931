"""Decide whether a linear map produces a classifier's output, by numbers and never by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from sfra.core.errors import InputError
from sfra.core.types import Bias, Features, Logits, Weight

Positions = Float[Tensor, "n t d"]
"""Inputs of a linear map: ``t`` tokens or pixels of each of ``n`` samples (``t = 1`` once pooled)."""


def _only(positions: Positions) -> Features:
    if positions.shape[1] != 1:
        raise InputError(
            "the head meets several positions of each image, and only one when the model was loaded",
            expected="1 position",
            got=positions.shape[1],
            do="pass example=, images of the size that you evaluate",
        )
    return positions[:, 0]


PICKS: dict[str, Callable[[Positions], Features]] = {
    "only": _only,
    "mean": lambda positions: positions.mean(dim=1),
    "first": lambda positions: positions[:, 0],
    "last": lambda positions: positions[:, -1],
}
"""Ways from positions to one feature vector that commute with a linear map."""


@dataclass(frozen=True, kw_only=True, eq=False)
class LinearCall:
    """One application ``W z + b`` of a linear map, seen while a model ran."""

    positions: Positions
    """Its inputs."""
    weight: Weight
    """``W``."""
    bias: Bias | None
    """``b``, or None."""


@torch.no_grad()
def explain(call: LinearCall, output: Logits) -> str | None:
    """Name the pick with which a call gives the model's output, or its softmax or log-softmax; else None.

    Two numbers count as equal when they differ by less than rounding can explain: a small multiple of
    ``|W||z| + |b|``, the sum that was rounded.
    """
    if call.weight.shape[0] != output.shape[1] or call.positions.shape[0] != output.shape[0]:
        return None
    unit = max(_epsilon(call.weight), _epsilon(call.positions), _epsilon(output))
    W, target, positions = (tensor.cpu().double() for tensor in (call.weight, output, call.positions))
    b = torch.zeros(len(W), device="cpu").double() if call.bias is None else call.bias.cpu().double()
    for name in ["only"] if positions.shape[1] == 1 else ["mean", "first", "last"]:
        z = PICKS[name](positions)
        bound = z.abs() @ W.abs().T + b.abs()
        slack = max(2e-4, 2 * unit) * bound.amax(dim=1, keepdim=True) + 1e-9
        pairs = _readings(z @ W.T + b, target)
        if any(bool(((mine - theirs).abs() <= slack).all()) for mine, theirs in pairs):
            return name
    return None


def _readings(logits: Tensor, output: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Pair the logits with the output read as logits, as log-probabilities and as probabilities."""
    logs = logits.log_softmax(dim=1)
    yield logits, output
    yield logs, output
    if bool(((output >= 0) & (output <= 1 + 1e-3)).all()):
        least = torch.finfo(torch.float32).tiny
        yield logs.clamp_min(torch.tensor(least).log().item()), output.clamp_min(least).log()


def _epsilon(tensor: Tensor) -> float:
    return torch.finfo(tensor.dtype).eps
