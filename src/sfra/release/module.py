"""Any ``nn.Module``: watch one forward pass, and split the model where its logits really come from."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from torch import Tensor, nn

from sfra.core.errors import InputError, counted
from sfra.core.head import Head
from sfra.core.types import Bias, Features, Weight
from sfra.release.base import Loader, Options, Release, fingerprint, one_line, usable_device
from sfra.release.foreign import known_names
from sfra.release.forward import batches, cannot_process, check_watchable, fit, place, undisturbed, unwrap
from sfra.release.preprocess import Preprocess
from sfra.release.transform import OwnTransform
from sfra.release.watch import PICKS, LinearCall, Reached, Seen, Watch, explain


class ModuleLoader(Loader):
    """A model in memory."""

    name = "module"
    description = "an nn.Module"

    def accepts(self, source: object) -> bool:
        """Take any module."""
        return isinstance(source, nn.Module)

    def load(self, source: nn.Module, options: Options) -> Release:
        """Split it."""
        return load_module(source, options)


@dataclass(frozen=True, kw_only=True, eq=False)
class ModuleEncoder:
    """A model up to the input of its head; the model itself is left as it is found."""

    model: nn.Module
    """The caller's model, or a copy on another device."""
    ordinal: int
    """Which linear call of the forward pass is the head."""
    pick: str
    """How several positions become one feature vector (a name of ``PICKS``)."""
    weight: Weight
    """The head's weight when the model was loaded: a later pass must use the same."""
    bias: Bias | None
    """The head's bias, likewise, where it is part of the same call."""

    def __call__(self, images: Tensor) -> Features:
        """Run the model up to its head."""
        watch = Watch(len(images), stop_at=self.ordinal)
        try:
            with undisturbed(self.model), watch:
                self.model(fit(self.model, images))
        except Reached as reached:
            call = reached.call
        except Exception as problem:
            raise cannot_process(images, problem) from problem
        else:
            raise self._changed("the call that was its head does not happen")
        if not (_same(call.weight, self.weight) and (self.bias is None or _same(call.bias, self.bias))):
            raise self._changed("the weights used there are not those that were loaded")
        return PICKS[self.pick](call.positions.float())

    @staticmethod
    def _changed(how: str) -> InputError:
        return InputError(
            "the model does not end in the head that was loaded",
            expected="the same head for every input, and weights that stay as they were",
            got=how,
            do="load the model again if you changed it; a head that depends on the input cannot be audited",
        )


def load_module(
    model: nn.Module,
    options: Options,
    *,
    shapes: Sequence[tuple[int, ...]] = (),
    source: str | None = None,
    names: tuple[str, ...] | None = None,
    preprocess: Preprocess | OwnTransform | None = None,
) -> Release:
    """Split a model into encoder and head; neither its weights nor its training flags change.

    ``shapes`` of one input are tried before the usual ones. If the encoder is to run elsewhere, a copy is made.
    """
    plain = unwrap(model)
    check_watchable(plain)
    if options.device is not None and usable_device(options.device) != place(plain)[0]:
        plain = _copy_to(plain, options.device)
    seen, pick, batch = _find_head(plain, options, shapes)
    call = seen.folded()
    head = Head(call.weight, call.bias)
    encoder = ModuleEncoder(model=plain, ordinal=seen.ordinal, pick=pick, weight=seen.own.weight, bias=seen.own.bias)
    if seen.steps:
        _confirm(encoder, head, batch)
    weights = {name: value for name, value in plain.state_dict().items() if isinstance(value, Tensor)}
    structure = f"{type(plain).__qualname__}|{plain!r}|{head.fingerprint}"
    return Release(
        head=head,
        encoder=encoder,
        source=source or f"{type(plain).__name__} (nn.Module)",
        fingerprint=fingerprint(weights, structure=structure),
        class_names=names,
        preprocess=preprocess,
    )


def _same(tensor: Tensor | None, other: Tensor) -> bool:
    return tensor is not None and tensor.shape == other.shape and torch.equal(tensor.to(other), other)


def _copy_to(model: nn.Module, device: str | torch.device) -> nn.Module:
    try:
        return copy.deepcopy(model).to(device)
    except Exception as problem:
        raise InputError(
            f"the model cannot be copied to the device {str(device)!r}",
            got=one_line(problem),
            do="move the model there yourself and leave device= out",
        ) from problem


def _find_head(model: nn.Module, options: Options, shapes: Sequence[tuple[int, ...]]) -> tuple[Seen, str, Tensor]:
    """Run the model on the first example that fits; return the call that gives its output, the pick and the example."""
    problem: object = None
    output: object = None
    for batch in batches(model, options.example, shapes, options.shape):
        watch = Watch(len(batch))
        try:
            with undisturbed(model), watch:
                output = model(fit(model, batch))
        except Exception as failure:
            problem = failure
            continue
        candidates = logit_candidates(output, len(batch))
        if candidates:
            return *_choose(model, candidates, watch.seen), batch
    if output is not None:
        raise InputError(
            "the model's output is not one row of logits per input",
            expected="a tensor [n, classes], or an object, dict or tuple that holds one",
            got=f"{type(output).__name__} {list(output.shape) if isinstance(output, Tensor) else ''}",
        )
    raise InputError(
        "the model cannot run the example" if options.example is not None else "no usual input fits this model",
        expected="a batch of inputs of the model's own shape, for example [2, 3, 32, 32]",
        got=one_line(f"{type(problem).__name__}: {problem}"),
        do="give it images as it takes them: --data with --size or --channels (in Python also example=, a batch)",
    ) from (problem if isinstance(problem, Exception) else None)


def logit_candidates(output: object, rows: int) -> list[Tensor]:
    """Return the parts of a model's output that can be logits: float ``[n, C]``; named ones alone."""
    named = output.get("logits") if isinstance(output, Mapping) else getattr(output, "logits", None)
    if named is not None:
        parts: list[Any] = [named]
    elif isinstance(output, Mapping):
        parts = list(output.values())
    else:
        parts = list(output) if isinstance(output, tuple | list) else [output]
    tensors = {id(part): part for part in parts if isinstance(part, Tensor)}.values()
    return [t for t in tensors if t.is_floating_point() and t.ndim == 2 and t.shape[0] == rows and t.shape[1]]


def _choose(model: nn.Module, outputs: Sequence[Tensor], seen: Sequence[Seen]) -> tuple[Seen, str]:
    """Return the last call that explains an output, and how; refuse none and several outputs."""
    found: list[tuple[Seen, str]] = []
    for output in outputs:
        _check_finite(model, output)
        fitting = (one for one in reversed(seen) if len(one.own.weight) == output.shape[1])
        matches = ((candidate, explain(candidate.folded(), output)) for candidate in fitting)
        found += islice(((candidate, pick) for candidate, pick in matches if pick is not None), 1)
    if len(found) > 1:
        raise InputError(
            "the model returns several outputs with a linear end",
            expected="one output of logits, or one that is called 'logits'",
            got=", ".join(f"[n, {len(candidate.own.weight)}]" for candidate, _ in found),
            do="wrap the model so that it returns only its logits",
        )
    if not found:
        known = known_names(model.state_dict(), ())
        if known is not None:
            what, do = known
            raise InputError("no linear layer produces this model's logits", got=f"a model that holds {what}", do=do)
        calls = counted(len(seen), "linear call", "linear calls")
        raise _no_head(f"{calls}, and none gives the output {list(outputs[0].shape)}")
    return found[0]


def _no_head(got: str) -> InputError:
    return InputError(
        "no linear layer produces this model's logits",
        expected="logits = W z + b of one linear layer, matrix product or 1x1 convolution; a fixed scale or shift, a"
        " softmax or a log-softmax may follow",
        got=got,
        do="return the logits before any other step; a head by itself can be audited with sfra.Head(weight, bias)",
    )


def _confirm(encoder: ModuleEncoder, head: Head, batch: Tensor) -> None:
    """Refuse a scale or shift after the last layer that is another one for other inputs."""
    other = batch.flip(-1) * 0.5 if batch.is_floating_point() else batch.flip(-1)
    with undisturbed(encoder.model):
        outputs = logit_candidates(encoder.model(fit(encoder.model, other)), len(other))
    call = LinearCall(positions=encoder(other)[:, None], weight=head.weight, bias=head.bias)
    if not any(explain(call, output.float()) for output in outputs):
        raise _no_head("a scale or shift after the last linear layer that depends on the input")


def _check_finite(model: nn.Module, output: Tensor) -> None:
    if bool(torch.isfinite(output).all()):
        return
    bad = [name for name, p in model.named_parameters() if not bool(torch.isfinite(p).all())]
    raise InputError(
        "the model's weights are not finite" if bad else "the model's output is not finite",
        got=f"NaN or infinity in {', '.join(bad[:3])}" if bad else "NaN or infinite logits for a plain input",
        do="the model is damaged: check how it was saved" if bad else "return the logits before they are masked",
    )
