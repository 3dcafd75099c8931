"""How well a model unlearned: accuracies on a validation split and their adaptive unlearning score."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from sfra.core.errors import InputError
from sfra.models.training.train import Samples, device_of, logits

EVALUATION_BATCH = 1024
"""Samples per forward pass when nothing is trained."""


def aus(retain_original: float, retain: float, forget: float) -> float:
    """Compute the adaptive unlearning score of accuracies in [0, 1]; higher is better.

    ``AUS = (1 - (A_r^orig - A_r)) / (1 + A_f)``: 1 when the retain accuracy ``A_r`` stays at the original's
    and the forget accuracy ``A_f`` is 0; above 1 when the retain accuracy rises.

    >>> aus(0.9, 0.9, 0.0), aus(0.9, 0.9, 1.0)
    (1.0, 0.5)
    """
    return (1 - (retain_original - retain)) / (1 + forget)


@dataclass(frozen=True, kw_only=True)
class Quality:
    """Accuracies of an unlearned model on one split, and their score."""

    retain: float
    """Accuracy on the retain classes, arg-max over all outputs."""
    forget: float
    """Accuracy on the forget classes, likewise."""
    aus: float
    """See :func:`aus`."""


def measure(model: nn.Module, data: Samples, forget: Sequence[int], *, retain_original: float | None = None) -> Quality:
    """Measure a model on a split that holds retain and forget samples.

    Args:
        model: Any classifier; put into eval mode for the measurement, then back.
        data: A validation or test split.
        forget: The forget classes.
        retain_original: ``A_r^orig`` on the same split; by default the model is its own original.
    """
    gone = torch.isin(data.labels, torch.tensor(sorted(forget)))
    if gone.all() or not gone.any():
        raise InputError(
            "the split cannot measure unlearning",
            expected="samples of the retain classes and of the forget classes",
            got=f"{int((~gone).sum())} retain and {int(gone.sum())} forget samples",
        )
    right = predict(model, data) == data.labels
    kept, hit = (float(right[part].double().mean()) for part in (~gone, gone))
    return Quality(retain=kept, forget=hit, aus=aus(kept if retain_original is None else retain_original, kept, hit))


@torch.no_grad()
def predict(model: nn.Module, data: Samples) -> Tensor:
    """Return the arg-max class of every sample, on the CPU, computed in eval mode."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    place = device_of(model)
    parts = torch.split(torch.arange(len(data.labels)), EVALUATION_BATCH)
    answers = [logits(model, data.take(index).to(place)).argmax(1) for index in parts]
    for module, mode in modes:
        module.training = mode
    return torch.cat(answers).cpu()
