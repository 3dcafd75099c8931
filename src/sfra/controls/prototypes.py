"""Prototypical relearning (PRA): the forget row is replaced by a prototype of a few real samples of the class."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import linear, normalize

from sfra.auditing.evaluate import check_evaluation
from sfra.controls.linear import measure_heads
from sfra.core.errors import InputError
from sfra.core.head import Head
from sfra.core.metrics import TOLERANCE, relearning_score
from sfra.core.types import Labels
from sfra.data.sets import FeatureSet

VARIANTS = ("cosine", "l2")
"""How a prototype ``p`` becomes a row: ``w = p, b = 0``, or ``w = 2p, b = -‖p‖²``."""

ALPHAS = tuple(step / 10 for step in range(10, -1, -1))
"""Shares of the new row that are tried, from all of it to none."""

CHUNK = 2**14
"""Samples whose logits are held at once."""


@dataclass(frozen=True, kw_only=True)
class PraOutcome:
    """What a prototyped head recognises on test data, next to the released one. Accuracies are in [0, 1]."""

    alpha: float
    retain_before: float
    """Released head, all retain samples."""
    retain_after: float
    forget_before: float
    """Released head, all forget samples."""
    forget_after: float
    rs: float
    """Relearning score."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Prototyped:
    """A head whose forget rows moved towards prototypes."""

    head: Head
    """The new head; differs from the released one in the forget rows only."""
    released: Head
    alpha: float
    """Share of the prototype row in the new row."""
    support: dict[int, tuple[int, ...]]
    """Per forget class, the positions of the training samples that its prototype is the mean of."""
    retain_before: float
    """Retain accuracy of the released head on the training split."""
    retain_after: float
    """Retain accuracy of the new head on the training split."""
    retain_curve: tuple[float, ...]
    """Retain accuracy on the training split at each of ``ALPHAS``."""

    def measure(self, test: FeatureSet) -> PraOutcome:
        """Measure released and new head on data that played no part in making the new one."""
        trace = measure_heads([self.released, self.head], test, tuple(self.support))
        accuracies = {
            "retain_before": float(trace.retain[0]),
            "retain_after": float(trace.retain[1]),
            "forget_before": float(trace.forget[0]),
            "forget_after": float(trace.forget[1]),
        }
        return PraOutcome(alpha=self.alpha, rs=relearning_score(**accuracies), **accuracies)


def pra(
    head: Head,
    train: FeatureSet,
    forget: Sequence[int],
    *,
    variant: str = "cosine",
    k: int = 5,
    max_drop: float = 0.01,
    seed: int = 0,
) -> Prototyped:
    """Move the forget row towards the prototype of ``k`` real samples, as far as the retain classes allow.

    With ``p`` the mean feature of the samples, divided by its l2 norm (0 stays 0), the new row is ``ŵ = p, b̂ = 0``
    (cosine) or ``ŵ = 2p, b̂ = -‖p‖²`` (l2), and the head takes ``α ŵ + (1-α) w``, the bias likewise. ``α`` is the
    largest of 1.0, 0.9, …, 0.0 whose retain accuracy on the training split is at most ``max_drop`` below that of the
    released head; 0 always is.

    Several forget classes have a prototype each and share one ``α``: the budget is one for the model, and to divide
    it among the classes would need an order or a weighting of them that the rule does not have. The samples of a
    class do not depend on which other classes are forgotten.

    Args:
        head: The released head, ``w`` and ``b`` its forget rows; stays as it is.
        train: Features of the training split under the released encoder in eval mode, with true labels.
        forget: Forget classes.
        variant: ``cosine`` or ``l2``.
        k: Training samples per forget class.
        max_drop: Retain accuracy that may be lost on the training split.
        seed: Which samples are drawn.

    >>> head = Head([[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]])
    >>> train = FeatureSet(features=torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, -2.0]]), labels=torch.arange(3))
    >>> found = pra(head, train, [2], k=1)
    >>> found.alpha, found.head.weight[2].tolist()
    (1.0, [0.0, -1.0])
    """
    _check(head, train, forget, variant=variant, k=k, max_drop=max_drop)
    order = torch.randperm(len(train), generator=torch.Generator().manual_seed(seed))  # the first k of a class count
    shuffled = train.labels.cpu()[order]
    support = {c: tuple(sorted(order[shuffled == c][:k].tolist())) for c in sorted(forget)}
    forgotten, samples = list(support), [train.features[list(rows)].float() for rows in support.values()]
    prototypes = torch.stack([normalize(some.mean(0), dim=0).cpu() for some in samples])
    weights, biases = _blend(head, forgotten, prototypes, variant)
    hits, retained = _retain_hits(head, forgotten, weights, biases, train)
    curve = (hits.double() / retained).tolist()
    chosen = next(i for i, accuracy in enumerate(curve) if curve[-1] - accuracy <= max_drop + TOLERANCE)
    weight, bias = head.weight.clone(), head.bias.clone()
    weight[forgotten], bias[forgotten] = weights[chosen], biases[chosen]
    return Prototyped(
        head=Head(weight, bias),
        released=head,
        alpha=ALPHAS[chosen],
        support=support,
        retain_before=curve[-1],
        retain_after=curve[chosen],
        retain_curve=tuple(curve),
    )


def _blend(
    head: Head, forget: Sequence[int], prototypes: Float[Tensor, "F d"], variant: str
) -> tuple[Float[Tensor, "A F d"], Float[Tensor, "A F"]]:
    """Return the forget rows and biases at each of ``ALPHAS``; at the last, 0, they are the released ones."""
    cosine = variant == "cosine"
    weight = prototypes if cosine else 2 * prototypes
    bias = torch.zeros(len(forget)) if cosine else -prototypes.square().sum(1)
    alpha = torch.tensor(ALPHAS)
    w, b = head.weight[list(forget)], head.bias[list(forget)]
    return (
        alpha.view(-1, 1, 1) * weight + (1 - alpha).view(-1, 1, 1) * w,
        alpha.view(-1, 1) * bias + (1 - alpha).view(-1, 1) * b,
    )


def _retain_hits(
    head: Head,
    forget: Sequence[int],
    weights: Float[Tensor, "A F d"],
    biases: Float[Tensor, "A F"],
    train: FeatureSet,
) -> tuple[Int[Tensor, " A"], int]:
    """Count the retain samples that stay correct at each α, and the retain samples.

    Only the forget logits depend on α, so one product with the C rows and one with the A·F blended rows cover all.
    """
    device = train.features.device
    retained = torch.nonzero(~torch.isin(train.labels.cpu(), torch.tensor(forget))).flatten()
    rows, offsets = weights.flatten(0, 1).to(device), biases.flatten().to(device)
    hits = torch.zeros(len(ALPHAS), dtype=torch.long, device=device)
    for index in retained.split(CHUNK):  # type: ignore[no-untyped-call]
        features, labels = train.features[index.to(device)].float(), train.labels[index].to(device)
        contested = linear(features, rows, offsets).view(-1, *biases.shape)
        hits += _stay_correct(head(features), contested, labels, forget).sum(0)
    return hits.cpu(), len(retained)


def _stay_correct(
    logits: Float[Tensor, "n C"], contested: Float[Tensor, "n A F"], labels: Labels, forget: Sequence[int]
) -> Tensor:
    """Mark where ``argmax`` over all classes is the label, at each α; a tie goes to the smaller class index."""
    columns = torch.tensor(forget, device=logits.device)
    others = logits.index_fill(1, columns, -torch.inf)
    best, predicted = others.max(1)
    earlier = columns < labels[:, None]
    own = best[:, None, None]
    holds = torch.where(earlier[:, None], own > contested, own >= contested).all(2)
    return holds & (predicted == labels)[:, None]


def _check(head: Head, train: FeatureSet, forget: Sequence[int], *, variant: str, k: int, max_drop: float) -> None:
    if variant not in VARIANTS:
        raise InputError("unknown variant of PRA", expected=" or ".join(VARIANTS), got=variant)
    if k < 1:
        raise InputError("a prototype needs samples", expected="k of 1 or more", got=k)
    if not 0.0 <= max_drop <= 1.0:
        raise InputError("max_drop is out of range", expected="a fraction from 0 to 1", got=max_drop)
    for c in forget:
        there = int((train.labels == c).sum())
        if 0 <= c < head.classes and there < k:
            raise InputError(
                f"there are too few training samples of forget class {c} for a prototype",
                expected=f"k = {k} or more",
                got=there,
                do="pass the training split with its forget samples, or a smaller k",
            )
    check_evaluation(train.features, train.labels, forget, classes=head.classes, width=head.width)
