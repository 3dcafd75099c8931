"""Train a classifier: shuffled batches, one recipe, as fast as the device allows, and able to go on after a stop."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from sfra.core.batches import Samples, TensorData, batch_sizes, generators_of, shuffled
from sfra.core.errors import InputError
from sfra.models.forward import Images, Precision, bring_home, computing, device_of, lay_out, logits
from sfra.models.training.cutmix import CutMix
from sfra.models.training.resume import Moving, Resume, describe_run
from sfra.models.training.stepper import Capture, CapturedStepper, Stepper, step

__all__ = [
    "Epoch",
    "Images",
    "Samples",
    "TensorData",
    "Training",
    "device_of",
    "logits",
    "mean_loss",
    "rates",
    "seeded",
    "shuffled",
    "step",
    "train",
]


WARM_UP, FIRST, LAST = 0.3, 25, 1e4
"""One cycle: the share of the steps that rise, and how far below the highest rate it begins, and below that it ends."""

MOST_STEPS = 10_000_000
"""Of one training; their rates are computed before it begins."""


@dataclass(frozen=True, kw_only=True)
class Training:
    """Descent on the cross-entropy, with everything that determines a run besides the data and the seed.

    >>> Training(epochs=150, learning_rate=0.1, schedule="steps", milestones=(40 / 150, 80 / 150)).factor
    0.1
    """

    epochs: int
    """Passes over the data."""
    learning_rate: float
    """Highest rate of the schedule."""
    batch_size: int = 256
    """Samples per step."""
    optimizer: Literal["sgd", "adamw"] = "sgd"
    """``adamw``: Adam with decoupled weight decay, which transformers trained from nothing need."""
    momentum: float = 0.9
    """Of SGD."""
    weight_decay: float = 5e-4
    """Of SGD an L2 penalty, in the gradient; of AdamW what weights shrink by, times the rate."""
    schedule: Literal["one-cycle", "steps"] = "one-cycle"
    """``one-cycle``: up over the first 30 % of the steps, then down to almost zero, both along a cosine;
    ``steps``: constant between milestones."""
    milestones: tuple[float, ...] = ()
    """Of ``steps``: where the rate falls, as shares of the epochs, rounded to whole epochs."""
    factor: float = 0.1
    """Of ``steps``: what the rate is multiplied by at each milestone."""
    nesterov: bool = False
    """Nesterov's form of the momentum."""
    label_smoothing: float = 0.0
    """Share of the target that is spread evenly over all classes."""
    cutmix: float = 0.0
    """Probability that a batch is mixed: every image gets a box of another one, and its label by the share of it."""
    precision: Precision = "auto"
    """Of the forward and backward pass; weights and their updates stay as they are."""
    channels_last: bool = True
    """On CUDA, keep images and convolutions channels last."""
    compile: bool = False
    """Compile the network with ``torch.compile`` first; pays off for long runs on CUDA."""

    def __post_init__(self) -> None:
        self._expect(self.epochs >= 1, "epochs", "at least 1")
        self._expect(self.batch_size >= 1, "batch_size", "at least 1")
        self._expect(self.learning_rate > 0, "learning_rate", "above 0")
        self._expect(self.optimizer in ("sgd", "adamw"), "optimizer", "sgd or adamw")
        self._expect(0 <= self.momentum < 1, "momentum", "at least 0, below 1")
        self._expect(self.weight_decay >= 0, "weight_decay", "at least 0")
        self._expect(self.schedule in ("one-cycle", "steps"), "schedule", "one-cycle or steps")
        ordered = list(self.milestones) == sorted(self.milestones) and all(0 < m < 1 for m in self.milestones)
        self._expect(ordered, "milestones", "ascending shares of the epochs, above 0 and below 1")
        self._expect(self.factor > 0, "factor", "above 0")
        self._expect(self.momentum > 0 or not self.nesterov, "nesterov", "false without momentum")
        self._expect(0 <= self.label_smoothing < 1, "label_smoothing", "at least 0, below 1")
        self._expect(0 <= self.cutmix <= 1, "cutmix", "from 0 to 1")
        self._expect(self.precision in ("auto", "float32", "bfloat16"), "precision", "auto, float32 or bfloat16")

    def _expect(self, holds: bool, field: str, expected: str) -> None:
        if not holds:
            raise InputError(
                f"{type(self).__name__}: {field} is out of range", expected=expected, got=getattr(self, field)
            )


def rates(training: Training, steps_per_epoch: int) -> list[float]:
    """Compute the learning rate of every step.

    With ``T`` steps in all, ``η`` the highest rate and ``cos(a, b, s) = b + (a - b)(1 + cos πs)/2``, one cycle
    is ``cos(η/25, η, t/u)`` up to ``u = 0.3 T - 1`` and ``cos(η, η/250000, (t - u)/(T - 1 - u))`` after it.

    >>> rates(Training(epochs=2, learning_rate=1.0, schedule="steps", milestones=(0.5,)), 2)
    [1.0, 1.0, 0.1, 0.1]
    """
    if training.epochs * steps_per_epoch > MOST_STEPS:
        raise InputError(
            "the training is too long",
            expected=f"at most {MOST_STEPS:,} steps",
            got=f"{training.epochs:,} epochs of {steps_per_epoch:,} steps",
            do="lower the epochs, or raise the batch size",
        )
    if training.schedule == "steps":
        falls = [round(share * training.epochs) for share in training.milestones]
        passed = [sum(epoch >= fall for fall in falls) for epoch in range(training.epochs)]
        return [training.learning_rate * training.factor**count for count in passed for _ in range(steps_per_epoch)]
    total, peak = training.epochs * steps_per_epoch, training.learning_rate
    top, low = WARM_UP * total - 1, peak / FIRST

    def cosine(start: float, end: float, share: float) -> float:
        return end + (start - end) / 2 * (math.cos(math.pi * share) + 1)

    return [
        cosine(low, peak, t / top) if t <= top else cosine(peak, low / LAST, (t - top) / (total - 1 - top))
        for t in range(total)
    ]


class Epoch(NamedTuple):
    """What is told after each epoch of a training; the first is number 1."""

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
    progress: Callable[[Epoch], None] | None = None,
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
    if training is not None and settings:
        got = ", ".join(settings)
        raise InputError("the training is given twice", expected="training, or its fields by name", got=got)
    recipe = Training(**settings) if training is None else training
    home = device_of(model)
    place = torch.device(device) if device is not None else home
    if len(data.labels) == 0:
        raise InputError("there is nothing to train on", expected="at least 1 sample", got=0)
    with seeded(seed, place, data) as order, computing(place, recipe.precision):
        resume = None
        if checkpoint is not None:
            resume = Resume(
                checkpoint, describe_run(model, data, asdict(recipe), seed, place), seconds=checkpoint_seconds
            )
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
    tell: Callable[[Epoch], None],
) -> None:
    """Train the student in place, from the state of an earlier part of the run if there is one."""
    stepper = make_stepper(student, recipe, place)
    generators = [order, *_global_generators(place), *generators_of(data)]
    moving = Moving(student=student, optimizer=stepper.optimizer, generators=generators)
    losses = resume.load(moving) if resume is not None else []
    for epoch, loss in enumerate(losses, 1):
        tell(Epoch(epoch, recipe.epochs, loss, resumed=True))
    mix = CutMix(student, recipe.cutmix, generator=order) if recipe.cutmix else iter
    steps = len(batch_sizes(len(data.labels), recipe.batch_size))
    schedule = rates(recipe, steps)
    for epoch in range(len(losses), recipe.epochs):
        batches = shuffled(data, recipe.batch_size, generator=order, device=place)
        plan = zip(schedule[epoch * steps :], mix(batches), strict=False)
        losses.append(mean_loss([stepper(images, labels, rate) for rate, (images, labels) in plan], epoch + 1))
        if resume is not None:
            resume.save(moving, losses, last=epoch + 1 == recipe.epochs)
        note, stepper.note = stepper.note, ""
        tell(Epoch(epoch + 1, recipe.epochs, losses[-1], note=note))


def make_stepper(student: nn.Module, training: Training, device: torch.device) -> Stepper:
    """Make the fastest stepper of a device for the student's weights."""
    network: Any = torch.compile(student) if training.compile else student
    cuda = device.type == "cuda"
    rate = torch.tensor(training.learning_rate, device=device) if cuda else training.learning_rate
    shared: dict[str, Any] = {"lr": rate, "weight_decay": training.weight_decay, "fused": cuda or None}
    if training.optimizer == "adamw":
        optimizer: torch.optim.Optimizer = torch.optim.AdamW(student.parameters(), **shared, capturable=cuda)
    else:
        momentum: dict[str, Any] = {"momentum": training.momentum, "nesterov": training.nesterov}
        optimizer = torch.optim.SGD(student.parameters(), **shared, **momentum)
    if cuda:
        return CapturedStepper(network, optimizer, training.label_smoothing, Capture(device), plain=student)
    return Stepper(network, optimizer, training.label_smoothing)


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
