"""Check a request to unlearn and open its task."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence

import torch
from torch import nn

from sfra.core.errors import InputError
from sfra.models.forward import lay_out
from sfra.models.training.train import Epoch, Samples, logits
from sfra.unlearn.task import Rebuild, Task, View, frozen_copy

MIN_RETAIN_CLASSES = 2
"""With one retain class there is nothing left to classify."""


def open_task(
    model: nn.Module,
    train: Samples,
    forget: Sequence[int],
    *,
    needs: tuple[str, ...],
    batch_size: int,
    device: torch.device,
    seed: int,
    generator: torch.Generator,
    rebuild: Rebuild | None,
    progress: Callable[[Epoch], None] | None,
) -> Task:
    """Copy the model twice, split the training data by class, and refuse what cannot be unlearned."""
    chosen = _distinct(forget)
    gone = torch.isin(train.labels, torch.tensor(chosen))
    nothing = torch.zeros_like(gone)
    views = {
        "forget": View.where(train, gone if "forget" in needs else nothing),
        "retain": View.where(train, ~gone if "retain" in needs else nothing),
    }
    _check_samples(views, needs, chosen)
    original = lay_out(frozen_copy(model), device)
    classes = _count_classes(original, views[needs[0]], device)
    _check_classes(chosen, classes, train)
    return Task(
        student=lay_out(copy.deepcopy(model), device),
        original=original,
        forget_classes=chosen,
        retain_classes=tuple(label for label in range(classes) if label not in chosen),
        forget=views["forget"],
        retain=views["retain"],
        batch_size=batch_size,
        device=device,
        seed=seed,
        generator=generator,
        rebuild=rebuild,
        progress=progress,
    )


def _distinct(forget: Sequence[int]) -> tuple[int, ...]:
    if not forget or len(set(forget)) != len(forget) or min(forget) < 0:
        raise InputError(
            "the forget classes are not a set of classes",
            expected="one or more distinct indices from 0",
            got=list(forget),
        )
    return tuple(sorted(forget))


def _check_samples(views: dict[str, View], needs: tuple[str, ...], chosen: tuple[int, ...]) -> None:
    """Refuse training data that lacks a forget class, or retain classes, where the method reads them."""
    lacking = sorted(set(chosen) - set(views["forget"].labels.tolist()))
    if "forget" in needs and lacking:
        raise InputError(
            "a forget class has no training samples",
            expected=f"samples of {list(chosen)}",
            got=f"none of {lacking}",
            do="this method reads forget data: hand it in, or choose one that reads retain data only",
        )
    kept = set(views["retain"].labels.tolist())
    if "retain" in needs and len(kept) < MIN_RETAIN_CLASSES:
        raise InputError(
            "too few retain classes have training samples",
            expected=f"at least {MIN_RETAIN_CLASSES}",
            got=len(kept),
            do="this method reads retain data: hand it in, or choose one that reads forget data only",
        )


def _check_classes(chosen: tuple[int, ...], classes: int, train: Samples) -> None:
    """Refuse forget classes or labels that the model has no output for, and too few outputs."""
    highest = max(int(train.labels.max()), max(chosen))
    if highest >= classes:
        what = "a forget class" if max(chosen) >= classes else "a training label"
        raise InputError(f"{what} is not an output of the model", expected=f"0 to {classes - 1}", got=highest)
    if classes - len(chosen) < MIN_RETAIN_CLASSES:
        raise InputError(
            "too few classes would be retained",
            expected=f"at least {MIN_RETAIN_CLASSES} of the model's {classes}",
            got=classes - len(chosen),
        )


@torch.no_grad()
def _count_classes(original: nn.Module, view: View, device: torch.device) -> int:
    """Count the outputs, by a look at one sample that the method reads anyway."""
    return logits(original, view.take(torch.tensor([0])).to(device)).shape[1]
