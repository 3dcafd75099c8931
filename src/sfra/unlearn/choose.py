"""Choose a recipe by how well it unlearns."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import asdict

import torch
from torch import nn

from sfra.core.errors import InputError
from sfra.models.training.train import Samples
from sfra.unlearn.base import Unlearned, UnlearningMethod
from sfra.unlearn.task import Rebuild

DIVERGED = "the training diverged"
"""What :func:`sfra.models.training.train.mean_loss` says of a run whose loss is no longer finite."""


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
    to an audit plays no part. A candidate that diverges is left out, with a warning.
    """
    if not candidates:
        raise InputError("there is no recipe to choose from", expected="at least one candidate")
    results = []
    for method in candidates:
        try:
            results.append(
                method(model, train, forget, validation=validation, rebuild=rebuild, seed=seed, device=device)
            )
        except InputError as problem:
            if problem.what != DIVERGED:
                raise
            warnings.warn(f"left out, {DIVERGED}: {method.name} {asdict(method)}", RuntimeWarning, stacklevel=2)
    if not results:
        do = "lower the learning rates"
        raise InputError("every candidate diverged", expected="one that does not", got=len(candidates), do=do)
    return max(results, key=_aus)


def _aus(result: Unlearned) -> float:
    return -math.inf if result.quality is None else result.quality.aus
