"""Watch a model's forward pass for its head: the linear call that gives the logits, by numbers and never by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils.weak import WeakTensorKeyDictionary

from sfra.core.errors import InputError
from sfra.core.types import Bias, Features, Logits, Weight
from sfra.release.base import plain

Positions = Float[Tensor, "n t d"]
"""Inputs of a linear map: ``t`` tokens or pixels of each of ``n`` samples (``t = 1`` once pooled)."""


def _only(positions: Positions) -> Features:
    if positions.shape[1] != 1:
        raise InputError(
            "the head meets several positions of each image, and only one when the model was loaded",
            expected="1 position",
            got=positions.shape[1],
            do="pass example=, images of the size that you evaluate",
        )
    return positions[:, 0]


PICKS: dict[str, Callable[[Positions], Features]] = {
    "only": _only,
    "mean": lambda positions: positions.mean(dim=1),
    "first": lambda positions: positions[:, 0],
    "last": lambda positions: positions[:, -1],
}
"""Ways from positions to one feature vector that commute with a linear map."""


@dataclass(frozen=True, kw_only=True, eq=False)
class LinearCall:
    """One application ``W z + b`` of a linear map, seen while a model ran."""

    positions: Positions
    """Its inputs."""
    weight: Weight
    """``W``."""
    bias: Bias | None
    """``b``, or None."""


@torch.no_grad()
def explain(call: LinearCall, output: Logits) -> str | None:
    """Name the pick with which a call gives the model's output, or its softmax or log-softmax; else None.

    Two numbers count as equal when they differ by less than rounding can explain: a small multiple of
    ``|W||z| + |b|``, the sum that was rounded.
    """
    if call.weight.shape[0] != output.shape[1] or call.positions.shape[0] != output.shape[0]:
        return None
    unit = max(torch.finfo(tensor.dtype).eps for tensor in (call.weight, call.positions, output))
    W, target, positions = (tensor.cpu().double() for tensor in (call.weight, output, call.positions))
    b = torch.zeros(len(W), device="cpu").double() if call.bias is None else call.bias.cpu().double()
    for name in ["only"] if positions.shape[1] == 1 else ["mean", "first", "last"]:
        z = PICKS[name](positions)
        slack = max(2e-4, 2 * unit) * (z.abs() @ W.abs().T + b.abs()) + 1e-9
        readings = _readings(z @ W.T + b, target, slack)
        if any(bool(((mine - theirs).abs() <= room).all()) for mine, theirs, room in readings):
            return name
    return None


def _readings(logits: Tensor, output: Tensor, slack: Tensor) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Pair the logits with the output read as logits, as log-probabilities and as probabilities, and say how close.

    An error ``e_c`` of each logit moves the logarithm of their sum by ``sum_c p_c e_c``.
    """
    yield logits, output, slack
    logs = logits.log_softmax(dim=1)
    slack = slack + (logs.exp() * slack).sum(dim=1, keepdim=True)
    yield logs, output, slack
    if bool(((output >= 0) & (output <= 1 + 1e-3)).all()):
        least = torch.finfo(torch.float32).tiny
        yield logs.clamp_min(torch.tensor(least).log().item()), output.clamp_min(least).log(), slack


Parts = tuple[Tensor, Tensor, Tensor | None]
"""Input with its features in the last dimension, ``W`` and ``b`` of a call."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Step:
    """A fixed number for each output that is added to, subtracted from, multiplied with or divided into the scores."""

    kind: str
    """``add``, ``sub``, ``mul`` or ``div``."""
    value: Tensor
    """One number, or one for each output."""
    reflected: bool
    """Whether the scores are the second operand."""

    def fold(self, call: LinearCall) -> LinearCall:
        """Put the step into the head: ``s (W z + b) + t = (s W) z + (s b + t)``."""
        W, v = call.weight.double(), self.value.to(call.weight.device).double()
        b = torch.zeros(len(W), dtype=W.dtype, device=W.device) if call.bias is None else call.bias.double()
        if self.kind == "add":
            b = b + v
        elif self.kind == "sub":
            W, b = (-W, v - b) if self.reflected else (W, b - v)
        else:
            factor = (v if self.kind == "mul" else 1 / v).expand(len(W))
            W, b = factor[:, None] * W, factor * b
        return replace(call, weight=W, bias=b)


@dataclass(frozen=True, kw_only=True, eq=False)
class Seen:
    """A candidate for the head."""

    ordinal: int
    """How many linear calls came before the one whose input this is."""
    own: LinearCall
    """What that call computed."""
    steps: tuple[Step, ...] = ()
    """What was done to its result afterwards."""

    def folded(self) -> LinearCall:
        """Return the call with the steps after it in its weights."""
        call = self.own
        for step in self.steps:
            call = step.fold(call)
        return call


class Reached(BaseException):
    """Carries the wanted call out of a forward pass; not an ``Exception``, so that no model swallows it."""

    def __init__(self, call: LinearCall) -> None:
        super().__init__()
        self.call = call


class Watch(TorchFunctionMode):
    """See the linear calls of everything that runs inside this context.

    Args:
        rows: Number of samples in the batch, ``n``.
        stop_at: Ordinal of the call at which to stop, by raising :class:`Reached`; None records every call.
    """

    def __init__(self, rows: int, *, stop_at: int | None = None) -> None:
        super().__init__()
        self.seen: list[Seen] = []
        self._rows, self._stop_at, self._count = rows, stop_at, 0
        self._products: WeakTensorKeyDictionary = WeakTensorKeyDictionary()

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Look at the call, then let it happen."""
        kwargs = kwargs or {}
        # The input is read before the call and copied: the model may overwrite it afterwards.
        seen = self._read(func, args, kwargs) if func in READERS else None
        if seen is None and self._stop_at is None:
            seen = self._follow(func, args, kwargs)
        result = func(*args, **kwargs)
        if seen is not None and func in READERS.keys() | STEPS.keys():
            self.seen.append(seen)
        if seen is not None and isinstance(result, Tensor):
            self._products[result] = seen
        return result

    def _read(self, func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Seen | None:
        ordinal, self._count = self._count, self._count + 1
        if self._stop_at is not None and ordinal != self._stop_at:
            return None
        call = _as_call(func, args, kwargs, self._rows, copy=self._stop_at is None)
        if call is None:
            return None
        if self._stop_at is not None:
            raise Reached(call)
        return Seen(ordinal=ordinal, own=call)

    def _follow(self, func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Seen | None:
        """Keep track of scores through a step with a fixed number, and through whatever else takes them alone.

        Nothing is believed yet: whether the head still gives the output is for :func:`explain` to say.
        """
        found = [place for place, term in enumerate(args[:2]) if isinstance(term, Tensor) and term in self._products]
        if len(found) != 1 or (found != [0] and func not in STEPS):
            return None
        seen: Seen = self._products[args[found[0]]]
        if func not in STEPS:
            return seen
        reflected, kind = found == [1], STEPS[func]
        plain = len(args) == 2 and not kwargs and not (reflected and kind == "div")
        value = _per_output(args[1 - found[0]], len(seen.own.weight)) if plain else None
        if value is None:
            return None
        return replace(seen, steps=(*seen.steps, Step(kind=kind, value=value, reflected=reflected)))


def _per_output(term: object, classes: int) -> Tensor | None:
    """Return one number, or one for each output, if that is what a term holds, repeated for each row or not."""
    if isinstance(term, int | float):
        return torch.tensor(float(term), device="cpu")
    if not isinstance(term, Tensor) or not term.is_floating_point():
        return None
    if term.numel() in (1, classes):
        return term.detach().flatten().clone()
    if term.shape[-1] != classes:
        return None
    rows = term.detach().reshape(-1, classes)
    return rows[0].clone() if bool((rows == rows[0]).all()) else None


def _as_call(
    func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], rows: int, *, copy: bool
) -> LinearCall | None:
    """Bring the parts of a call to common shapes; None when they are not those of a head."""
    try:
        parts = READERS[func](*args, **kwargs)
    except (TypeError, AttributeError, IndexError):  # an unusual way to call it: not a head we can read
        return None
    if parts is None or parts[1].ndim != 2:
        return None
    features, weight, bias = parts
    classes, width = weight.shape
    numeric = all(part.is_floating_point() for part in parts if part is not None)
    whole = features.numel() > 0 and features.shape[-1] == width and features.numel() % (rows * width) == 0
    if not numeric or not whole or (bias is not None and bias.numel() != classes):
        return None
    positions = features.detach().reshape(rows, -1, width)
    return LinearCall(
        positions=positions.clone() if copy else positions,
        weight=plain(weight).clone(),
        bias=None if bias is None else plain(bias).flatten().clone(),
    )


def _linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Parts:
    return input, weight, bias


def _convolution(input: Tensor, weight: Tensor, bias: Tensor | None = None, *_: object, **__: object) -> Parts | None:
    """Read a convolution that is a linear map: a kernel of one pixel, or one as large as its input."""
    if input.ndim != weight.ndim or input.shape[1] != weight.shape[1]:
        return None
    if set(weight.shape[2:]) == {1}:
        return input.flatten(2).transpose(1, 2), weight.flatten(1), bias
    if weight.shape[2:] == input.shape[2:]:
        return input.flatten(1), weight.flatten(1), bias
    return None


def _matmul(input: Tensor, other: Tensor) -> Parts:
    return input, other.T if other.ndim == 2 else other, None


def _addmm(bias: Tensor, input: Tensor, other: Tensor, *, beta: float = 1, alpha: float = 1) -> Parts:
    return input, alpha * other.T, beta * bias


READERS: dict[Callable[..., Any], Callable[..., Parts | None]] = {
    functional.linear: _linear,
    torch.conv1d: _convolution,
    torch.conv2d: _convolution,
    torch.conv3d: _convolution,
    torch.matmul: _matmul,
    torch.Tensor.matmul: _matmul,
    torch.mm: _matmul,
    torch.Tensor.mm: _matmul,
    torch.addmm: _addmm,
    torch.Tensor.addmm: _addmm,
}
"""Functions that may be a head, with what reads their arguments."""

STEPS: dict[Callable[..., Any], str] = {
    getattr(where, f"{kind}{ending}"): kind
    for kind in ("add", "sub", "mul", "div")
    for where, ending in ((torch, ""), (torch.Tensor, ""), (torch.Tensor, "_"))
}
"""Functions that may add a bias to a product, or shift or scale it."""
