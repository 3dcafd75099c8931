"""Read an ONNX file into memory: data only, complete, and nothing from outside its own directory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfra.core.errors import InputError, UnsafeFileError
from sfra.release.base import one_line, require


def read_model(file: Path) -> Any:
    """Return the model with all its tensors inside and its local functions expanded."""
    onnx = require("onnx", extra="onnx")
    try:
        model = onnx.load(file, load_external_data=False)
    except Exception as problem:
        raise unreadable(file, problem) from None
    if not model.graph.node:
        raise unreadable(file, "no operations in it")
    texts = [text for node in model.graph.node for text in (node.op_type, *node.input, *node.output)]
    texts += [part.name for part in (*model.graph.input, *model.graph.output, *model.graph.initializer)]
    if not all(isinstance(text, str) for text in texts):  # what is not UTF-8 is left as bytes
        raise unreadable(file, "names that are not text")
    for tensor in external_tensors(model):
        _check_location(file, tensor)
    try:
        onnx.load_external_data_for_model(model, str(file.parent))
        if model.functions:
            model = onnx.inliner.inline_local_functions(model)
    except Exception as problem:
        raise unreadable(file, problem) from None
    if next(external_tensors(model), None) is not None:
        raise unreadable(file, "tensors outside the file in a place that is not supported")
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
    """Return a function from a constant tensor's name to its value, computed by onnxruntime if need be."""
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


def unreadable(file: Path, problem: object) -> InputError:
    """Say that a file is no model that can be read."""
    return InputError(
        f"{file.name} cannot be read",
        expected="a complete ONNX model",
        got=one_line(problem),
        do="it may be truncated or not be ONNX: export or download it again",
    )
