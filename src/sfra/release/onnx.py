"""ONNX files: find the linear end in the graph, read the features by running up to it on the CPU."""

from __future__ import annotations

import ast
import hashlib
import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sfra.core.errors import InputError, SfraError, UnsafeFileError
from sfra.core.types import Features, Logits
from sfra.release.base import Loader, Options, Release, clean_names, one_line, require, unreadable
from sfra.release.checkpoint import looks_like_tensors
from sfra.release.forward import LARGEST, USUAL_SHAPES, cannot_process, noise, two_rows
from sfra.release.onnx_file import COMPLETE, Evaluate, evaluator, looks_like_onnx, open_session, read_model, run
from sfra.release.onnx_graph import LinearEnd, find_end, no_linear_end
from sfra.release.watch import PICKS, LinearCall, Positions, explain

NAME_KEYS = ("class_names", "names", "classes", "labels", "id2label", "character")
"""Metadata entries in which exporters keep class names."""

FIX_SHAPE = (
    "python -m onnxruntime.tools.make_dynamic_shape_fixed --input_name INPUT --input_shape 1,3,48,320"
    " model.onnx fixed.onnx"
)
"""A tool that onnxruntime brings along."""

MOST_ROWS = 4096
"""Largest fixed batch size that a file is believed."""


@dataclass(frozen=True, kw_only=True, eq=False)
class OnnxEncoder:
    """An ONNX graph up to the input of its head."""

    session: Any
    """The open model."""
    feed: str
    """Name of its one input."""
    dtype: np.dtype[Any]
    """Type of that input."""
    batch: int | None
    """The batch size, where the graph fixes it."""
    end: LinearEnd
    """Where the head is."""
    tap: str
    """Name of the graph output that was added to read the features."""
    pick: str = "only"
    """How several positions become one feature vector (a name of ``PICKS``)."""

    def __call__(self, images: Tensor) -> Features:
        """Run the graph up to its head, and refuse it where its answers are not those of the head."""
        positions, output = self.run(images)
        features, head = PICKS[self.pick](positions), self.end.head
        finite = torch.isfinite(output).all(1) & torch.isfinite(features).all(1)  # what is not is another's to refuse
        call = LinearCall(positions=features[finite, None], weight=head.weight, bias=head.bias)
        if explain(call, output[finite]) is None:
            raise no_linear_end(self.end.output, f"a {self.end.kind} and something else, which these inputs show")
        return features

    def run(self, images: Tensor) -> tuple[Positions, Logits]:
        """Return what enters the head and what the graph answers, in batches of the fixed size where there is one."""
        entered, answered = [], []
        for chunk in torch.split(images, self.batch or max(1, len(images))):
            rows, missing = len(chunk), (self.batch or len(chunk)) - len(chunk)
            full = torch.cat([chunk, chunk[-1:].expand(missing, *chunk.shape[1:])])
            features, output = self._run(full, rows)
            entered.append(self.end.positions(features.float(), len(full))[:rows])
            if output.numel() % len(full):
                raise _no_class(list(output.shape))
            answered.append(output.float().reshape(len(full), -1)[:rows])
        return torch.cat(entered), torch.cat(answered)

    def _run(self, images: Tensor, rows: int) -> tuple[Tensor, Tensor]:
        values = images.detach().cpu().numpy().astype(self.dtype)
        try:
            features, output = run(self.session, [self.tap, self.end.output], {self.feed: values}, rows=rows)
        except UnsafeFileError:
            raise
        except Exception as problem:
            raise cannot_process(images, problem) from None
        return torch.from_numpy(features), torch.from_numpy(output)


Declared = tuple[int | None, ...] | None
"""Dimensions of the graph's input, None where any size goes; None altogether if nothing is declared."""


class OnnxLoader(Loader):
    """An ONNX classifier: its head from the graph's constants, its encoder by onnxruntime on the CPU."""

    name = "onnx"
    description = "an .onnx file"
    suffixes = (".onnx",)

    def accepts(self, source: object) -> bool:
        """Look at the first bytes: a file with another name may be one, and one with this name a state dict."""
        if not isinstance(source, Path) or not source.is_file() or looks_like_tensors(source):
            return False
        return super().accepts(source) or looks_like_onnx(source)

    def load(self, source: Path, options: Options) -> Release:
        """Load the file, whatever is wrong with it being one message."""
        try:
            return _load(source, options)
        except SfraError:
            raise
        except Exception as problem:  # a graph of a stranger: onnx raises whatever it runs into
            raise unreadable(source, f"{type(problem).__name__}: {problem}", expected=COMPLETE) from None


def _load(file: Path, options: Options) -> Release:
    model = read_model(file)
    digest = hashlib.sha256(model.SerializeToString(deterministic=True)).hexdigest()
    feed, dtype, shape = _input(model)
    ends = _ends(model, evaluator(model, file))
    taps = _tap(model, ends)
    session, batch = open_session(model), shape[0] if shape else None
    encoders = [
        OnnxEncoder(session=session, feed=feed, dtype=dtype, batch=batch, end=end, tap=tap)
        for end, tap in zip(ends, taps, strict=True)
    ]
    given = None if options.example is None else [two_rows(options.example)]
    encoder = _choose(encoders, given or _batches(shape, options.shape))
    head = encoder.end.head
    return Release(
        head=head,
        encoder=encoder,
        source=f"ONNX file {file.name} ({encoder.end.kind} head)",
        fingerprint=digest,
        class_names=_names({entry.key: entry.value for entry in model.metadata_props}, head.classes),
    )


def _input(model: Any) -> tuple[str, np.dtype[Any], Declared]:
    """Return name, type and declared shape of the one input."""
    initial = {tensor.name for tensor in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in initial]
    if len(inputs) != 1:
        raise InputError(
            "the model does not take one batch of images",
            expected="one input",
            got=one_line(", ".join(value.name for value in inputs) or "none", 120),
            do="export it with the other inputs fixed, or audit its last layer alone: .npz, and features in --data",
        )
    kind = inputs[0].type.tensor_type
    dtype = np.dtype(require("onnx", extra="onnx").helper.tensor_dtype_to_np_dtype(kind.elem_type))
    shape = tuple(d.dim_value if d.dim_value > 0 else None for d in kind.shape.dim)
    if shape and (shape[0] or 1) > MOST_ROWS:
        raise InputError("the model's batch size makes no sense", expected=f"at most {MOST_ROWS} images", got=shape[0])
    return inputs[0].name, dtype, shape if kind.HasField("shape") else None


def _ends(model: Any, evaluate: Evaluate) -> list[LinearEnd]:
    """Return the linear nodes that may have made the outputs; refuse if there is none."""
    ends: dict[tuple[str, str], LinearEnd] = {}
    problems = []
    for output in sorted((value.name for value in model.graph.output), key=lambda name: name != "logits"):
        try:
            end = find_end(model.graph, output, evaluate)
        except InputError as problem:
            problems.append(problem)
        else:
            ends.setdefault((end.features, end.kind), end)
    if not ends:
        raise problems[0] if problems else no_linear_end("(none)", "nothing")
    return list(ends.values())


def _tap(model: Any, ends: list[LinearEnd]) -> list[str]:
    """Add one output per linear end that repeats the node's input; return the names of these outputs."""
    onnx = require("onnx", extra="onnx")
    taken = {name for node in model.graph.node for name in (*node.input, *node.output)}
    taps = [f"features_{number}" for number in range(len(ends))]
    while taken & set(taps):
        taps = [f"{tap}_" for tap in taps]
    for tap, end in zip(taps, ends, strict=True):
        model.graph.node.append(onnx.helper.make_node("Identity", [end.features], [tap]))
        model.graph.output.append(onnx.ValueInfoProto(name=tap))
    return taps


def _batches(shape: Declared, other: tuple[int, ...] | None) -> Iterator[Tensor]:
    """Yield noise of every usual shape that agrees with what the graph declares, then with its gaps filled."""
    dims = shape[1:] if shape else None
    fixed = [tuple(d for d in dims if d is not None)] if dims and None not in dims else []
    sides = dict.fromkeys(side for *_, side in USUAL_SHAPES) if dims and len(dims) > 1 else {}
    filled = [tuple(d or side for d in dims or ()) for side in sides]
    for usual in dict.fromkeys((*fixed, *USUAL_SHAPES, *([] if other is None else [other]), *filled)):
        agrees = dims is None or (
            len(dims) == len(usual) and all(d in (None, u) for d, u in zip(dims, usual, strict=True))
        )
        if agrees and math.prod(usual) <= LARGEST:
            yield noise((2, *usual))


def _choose(encoders: list[OnnxEncoder], batches: Iterable[Tensor]) -> OnnxEncoder:
    """Run the graph on the first batch that fits and return the encoder whose head gives its output."""
    problem = None
    for batch in batches:
        try:
            runs = [encoder.run(batch) for encoder in encoders]
        except InputError as failure:
            problem = failure
            continue
        found = []
        for encoder, (positions, output) in zip(encoders, runs, strict=True):
            head = encoder.end.head
            if len(encoders) == 1 and output.shape[1] > head.classes:
                raise _no_class(f"{output.shape[1]} for {head.classes} outputs of the last layer")
            pick = explain(LinearCall(positions=positions, weight=head.weight, bias=head.bias), output)
            found += [replace(encoder, pick=pick)] if pick else []
        return _only(found, encoders[0].end)
    raise InputError(
        "no usual input fits this model" if problem else "the graph does not say what its input looks like",
        expected="a shape that the file declares",
        got=one_line(problem.__context__ or problem) if problem else None,
        do=f"give it images as it takes them, --data with --size (in Python also example=); or write the shape into"
        f" the file: {FIX_SHAPE}",
    )


def _no_class(got: object) -> InputError:
    return InputError(
        "the model does not answer one class for each input",
        expected="one row of scores for each input",
        got=f"{got}: a sequence, a map, or several answers",
        do="an audit is of a classifier; a head by itself can be audited as .npz",
    )


def _only(found: list[OnnxEncoder], first: LinearEnd) -> OnnxEncoder:
    """Return the encoder of the only output with a linear end, or of the one that is called logits."""
    if not found:
        raise no_linear_end(first.output, f"a {first.kind} whose result is not the output")
    if len(found) > 1 and found[0].end.output != "logits":
        raise InputError(
            "the model has several outputs with a linear end",
            expected="one output of scores, or one that is called 'logits'",
            got=one_line(", ".join(encoder.end.output for encoder in found), 120),
            do="export the model with its logits as the only output",
        )
    return found[0]


def _names(metadata: dict[str, str], classes: int) -> tuple[str, ...] | None:
    """Read class names from the metadata: as JSON, as a Python literal, or one in each line."""
    for text in (metadata[key] for key in NAME_KEYS if key in metadata):
        for parse in (json.loads, ast.literal_eval, str.splitlines):
            try:
                names = clean_names(parse(text), classes)
            except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
                continue
            if names is not None:
                return names
    return None
