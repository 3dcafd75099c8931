"""Choose a recipe by how well it unlearns."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import nn

from sfra.errors import InputError
from sfra.train import Samples
from sfra.unlearn.base import Unlearned, UnlearningMethod
from sfra.unlearn.task import Rebuild


def choose(
    candidates: Sequence[UnlearningMethod],
    model: nn.Module,
    train: Samples,
    forget: Sequence[int],
    *,
    validation: Samples,
    rebuild: Rebuild | None = None,
    seed: int = 0,
    device: torch.device | str | None = None,
) -> Unlearned:
    """Run every candidate and return the result of the highest AUS on the validation split.

    The first of equals wins, so list the recipe nearest to the published one first. How a model stands up
    to an audit plays no part.
    """
    if not candidates:
        raise InputError("there is no recipe to choose from", expected="at least one candidate")
    results = [
        method(model, train, forget, validation=validation, rebuild=rebuild, seed=seed, device=device)
        for method in candidates
    ]
    return max(results, key=_aus)


def _aus(result: Unlearned) -> float:
    return -math.inf if result.quality is None else result.quality.aus
