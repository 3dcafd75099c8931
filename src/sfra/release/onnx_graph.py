"""Find the linear end of an ONNX graph: walk back from an output to the matrix that made it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from sfra.core.errors import InputError
from sfra.core.head import Head
from sfra.release.linear_end import Positions

PASSED = {"Softmax", "LogSoftmax", "Identity", "Flatten", "Reshape", "Squeeze", "Unsqueeze", "Dropout", "Cast"}
"""Operations after the head that keep its scores, or their order; a run confirms it."""

POOLS = {"GlobalAveragePool", "ReduceMean", "AveragePool"}
"""Poolings that commute with a 1x1 convolution."""

Evaluate = Callable[[str], NDArray[Any]]
"""From the name of a constant tensor to its value."""


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
    name, added = output, []
    for _ in range(len(graph.node) + 1):
        node = producers.get(name)
        if node is None:
            break
        if node.op_type == "Add" and len(node.input) == 2 and sum(i in fixed for i in node.input) == 1:
            name, term = sorted(node.input, key=lambda operand: operand in fixed)
            added.append(term)
        elif node.op_type in PASSED | POOLS:
            name = node.input[0]
        elif node.op_type in READERS and len(node.input) >= 2 and node.input[1] in fixed:
            return _end(node, output, added, evaluate)
        else:
            break
    last = "an input" if node is None else f"the operation {node.op_type}"
    raise no_linear_end(output, last)


def no_linear_end(output: str, last: str) -> InputError:
    """Say that the scores are not those of a linear layer, and what they come from instead."""
    return InputError(
        "no linear layer produces this model's scores",
        expected="a Gemm, a MatMul (and Add) or a 1x1 Conv with constant weights; a softmax may follow",
        got=f"the output {output!r} comes from {last}",
        do="export the model up to its logits; a head by itself can be audited as .npz",
    )


def _end(node: Any, output: str, added: list[str], evaluate: Evaluate) -> LinearEnd:
    weight, bias, transposed = READERS[node.op_type](node, evaluate)
    if weight is None:
        raise no_linear_end(output, f"a {node.op_type} that is not a linear layer")
    for term in added:
        bias = bias + np.asarray(evaluate(term), dtype=np.float64).reshape(-1)
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
