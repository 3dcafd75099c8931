"""What an unlearning method works with, checked: the student, the frozen original, and the data it may read."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from sfra.core.batches import label_span
from sfra.core.errors import InputError
from sfra.core.types import Labels
from sfra.models.forward import lay_out
from sfra.models.training.train import Epoch, Samples, logits, shuffled

Rebuild = Callable[[int], nn.Module]
"""Makes the untrained architecture from a seed."""

MIN_RETAIN_CLASSES = 2
"""With one retain class there is nothing left to classify."""


@dataclass(frozen=True, eq=False)
class View:
    """Some samples of a data set, in any order and under any labels; nothing is read until asked for."""

    samples: Samples
    """Where the images are."""
    index: Labels
    """Positions in ``samples``."""
    labels: Labels
    """Label of each position, as this view gives it."""

    @classmethod
    def where(cls, samples: Samples, mask: Tensor) -> View:
        """Restrict to the samples marked in a boolean mask."""
        index = mask.nonzero().squeeze(1)
        return cls(samples, index, samples.labels[index])

    def __len__(self) -> int:
        return len(self.index)

    def __repr__(self) -> str:
        """Say how many samples it shows, without their positions."""
        return f"View({len(self):,} of {len(self.samples.labels):,} samples{label_span(self.labels)})"

    def take(self, index: Int[Tensor, " k"]) -> Float[Tensor, "k ..."]:
        """Read the images at these positions of the view."""
        return self.samples.take(self.index[index])

    def relabelled(self, labels: Labels) -> View:
        """Give the same samples other labels."""
        return View(self.samples, self.index, labels)

    def joined(self, other: View) -> View:
        """Append another view of the same data set."""
        assert self.samples is other.samples
        return View(self.samples, torch.cat([self.index, other.index]), torch.cat([self.labels, other.labels]))

    def sampled(self, share: float, generator: torch.Generator) -> View:
        """Draw a share of the view without replacement, at least one sample."""
        count = max(1, round(share * len(self)))
        chosen = torch.randperm(len(self), generator=generator)[:count]
        return View(self.samples, self.index[chosen], self.labels[chosen])


@dataclass(frozen=True, kw_only=True, eq=False)
class Task:
    """One run of one method. A method reads what it needs from here and changes ``student`` only."""

    student: nn.Module
    """The copy that unlearns."""
    original: nn.Module
    """θ0: a second copy, frozen, in eval mode."""
    forget_classes: tuple[int, ...]
    """Ascending."""
    retain_classes: tuple[int, ...]
    """Ascending; all other outputs of the model."""
    forget: View
    """F, the forget training data; empty for a method that does not declare a need of it."""
    retain: View
    """R, the retain training data; empty likewise."""
    batch_size: int
    """Samples per step."""
    device: torch.device
    """Where the student and the original are."""
    seed: int
    """Seed of the run."""
    generator: torch.Generator
    """Source of every draw of the method, on the CPU."""
    rebuild: Rebuild | None
    """See :meth:`untrained`."""
    progress: Callable[[Epoch], None] | None
    """Told after each epoch."""
    optimizer: torch.optim.Optimizer | None = None
    """Steps the student; set for methods that descend a loss."""

    def __repr__(self) -> str:
        """Say what is to be forgotten with how many samples, without networks and data."""
        samples = f"{len(self.forget):,} forget and {len(self.retain):,} retain samples"
        settings = f"batch_size={self.batch_size}, seed={self.seed}, on {self.device}"
        return f"Task(forget_classes={self.forget_classes}, {samples}, {settings})"

    def batches(self, samples: Samples) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield every sample once, shuffled, as ``(images, labels)`` on the device."""
        return shuffled(samples, self.batch_size, generator=self.generator, device=self.device)

    def is_forget(self, labels: Labels) -> Tensor:
        """Mark the labels that belong to a forget class."""
        return torch.isin(labels, self._forgotten.to(labels.device))

    def random_retain_labels(self, count: int) -> Labels:
        """Draw retain classes uniformly."""
        draws = torch.randint(len(self.retain_classes), (count,), generator=self.generator)
        return torch.tensor(self.retain_classes)[draws]

    def random_labels(self, count: int) -> Labels:
        """Draw from all classes uniformly."""
        classes = len(self.retain_classes) + len(self.forget_classes)
        return torch.randint(classes, (count,), generator=self.generator)

    @cached_property
    def _forgotten(self) -> Labels:
        """The forget classes, sent to the device once: each transfer waits for all work there."""
        return torch.tensor(self.forget_classes, device=self.device)

    def untrained(self) -> nn.Module:
        """Make the model anew, every layer initialised by a seed drawn from the task's generator."""
        seed = draw_seed(self.generator)
        fresh = _reset(self.original, seed) if self.rebuild is None else self.rebuild(seed)
        _check_same_shapes(fresh, self.original)
        return lay_out(fresh, self.device).requires_grad_(True).train()


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
    if not forget or len(set(forget)) != len(forget) or min(forget) < 0:
        raise InputError(
            "the forget classes are not a set of classes",
            expected="one or more distinct indices from 0",
            got=list(forget),
        )
    chosen = tuple(sorted(forget))
    gone = torch.isin(train.labels, torch.tensor(chosen))
    nothing = torch.zeros_like(gone)
    views = {
        "forget": View.where(train, gone if "forget" in needs else nothing),
        "retain": View.where(train, ~gone if "retain" in needs else nothing),
    }
    _check_samples(views, needs, chosen)
    original = lay_out(frozen_copy(model), device)
    with torch.no_grad():  # count the outputs by a look at one sample that the method reads anyway
        classes = logits(original, views[needs[0]].take(torch.tensor([0])).to(device)).shape[1]
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


def draw_seed(generator: torch.Generator) -> int:
    """Draw the seed of an initialisation."""
    return int(torch.randint(2**31, (1,), generator=generator))


def frozen_copy(model: nn.Module) -> nn.Module:
    """Copy a model into eval mode, without gradients."""
    return copy.deepcopy(model).requires_grad_(False).eval()


def _reset(model: nn.Module, seed: int) -> nn.Module:
    """Initialise a copy by each module's own ``reset_parameters``, refusing if one has none."""
    fresh = copy.deepcopy(model)
    fixed = [
        f"{name or 'model'} ({type(module).__name__})"
        for name, module in fresh.named_modules()
        if any(True for _ in module.parameters(recurse=False)) and not hasattr(module, "reset_parameters")
    ]
    if fixed:
        raise InputError(
            "the model cannot be initialised anew",
            expected="reset_parameters() on every module that owns parameters",
            got=f"none on {', '.join(fixed[:4])}",
            do="pass rebuild, a function that makes the untrained architecture from a seed",
        )
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        fresh.cpu()
        for module in fresh.modules():
            reset = getattr(module, "reset_parameters", None)
            if reset is not None:
                reset()
    return fresh


def _check_same_shapes(fresh: nn.Module, original: nn.Module) -> None:
    """Refuse a rebuilt model that is another architecture."""
    made, wanted = ({name: tuple(value.shape) for name, value in m.state_dict().items()} for m in (fresh, original))
    if made != wanted:
        names = sorted(name for name in made.keys() | wanted.keys() if made.get(name) != wanted.get(name))
        raise InputError(
            "rebuild made another architecture",
            expected="the names and shapes of the original's state dict",
            got=f"differences in {', '.join(names[:4])}",
        )
