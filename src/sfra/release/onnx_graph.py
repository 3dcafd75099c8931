"""ONNX files: read as data, from their own directory only; and the linear end of a graph, found by walking back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from sfra.core.errors import InputError, UnsafeFileError
from sfra.core.head import Head
from sfra.release.base import one_line, require, unreadable
from sfra.release.foreign import HEAD_OF
from sfra.release.watch import Positions

COMPLETE = "a complete ONNX model"

PASSED = {"Softmax", "LogSoftmax", "Identity", "Flatten", "Reshape", "Squeeze", "Unsqueeze", "Dropout", "Cast"}
"""Operations after the head that keep its scores, or their order; a run confirms it."""

WRITTEN_OUT = {"Exp", "Log", "Div", "Sub"}
"""Operations of a softmax or log-softmax that is written out; what they subtract or divide by is a sum or a maximum."""

OPERATIONS: dict[str, Callable[..., NDArray[Any]]] = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Div": np.divide,
}
"""Operations with a constant that are folded into the head: a bias, a temperature, a fixed scale."""

QUANTISED = {"DequantizeLinear", "QuantizeLinear", "QLinearMatMul", "MatMulInteger", "QGemm", "QLinearConv"}
QUANTISED |= {"ConvInteger", "DynamicQuantizeLinear", "DynamicQuantizeMatMul", "MatMulNBits", "MatMulIntegerToFloat"}
"""Operations of a head that computes with whole numbers."""

POOLS = {"GlobalAveragePool", "ReduceMean", "AveragePool"}
"""Poolings that commute with a 1x1 convolution."""

Evaluate = Callable[[str], NDArray[Any]]
"""From the name of a constant tensor to its value."""


def read_model(file: Path) -> Any:
    """Return the model with all its tensors inside and its local functions expanded."""
    onnx = require("onnx", extra="onnx")
    try:
        model = onnx.load(file, load_external_data=False)
    except Exception as problem:
        raise unreadable(file, problem, expected=COMPLETE) from None
    if not model.graph.node:
        raise unreadable(file, "no operations in it", expected=COMPLETE)
    texts = [text for node in model.graph.node for text in (node.op_type, *node.input, *node.output)]
    texts += [part.name for part in (*model.graph.input, *model.graph.output, *model.graph.initializer)]
    if not all(isinstance(text, str) for text in texts):  # what is not UTF-8 is left as bytes
        raise unreadable(file, "names that are not text", expected=COMPLETE)
    for tensor in external_tensors(model):
        _check_location(file, tensor)
    try:
        onnx.load_external_data_for_model(model, str(file.parent))
        if model.functions:
            model = onnx.inliner.inline_local_functions(model)
    except Exception as problem:
        raise unreadable(file, problem, expected=COMPLETE) from None
    if next(external_tensors(model), None) is not None:
        raise unreadable(file, "tensors outside the file in a place that is not supported", expected=COMPLETE)
    return model


def external_tensors(model: Any) -> Iterator[Any]:
    """Yield every tensor whose data is in another file, from nested graphs and functions too."""
    tensors = list(model.graph.initializer)
    graphs, nodes = [model.graph], [node for function in model.functions for node in function.node]
    while graphs or nodes:
        if graphs:
            graph = graphs.pop()
            nodes.extend(graph.node)
            tensors.extend(graph.initializer)
            sparse = list(graph.sparse_initializer)
        else:
            node = nodes.pop()
            graphs.extend(a.g for a in node.attribute if a.HasField("g"))
            graphs.extend(g for a in node.attribute for g in a.graphs)
            tensors.extend(t for a in node.attribute for t in (a.t, *a.tensors))
            sparse = [s for a in node.attribute for s in (a.sparse_tensor, *a.sparse_tensors)]
        tensors.extend(part for s in sparse for part in (s.values, s.indices))
    yield from (tensor for tensor in tensors if tensor.data_location == tensor.EXTERNAL)


def evaluator(model: Any) -> Callable[[str], NDArray[Any]]:
    """Return a function from a constant tensor's name to its value, computed by onnxruntime where necessary."""
    onnx = require("onnx", extra="onnx")
    initial = {tensor.name: tensor for tensor in model.graph.initializer}
    producers = {name: node for node in model.graph.node for name in node.output}

    def evaluate(name: str) -> NDArray[Any]:
        if name in initial:
            return _array(initial[name])
        needed, waiting = set(), [name]
        while waiting:
            current = waiting.pop()
            if current not in needed:
                needed.add(current)
                waiting.extend(producers[current].input if current in producers else ())
        graph = onnx.helper.make_graph(
            [node for node in model.graph.node if needed & set(node.output)],
            "constants",
            [],
            [onnx.ValueInfoProto(name=name)],
            initializer=[tensor for key, tensor in initial.items() if key in needed],
        )
        part = onnx.helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version)
        return np.asarray(open_session(part).run(None, {})[0], dtype=np.float64)

    return evaluate


def open_session(model: Any) -> Any:
    """Open a model in onnxruntime: CPU, standard operations only, silent."""
    runtime = require("onnxruntime", extra="onnx")
    options = runtime.SessionOptions()
    options.log_severity_level = 4
    # Quantised weights are dequantised, as the graph says, and not fused into coarser integer products.
    options.add_session_config_entry("session.disable_quant_qdq", "1")
    try:
        return runtime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"], enable_fallback=0
        )
    except Exception as problem:
        raise InputError(
            "onnxruntime cannot open the model",
            expected="a valid ONNX model of standard operations, below 2 GB",
            got=one_line(problem),
            do="export it again, with a newer opset or without custom operations",
        ) from None


def _array(tensor: Any) -> NDArray[Any]:
    try:
        return np.asarray(require("onnx", extra="onnx").numpy_helper.to_array(tensor), dtype=np.float64)
    except (TypeError, ValueError, MemoryError, OverflowError) as problem:
        raise InputError(
            "the weights of the head cannot be read",
            expected="as many numbers as their shape says",
            got=one_line(f"{tensor.name}: {problem}"),
        ) from None


def _check_location(file: Path, tensor: Any) -> None:
    """Refuse external data that is not an ordinary file below the model's own directory."""
    location = next((entry.value for entry in tensor.external_data if entry.key == "location"), "")
    folder = file.parent.resolve()
    target = folder / location
    if not location or not target.resolve().is_relative_to(folder):
        raise UnsafeFileError(
            f"{file.name} keeps weights outside its own directory: they were not opened",
            expected="names of files next to the model",
            got=one_line(location or "no name", 120),
        )
    if not target.is_file():
        raise InputError(
            f"{file.name} is incomplete",
            expected=f"the weights in {one_line(location, 120)} next to it",
            got="no such file",
            do="copy both files, or export the model into one file",
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class LinearEnd:
    """A linear node with constant weights that an output comes from."""

    output: str
    """The graph output."""
    features: str
    """The tensor that enters the node."""
    head: Head
    """The node's weights."""
    kind: str
    """The node: Gemm, MatMul or Conv."""
    transposed: bool = False
    """Whether a Gemm reads its input transposed."""

    def positions(self, features: Tensor, rows: int) -> Positions:
        """Bring the captured input to ``[n, t, d]``."""
        if self.kind == "Conv":
            features = features.flatten(2).transpose(1, 2)
        elif self.transposed:
            features = features.T
        return features.reshape(rows, -1, self.head.width)


def constants(graph: Any) -> set[str]:
    """Name every tensor that does not depend on the graph's input (nodes are in order, as ONNX demands)."""
    known = {tensor.name for tensor in graph.initializer} | {""}
    for node in graph.node:
        plain = not any(attribute.HasField("g") or attribute.graphs for attribute in node.attribute)
        if plain and not node.op_type.startswith("Random") and all(name in known for name in node.input):
            known.update(node.output)
    return known - {""}


def find_end(graph: Any, output: str, evaluate: Evaluate) -> LinearEnd:
    """Walk back from an output, through what keeps the scores, to the linear node; else say what is there."""
    fixed = constants(graph)
    producers = {name: node for node in graph.node for name in node.output}
    name, steps = output, list[tuple[str, str]]()
    for _ in range(len(graph.node) + 1):
        node = producers.get(name)
        if node is None:
            break
        operands = [_before_repeated(operand, producers) for operand in node.input]
        known = [operand in fixed for operand in operands]
        either = node.op_type in ("Add", "Mul") and sorted(known) == [False, True]
        if either or (node.op_type in OPERATIONS and known == [False, True]):
            name, term = sorted(operands, key=lambda operand: operand in fixed)
            steps.append((node.op_type, term))
        elif node.op_type in PASSED | POOLS | WRITTEN_OUT and known and not known[0]:
            name = node.input[0]
        elif node.op_type in READERS and len(node.input) >= 2 and node.input[1] in fixed:
            return _end(node, output, steps, evaluate)
        else:
            break
    if node is None:
        raise no_linear_end(output, "an input")
    near = [node, *(producers[name] for name in node.input if name in producers)]
    near += [producers[name] for one in near[1:] for name in one.input if name in producers]
    whole = sorted({one.op_type for one in near if one.op_type in QUANTISED})
    if whole:
        raise no_linear_end(output, f"a quantised layer ({', '.join(whole)})", do=BEFORE_QUANTISED)
    fitted = node.op_type == "LinearClassifier"  # scikit-learn: its inputs are the features
    raise no_linear_end(output, f"the operation {node.op_type}", do=HEAD_OF if fitted else CUT)


def _before_repeated(name: str, producers: Mapping[str, Any]) -> str:
    """Return what a graph repeats to the shape of the scores, such as a temperature; else the tensor itself."""
    node = producers.get(name)
    return str(node.input[0]) if node is not None and node.op_type == "Expand" and node.input else name


BEFORE_QUANTISED = "audit the ONNX file before it was quantised; weights alone may be quantised, not the products"
CUT = (
    "export the model up to its logits, or cut it there: onnx.utils.extract_model('model.onnx', 'logits.onnx',"
    " ['INPUT'], ['LOGITS']); a head by itself can be audited as .npz"
)


def no_linear_end(output: str, last: str, do: str = CUT) -> InputError:
    """Say that the scores are not those of a linear layer, and what they come from instead."""
    return InputError(
        "no linear layer produces this model's scores",
        expected="a Gemm, a MatMul (and Add) or a 1x1 Conv with constant weights; a softmax may follow",
        got=f"the output {output!r} comes from {last}",
        do=do,
    )


def _end(node: Any, output: str, steps: list[tuple[str, str]], evaluate: Evaluate) -> LinearEnd:
    """Read the node, and fold what follows it into the head: ``s (W z + b) + t = (s W) z + (s b + t)``."""
    weight, bias, transposed = READERS[node.op_type](node, evaluate)
    if weight is None:
        raise no_linear_end(output, f"a {node.op_type} that is not a linear layer")
    for operation, term in reversed(steps):
        value = np.asarray(evaluate(term), dtype=np.float64).reshape(-1)
        if value.shape not in ((1,), weight.shape[:1]):
            raise no_linear_end(
                output, f"a {node.op_type} and {operation} of {value.size} numbers for {len(weight)} rows"
            )
        with np.errstate(all="ignore"):  # what is not finite is refused with the head
            bias = OPERATIONS[operation](bias, value)
            weight = OPERATIONS[operation](weight, value[:, None]) if operation in ("Mul", "Div") else weight
    if bias.shape not in ((1,), weight.shape[:1]):
        raise no_linear_end(output, f"a {node.op_type} whose bias has {bias.size} entries for {len(weight)} rows")
    return LinearEnd(
        output=output,
        features=node.input[0],
        head=Head(weight, np.broadcast_to(bias, weight.shape[:1])),
        kind=node.op_type,
        transposed=transposed,
    )


Parts = tuple[NDArray[Any] | None, NDArray[Any], bool]


def _attributes(node: Any) -> dict[str, Any]:
    return {a.name: a.f if a.type == a.FLOAT else a.i for a in node.attribute if a.type in (a.FLOAT, a.INT)}


def _bias(node: Any, evaluate: Evaluate) -> NDArray[Any]:
    if len(node.input) < 3 or not node.input[2]:
        return np.zeros(1)
    return np.asarray(evaluate(node.input[2]), dtype=np.float64).reshape(-1)


def _gemm(node: Any, evaluate: Evaluate) -> Parts:
    """Read ``Y = alpha A' B' + beta C``."""
    settings = {"alpha": 1.0, "beta": 1.0, "transA": 0, "transB": 0, **_attributes(node)}
    B = np.asarray(evaluate(node.input[1]), dtype=np.float64)
    weight = settings["alpha"] * (B if settings["transB"] else B.T)
    return weight, settings["beta"] * _bias(node, evaluate), bool(settings["transA"])


def _matmul(node: Any, evaluate: Evaluate) -> Parts:
    W = np.asarray(evaluate(node.input[1]), dtype=np.float64)
    return (W.T if W.ndim == 2 else None), np.zeros(1), False


def _conv(node: Any, evaluate: Evaluate) -> Parts:
    W = np.asarray(evaluate(node.input[1]), dtype=np.float64)
    pointwise = W.ndim > 2 and set(W.shape[2:]) == {1} and _attributes(node).get("group", 1) == 1
    return (W.reshape(W.shape[:2]) if pointwise else None), _bias(node, evaluate), False


READERS: dict[str, Callable[[Any, Evaluate], Parts]] = {"Gemm": _gemm, "MatMul": _matmul, "Conv": _conv}
