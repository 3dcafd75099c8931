"""How a classifier is called: its logits, in the precision that the computation runs in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from sfra.core.errors import InputError
from sfra.core.types import Logits

Images = Float[Tensor, "n ..."]
"""Inputs of a classifier, one per sample."""

Precision = Literal["auto", "float32", "bfloat16"]
"""``auto``: bfloat16 on a CUDA device that has it, else the type of the weights."""

_DTYPE: ContextVar[torch.dtype | None] = ContextVar("dtype", default=None)


def logits(model: nn.Module, images: Images) -> Logits:
    """Return the model's logits, given as a tensor or as the ``logits`` of an output object.

    Within :func:`computing` in bfloat16 the network runs in it, and its logits come back as float32.
    """
    dtype = _DTYPE.get()
    with nullcontext() if dtype is None else torch.autocast(images.device.type, dtype=dtype):
        output = model(images)
    found = output if isinstance(output, Tensor) else getattr(output, "logits", None)
    if not isinstance(found, Tensor) or found.ndim != 2:
        raise InputError(
            "the model does not answer with logits",
            expected="a tensor [n, C], or an object whose .logits is one",
            got=f"{type(output).__name__} {list(found.shape) if isinstance(found, Tensor) else ''}".rstrip(),
        )
    return found if dtype is None else found.float()


@contextmanager
def computing(device: torch.device, precision: Precision = "auto") -> Iterator[None]:
    """Compute logits in a precision inside the block; on CUDA, convolutions by algorithms that repeat exactly."""
    if precision == "auto" and device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False):
        precision = "bfloat16"
    chosen = _DTYPE.set(torch.bfloat16 if precision == "bfloat16" else None)
    cudnn = torch.backends.cudnn
    before = cudnn.deterministic, cudnn.benchmark
    cudnn.deterministic, cudnn.benchmark = True, False
    try:
        yield
    finally:
        cudnn.deterministic, cudnn.benchmark = before
        _DTYPE.reset(chosen)


def lay_out(model: nn.Module, device: torch.device, *, channels_last: bool = True) -> nn.Module:
    """Put a model on a device, on CUDA with its 4-d weights channels last: tensor cores want them so."""
    last = channels_last and device.type == "cuda"
    return _placed(model, device, torch.channels_last if last else torch.contiguous_format)


def bring_home(model: nn.Module, device: torch.device) -> nn.Module:
    """Put a trained model back where it belongs, in eval mode and in the usual layout."""
    return _placed(model, device, torch.contiguous_format).eval()


def _placed(model: Any, device: torch.device, layout: torch.memory_format) -> nn.Module:
    placed: nn.Module = model.to(device=device, memory_format=layout)  # missing in torch's own annotations
    return placed


def device_of(model: nn.Module) -> torch.device:
    """Return where the model's first parameter lives."""
    first = next(model.parameters(), None)
    if first is None:
        raise InputError("the model has no parameters", expected="a classifier that can be trained")
    return first.device
