"""The linear end of an ONNX graph, found by walking back from an output."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from sfra.core.errors import InputError
from sfra.core.head import Head
from sfra.release.foreign import HEAD_OF
from sfra.release.onnx_file import Evaluate
from sfra.release.watch import Positions

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
