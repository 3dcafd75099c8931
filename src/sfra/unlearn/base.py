"""The frame of every unlearning method: checks, copies, seeds, the loop, and the choice of the epoch."""

from __future__ import annotations

import copy
import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import ClassVar, Literal, NamedTuple, final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import kl_div
from torch.nn.modules.batchnorm import _BatchNorm

from sfra.core.errors import InputError
from sfra.core.types import Logits
from sfra.models.forward import Precision, bring_home, computing
from sfra.models.training.train import Epoch, Samples, device_of, mean_loss, seeded, step
from sfra.unlearn.quality import Quality, measure
from sfra.unlearn.task import Rebuild, Task, open_task

Loss = Float[Tensor, ""]
"""What one step descends."""

DIVERGED = "the training diverged"
"""What :func:`sfra.models.training.train.mean_loss` says of a run whose loss is no longer finite."""


class Checkpoint(NamedTuple):
    """The model as it stands after an epoch; the model goes on changing afterwards."""

    epoch: int
    loss: float
    model: nn.Module


@dataclass(frozen=True, kw_only=True)
class Record:
    """One epoch of a run."""

    epoch: int
    """From 1."""
    loss: float
    """Mean over the epoch's steps."""
    quality: Quality | None
    """On the validation split; None if there is none."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Unlearned:
    """The new model and how it came about: ``get(method)(**settings)`` makes the method again."""

    model: nn.Module
    """In eval mode, where the caller's model was."""
    method: str
    """Registered name."""
    settings: dict[str, object]
    """Every hyper-parameter."""
    epoch: int
    """The epoch that was kept: best AUS on the validation split (the earliest of equals), or the last."""
    history: tuple[Record, ...]
    """Every epoch of the run."""

    def __repr__(self) -> str:
        """Say how it came about and how good it is, without the network and its history."""
        found = self.quality
        shown = "not measured"
        if found is not None:
            shown = f"retain {found.retain:.1%}, forget {found.forget:.1%}, aus {found.aus:.3f}"
        return f"Unlearned({self.method!r}, epoch {self.epoch} of {len(self.history)}, {shown})"

    @property
    def quality(self) -> Quality | None:
        """Quality of the kept epoch on the validation split."""
        return next(record.quality for record in self.history if record.epoch == self.epoch)


@dataclass(frozen=True, kw_only=True)
class UnlearningMethod(ABC):
    """A published algorithm with its hyper-parameters; calling it unlearns a copy of a model.

    A subclass is its maths only: it declares what it ``needs`` and writes one function. Data that it does
    not declare is never handed to it.
    """

    name: ClassVar[str]
    """Set by ``register``."""
    needs: ClassVar[tuple[str, ...]] = ("forget", "retain")
    """Training data that the method reads."""

    epochs: int
    """Passes; the best on the validation split is kept."""
    batch_size: int
    """Samples per step."""
    learning_rate: float
    """Step size."""

    def __post_init__(self) -> None:
        """Check what every method has; a subclass checks its own after this."""
        self._require(self.epochs >= 1, "epochs", "at least 1")
        self._require(self.batch_size >= 1, "batch_size", "at least 1")
        self._require(self.learning_rate > 0, "learning_rate", "above 0")

    def _require(self, holds: bool, field: str, expected: str) -> None:
        if not holds:
            raise InputError(
                f"{type(self).__name__}: {field} is out of range", expected=expected, got=getattr(self, field)
            )

    @abstractmethod
    def run(self, task: Task) -> Iterator[Checkpoint]:
        """Yield a checkpoint wherever the run could end."""

    @final
    def __call__(
        self,
        model: nn.Module,
        train: Samples,
        forget: Sequence[int],
        *,
        validation: Samples | None = None,
        rebuild: Rebuild | None = None,
        seed: int = 0,
        device: torch.device | str | None = None,
        precision: Precision = "auto",
        progress: Callable[[Epoch], None] | None = None,
    ) -> Unlearned:
        """Unlearn the forget classes in a copy of the model; the caller's model stays bit-identical.

        Args:
            model: The original classifier.
            train: Its training data; only the part that the method ``needs`` is read.
            forget: The classes to forget.
            validation: Retain and forget samples that choose the epoch; without it the last epoch counts.
            rebuild: Makes the untrained architecture from a seed, for methods that start from one.
            seed: Order, random labels, augmentation, initialisation, dropout.
            device: Where to compute; by default where the model is, and the result returns there.
            precision: Of the forward and backward passes; on CUDA bfloat16 where the device has it.
            progress: Called after each epoch.
        """
        home = device_of(model)
        place = torch.device(device) if device is not None else home
        with seeded(seed, place, train) as generator, computing(place, precision):
            task = open_task(
                model,
                train,
                forget,
                needs=self.needs,
                batch_size=self.batch_size,
                device=place,
                seed=seed,
                generator=generator,
                rebuild=rebuild,
                progress=progress,
            )
            kept, epoch, history = _keep_best(self.run(task), task, validation)
        return Unlearned(
            model=bring_home(kept, home), method=self.name, settings=asdict(self), epoch=epoch, history=history
        )


@dataclass(frozen=True, kw_only=True)
class StepMethod(UnlearningMethod):
    """A method that descends a loss from θ0: its one function says which, step by step."""

    optimizer: Literal["sgd", "adam"] = "sgd"
    """SGD with momentum, or Adam."""
    momentum: float = 0.9
    """Of SGD; Adam does not use it."""
    weight_decay: float = 0.0
    """L2 penalty, in the gradient."""
    freeze_batch_norm: bool = False
    """Keep the statistics of batch normalisation as they are, and use them. A pass over forget data alone
    otherwise replaces them by those of the forget class, as it does in the published code."""

    @abstractmethod
    def plan(self, task: Task) -> Callable[[int], Iterator[Loss]]:
        """Prepare a run and return one epoch's pass: a generator of losses, called with the epoch from 1.

        The frame takes a step on each loss before it asks for the next, so code after a ``yield`` runs
        after that step.
        """

    @final
    def run(self, task: Task) -> Iterator[Checkpoint]:
        """Step through every epoch of the plan."""
        optimizer = self._make_optimizer(task.student)
        epoch_losses = self.plan(replace(task, optimizer=optimizer))
        for epoch in range(1, self.epochs + 1):
            self._enter_training(task.student)
            losses = [step(optimizer, loss) for loss in epoch_losses(epoch)]
            mean = mean_loss(losses, epoch)
            if task.progress is not None:
                task.progress(Epoch(epoch, self.epochs, mean))
            yield Checkpoint(epoch, mean, task.student)

    def _make_optimizer(self, student: nn.Module) -> torch.optim.Optimizer:
        weights = [weight for weight in student.parameters() if weight.requires_grad]
        if not weights:
            raise InputError(
                "the model cannot unlearn",
                expected="parameters that require a gradient",
                got="every parameter is frozen",
                do="call model.requires_grad_(True) first",
            )
        if self.optimizer == "adam":
            return torch.optim.Adam(weights, lr=self.learning_rate, weight_decay=self.weight_decay)
        return torch.optim.SGD(weights, lr=self.learning_rate, momentum=self.momentum, weight_decay=self.weight_decay)

    def _enter_training(self, student: nn.Module) -> None:
        student.train()
        if self.freeze_batch_norm:
            for module in student.modules():
                if isinstance(module, _BatchNorm):
                    module.eval()


def _keep_best(
    run: Iterator[Checkpoint], task: Task, validation: Samples | None
) -> tuple[nn.Module, int, tuple[Record, ...]]:
    """Run to the end; return the model of the best epoch by AUS, or of the last without validation."""
    goal = None if validation is None else measure(task.original, validation, task.forget_classes).retain
    history: list[Record] = []
    best, epoch, weights = -math.inf, 0, {}
    for checkpoint in run:
        quality = None
        if validation is not None:
            quality = measure(checkpoint.model, validation, task.forget_classes, retain_original=goal)
        history.append(Record(epoch=checkpoint.epoch, loss=checkpoint.loss, quality=quality))
        if quality is None or quality.aus > best:
            best, epoch = (-math.inf if quality is None else quality.aus), checkpoint.epoch
            weights = {} if quality is None else copy.deepcopy(checkpoint.model.state_dict())
    if weights:
        checkpoint.model.load_state_dict(weights)
    return checkpoint.model, epoch, tuple(history)


def choose(
    candidates: Sequence[UnlearningMethod],
    model: nn.Module,
    train: Samples,
    forget: Sequence[int],
    *,
    validation: Samples,
    rebuild: Rebuild | None = None,
    seed: int = 0,
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
            results.append(method(model, train, forget, validation=validation, rebuild=rebuild, seed=seed))
        except InputError as problem:
            if problem.what != DIVERGED:
                raise
            warnings.warn(f"left out, {DIVERGED}: {method.name} {asdict(method)}", RuntimeWarning, stacklevel=2)
    if not results:
        do = "lower the learning rates"
        raise InputError("every candidate diverged", expected="one that does not", got=len(candidates), do=do)
    return max(results, key=lambda result: -math.inf if result.quality is None else result.quality.aus)


def kl(teacher: Logits, student: Logits, *, temperature: float = 1.0) -> Loss:
    """Compute ``T² · KL(p‖q)``, averaged over the samples.

    ``p = softmax(teacher / T)`` and ``q = softmax(student / T)``; ``KL(p‖q) = Σ_j p_j (log p_j - log q_j)``
    with ``0 log 0 = 0``, so that a teacher logit of ``-inf`` is allowed. The factor ``T²`` keeps the size of
    the gradient when ``T`` changes.
    """
    log_student = (student / temperature).log_softmax(1)
    target = (teacher / temperature).softmax(1)
    return kl_div(log_student, target, reduction="batchmean") * temperature**2
