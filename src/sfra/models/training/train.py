"""Train a classifier: shuffled batches, one recipe, as fast as the device allows, and able to go on after a stop."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from sfra.core.batches import Samples, TensorData, batch_sizes, generators_of, shuffled
from sfra.core.errors import InputError
from sfra.models.forward import Images, bring_home, computing, device_of, lay_out, logits
from sfra.models.training.resume import Moving, Resume, describe_run
from sfra.models.training.settings import Training, rates
from sfra.models.training.stepper import make_stepper, step

__all__ = [
    "Images",
    "Progress",
    "Samples",
    "TensorData",
    "Training",
    "device_of",
    "logits",
    "mean_loss",
    "seeded",
    "shuffled",
    "step",
    "train",
]


class Progress(NamedTuple):
    """What a progress callback is told after each epoch: the first epoch is number 1."""

    epoch: int
    epochs: int
    loss: float
    resumed: bool = False
    """The epoch belongs to an earlier part of the run, from which this one goes on."""
    note: str = ""
    """Something worth telling, such as a slower way that had to be taken."""


def train(
    model: nn.Module,
    data: Samples,
    *,
    training: Training | None = None,
    seed: int = 0,
    device: torch.device | str | None = None,
    checkpoint: Path | None = None,
    checkpoint_seconds: float = 30.0,
    progress: Callable[[Progress], None] | None = None,
    **settings: Any,
) -> nn.Module:
    """Train a copy of the model from its present weights and return it in eval mode.

    The same model, data, settings and seed give the same weights on the same kind of device, also when the
    run was stopped in between; the caller's model and the global random state stay as they are. Whatever the
    data draw (augmentation) is seeded here too. On CUDA the step is captured as a graph where possible.

    Args:
        model: Any classifier; see :func:`logits` for what it may answer.
        data: Training samples.
        training: The recipe.
        seed: Order of the samples, augmentation, and whatever the model draws itself (dropout).
        device: Where to compute; by default where the model is, and the result returns there.
        checkpoint: File to go on from if it exists, and to write the state of the run to. It stays at the end,
            when it holds the finished run: delete it once the model is safe.
        checkpoint_seconds: How long to train between two writes; a stop loses at most that, and an epoch.
        progress: Called after each epoch; first for those of an earlier part of the run, marked ``resumed``.
        **settings: Fields of :class:`Training`, in place of ``training``.

    >>> data = TensorData(torch.eye(4), torch.arange(4))
    >>> trained = train(nn.Linear(4, 4), data, epochs=20, learning_rate=1.0, weight_decay=0.0)
    >>> logits(trained, data.images).argmax(1).tolist()
    [0, 1, 2, 3]
    """
    recipe = _recipe(training, settings)
    home = device_of(model)
    place = torch.device(device) if device is not None else home
    if len(data.labels) == 0:
        raise InputError("there is nothing to train on", expected="at least 1 sample", got=0)
    with seeded(seed, place, data) as order, computing(place, recipe.precision):
        resume = None
        if checkpoint is not None:
            resume = Resume(checkpoint, describe_run(model, data, recipe, seed, place), seconds=checkpoint_seconds)
            _seed(generators_of(data), seed)  # the description has drawn from them
        student = lay_out(copy.deepcopy(model), place, channels_last=recipe.channels_last).train()
        _run(student, data, recipe, order, place, resume, progress or (lambda done: None))
    return bring_home(student, home)


def _run(
    student: nn.Module,
    data: Samples,
    recipe: Training,
    order: torch.Generator,
    place: torch.device,
    resume: Resume | None,
    tell: Callable[[Progress], None],
) -> None:
    """Train the student in place, from the state of an earlier part of the run if there is one."""
    stepper = make_stepper(student, recipe, place)
    generators = [order, *_global_generators(place), *generators_of(data)]
    moving = Moving(student=student, optimizer=stepper.optimizer, generators=generators)
    losses = resume.load(moving) if resume is not None else []
    for epoch, loss in enumerate(losses, 1):
        tell(Progress(epoch, recipe.epochs, loss, resumed=True))
    steps = len(batch_sizes(len(data.labels), recipe.batch_size))
    schedule = rates(recipe, steps)
    for epoch in range(len(losses), recipe.epochs):
        batches = shuffled(data, recipe.batch_size, generator=order, device=place)
        plan = zip(schedule[epoch * steps :], batches, strict=False)
        losses.append(mean_loss([stepper(images, labels, rate) for rate, (images, labels) in plan], epoch + 1))
        if resume is not None:
            resume.save(moving, losses, last=epoch + 1 == recipe.epochs)
        note, stepper.note = stepper.note, ""
        tell(Progress(epoch + 1, recipe.epochs, losses[-1], note=note))


@contextmanager
def seeded(seed: int, device: torch.device, *data: Samples) -> Iterator[torch.Generator]:
    """Seed what draws from the global generators (dropout, initialisation) and restore them afterwards.

    The data's own generators are seeded too. Yields a generator, seeded alike, for everything that takes one.
    """
    gpus = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=gpus):
        own = torch.Generator()
        _seed([own, *_global_generators(device), *(found for part in data for found in generators_of(part))], seed)
        yield own


def mean_loss(losses: list[Tensor], epoch: int) -> float:
    """Average an epoch's losses, refusing a run that diverged."""
    mean = float(torch.stack(losses).mean())
    if not torch.isfinite(torch.tensor(mean)):
        raise InputError(
            "the training diverged",
            expected="a finite loss",
            got=f"{mean} in epoch {epoch}",
            do="lower the learning rate or the number of epochs",
        )
    return mean


def _recipe(training: Training | None, settings: dict[str, Any]) -> Training:
    if training is None:
        return Training(**settings)
    if settings:
        raise InputError(
            "the training is given twice", expected="training, or its fields by name", got=", ".join(settings)
        )
    return training


def _global_generators(device: torch.device) -> list[torch.Generator]:
    """Return the generators that layers draw from."""
    if device.type != "cuda":
        return [torch.default_generator]
    torch.cuda.init()  # type: ignore[no-untyped-call] # before that, there are none
    place = torch.cuda.current_device() if device.index is None else device.index
    return [torch.default_generator, torch.cuda.default_generators[place]]


def _seed(generators: list[torch.Generator], seed: int) -> None:
    for generator in generators:
        generator.manual_seed(seed)
