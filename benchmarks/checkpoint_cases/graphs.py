"""ONNX files, written by the exporters of torch, and by hand where no exporter writes such a graph."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from checkpoint_cases.case import CLASSES, IMAGE, Made, Maker, add, dense, network, seeded, silent
from checkpoint_cases.modules import End, Ending, Unnormalised, cosine, tempered

FILE = "model.onnx"


def export(model: nn.Module, file: Path, *, dynamo: bool = False, external: bool = False) -> None:
    """Write a graph for batches of any size."""
    with silent():
        if dynamo:
            shapes = ({0: torch.export.Dim("batch")},)
            program = torch.onnx.export(
                model, (torch.zeros(2, *IMAGE),), dynamo=True, dynamic_shapes=shapes, verbose=False
            )
            assert program is not None
            program.save(file, external_data=external)
        else:
            names: dict[str, Any] = {"input_names": ["x"], "dynamic_axes": {"x": {0: "n"}}}
            torch.onnx.export(model, (torch.zeros(2, *IMAGE),), str(file), dynamo=False, **names)


def exported(build: Callable[[], nn.Module], name: str = FILE, **how: bool) -> Maker:
    """Export a network."""

    def make(folder: Path) -> Made:
        model = build()
        export(model, folder / name, **how)
        return Made(source=folder / name, logits=model)

    return make


def ending(end: End, logits: End | None = None, *, dynamo: bool = False) -> Maker:
    """Export a network with an end; ``logits`` is the same without a softmax."""

    def make(folder: Path) -> Made:
        model = seeded(lambda: Ending(end, logits))
        assert isinstance(model, Ending)
        export(model, folder / FILE, dynamo=dynamo)
        return Made(source=folder / FILE, logits=Unnormalised(model))

    return make


def written_out(net: Ending, z: Tensor) -> Tensor:
    """Compute a softmax by hand: Exp, ReduceSum, Div."""
    powers = net.fc(z).exp()
    return powers / powers.sum(dim=1, keepdim=True)


def pooled() -> nn.Module:
    """A network without a linear layer: a convolution of one pixel, then the mean."""
    layers = [nn.Conv2d(1, 16, 3), nn.ReLU(), nn.Conv2d(16, CLASSES, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return seeded(lambda: nn.Sequential(*layers))


def shrunk(weights_only: bool) -> Maker:
    """Quantise a graph: its weights, which the graph dequantises, or the products too."""

    def make(folder: Path) -> Made:
        from onnxruntime.quantization import quantize_dynamic

        export(dense(), folder / "float.onnx")
        if not weights_only:
            with silent():
                quantize_dynamic(folder / "float.onnx", folder / FILE)
            return Made(source=folder / FILE)
        whole = torch.round(dense()[3].weight.detach() * 300)  # type: ignore[index]
        rounded = dense()
        with torch.no_grad():
            rounded[3].weight.copy_(whole / 300)  # type: ignore[index]
        _dequantising(folder, whole.numpy().astype(np.int8))
        return Made(source=folder / FILE, logits=rounded)

    return make


def _dequantising(folder: Path, whole: np.ndarray[Any, Any]) -> None:
    """Let the graph make the weight of its last layer from whole numbers and a scale."""
    import onnx

    model = onnx.load(folder / "float.onnx")
    head = model.graph.node[-1]
    parts = [("whole", whole), ("scale", np.float32(1 / 300)), ("zero", np.int8(0))]
    model.graph.initializer.extend(onnx.numpy_helper.from_array(np.asarray(value), name) for name, value in parts)
    node = onnx.helper.make_node("DequantizeLinear", [name for name, _ in parts], ["dequantised"])
    model.graph.node.insert(0, node)
    head.input[1] = "dequantised"
    onnx.save(model, folder / FILE)


def changed(change: Callable[[Any], object]) -> Maker:
    """Export a network, then change its graph."""

    def make(folder: Path) -> Made:
        import onnx

        export(dense(), folder / FILE)
        model = onnx.load(folder / FILE)
        change(model.graph)
        onnx.save(model, folder / FILE)
        return Made(source=folder / FILE)

    return make


def second_input(graph: Any) -> None:
    """Ask for a second input."""
    graph.input.append(graph.input[0])
    graph.input[1].name = "state"


def any_shape(graph: Any) -> None:
    """Forget the size of the input."""
    for dim in graph.input[0].type.tensor_type.shape.dim:
        dim.Clear()
        dim.dim_param = "any"
    del graph.input[0].type.tensor_type.shape.dim[2:]


add(
    "ONNX",
    {
        "torch, the exporter of today": exported(network, dynamo=True),
        "torch, the exporter of today, weights in a file beside it": exported(network, dynamo=True, external=True),
        "torch, the TorchScript exporter": exported(network),
        "a graph called `.bin`": exported(network, "model.bin"),
        "1×1 convolution, then a mean": exported(pooled),
        "softmax": ending(lambda n, z: n.fc(z).softmax(1), lambda n, z: n.fc(z)),
        "log-softmax": ending(lambda n, z: n.fc(z).log_softmax(1), lambda n, z: n.fc(z), dynamo=True),
        "softmax written out": ending(written_out, lambda n, z: n.fc(z)),
        "temperature": ending(tempered, dynamo=False),
        "temperature, then log-softmax": ending(
            lambda n, z: (n.fc(z) / 2.5).log_softmax(1), lambda n, z: n.fc(z) / 2.5
        ),
        "cosine head": ending(cosine),
        "cosine head, the exporter of today": ending(cosine, dynamo=True),
        "weights that the graph dequantises": shrunk(weights_only=True),
        "quantised products": (shrunk(weights_only=False), "before it was quantised"),
        "sigmoid": (exported(lambda: nn.Sequential(dense(), nn.Sigmoid())), "export the model up to its logits"),
        "two inputs": (changed(second_input), "--data"),
        "an input of any shape": (changed(any_shape), "make_dynamic_shape_fixed"),
        "one output, ONNX": (exported(lambda: dense(1)), "one or two outputs cannot be audited"),
    },
)
