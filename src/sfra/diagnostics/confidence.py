"""Assignment confidence: how sure the released head is of the retain classes that it gives forget samples to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from sfra.auditing.evaluate import check_evaluation
from sfra.core.head import Head
from sfra.diagnostics.record import Record

CHUNK = 2**14
"""Samples whose logits are held at once."""


@dataclass(frozen=True, kw_only=True)
class ClassConfidence(Record):
    """One retain class. Confidence is the largest softmax output."""

    label: int
    correct: int
    """Real samples of the class that the head gets right."""
    correct_confidence: float | None
    """Their mean confidence; None if there are none."""
    assigned: int
    """Forget samples that the head gives to this class."""
    assigned_confidence: float | None
    """Their mean confidence; None if there are none."""
    gap: float | None
    """Difference of the two."""


@dataclass(frozen=True, kw_only=True)
class Confidence(Record):
    """All retain classes together."""

    correct: int
    """Retain samples that the head gets right."""
    correct_confidence: float | None
    """Their mean confidence."""
    matched_confidence: float | None
    """The same per class, weighted by the number of forget samples assigned to the class; classes without a correct
    sample are left out. None if no class has both."""
    assigned: int
    """Forget samples given to retain classes."""
    assigned_confidence: float | None
    """Their mean confidence: the mean of the classes, weighted by the number assigned to each."""
    gap: float | None
    """``correct_confidence - assigned_confidence``."""
    matched_gap: float | None
    """``matched_confidence - assigned_confidence``."""
    forget_samples: int
    """All forget samples; those that are not assigned to a retain class are given to a forget class."""
    classes: tuple[ClassConfidence, ...]
    """Every retain class."""


def confidence(
    head: Head,
    features: Float[Tensor, "samples d"],
    labels: Int[Tensor, " samples"],
    forget: Sequence[int],
    *,
    gain: float = 1.0,
) -> Confidence:
    """Compare the confidence in correct retain samples with that in forget samples assigned to retain classes.

    With ``n_k`` forget samples assigned to retain class ``k`` at mean confidence ``q_k``, that of all assigned ones is
    ``Σ n_k q_k / Σ n_k``. A large gap says that forget samples are told apart from what they are answered as.
    The softmax is the same at every scale of the head, so the result does not depend on ``gain`` but by rounding.

    Args:
        head: The head at some scale, with all classes.
        features: Real features, as released.
        labels: True class of each row of features.
        forget: Forget classes.
        gain: What the head's weight was multiplied by at that scale; features are divided by it. 1 is native.

    >>> head = Head([[9.0, 0.0], [0.0, 9.0], [-9.0, -9.0]])
    >>> found = confidence(head, torch.tensor([[9.0, 0.0], [1.0, 1.0]]), torch.tensor([0, 2]), [2])
    >>> found.correct_confidence, round(found.assigned_confidence, 4)
    (1.0, 0.5)
    """
    check_evaluation(features, labels, forget, classes=head.classes, width=head.width)
    parts = [head(chunk.float() / gain).double().softmax(1).max(1) for chunk in features.split(CHUNK)]  # type: ignore[no-untyped-call]
    sure, given = (torch.cat([part[i] for part in parts]).cpu() for i in (0, 1))
    truth = labels.cpu()
    is_forget = torch.isin(truth, torch.tensor(list(forget)))
    retain = [k for k in range(head.classes) if k not in set(forget)]
    classes = tuple(_class(k, sure[(truth == k) & (given == k)], sure[is_forget & (given == k)]) for k in retain)
    own = _weighted([(one.correct, one.correct_confidence) for one in classes])
    matched = _weighted([(one.assigned, one.correct_confidence) for one in classes])
    other = _weighted([(one.assigned, one.assigned_confidence) for one in classes])
    return Confidence(
        correct=sum(one.correct for one in classes),
        correct_confidence=own,
        matched_confidence=matched,
        assigned=sum(one.assigned for one in classes),
        assigned_confidence=other,
        gap=_difference(own, other),
        matched_gap=_difference(matched, other),
        forget_samples=int(is_forget.sum()),
        classes=classes,
    )


def _class(label: int, correct: Float[Tensor, " right"], assigned: Float[Tensor, " given"]) -> ClassConfidence:
    own, other = (float(values.mean()) if len(values) else None for values in (correct, assigned))
    return ClassConfidence(
        label=label,
        correct=len(correct),
        correct_confidence=own,
        assigned=len(assigned),
        assigned_confidence=other,
        gap=_difference(own, other),
    )


def _weighted(pairs: Sequence[tuple[int, float | None]]) -> float | None:
    there = [(weight, value) for weight, value in pairs if value is not None]
    total = sum(weight for weight, _ in there)
    return sum(weight * value for weight, value in there) / total if total else None


def _difference(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one - other
