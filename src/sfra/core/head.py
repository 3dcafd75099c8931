"""The linear head of a classifier: all that the audit itself ever sees of a released model."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import ArrayLike
from safetensors.torch import save as dump_safetensors
from torch import Tensor

from sfra.core.errors import InputError
from sfra.core.files import read_arrays, write_atomically, write_npz
from sfra.core.refusals import head_not_finite
from sfra.core.types import Bias, Features, Logits, Weight

MIN_CLASSES = 3
"""One class to forget and two to keep: with fewer there is no boundary between retain classes."""


@dataclass(frozen=True, eq=False, init=False)
class Head:
    """A frozen linear head ``h(z) = W z + b``, checked on creation.

    Args:
        weight: ``W``, shape ``[C, d]``, at least three classes; copied, stored as float32.
        bias: ``b``, shape ``[C]``; zero when left out.

    >>> head = Head(weight=[[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
    >>> head.classes, head.width
    (3, 2)
    >>> head(torch.tensor([[2.0, 0.5]])).argmax().item()
    0
    """

    weight: Weight
    bias: Bias

    def __init__(self, weight: ArrayLike | Tensor, bias: ArrayLike | Tensor | None = None) -> None:
        W = _float_copy(weight, "weight")
        if W.ndim != 2 or W.shape[1] == 0:
            raise InputError("the head's weight is not a matrix", expected="shape [C, d]", got=list(W.shape))
        if W.shape[0] < MIN_CLASSES:
            raise InputError(
                "the head has too few classes",
                expected=f"at least {MIN_CLASSES} outputs",
                got=W.shape[0],
                do="a classifier with one or two outputs cannot be audited: one class to forget, two to keep",
            )
        b = torch.zeros(W.shape[0]) if bias is None else _float_copy(bias, "bias")
        if b.shape != (W.shape[0],):
            turned = "the weight looks transposed: pass weight.T, with one row for each class"
            raise InputError(
                "weight and bias disagree",
                expected=f"bias of shape [{W.shape[0]}]",
                got=list(b.shape),
                do=turned if b.shape == W.shape[1:] else None,
            )
        object.__setattr__(self, "weight", W)
        object.__setattr__(self, "bias", b)

    def __repr__(self) -> str:
        """Say how large it is, without its weights."""
        return f"Head({self.classes} classes, {self.width} features)"

    @property
    def classes(self) -> int:
        """Number of outputs, ``C``."""
        return self.weight.shape[0]

    @property
    def width(self) -> int:
        """Number of inputs, ``d``."""
        return self.weight.shape[1]

    @property
    def fingerprint(self) -> str:
        """SHA-256 of shape, weight and bias: equal heads, equal fingerprints."""
        digest = hashlib.sha256(repr(tuple(self.weight.shape)).encode())
        for part in (self.weight, self.bias):
            digest.update(part.numpy().tobytes())
        return digest.hexdigest()

    def __call__(self, features: Features) -> Logits:
        """Return the logits ``W z + b`` of each row ``z``, computed on the features' device."""
        weight, bias = self.weight.to(features.device), self.bias.to(features.device)
        return torch.nn.functional.linear(features, weight, bias)

    def restore_rows(self, forget: Sequence[int], *, seed: int = 0) -> Head:
        """Insert freshly initialised rows at the forget indices of a head that lost them.

        The rows are drawn as ``torch.nn.Linear`` draws its own, uniform on ``±1/√d`` for weight and bias,
        from a generator of their own. The result has ``C + len(forget)`` classes.
        """
        total = self.classes + len(forget)
        self._check_rows(forget, total, "placed")
        keep = torch.tensor([c for c in range(total) if c not in set(forget)])
        weight, bias = torch.empty(total, self.width), torch.empty(total)
        weight[keep], bias[keep] = self.weight, self.bias
        missing = torch.tensor(sorted(forget))
        weight[missing], bias[missing] = _fresh_rows(len(forget), self.width, seed)
        return Head(weight, bias)

    def reset_rows(self, forget: Sequence[int], *, seed: int = 0) -> Head:
        """Re-initialise the forget rows and biases, as :meth:`restore_rows` does for missing ones."""
        self._check_rows(forget, self.classes, "reset")
        weight, bias = self.weight.clone(), self.bias.clone()
        rows = torch.tensor(sorted(forget))
        weight[rows], bias[rows] = _fresh_rows(len(forget), self.width, seed)
        return Head(weight, bias)

    @staticmethod
    def _check_rows(rows: Sequence[int], total: int, verb: str) -> None:
        if not rows or len(set(rows)) != len(rows) or not all(0 <= c < total for c in rows):
            raise InputError(
                f"the forget rows cannot be {verb}",
                expected=f"distinct indices from 0 to {total - 1}",
                got=list(rows),
            )

    def to_safetensors(self) -> bytes:
        """Return the content of a ``.safetensors`` file with ``weight`` and ``bias``."""
        return dump_safetensors({"weight": self.weight, "bias": self.bias})

    def save(self, path: str | Path) -> None:
        """Write ``weight`` and ``bias`` to ``.safetensors`` or ``.npz``, whole or not at all."""
        target = Path(path)
        if target.suffix == ".safetensors":
            write_atomically(target, self.to_safetensors())
        elif target.suffix == ".npz":
            write_npz(target, weight=self.weight.numpy(), bias=self.bias.numpy())
        else:
            raise InputError(
                "the head cannot be written",
                expected="a name ending in .safetensors or .npz",
                got=target.name,
            )

    @classmethod
    def load(cls, path: str | Path) -> Head:
        """Read a ``.safetensors`` or ``.npz`` with ``weight`` and, optionally, ``bias``; never unpickles."""
        source = Path(path)
        arrays = read_arrays(source)
        if "weight" not in arrays or set(arrays) - {"weight", "bias"}:
            raise InputError(
                f"{source.name} is not a head file",
                expected="the arrays 'weight' and 'bias' and nothing else",
                got=sorted(arrays)[:8] or "no arrays",
                do="for a whole state dict, name its architecture with --arch",
            )
        return cls(arrays["weight"], arrays.get("bias"))


def _float_copy(values: ArrayLike | Tensor, name: str) -> Tensor:
    """Copy to a float32 tensor on the CPU, refusing what is not finite."""
    try:
        raw = values if isinstance(values, Tensor) else torch.from_numpy(np.array(values))
        if raw.is_complex():
            raise TypeError("complex numbers")  # noqa: TRY301
        copy = raw.detach().to("cpu", torch.float32, copy=True).contiguous()
    except (TypeError, ValueError, RuntimeError) as problem:
        raise InputError(f"the head's {name} is not numeric", expected="an array of numbers", got=problem) from None
    bad = int((~torch.isfinite(copy)).sum())
    if bad:
        raise head_not_finite(name, bad, copy.numel())
    return copy


def is_finite(values: Tensor) -> bool:
    """Say whether no entry is NaN or infinite, from the extremes: five times faster than ``isfinite``."""
    return all(bool(torch.isfinite(extreme)) for extreme in torch.aminmax(values))


def _fresh_rows(rows: int, width: int, seed: int) -> tuple[Tensor, Tensor]:
    """Draw rows and biases as ``torch.nn.Linear`` initialises them."""
    generator = torch.Generator().manual_seed(seed)
    bound = width**-0.5
    draws = torch.empty(rows, width + 1).uniform_(-bound, bound, generator=generator)
    return draws[:, :width], draws[:, width]
