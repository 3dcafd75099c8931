"""What a trajectory recognises, epoch by epoch."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from sfra.core.errors import InputError, counted
from sfra.core.metrics import relearning_curve
from sfra.core.types import Curve


@dataclass(frozen=True, kw_only=True, eq=False)
class Trace:
    """What a trajectory recognises, epoch by epoch; epoch 0 is the released head.

    >>> right = torch.tensor([[True, True, False, False], [True, False, True, False]])
    >>> trace = Trace(right=right, counts=torch.tensor([2, 2]), forget_classes=(1,))
    >>> trace.retain.tolist(), trace.forget.tolist(), trace.rs.tolist()
    ([1.0, 0.5], [0.0, 0.5], [0.0, 0.5])
    """

    right: Bool[Tensor, "epochs samples"]
    """Which samples the head of each epoch classifies correctly, by class and then as given."""
    counts: Int[Tensor, " C"]
    """Samples of each class."""
    forget_classes: tuple[int, ...]
    """Indices of the forget classes; all others are retain classes."""

    def __post_init__(self) -> None:
        if self.forget_count == 0:
            raise InputError(
                "there is no sample of the forget class to measure on",
                expected=f"samples of class {', '.join(map(str, self.forget_classes))}",
                got=f"{int(self.counts.sum())} samples, all of other classes",
                do="evaluate on data that holds the forget class; without any, its accuracy is unknown, not 0",
            )
        if self.retain_count == 0:
            raise InputError(
                "there is no sample of the retain classes to measure on",
                expected="samples of the classes that the model was to keep",
                got=f"{self.forget_count} samples, all of forget classes",
                do="evaluate on data that holds retain classes too",
            )

    def __repr__(self) -> str:
        """Show the accuracies and the score of the first and the last epoch."""
        counts = {"retain": self.retain_count, "forget": self.forget_count}
        moves = [f"{name} {ends(getattr(self, name), '.1%')} of {count:,}" for name, count in counts.items()]
        epochs = counted(len(self.right) - 1, "epoch", "epochs")
        parts = [epochs, *moves, f"rs {ends(self.rs, '.3f')}", f"forget_classes={self.forget_classes}"]
        return f"Trace({', '.join(parts)})"

    @cached_property
    def hits(self) -> Int[Tensor, "epochs C"]:
        """Samples of each class that the head of each epoch classifies correctly."""
        classes = self.right.split(self.counts.tolist(), 1)  # type: ignore[no-untyped-call]
        return torch.stack([samples.sum(1) for samples in classes], 1)

    @property
    def per_class(self) -> Float[Tensor, "epochs C"]:
        """Accuracy of each epoch on each class; NaN for a class without samples."""
        return self.hits.double() / self.counts

    @property
    def retain(self) -> Curve:
        """Accuracy of each epoch over all retain samples."""
        return self._pooled(~self._is_forget)

    @property
    def forget(self) -> Curve:
        """Accuracy of each epoch over all forget samples."""
        return self._pooled(self._is_forget)

    @property
    def rs(self) -> Curve:
        """Relearning score of each epoch against epoch 0."""
        return relearning_curve(self.retain, self.forget)

    @property
    def retain_count(self) -> int:
        """Number of retain samples."""
        return int(self.counts[~self._is_forget].sum())

    @property
    def forget_count(self) -> int:
        """Number of forget samples."""
        return int(self.counts[self._is_forget].sum())

    def right_of(self, epoch: int, *, forget: bool) -> Bool[Tensor, " some"]:
        """Say which forget or which retain samples the head of an epoch classifies correctly."""
        return self.right[epoch, torch.repeat_interleave(self._is_forget == forget, self.counts)]

    def joined(self, other: Trace) -> Trace:
        """Return the trace over the samples of both."""
        labels = [torch.repeat_interleave(torch.arange(len(one.counts)), one.counts) for one in (self, other)]
        right = torch.cat([self.right, other.right], 1)[:, torch.cat(labels).argsort(stable=True)]
        return replace(self, right=right, counts=self.counts + other.counts)

    def only(self, label: int) -> Trace:
        """Return the same trace for one of the forget classes: the others count neither as forget nor as retain."""
        others = [one for one in self.forget_classes if one != label]
        kept = torch.ones(len(self.counts), dtype=torch.long)
        kept[others] = 0
        right = self.right[:, torch.repeat_interleave(kept, self.counts).bool()]
        return replace(self, right=right, counts=self.counts * kept)

    @property
    def _is_forget(self) -> Tensor:
        return torch.isin(torch.arange(len(self.counts)), torch.tensor(self.forget_classes))

    def _pooled(self, classes: Tensor) -> Curve:
        return self.hits[:, classes].sum(1).double() / self.counts[classes].sum()


def ends(curve: Curve, form: str) -> str:
    """Write the first and the last point of a curve.

    >>> ends(torch.tensor([0.5, 0.7, 1.0]), ".1%")
    '50.0% to 100.0%'
    """
    return f"{float(curve[0]):{form}} to {float(curve[-1]):{form}}" if len(curve) else "of no epoch"
