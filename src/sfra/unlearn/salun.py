"""SalUn: random labels, but only the weights that matter for the forget data may move."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from sfra.models.training.train import logits
from sfra.unlearn.base import Loss, StepMethod
from sfra.unlearn.registry import register
from sfra.unlearn.task import Task, View


@register("salun")
@dataclass(frozen=True, kw_only=True)
class SalUn(StepMethod):
    """Train on F under random retain labels together with R, moving only the most salient weights.

    Salient are the ``share`` of all weights with the largest ``|∇ CE(F)|`` at θ0, ranked over the whole
    model. After each step the others, and the optimiser's memory of them, are put back: neither weight
    decay nor momentum moves them. The labels of F are drawn anew each epoch; F and R are shuffled together.

    Two variants of public code draw the labels once, from all classes, the forgotten ones among them: ``in_turn``
    passes over F and then over R, and without ``retain`` F alone is read.
    """

    epochs: int = 10
    batch_size: int = 256
    learning_rate: float = 0.013
    weight_decay: float = 5e-4
    share: float = 0.5
    """Share of the weights that may move, in (0, 1]."""
    retain: bool = field(default=True, metadata={"later": True})
    """Whether to train on R too, as published; some public code does not."""
    in_turn: bool = field(default=False, metadata={"later": True})
    """Whether F and R come one after the other instead of shuffled together."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.retain:
            object.__setattr__(self, "needs", ("forget",))
        self._require(0 < self.share <= 1, "share", "above 0, at most 1")

    def plan(self, task: Task) -> Callable[[int], Iterator[Loss]]:
        """Find the salient weights, then pass over F and R, together or in turn, or over F alone."""
        masks = saliency_masks(task, self.share)
        parts: list[View] = []
        if self.in_turn or not self.retain:
            parts = [task.forget.relabelled(task.random_labels(len(task.forget)))]
            parts += [task.retain] if self.retain else []

        def epoch_losses(epoch: int) -> Iterator[Loss]:
            mixed = parts
            if not parts:
                mixed = [task.forget.relabelled(task.random_retain_labels(len(task.forget))).joined(task.retain)]
            for part in mixed:
                for images, labels in task.batches(part):
                    yield cross_entropy(logits(task.student, images), labels)
                    _put_back(task, masks)

        return epoch_losses


def saliency_masks(task: Task, share: float) -> dict[str, Tensor]:
    """Mark the ``share`` of the student's trainable weights with the largest ``|∇ CE(F)|``, in eval mode."""
    named = _trainable(task.student)
    task.student.eval()
    total = [torch.zeros_like(weight) for weight in named.values()]
    for images, labels in task.batches(task.forget):
        loss = cross_entropy(logits(task.student, images), labels, reduction="sum")
        found = torch.autograd.grad(loss, list(named.values()), allow_unused=True, materialize_grads=True)
        total = [sum_ + part for sum_, part in zip(total, found, strict=True)]
    salience = torch.cat([part.abs().flatten() for part in total])
    chosen = torch.zeros_like(salience, dtype=torch.bool)
    chosen[salience.argsort(descending=True, stable=True)[: round(share * len(salience))]] = True
    pieces = torch.split(chosen, [weight.numel() for weight in named.values()])
    return {name: piece.view_as(named[name]) for name, piece in zip(named, pieces, strict=True)}


def _trainable(model: nn.Module) -> dict[str, nn.Parameter]:
    return {name: weight for name, weight in model.named_parameters() if weight.requires_grad}


@torch.no_grad()
def _put_back(task: Task, masks: dict[str, Tensor]) -> None:
    """Undo the last step outside the masks, in the weights and in the optimiser's memory of them."""
    assert task.optimizer is not None
    start = dict(task.original.named_parameters())
    for name, weight in _trainable(task.student).items():
        weight.copy_(torch.where(masks[name], weight, start[name]))
        for memory in task.optimizer.state[weight].values():
            if isinstance(memory, Tensor) and memory.shape == weight.shape:
                memory.mul_(masks[name])
