"""Run someone else's model and leave no trace: flags, buffers, weights and gradients stay as they were."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import torch
from torch import Tensor, nn

from sfra.core.errors import InputError


def unwrap(model: nn.Module) -> nn.Module:
    """Take off the wrappers that would hide the forward pass: data parallelism and ``torch.compile``."""
    while True:
        inner = getattr(model, "_orig_mod", None)
        if isinstance(model, nn.DataParallel | nn.parallel.DistributedDataParallel):
            inner = model.module
        if not isinstance(inner, nn.Module):
            return model
        model = inner


@contextmanager
def undisturbed(model: nn.Module) -> Iterator[None]:
    """Run in eval mode without gradients; afterwards flags and buffers are what they were.

    Flags are set one by one: a model's own ``train`` or ``eval`` may do more than that.
    """
    flags = [(module, module.training) for module in model.modules()]
    buffers = [
        (module, name, buffer, buffer.detach().clone())
        for module in model.modules()
        for name, buffer in module._buffers.items()
        if buffer is not None
    ]
    compiled = any(getattr(module, "_compiled_call_impl", None) is not None for module, _ in flags)
    try:
        for module, _ in flags:
            module.training = False
        with torch.no_grad(), torch.compiler.set_stance("force_eager") if compiled else nullcontext():
            yield
    finally:
        for module, training in flags:
            module.training = training
        for module, name, buffer, before in buffers:
            module._buffers[name] = buffer
            if not torch.equal(buffer, before):
                buffer.detach().copy_(before)


def fit(model: nn.Module, inputs: Tensor) -> Tensor:
    """Move inputs to the model's device and, if they are floats, to its precision."""
    device, dtype = place(model)
    return inputs.to(device, dtype if inputs.is_floating_point() else None)


def place(model: nn.Module) -> tuple[torch.device, torch.dtype | None]:
    """Return device and precision of the model's first floating-point tensor."""
    tensors = [*model.parameters(), *model.buffers()]
    floats = [tensor for tensor in tensors if tensor.is_floating_point()]
    first = next(iter(floats or tensors), torch.empty(0))
    return first.device, first.dtype if first.is_floating_point() else None


def check_watchable(model: nn.Module) -> None:
    """Refuse a module whose forward pass cannot be seen, or that has no weights yet."""
    if any(isinstance(module, torch.jit.ScriptModule) for module in model.modules()):
        raise InputError(
            "a TorchScript module cannot be watched",
            expected="an ordinary nn.Module",
            got=type(model).__name__,
            do="load the weights into the original class, or export the model to ONNX",
        )
    empty = [name for name, p in model.named_parameters() if nn.parameter.is_lazy(p) or p.is_meta]
    if empty:
        raise InputError(
            "the model has parameters without values",
            got=", ".join(empty[:3]),
            do="run it once, or load its weights, before the audit",
        )
