"""Disguises: the same classifier in other coordinates, or with its forget output hidden.

None changes what the network knows, so a sound audit says of the disguised model what it says of the plain one.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor, nn

from sfra.core.errors import InputError
from sfra.core.head import Head
from sfra.core.types import Features
from sfra.unlearn.mask import HIDING_BIAS, head_layer

SCALE = 4.0
"""What features are multiplied by; also the most by which a channel is scaled, up or down."""

LENGTH = 10.0
"""What a forget row is multiplied by, and the norm of a common row in units of the median retain row."""

CONDITION = 30.0
"""Condition number of the extra linear layer."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Disguised:
    """A head, and the map ``z -> A z + c`` from the plain features to those that it takes."""

    head: Head
    matrix: Float[Tensor, "d d"]
    """``A``, invertible, in double precision."""
    shift: Float[Tensor, " d"]
    """``c``."""

    def features(self, features: Features) -> Features:
        """Return features of the plain encoder as the disguised one gives them."""
        return (features.double() @ self.matrix.T + self.shift).float()

    def module(self, model: nn.Module, *, layer: str | None = None) -> nn.Module:
        """Return a copy of a whole model in this disguise; ``layer`` names its head, by default the last linear one."""
        copied = copy.deepcopy(model)
        name, plain = head_layer(copied, layer)
        made = nn.Sequential(*(nn.Linear(plain.in_features, n) for n in (plain.in_features, self.head.classes)))
        values = (self.matrix, self.shift, self.head.weight, self.head.bias)
        made.load_state_dict(dict(zip(made.state_dict(), values, strict=True)))
        copied.set_submodule(name, made.to(plain.weight))
        return copied.eval()


Change = Callable[[Head, Sequence[int], torch.Generator], Disguised]
"""From a head, its forget classes and chance to the disguised head."""


@dataclass(frozen=True, kw_only=True)
class Disguise:
    """A named way to disguise a head; ``disguise(head, forget, seed=0)`` applies it."""

    name: str
    sentence: str
    change: Change = field(repr=False)
    hides: bool
    """It replaces or removes the forget row, which is then lost; without this, every output stays as it was."""

    def __call__(self, head: Head, forget: Sequence[int], *, seed: int = 0) -> Disguised:
        """Disguise a head that forgot some classes."""
        if not forget or not all(0 <= label < head.classes for label in forget):
            raise InputError("the forget classes are not outputs of the head", got=list(forget))
        return self.change(head, forget, torch.Generator().manual_seed(seed))


DISGUISES: dict[str, Disguise] = {}
"""Every disguise by name."""


def disguise(name: str, sentence: str, *, hides: bool = False) -> Callable[[Change], Change]:
    """Enter a function into ``DISGUISES``."""

    def enter(change: Change) -> Change:
        DISGUISES[name] = Disguise(name=name, sentence=sentence, change=change, hides=hides)
        return change

    return enter


@disguise("feature-scale", f"features times {SCALE:g}, the weight divided by it")
def feature_scale(head: Head, forget: Sequence[int], generator: torch.Generator) -> Disguised:
    """Multiply the features."""
    return _fold(head, matrix=SCALE * torch.eye(head.width))


@disguise("common-row", f"one row, {LENGTH:g} times as long as the others, and one bias added to every output")
def common_row(head: Head, forget: Sequence[int], generator: torch.Generator) -> Disguised:
    """Add one row and one bias to all outputs: the softmax cannot tell."""
    row = _random_row(head, forget, generator) * LENGTH
    return _plain(Head(head.weight + row, head.bias + float(row.norm())))


@disguise("channel-scales", f"each feature times a number from 1/{SCALE:g} to {SCALE:g}, folded into the head")
def channel_scales(head: Head, forget: Sequence[int], generator: torch.Generator) -> Disguised:
    """Scale every feature by itself, uniformly on a logarithmic scale."""
    exponents = 2 * torch.rand(head.width, generator=generator) - 1
    return _fold(head, matrix=torch.diag(SCALE**exponents))


@disguise("translation", "a random vector added to the features, the biases made up for it")
def translation(head: Head, forget: Sequence[int], generator: torch.Generator) -> Disguised:
    """Add a standard normal vector to the features: biases move by as much as the rows are long."""
    return _fold(head, shift=torch.randn(head.width, generator=generator))


@disguise("rotation", "the features turned at random, and the head with them")
def rotation(head: Head, forget: Sequence[int], generator: torch.Generator) -> Disguised:
    """Rotate the features."""
    return _fold(head, matrix=_rotation(head.width, generator))


@disguise(
    "linear-layer", f"an extra linear layer of condition number {CONDITION:g} before the head, undone in the head"
)
def linear_layer(head: Head, forget: Sequence[int], generator: torch.Generator) -> Disguised:
    """Mix all features: rotation, channel scales, rotation and translation."""
    stretch = CONDITION ** torch.linspace(-0.5, 0.5, head.width, dtype=torch.float64)
    matrix = _rotation(head.width, generator) * stretch @ _rotation(head.width, generator)
    return _fold(head, matrix=matrix, shift=torch.randn(head.width, generator=generator))


@disguise("forget-bias", f"the forget bias lowered to {HIDING_BIAS:g}", hides=True)
def forget_bias(head: Head, forget: Sequence[int], generator: torch.Generator) -> Disguised:
    """Lower the forget biases."""
    return _with_rows(head, forget, head.weight[list(forget)], bias=HIDING_BIAS)


@disguise("forget-row-scaled", f"the forget row times {LENGTH:g}, its bias lowered to {HIDING_BIAS:g}", hides=True)
def forget_row_scaled(head: Head, forget: Sequence[int], generator: torch.Generator) -> Disguised:
    """Let the forget rows explode."""
    return _with_rows(head, forget, LENGTH * head.weight[list(forget)], bias=HIDING_BIAS)


@disguise(
    "forget-row-random",
    f"the forget row replaced by a random one of usual length, its bias lowered to {HIDING_BIAS:g}",
    hides=True,
)
def forget_row_random(head: Head, forget: Sequence[int], generator: torch.Generator) -> Disguised:
    """Replace the forget rows by random ones."""
    rows = torch.stack([_random_row(head, forget, generator) for _ in forget])
    return _with_rows(head, forget, rows, bias=HIDING_BIAS)


@disguise("forget-row-negative", "the forget row replaced by the negative of the most similar class's", hides=True)
def forget_row_negative(head: Head, forget: Sequence[int], generator: torch.Generator) -> Disguised:
    """Replace each forget row by the negative of the retain row with which it has the largest cosine, rows centred."""
    kept = _retain(head, forget)
    rows = nn.functional.normalize(head.weight - head.weight[kept].mean(0))
    nearest = (rows[list(forget)] @ rows[kept].T).argmax(1)
    return _with_rows(head, forget, -head.weight[kept][nearest])


@disguise("forget-row-removed", "the output of the forget class cut off", hides=True)
def forget_row_removed(head: Head, forget: Sequence[int], generator: torch.Generator) -> Disguised:
    """Cut the forget rows off: the head has fewer outputs."""
    kept = _retain(head, forget)
    return _plain(Head(head.weight[kept], head.bias[kept]))


def _retain(head: Head, forget: Sequence[int]) -> list[int]:
    return [label for label in range(head.classes) if label not in set(forget)]


def _plain(head: Head) -> Disguised:
    """Leave the features as they are."""
    return Disguised(
        head=head,
        matrix=torch.eye(head.width, dtype=torch.float64),
        shift=torch.zeros(head.width, dtype=torch.float64),
    )


def _fold(head: Head, *, matrix: Tensor | None = None, shift: Tensor | None = None) -> Disguised:
    """Undo ``z -> A z + c`` in the head: ``W' = W A^-1`` and ``b' = b - W' c``."""
    A = torch.eye(head.width, dtype=torch.float64) if matrix is None else matrix.double()
    c = torch.zeros(head.width, dtype=torch.float64) if shift is None else shift.double()
    W = torch.linalg.solve(A, head.weight.double(), left=False)
    return Disguised(head=Head(W, head.bias.double() - W @ c), matrix=A, shift=c)


def _with_rows(head: Head, forget: Sequence[int], rows: Tensor, *, bias: float | None = None) -> Disguised:
    """Replace the forget rows and, where one is given, the forget biases."""
    weight, biases = head.weight.clone(), head.bias.clone()
    weight[list(forget)] = rows
    if bias is not None:
        biases[list(forget)] = bias
    return _plain(Head(weight, biases))


def _rotation(width: int, generator: torch.Generator) -> Tensor:
    """Draw an orthogonal matrix, uniformly: QR of a normal one, with positive diagonal of R."""
    Q, R = torch.linalg.qr(torch.randn(width, width, generator=generator, dtype=torch.float64))
    turned: Tensor = Q * R.diagonal().sign()
    return turned


def _random_row(head: Head, forget: Sequence[int], generator: torch.Generator) -> Tensor:
    """Draw a row in a random direction, as long as the median retain row."""
    row = torch.randn(head.width, generator=generator)
    length = float(head.weight[_retain(head, forget)].norm(dim=1).median())
    return nn.functional.normalize(row, dim=0) * length
