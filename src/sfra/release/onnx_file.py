"""ONNX files: read as data, from their own directory only, and run with bounds on time and on what constants take."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from threading import Timer
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfra.core.errors import InputError, SfraError, UnsafeFileError
from sfra.core.files import refuse_growth
from sfra.release.base import one_line, require, unreadable
from sfra.release.foreign import SUFFIXES

COMPLETE = "a complete ONNX model"

FIELDS, VERSIONS = b"\x08\x12\x1a\x22\x28\x32\x3a\x42\x72", range(3, 64)
"""Marks of the fields of an ONNX model, that of its version first; and versions that there are, or may be."""

MOST_NODES = 1_000_000
"""Operations of a model, at most, once its functions are put in their places."""

MOST_MEMORY = 2**30
"""Bytes that computing a constant may take: a graph can make much out of nothing."""

MOST_FOLDED = 2**26
"""Bytes of a constant that is computed when the model is opened, which cannot be stopped."""

PATIENCE = 20.0
"""Seconds that a graph may take for each input: it may hold loops."""

Name = tuple[str, str, str]
"""Domain, name and overload of a function."""

Evaluate = Callable[[str], NDArray[Any]]
"""From the name of a constant tensor to its value."""


def looks_like_onnx(file: Path) -> bool:
    """Tell by its first bytes whether a file may be an ONNX model: a version of the format, then another field of it.

    Core ML models begin like that too, and TensorFlow's graphs with a version that ONNX files no longer have.
    """
    with file.open("rb") as opened:
        start = opened.read(3)
    return (
        len(start) == 3
        and start[0] == FIELDS[0]
        and start[1] in VERSIONS
        and start[2] in FIELDS
        and file.suffix not in SUFFIXES
    )


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
    functions = {_called(function, function.name): function for function in model.functions}
    if _expanded(model.graph.node, functions, {}) > MOST_NODES:
        raise unreadable(file, f"functions that grow to more than {MOST_NODES:,} operations", expected=COMPLETE)
    try:
        onnx.load_external_data_for_model(model, str(file.parent))
        if functions:
            model = require("onnx.inliner", extra="onnx").inline_local_functions(model)
    except Exception as problem:
        raise unreadable(file, problem, expected=COMPLETE) from None
    if next(external_tensors(model), None) is not None:
        raise unreadable(file, "tensors outside the file in a place that is not supported", expected=COMPLETE)
    return model


def _expanded(nodes: Iterable[Any], functions: Mapping[Name, Any], sizes: dict[Name, int]) -> int:
    """Count the operations that are there once every function is put in its places: each may call others many times."""
    count = 0
    for node in nodes:
        name = _called(node, node.op_type)
        if name in functions and name not in sizes:
            sizes[name] = MOST_NODES + 1  # what it counts for if it leads back to itself
            sizes[name] = _expanded(functions[name].node, functions, sizes)
        inner = [graph for attribute in node.attribute for graph in (attribute.g, *attribute.graphs)]
        count += sizes.get(name, 1) + sum(_expanded(graph.node, functions, sizes) for graph in inner)
    return count


def _called(part: Any, name: str) -> Name:
    return part.domain, name, getattr(part, "overload", "")


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


def evaluator(model: Any, file: Path) -> Callable[[str], NDArray[Any]]:
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
        try:
            value = run(open_session(part, bounded=True), None, {}, rows=1)[0]
        except SfraError:
            raise
        except Exception as problem:  # the runtime raises kinds of its own
            raise InputError(
                "the weights of the head cannot be computed",
                expected=f"constants that take at most {MOST_MEMORY / 2**30:.0f} GiB",
                got=one_line(problem),
            ) from None
        refuse_growth(file, value.nbytes)
        return np.asarray(value, dtype=np.float64)

    return evaluate


def run(session: Any, outputs: list[str] | None, feed: Mapping[str, NDArray[Any]], *, rows: int) -> list[NDArray[Any]]:
    """Run a model on some rows, and stop it if it does not end."""
    options = require("onnxruntime", extra="onnx").RunOptions()
    stop = Timer(PATIENCE * rows, setattr, (options, "terminate", True))
    stop.start()
    try:
        found: list[NDArray[Any]] = session.run(outputs, feed, options)
    except Exception:
        if options.terminate:
            raise UnsafeFileError(
                "the model did not finish, and was stopped",
                expected=f"an answer within {PATIENCE:.0f} s for each input",
                do="if it is from someone you trust, export it without loops",
            ) from None
        raise
    finally:
        stop.cancel()
    return found


@cache
def _bound_memory() -> None:
    """Tell the runtime how much memory sessions may take that ask to be bounded."""
    runtime = require("onnxruntime", extra="onnx")
    arena = runtime.OrtAllocatorType.ORT_ARENA_ALLOCATOR
    info = runtime.OrtMemoryInfo("Cpu", arena, 0, runtime.OrtMemType.DEFAULT)
    runtime.create_and_register_allocator(info, runtime.OrtArenaCfg(MOST_MEMORY, -1, -1, -1))


def open_session(model: Any, *, bounded: bool = False) -> Any:
    """Open a model in onnxruntime: CPU, standard operations only, silent, and no large constants computed yet."""
    runtime = require("onnxruntime", extra="onnx")
    options = runtime.SessionOptions()
    options.log_severity_level = 4
    options.add_session_config_entry("optimization.constant_folding_max_output_size_in_bytes", str(MOST_FOLDED))
    if bounded:
        _bound_memory()
        options.add_session_config_entry("session.use_env_allocators", "1")
        options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    # Quantised weights are dequantised, as the graph says, and not fused into coarser integer products.
    options.add_session_config_entry("session.disable_quant_qdq", "1")
    try:
        return runtime.InferenceSession(
            model.SerializeToString(),
            options,
            providers=["CPUExecutionProvider"],
            enable_fallback=0,
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
