"""The path of a relearned head: which of its epochs are kept, and that its loss stayed finite."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from sfra.core.errors import InputError, SfraError, counted
from sfra.core.head import Head
from sfra.core.types import Curve

Record = Literal["all", "last"] | Iterable[int]
"""Heads to keep of a path: all, the last one, or those of some epochs."""


MOST_NUMBERS = 2**33
"""Numbers of the heads that are relearned together and kept: 32 GiB."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Trajectory:
    """The head after every epoch, epoch 0 being the released one; relearning leaves all tensors on the CPU."""

    weights: Float[Tensor, "kept C d"]
    """``W`` after each kept epoch."""
    biases: Float[Tensor, "kept C"]
    """``b`` after each kept epoch."""
    losses: Curve
    """Mean cross-entropy, weighted as the probes are: entry 0 of the released head on all probes, entry e over the
    batches of epoch e."""
    kept: tuple[int, ...]
    """The epochs whose heads are there, ascending; 0 and the last always are."""

    def __repr__(self) -> str:
        """Say how long it is and how large its heads are, without their weights."""
        heads = f"{counted(len(self.kept), 'head', 'heads')} of {' and '.join(head_size(self.weights))}"
        loss = f"loss {self.losses[0]:.4g} to {self.losses[-1]:.4g}"
        return f"Trajectory({counted(self.epochs, 'epoch', 'epochs')}, {heads}, {loss})"

    @property
    def epochs(self) -> int:
        """Number of epochs trained; the trajectory has one point more."""
        return len(self.losses) - 1

    @property
    def last(self) -> Head:
        """The head after the last epoch."""
        return self.head(self.epochs)

    def head(self, epoch: int) -> Head:
        """Return the head as it was after an epoch."""
        if epoch not in self.kept:
            expected = f"0 to {self.epochs}" if len(self.kept) == len(self.losses) else list(self.kept)
            raise InputError("the trajectory has no such epoch", expected=expected, got=epoch)
        at = self.kept.index(epoch)
        return Head(self.weights[at], self.biases[at])

    def ends(self) -> Trajectory:
        """Return the path with the released and the last head alone, in memory of their own."""
        places = sorted({0, len(self.kept) - 1})
        kept = tuple(self.kept[at] for at in places)
        return replace(self, weights=self.weights[places], biases=self.biases[places], kept=kept)

    def to(self, device: torch.device | str) -> Trajectory:
        """Return the trajectory with its heads on another device."""
        return replace(self, weights=self.weights.to(device), biases=self.biases.to(device))


def head_size(weights: Float[Tensor, "kept C d"]) -> tuple[str, str]:
    """Write how many classes and features stacked heads have."""
    _, classes, width = weights.shape
    return counted(classes, "class", "classes"), counted(width, "feature", "features")


def kept_epochs(epochs: int, record: Record) -> tuple[int, ...]:
    """Return the epochs to keep, ascending."""
    if isinstance(epochs, bool) or not isinstance(epochs, int):
        raise InputError("epochs must be a whole number", expected="a whole number", got=repr(epochs))
    if epochs < 0:
        raise InputError("epochs must be at least 0", expected="0 or more", got=epochs)
    if record == "all":
        return tuple(range(epochs + 1))
    asked = () if record == "last" else tuple(record)
    if (isinstance(record, str) and record != "last") or any(not 0 <= e <= epochs for e in asked):
        raise InputError(
            "the heads to record cannot be chosen",
            expected=f"'all', 'last' or epochs from 0 to {epochs}",
            got=record if isinstance(record, str) else list(asked),
        )
    return tuple(sorted({0, epochs, *asked}))


def check_room(kept: int, heads: Sequence[Head]) -> None:
    """Refuse paths that would fill the memory."""
    numbers = sum(head.weight.numel() for head in heads)
    if kept * numbers > MOST_NUMBERS:
        raise InputError(
            "the heads of all epochs do not fit into memory",
            expected=f"at most {MOST_NUMBERS // numbers:,} epochs of {numbers:,} numbers",
            got=f"{kept:,}",
            do="lower the epochs",
        )


def refuse_divergence(path: Trajectory, which: str) -> None:
    """Raise where a loss is not finite, naming the first such epoch."""
    bad = (~torch.isfinite(path.losses)).nonzero().flatten().tolist()
    if bad:
        raise SfraError(
            "relearning diverged",
            expected="a finite loss in every epoch",
            got=f"{path.losses[bad[0]]:.4g} at epoch {bad[0]}{which}",
            do="check the head's values and the probes', or lower the learning rate",
        )
