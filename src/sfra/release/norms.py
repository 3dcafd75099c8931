"""What a network remembers of its training inputs: the running statistics of its first batch norm."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from sfra.core.batches import portions
from sfra.release.base import Encoder
from sfra.release.forward import fit, undisturbed


class _Arrived(BaseException):
    """Ends a forward pass at the first batch norm."""


def input_drift(encoder: Encoder, images: Tensor) -> float | None:
    """Measure how far a batch is from the training inputs, as the first batch norm that it passes remembers them.

    With mean ``m`` and variance ``v`` of the batch in a channel and ``m'``, ``v'`` those remembered, each variance with
    the layer's ``ε``, a channel is ``(v/v' + (m - m')²/v' - 1 - log(v/v')) / 2`` off, the Kullback-Leibler divergence
    of normals. The result is the median over channels; None where no batch norm of torch can be seen.

    >>> model = nn.Sequential(nn.BatchNorm2d(1, eps=0.0), nn.Flatten(), nn.Linear(4, 3)).eval()
    >>> import torch
    >>> from sfra.release import load
    >>> batch = torch.tensor([-3.0, -1.0, 1.0, 3.0]).reshape(1, 1, 2, 2)  # variance 5 where 1 is remembered
    >>> round(input_drift(load(model, example=batch).encoder, batch), 3)
    1.195
    """
    model = getattr(encoder, "model", None)
    if not isinstance(model, nn.Module):
        return None
    seen: list[tuple[_BatchNorm, int, Tensor, Tensor]] = []

    def arrive(layer: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        assert isinstance(layer, _BatchNorm)
        values = inputs[0].detach().transpose(0, 1).flatten(1)
        variance, mean = torch.var_mean(values, dim=1, correction=0)
        seen.append((layer, values.shape[1], mean.double(), variance.double()))
        raise _Arrived

    layers = [part for part in model.modules() if isinstance(part, _BatchNorm) and part.running_mean is not None]
    if not layers:
        return None
    hooks = [layer.register_forward_pre_hook(arrive) for layer in layers]
    try:
        for part in portions(images):
            with suppress(_Arrived), undisturbed(model):
                model(fit(model, part))
    finally:
        for hook in hooks:
            hook.remove()
    return _divergence(seen) if seen else None


def _divergence(seen: Sequence[tuple[_BatchNorm, int, Tensor, Tensor]]) -> float:
    """Put mean and variance of the parts together, and compare them with what the layer remembers."""
    layer = seen[0][0]
    assert layer.running_mean is not None
    assert layer.running_var is not None
    total = sum(count for _, count, _, _ in seen)
    mean = torch.stack([count * mean for _, count, mean, _ in seen]).sum(0) / total
    spread = [count * (variance + (own - mean) ** 2) for _, count, own, variance in seen]
    variance = torch.stack(spread).sum(0) / total + layer.eps
    known_mean, known = layer.running_mean.double(), layer.running_var.double() + layer.eps
    ratio = variance / known
    return float((ratio + (mean - known_mean) ** 2 / known - 1.0 - ratio.log()).median()) / 2.0
