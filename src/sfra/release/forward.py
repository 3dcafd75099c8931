"""Run someone else's model on a plausible input and leave no trace: flags, buffers and weights stay as they were."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext

import torch
from torch import Tensor, nn

from sfra.core.errors import InputError
from sfra.release.base import one_line

USUAL_SHAPES = ((3, 224, 224), (3, 32, 32), (3, 64, 64), (1, 28, 28), (1, 8, 8))
"""Channels, height and width of one input, tried in this order."""

LARGEST = 3 * 2048 * 2048
"""Numbers in one input above which a shape named by a file is not believed."""


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


def cannot_process(images: Tensor, problem: Exception) -> InputError:
    """Say that images are not what a model takes."""
    return InputError(
        "the model cannot process these images",
        got=f"{images.dtype} of shape {list(images.shape)}: {one_line(problem)}",
        do="prepare the images as the model expects them: --size, --channels, a number for each channel in "
        "--mean (in Python: preprocess=)",
    )


def batches(
    model: nn.Module, example: Tensor | None, shapes: Sequence[tuple[int, ...]], other: tuple[int, ...] | None = None
) -> Iterator[Tensor]:
    """Yield batches to try, in order: the caller's example alone, or noise of each plausible shape, ``other`` late."""
    if example is not None:
        yield two_rows(example)
        return
    linear = [(module.in_features,) for module in model.modules() if isinstance(module, nn.Linear)]
    more = [] if other is None else [other]
    known = [*shapes, *_configured(model), *USUAL_SHAPES, *more, *linear[:1]]  # the last: it may take plain vectors
    for shape in dict.fromkeys(known):
        if min(shape) > 0 and math.prod(shape) <= LARGEST:
            yield noise((2, *shape))


def two_rows(example: Tensor) -> Tensor:
    """Take at most four rows of a batch; a single row gets its mirror image as company.

    With two rows a model that drops dimensions of size one (``squeeze``) still shows its true shapes.
    """
    if example.ndim < 2 or example.numel() == 0:
        raise InputError(
            "the example is not a batch",
            expected="a tensor [n, ...] with at least one input",
            got=f"shape {list(example.shape)}",
            do="add a first dimension: example.unsqueeze(0)",
        )
    return example[:4] if len(example) > 1 else torch.cat([example, example.flip(-1)])


def noise(shape: Sequence[int]) -> Tensor:
    """Draw numbers as a normalised image has them, the same every time."""
    return torch.randn(*shape, device="cpu", generator=torch.Generator().manual_seed(0))


def _configured(model: nn.Module) -> Iterator[tuple[int, ...]]:
    """Yield the input shape that a transformers or a timm model carries."""
    config = getattr(model, "config", None)
    for part in (config, getattr(config, "vision_config", None)):
        side, channels = getattr(part, "image_size", None), getattr(part, "num_channels", 3)
        sides = (side, side) if isinstance(side, int) else side
        if isinstance(sides, list | tuple) and all(isinstance(x, int) for x in (*sides, channels)):
            yield (channels, *sides)
    timm = getattr(model, "pretrained_cfg", None)
    if isinstance(timm, dict) and isinstance(timm.get("input_size"), list | tuple):
        yield tuple(timm["input_size"])
