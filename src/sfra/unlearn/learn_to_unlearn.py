"""Learn to unlearn: ascend on the forget data, held in place by adversarial examples and by θ0."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from sfra.core.types import Labels
from sfra.models.training.train import Images, TensorData, logits
from sfra.unlearn.base import Loss, StepMethod
from sfra.unlearn.registry import register
from sfra.unlearn.task import Task


@register("learn-to-unlearn")
@dataclass(frozen=True, kw_only=True)
class LearnToUnlearn(StepMethod):
    """Ascend on F while adversarial examples of it, under the classes they imitate, stand in for R.

    Descends ``-CE(x, y) + λ·CE(x', y') + (ρ/2)·Σ_i Ω_i (θ_i - θ0_i)²``. For each forget sample, ``y'`` is a
    random retain class and ``x'`` a point within l2 distance ``radius``, moved until θ0 takes it for ``y'``;
    both are made once. ``Ω_i`` is 1 for the weight of a tensor that matters least to θ0's answers on F and 0
    for the one that matters most.
    """

    needs: ClassVar[tuple[str, ...]] = ("forget",)

    epochs: int = 10
    batch_size: int = 128
    learning_rate: float = 1e-3
    adversarial_weight: float = 1.0
    """``λ``, at least 0."""
    importance_weight: float = 0.0
    """``ρ``, at least 0; 0 leaves the last term out."""
    radius: float = 4.0
    """l2 bound of the adversarial change; published values run from 0.4 to 4."""
    step_size: float = 0.1
    """Length of an adversarial step."""
    iterations: int = 100
    """Number of adversarial steps."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for field in ("adversarial_weight", "importance_weight", "radius", "step_size", "iterations"):
            self._require(getattr(self, field) >= 0, field, "at least 0")

    def plan(self, task: Task) -> Callable[[int], Iterator[Loss]]:
        """Make the adversarial examples, then pass over F and them side by side."""
        imitations, targets = self._imitations(task)
        importance = importances(task) if self.importance_weight else {}

        def epoch_losses(epoch: int) -> Iterator[Loss]:
            for both, place in task.batches(imitations):
                drop = cross_entropy(logits(task.student, both[:, 0]), task.forget.labels[place.cpu()].to(task.device))
                keep = cross_entropy(logits(task.student, both[:, 1]), targets[place.cpu()].to(task.device))
                yield (-drop + self.adversarial_weight * keep + self.importance_weight * drift(task, importance))

        return epoch_losses

    def _imitations(self, task: Task) -> tuple[TensorData, Labels]:
        """Pair every forget sample with its adversarial example; the labels are positions in F."""
        targets, pairs = task.random_retain_labels(len(task.forget)), []
        for place in torch.split(torch.arange(len(task.forget)), self.batch_size):
            images, wanted = task.forget.take(place).to(task.device), targets[place].to(task.device)
            imitations = imitate(
                task.original,
                images,
                wanted,
                radius=self.radius,
                step_size=self.step_size,
                iterations=self.iterations,
            )
            pairs.append(torch.stack([images, imitations], 1))
        return TensorData(torch.cat(pairs), torch.arange(len(task.forget))), targets


def imitate(
    model: nn.Module, images: Images, targets: Labels, *, radius: float, step_size: float, iterations: int
) -> Images:
    """Move images towards the targets by projected gradient descent in the l2 ball around them.

    Each step goes ``step_size`` along the normalised ``-∇_x CE(model(x), target)``, then back to the ball of
    this ``radius``; it starts at the images themselves.
    """
    shift = torch.zeros_like(images)
    for _ in range(iterations):
        point = (images + shift).requires_grad_(True)
        loss = cross_entropy(logits(model, point), targets, reduction="sum")
        (slope,) = torch.autograd.grad(loss, point)
        shift = shift - step_size * slope / _norms(slope)
        shift = shift * (radius / _norms(shift)).clamp(max=1)
    return (images + shift).detach()


def importances(task: Task) -> dict[str, Tensor]:
    """Compute Ω of each weight: 1 - ``|∇ mean ‖θ0(x)‖₂|`` over F, rescaled to [0, 1] within its tensor."""
    named = {name: weight for name, weight in task.student.named_parameters() if weight.requires_grad}
    task.student.eval()
    total = [torch.zeros_like(weight) for weight in named.values()]
    for images, _ in task.batches(task.forget):
        size = logits(task.student, images).norm(dim=1).mean()
        found = torch.autograd.grad(size, list(named.values()), allow_unused=True, materialize_grads=True)
        total = [all_ + part.abs() * len(images) for all_, part in zip(total, found, strict=True)]
    spans = [(part.max() - part.min()).clamp(min=torch.finfo(part.dtype).tiny) for part in total]
    return {name: 1 - (part - part.min()) / span for name, part, span in zip(named, total, spans, strict=True)}


def drift(task: Task, importance: dict[str, Tensor]) -> Loss:
    """Compute ``½ Σ_i Ω_i (θ_i - θ0_i)²``; 0 without importances."""
    now, start = dict(task.student.named_parameters()), dict(task.original.named_parameters())
    parts = [(weight * (now[name] - start[name]) ** 2).sum() / 2 for name, weight in importance.items()]
    return torch.stack(parts).sum() if parts else torch.zeros((), device=task.device)


def _norms(values: Tensor) -> Tensor:
    """l2 norm of each sample, shaped to divide it; never 0."""
    norms: Tensor = values.flatten(1).norm(dim=1).clamp(min=1e-12)
    return norms.view(-1, *[1] * (values.ndim - 1))
