"""ONNX graphs: the linear end is found in the graph and confirmed by a run."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
import warnings
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import nn

from builders.releases import answer, encoder
from sfra.core.errors import InputError, SfraError, UnsafeFileError
from sfra.release import Release, load

onnx = pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")
helper, FLOAT = onnx.helper, onnx.TensorProto.FLOAT
C, D = 5, 6
RNG = np.random.default_rng(0)
W, B = RNG.normal(size=(C, D)).astype(np.float32), RNG.normal(size=C).astype(np.float32)


WEIGHTS: dict[str, Any] = {
    "w": W,
    "wt": W.T,
    "b": B,
    "t": np.float32(2.5),
    "kernel": W[:, :, None, None],
    "last": np.array([1]),
    "half": W.T.astype(np.float16),
    "whole": np.round(W.T * 40).astype(np.int8),
    "step": np.float32(1 / 40),
}
"""Constants that graphs may name."""


def tensor(name: str, values: Any) -> Any:
    return onnx.numpy_helper.from_array(np.ascontiguousarray(values) if np.ndim(values) else np.asarray(values), name)


def graph(
    end: str,
    *,
    shape: Sequence[int | str] | None = ("n", D),
    outputs: Sequence[str] = ("y",),
    metadata: dict[str, str] | None = None,
    first: Sequence[Any] = (),
    **weights: Any,
) -> Any:
    """Make a model whose trunk is ``z = Relu(x)`` and whose end is written as ``onnx.parser`` reads it.

    Constants are those of ``WEIGHTS``, further arrays and ready tensors; ``first`` are nodes with such inside.
    """
    nodes = onnx.parser.parse_graph(f"g (float x) => (float y) {{ z = Relu(x) {end} }}").node
    used = {name for node in nodes for name in node.input}
    constants = {name: values for name, values in (WEIGHTS | weights).items() if name in used}
    made = helper.make_graph(
        [*first, *nodes],
        "g",
        [helper.make_tensor_value_info("x", FLOAT, shape)],
        [onnx.ValueInfoProto(name=name) for name in outputs],
        initializer=[v if isinstance(v, onnx.TensorProto) else tensor(name, v) for name, v in constants.items()],
    )
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    helper.set_model_props(model, metadata or {})
    return model


def inputs(model: Any, rows: int) -> NDArray[Any]:
    dims = model.graph.input[0].type.tensor_type.shape.dim
    sides = [d.dim_value or 4 for d in dims[1:]] if dims else [D]
    return RNG.normal(size=(rows, *sides)).astype(np.float32)


def scores(model: Any, x: NDArray[Any]) -> NDArray[Any]:
    """Run the untouched model, unoptimised, each row in a batch of the model's own size."""
    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = runtime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    size = model.graph.input[0].type.tensor_type.shape.dim[0].dim_value or 1
    rows = [session.run(None, {"x": np.repeat(row[None], size, axis=0)})[0][0] for row in x]
    return np.stack(rows).reshape(len(x), -1)


def saved(model: Any, folder: Path, name: str = "model.onnx") -> Path:
    onnx.save(model, folder / name)
    return folder / name


def encoded(release: Release, x: NDArray[Any]) -> NDArray[Any]:
    return answer(release, torch.from_numpy(x)).numpy()


IMAGE = ("n", D, 2, 2)
GRAPHS: dict[str, Any] = {
    "gemm transB": graph("y = Gemm<transB=1>(z, w, b)"),
    "gemm": graph("y = Gemm(z, wt, b)"),
    "gemm without bias": graph("y = Gemm(z, wt)"),
    "gemm alpha beta": graph("y = Gemm<alpha=2.0, beta=-0.5>(z, wt, b)"),
    "gemm transA": graph("zt = Transpose<perm=[1, 0]>(z) y = Gemm<transA=1, transB=1>(zt, w, b)"),
    "gemm scalar bias": graph("y = Gemm(z, wt, t)"),
    "gemm row bias": graph("y = Gemm(z, wt, row)", row=B[None]),
    "matmul add": graph("m = MatMul(z, wt) y = Add(m, b)"),
    "add matmul": graph("m = MatMul(z, wt) y = Add(b, m)"),
    "matmul": graph("y = MatMul(z, wt)"),
    "matmul of input": graph("y = MatMul(x, wt)"),
    "matmul of constant node": graph(
        "y = MatMul(z, c)", first=[helper.make_node("Constant", [], ["c"], value=tensor("v", W.T))]
    ),
    "weights through identity and transpose": graph(
        "i = Identity(w) r = Transpose<perm=[1, 0]>(i) m = MatMul(z, r) ib = Identity(b) y = Add(m, ib)"
    ),
    "weights in half precision": graph("f = Cast<to=1>(half) y = MatMul(z, f)"),
    "weights that are quantised": graph("f = DequantizeLinear(whole, step) y = MatMul(z, f)"),
    "conv on one pixel": graph("p = GlobalAveragePool(z) c = Conv(p, kernel, b) y = Flatten(c)", shape=IMAGE),
    "conv then pool": graph(
        "c = Conv<kernel_shape=[1, 1]>(z, kernel, b) p = GlobalAveragePool(c) y = Squeeze(p, axes)",
        axes=np.array([2, 3]),
        shape=IMAGE,
    ),
    "conv with a bias added later": graph(
        "c = Conv(z, kernel) a = Add(c, b4) y = GlobalAveragePool(a)", b4=B[None, :, None, None], shape=IMAGE
    ),
    "tokens then mean": graph(
        "m = MatMul(z, wt) a = Add(m, b) y = ReduceMean<axes=[1], keepdims=0>(a)", shape=("n", 3, D)
    ),
    "reshape": graph("g = Gemm(z, wt, b) y = Reshape(g, s)", s=np.array([-1, C])),
    "fixed batch": graph("y = Gemm(z, wt, b)", shape=(4, D)),
    "batch of one": graph("y = Gemm(z, wt, b)", shape=(1, D)),
    "softmax": graph("g = Gemm(z, wt, b) y = Softmax<axis=1>(g)"),
    "log softmax": graph("g = Gemm(z, wt, b) y = LogSoftmax(g)"),
    "softmax written out": graph("g = Gemm(z, wt, b) e = Exp(g) s = ReduceSum(e, last) y = Div(e, s)"),
    "softmax written out, less the maximum": graph(
        "g = Gemm(z, wt, b) h = ReduceMax<axes=[1]>(g) d = Sub(g, h) e = Exp(d) s = ReduceSum(e, last) y = Div(e, s)"
    ),
    "log softmax as a difference": graph("g = Gemm(z, wt, b) s = ReduceLogSumExp<axes=[1]>(g) y = Sub(g, s)"),
    "log softmax as the logarithm of one": graph("g = Gemm(z, wt, b) p = Softmax<axis=1>(g) y = Log(p)"),
    "temperature": graph("g = Gemm(z, wt, b) y = Div(g, t)"),
    "temperature, repeated for each score": graph(
        "g = Gemm(z, wt, b) size = Shape(g) repeated = Expand(t, size) y = Div(g, repeated)"
    ),
    "temperature, then softmax": graph("g = Gemm(z, wt, b) d = Div(g, t) y = Softmax<axis=1>(d)"),
    "scale, then shift": graph("m = MatMul(z, wt) s = Mul(t, m) y = Sub(s, b)"),
    "shift, then a scale for each output": graph("m = MatMul(z, wt) a = Add(m, b) y = Mul(a, b)"),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_head_of_encoder_is_the_graph(tmp_path: Path, name: str) -> None:
    model = GRAPHS[name]
    x = inputs(model, 7)
    release = load(saved(model, tmp_path), example=torch.from_numpy(inputs(model, 2)))
    got, expected = encoded(release, x), scores(model, x)
    np.testing.assert_allclose(encoded(release, x[:1]), got[:1], rtol=1e-4, atol=1e-5)
    if "softmax" in name:
        got = torch.from_numpy(got).log_softmax(1).numpy()
        expected = expected if name.startswith("log") else np.log(expected)
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)
    assert release.head.width == D


def test_loading_leaves_the_file_alone_and_writes_nothing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file = saved(GRAPHS["fixed batch"], tmp_path)
    before = file.read_bytes()
    release = load(file)
    assert file.read_bytes() == before
    assert capfd.readouterr() == ("", "")
    assert release.source == "ONNX file model.onnx (Gemm head)"
    assert release.preprocess is None
    assert load(file).fingerprint == release.fingerprint
    changed = load(saved(GRAPHS["gemm without bias"], tmp_path, "other.onnx"), example=torch.ones(2, D))
    assert changed.fingerprint != release.fingerprint


def test_the_declared_shape_serves_as_example_and_usual_ones_fill_gaps(tmp_path: Path) -> None:
    assert load(saved(GRAPHS["matmul add"], tmp_path)).head.classes == C
    big = RNG.normal(size=(28 * 28, C)).astype(np.float32)
    flat = graph("f = Flatten(z) y = Gemm(f, big)", big=big, shape=("n", "c", "h", "w"))
    assert load(saved(flat, tmp_path)).head.width == 28 * 28
    unknown = graph("y = MatMul(z, wt)", shape=("n", "d"))
    with pytest.raises(InputError, match=r"(?s)does not say what its input looks like.*make_dynamic_shape_fixed"):
        load(saved(unknown, tmp_path))
    last = graph("p = ReduceMean<axes=[1, 2], keepdims=0>(z) y = MatMul(p, wt)", shape=("n", "h", "w", D))
    assert load(saved(last, tmp_path)).head.width == D
    odd = graph("f = Flatten(z) y = MatMul(f, wt)", shape=("n", 1, "h", "w"))
    odd.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", FLOAT, ("n", C)))  # as exporters declare it
    with pytest.raises(InputError, match=r"(?s)no usual input fits.*declares.*make_dynamic_shape_fixed") as refused:
        load(saved(odd, tmp_path))
    assert fixed_as_advised(str(refused.value), tmp_path).head.classes == C
    undeclared = graph("y = MatMul(z, wt)", shape=None)
    assert load(saved(undeclared, tmp_path), example=torch.ones(2, D)).head.classes == C


def fixed_as_advised(message: str, folder: Path) -> Release:
    """Run the command that a message names, and load what it writes."""
    advice = re.search(r"python (-m onnxruntime\.tools\.\S+) (.*) model\.onnx fixed\.onnx", message)
    assert advice is not None
    options = advice[2].replace("INPUT", "x").replace("1,3,48,320", "1,1,2,3")
    line = [sys.executable, *advice[1].split(), *options.split(), folder / "model.onnx", folder / "fixed.onnx"]
    subprocess.run(line, check=True, capture_output=True)
    return load(folder / "fixed.onnx")


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ({"names": "{0: 'a', 1: 'b', 2: 'c', 3: 'd', 4: 'e'}"}, tuple("abcde")),
        ({"class_names": '["a", "b", "c", "d", "e"]'}, tuple("abcde")),
        ({"id2label": '{"0": "a", "1": "b", "2": "c", "3": "d", "4": "\\u001b[2J"}'}, ("a", "b", "c", "d", "?[2J")),
        ({"character": "a\nb\nc\nd\ne"}, tuple("abcde")),
        ({"classes": '["a", "b"]'}, None),
        ({"names": "__import__('os').getcwd()"}, None),
        ({"names": "[" * 5000}, None),
    ],
)
def test_class_names_come_from_the_metadata(
    tmp_path: Path, metadata: dict[str, str], expected: tuple[str, ...] | None
) -> None:
    model = graph("y = Gemm(z, wt, b)", metadata=metadata)
    assert load(saved(model, tmp_path)).class_names == expected


def test_of_several_outputs_the_one_called_logits_counts(tmp_path: Path) -> None:
    nodes, square = "e = MatMul(z, square) l = Gemm(e, wt, b)", RNG.normal(size=(D, D)).astype(np.float32)
    ambiguous = graph(f"{nodes} scores = Identity(l)", square=square, outputs=("e", "scores"))
    with pytest.raises(InputError, match=r"(?s)several outputs with a linear end.*e, scores"):
        load(saved(ambiguous, tmp_path))
    named = graph(f"{nodes} logits = Identity(l)", square=square, outputs=("e", "logits"))
    assert load(saved(named, tmp_path)).head.classes == C
    with_features = graph("y = Gemm(z, wt, b)", outputs=("z", "y"))
    assert load(saved(with_features, tmp_path)).head.classes == C


@pytest.mark.parametrize(
    ("end", "last"),
    [
        ("g = Gemm(z, wt, b) y = Relu(g)", "the operation Relu"),
        ("g = Gemm(z, wt, b) y = Add(g, g)", "the operation Add"),
        ("r = Transpose(z) y = MatMul(z, r)", "the operation MatMul"),
        ("y = Identity(z)", "the operation Relu"),
        ("g = Gemm(z, wt, b) y = Div(b, g)", "the operation Div"),
        ("g = Gemm(z, wt, b) y = Exp(g)", "a Gemm whose result is not the output"),
        ("p = Softmax(z) y = Mul(p, b)", "the operation Relu"),
        ("g = Gemm(z, wt, b) p = Softmax(g) y = Mul(p, b)", "a Gemm whose result is not the output"),
    ],
)
def test_without_a_linear_end_the_last_operation_is_named(tmp_path: Path, end: str, last: str) -> None:
    with pytest.raises(InputError, match=f"(?s)no linear layer produces.*the output 'y' comes from {last}"):
        load(saved(graph(end), tmp_path))


def test_a_quantised_head_is_refused_with_the_way_out(tmp_path: Path) -> None:
    quantization = pytest.importorskip("onnxruntime.quantization")
    plain = saved(GRAPHS["matmul add"], tmp_path)
    logging.disable(logging.WARNING)
    quantization.quantize_dynamic(plain, tmp_path / "small.onnx")
    logging.disable(logging.NOTSET)
    with pytest.raises(InputError, match=r"(?s)a quantised layer \(.*MatMulInteger.*before it was quantised"):
        load(tmp_path / "small.onnx")
    whole = graph("g = Gemm(z, wt, b) q = QuantizeLinear(g, t) y = DequantizeLinear(q, t)")
    with pytest.raises(InputError, match=r"(?s)a quantised layer \(DequantizeLinear, QuantizeLinear\)"):
        load(saved(whole, tmp_path))


def test_a_classifier_of_scikit_learn_is_sent_to_its_own_head(tmp_path: Path) -> None:
    made = graph("label, y = ai.onnx.ml.LinearClassifier<coefficients=[1.0, 2.0]>(z)")
    with pytest.raises(InputError, match=r"(?s)the operation LinearClassifier.*model\.coef_"):
        load(saved(made, tmp_path))


def test_a_sequence_of_answers_is_refused(tmp_path: Path) -> None:
    model = graph("m = MatMul(z, wt) y = Softmax(m)", shape=("n", 3, D))
    with pytest.raises(InputError, match=r"(?s)does not answer one class for each input.*15 for 5 outputs"):
        load(saved(model, tmp_path))
    sequence_first = graph("r = Transpose<perm=[1, 0, 2]>(z) m = MatMul(r, wt) y = Softmax(m)", shape=(1, 3, D))
    with pytest.raises(InputError, match="does not answer one class for each input"):
        load(saved(sequence_first, tmp_path))


def test_an_end_that_only_looks_linear_is_refused_by_the_run(tmp_path: Path) -> None:
    end = "g = Gemm(z, wt, b) r = Reshape(g, s) p = Softmax<axis=1>(r) y = Reshape(p, back)"
    shuffled = graph(end, s=np.array([C, -1]), back=np.array([-1, C]))
    with pytest.raises(InputError, match="a Gemm whose result is not the output"):
        load(saved(shuffled, tmp_path), example=torch.randn(4, D))


def test_an_end_that_looks_linear_until_images_come_is_refused(tmp_path: Path) -> None:
    """Noise has both signs: a class that is masked only where all values are positive shows on images alone."""
    masked = "low = ReduceMin<axes=[1], keepdims=1>(x) positive = Relu(low) much = Mul(positive, mask)"
    model = graph(f"{masked} g = Gemm(z, wt, b) y = Sub(g, much)", mask=np.eye(C, dtype=np.float32)[3] * 1e4)
    release = load(saved(model, tmp_path), example=-torch.ones(2, D))
    with pytest.raises(InputError, match=r"(?s)no linear layer produces.*a Gemm and something else"):
        encoder(release)(torch.ones(3, D))


def test_a_grouped_or_larger_convolution_is_refused(tmp_path: Path) -> None:
    kernel = RNG.normal(size=(C, D, 2, 2)).astype(np.float32)
    larger = graph("c = Conv(z, kernel) y = Flatten(c)", kernel=kernel, shape=IMAGE)
    with pytest.raises(InputError, match="a Conv that is not a linear layer"):
        load(saved(larger, tmp_path), example=torch.randn(2, D, 2, 2))


def test_two_classes_and_bad_numbers_are_refused(tmp_path: Path) -> None:
    two = graph("y = MatMul(z, w2)", w2=W.T[:, :2])
    with pytest.raises(InputError, match="too few classes"):
        load(saved(two, tmp_path))
    broken = graph("y = MatMul(z, wn)", wn=np.full((D, C), np.nan, np.float32))
    with pytest.raises(InputError, match="not finite"):
        load(saved(broken, tmp_path))


def test_two_inputs_are_refused(tmp_path: Path) -> None:
    model = graph("y = Gemm(z, wt, b2)")
    model.graph.input.append(helper.make_tensor_value_info("b2", FLOAT, (C,)))
    with pytest.raises(InputError, match=r"(?s)does not take one batch of images.*x, b2"):
        load(saved(model, tmp_path))


@pytest.mark.parametrize("kind", [0, 999])
def test_an_input_of_no_known_type_is_refused(tmp_path: Path, kind: int) -> None:
    model = graph("y = Gemm(z, wt)")
    model.graph.input[0].type.tensor_type.elem_type = kind
    with pytest.raises(InputError, match=r"model\.onnx cannot be read"):
        load(saved(model, tmp_path))


def test_old_files_that_list_their_weights_as_inputs_are_read(tmp_path: Path) -> None:
    model = GRAPHS["gemm"]
    copy = onnx.ModelProto.FromString(model.SerializeToString())
    copy.graph.input.append(helper.make_tensor_value_info("wt", FLOAT, (D, C)))
    assert np.array_equal(load(saved(copy, tmp_path)).head.weight.numpy(), W)


@pytest.mark.parametrize("name", ["model.bin", "model.pt", "model.ONNX", "model"])
def test_a_graph_is_known_by_its_content(tmp_path: Path, name: str) -> None:
    assert np.array_equal(load(saved(GRAPHS["gemm"], tmp_path, name)).head.weight.numpy(), W)


def test_a_state_dict_that_is_called_a_graph_is_read(tmp_path: Path) -> None:
    torch.save({"fc.weight": torch.from_numpy(W), "fc.bias": torch.from_numpy(B)}, tmp_path / "model.onnx")
    assert np.array_equal(load(tmp_path / "model.onnx").head.weight.numpy(), W)


def called(*, levels: int, calls: int) -> Any:
    """Make a model whose input goes through functions, each of which calls the one below several times."""
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    bodies = [[helper.make_node("Relu", ["a"], ["b"])]]
    for level in range(levels):
        names = ["a", *(f"t{call}" for call in range(calls - 1)), "b"]
        bodies.append([helper.make_node(f"f{level}", [i], [o], domain="own") for i, o in pairwise(names)])
    model = graph(f"q = own.f{levels}(z) y = MatMul(q, wt)")
    model.opset_import.append(opsets[1])
    made = [helper.make_function("own", f"f{i}", ["a"], ["b"], body, opsets) for i, body in enumerate(bodies)]
    model.functions.extend(made)
    return model


def test_functions_of_a_graph_are_put_in_their_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "onnx.inliner", raising=False)  # as in a process that has not needed it yet
    monkeypatch.delattr(onnx, "inliner", raising=False)
    release = load(saved(called(levels=2, calls=3), tmp_path), example=torch.ones(2, D))
    x = inputs(GRAPHS["gemm"], 3)
    np.testing.assert_allclose(encoded(release, x), np.maximum(x, 0) @ W.T, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("levels", [6, 40])
def test_functions_that_multiply_are_not_expanded(tmp_path: Path, levels: int) -> None:
    with pytest.raises(InputError, match=r"(?s)cannot be read.*more than 1,000,000 operations"):
        load(saved(called(levels=levels, calls=10), tmp_path))


def test_a_function_that_calls_itself_is_refused(tmp_path: Path) -> None:
    model = called(levels=1, calls=1)
    model.functions[0].node[0].CopyFrom(helper.make_node("f1", ["a"], ["b"], domain="own"))
    with pytest.raises(InputError, match=r"cannot be read"):
        load(saved(model, tmp_path))


@pytest.mark.parametrize(("rows", "why"), [(12 * 10**6, "would grow to"), (10**8, "cannot be computed")])
def test_weights_made_out_of_nothing_are_refused(tmp_path: Path, rows: int, why: str) -> None:
    model = graph("much = ConstantOfShape(size) y = MatMul(z, much)", size=np.array([D, rows]))
    with pytest.raises(SfraError, match=why):
        load(saved(model, tmp_path))


def test_a_loop_without_end_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sfra.release.onnx_file.PATIENCE", 0.1)
    body = "body (int64 i, bool go, float[] v) => (bool on, float[] sum) { on = Identity(go) sum = Add(v, v) }"
    end = f"q = Loop<body = {body}>(times, yes, z) y = MatMul(q, wt)"
    model = graph(end, times=np.array(2**40), yes=np.array(True))
    with pytest.raises(UnsafeFileError, match="did not finish"):
        load(saved(model, tmp_path), example=torch.ones(2, D))


def test_truncated_files_and_garbage_are_refused(tmp_path: Path) -> None:
    file = saved(GRAPHS["gemm"], tmp_path)
    whole = file.read_bytes()
    damaged = whole.replace(b"Gemm", b"G\xffmm")  # a name that is not text
    for content in (b"", whole[: len(whole) // 3], whole[:-9], b"garbage" * 20, b"\x00" * 100, damaged):
        file.write_bytes(content)
        with pytest.raises(InputError, match=r"(?s)model\.onnx cannot be read.*a complete ONNX model"):
            load(file)


def test_unknown_operations_are_refused(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    model = graph("e = evil.ops.Evil(z) y = MatMul(e, wt)")
    model.opset_import.append(helper.make_opsetid("evil.ops", 1))
    with pytest.raises(InputError, match=r"(?s)onnxruntime cannot open the model.*custom operations"):
        load(saved(model, tmp_path))
    assert capfd.readouterr() == ("", "")


def test_a_graph_that_runs_in_circles_is_refused(tmp_path: Path) -> None:
    model = graph("q = Identity(y) y = Identity(q)")
    with pytest.raises(InputError, match="no linear layer produces"):
        load(saved(model, tmp_path))


def test_a_declared_size_beyond_reason_is_not_believed(tmp_path: Path) -> None:
    rows = graph("y = MatMul(z, wt)", shape=(10**9, D))
    pixels = graph("p = GlobalAveragePool(z) f = Flatten(p) y = MatMul(f, wt)", shape=("n", D, 10**6, 10**6))
    with pytest.raises(InputError, match=r"(?s)batch size makes no sense.*got: +1000000000"):
        load(saved(rows, tmp_path), example=torch.zeros(2, D))
    with pytest.raises(InputError, match="does not say what its input looks like"):
        load(saved(pixels, tmp_path))


def test_weights_that_declare_more_than_they_hold_are_refused(tmp_path: Path) -> None:
    huge = tensor("wt", W.T)
    huge.dims[0] = 10**12
    with pytest.raises(InputError, match=r"(?s)weights of the head cannot be read.*got: +wt"):
        load(saved(graph("y = MatMul(z, wt)", wt=huge), tmp_path))


def external(location: str, folder: Path, *, where: str = "initializer") -> Path:
    """Write a model whose weight is said to be in another file."""
    far = onnx.TensorProto(name="wt", data_type=FLOAT, dims=[D, C], data_location=onnx.TensorProto.EXTERNAL)
    far.external_data.add(key="location", value=location)
    if where == "initializer":
        model = graph("y = MatMul(z, wt)", wt=far)
    else:
        model = graph("y = MatMul(z, far)", first=[helper.make_node("Constant", [], ["far"], value=far)])
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    return folder / "model.onnx"


@pytest.mark.parametrize("where", ["initializer", "constant"])
def test_external_data_next_to_the_model_is_read(tmp_path: Path, where: str) -> None:
    (tmp_path / "sub").mkdir()
    for location in ("weights.bin", "sub/weights.bin"):
        (tmp_path / location).write_bytes(W.T.copy().tobytes())
        assert np.array_equal(load(external(location, tmp_path, where=where)).head.weight.numpy(), W)


@pytest.mark.parametrize("where", ["initializer", "constant"])
@pytest.mark.parametrize("kind", ["parent", "absolute", "link", "linked folder", "nameless"])
def test_external_data_elsewhere_is_refused(tmp_path: Path, where: str, kind: str) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    secret = tmp_path / "secret.bin"
    secret.write_bytes(W.T.copy().tobytes())
    (folder / "link.bin").symlink_to(secret)
    (folder / "up").symlink_to(tmp_path)
    location = {
        "parent": "../secret.bin",
        "absolute": os.fspath(secret),
        "link": "link.bin",
        "linked folder": "up/secret.bin",
        "nameless": "",
    }[kind]
    with pytest.raises(UnsafeFileError, match="keeps weights outside its own directory: they were not opened"):
        load(external(location, folder, where=where))


def test_missing_and_short_external_data_are_refused(tmp_path: Path) -> None:
    file = external("weights.bin", tmp_path)
    with pytest.raises(InputError, match=r"(?s)model\.onnx is incomplete.*weights\.bin"):
        load(file)
    (tmp_path / "weights.bin").write_bytes(b"1234")
    with pytest.raises(InputError, match=r"(?s)weights of the head cannot be read.*got: +wt"):
        load(file)


def test_images_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    release = load(saved(GRAPHS["gemm"], tmp_path))
    with pytest.raises(InputError, match=r"(?s)cannot process these images.*shape \[2, 9\]"):
        encoder(release)(torch.zeros(2, 9))


def test_exports_of_torch_are_read(tmp_path: Path) -> None:
    pytest.importorskip("onnxscript")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = nn.Sequential(
            nn.Conv2d(3, D, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.5), nn.Linear(D, C)
        ).eval()
    images = torch.randn(5, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    logging.disable(logging.WARNING)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dynamic, old = tmp_path / "dynamic.onnx", tmp_path / "old.onnx"
        batch = ({0: torch.export.Dim("batch")},)
        torch.onnx.export(model, (images[:2],), dynamic, dynamo=True, dynamic_shapes=batch, verbose=False)
        torch.onnx.export(model, (images[:2],), str(old), dynamo=False)
    logging.disable(logging.NOTSET)
    with torch.no_grad():
        expected = model(images)
    for file in (dynamic, old):
        torch.testing.assert_close(answer(load(file), images), expected, rtol=1e-4, atol=1e-5)
