"""Whole inputs of every kind, which the mutations start from: written once, before any of them is changed."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

C, D, FORGET, SIDE = 5, 8, 3, 8
SMALL = ("--n", "60", "--m", "6", "--epochs", "2", "--self-controls", "1", "--seeds", "1")
"""An audit that takes a moment."""

RNG = np.random.default_rng(0)
MEANS = 4 * np.linalg.qr(RNG.normal(size=(D, D)))[0][:C]
LABELS = np.arange(100) % C
FEATURES = (MEANS[LABELS] + RNG.normal(size=(100, D))).astype(np.float32)
WEIGHT, BIAS = (0.75 * MEANS).astype(np.float32), np.zeros(C, np.float32)
HEAD: dict[str, NDArray[Any]] = {"weight": WEIGHT, "bias": BIAS}
DATA: dict[str, NDArray[Any]] = {"features": FEATURES, "labels": LABELS}
IMAGES = RNG.integers(0, 256, size=(20, 3, SIDE, SIDE), dtype=np.uint8)
NAMES = ("ape", "bee", "cow", "doe", "elk")
AUDIT = ("audit", "head.npz", "--forget", str(FORGET), "--data", "features.npz", *SMALL)

VIT = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
FAMILIES: dict[str, dict[str, Any]] = {
    "vit": {**VIT, "image_size": SIDE, "patch_size": 4},
    "resnet": {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1]},
    "swin": {
        "image_size": SIDE,
        "patch_size": 2,
        "embed_dim": 8,
        "depths": [1, 1],
        "num_heads": [1, 2],
        "window_size": 2,
    },
    "convnext": {"hidden_sizes": [8, 16], "depths": [1, 1], "num_stages": 2, "patch_size": 2},
}


def write_seeds(folder: Path) -> None:
    """Write a whole input of every kind to a folder."""
    from sfra.bench.engine.store import Store
    from sfra.cli import main
    from sfra.models import backbones

    np.savez(folder / "head.npz", **HEAD)  # type: ignore[arg-type]
    np.savez(folder / "features.npz", **DATA)  # type: ignore[arg-type]
    network = backbones.build("small-mlp", classes=10, seed=0)
    torch.save(network.state_dict(), folder / "weights.pt")
    _write_directories(folder)
    (folder / "model.onnx").write_bytes(onnx_model())
    _write_tables(folder)
    Store(folder / "store")
    write_images(folder / "images")
    before = os.getcwd()
    os.chdir(folder)
    try:
        for arguments in (
            (*AUDIT, "--out", "audit", "--quiet", "--diagnostics"),
            ("report", "audit", "--out", "page.html", "--quiet"),
            ("doctor", "vit", "--quiet"),
            ("audit", "model.onnx", "--forget", "3", *SMALL, "--quiet"),
            ("audit", "vit", "--forget", "3", "--data", "table", *SMALL, "--quiet"),
        ):
            if main(arguments) != 0:
                raise RuntimeError(f"the whole input does not work: {arguments}")
    finally:
        os.chdir(before)


def _write_directories(folder: Path) -> None:
    import transformers

    transformers.utils.logging.disable_progress_bar()
    for family, settings in FAMILIES.items():
        config = transformers.AutoConfig.for_model(family, num_labels=C, **settings)
        config.id2label = dict(enumerate(NAMES))
        transformers.AutoModelForImageClassification.from_config(config).save_pretrained(folder / family)
        normal = {"do_normalize": True, "image_mean": [0.5] * 3, "image_std": [0.5] * 3, "do_rescale": True}
        size = {"size": {"height": SIDE, "width": SIDE}, "do_resize": True, "resample": 2}
        (folder / family / "preprocessor_config.json").write_text(json.dumps({**normal, **size}))


def onnx_model() -> bytes:
    """Return a network of one hidden layer, 3 x 8 x 8 images and five classes."""
    import onnx
    from onnx import helper, numpy_helper

    rng = np.random.default_rng(1)
    first = numpy_helper.from_array(rng.normal(size=(3 * SIDE * SIDE, D)).astype(np.float32), "first")
    last, bias = numpy_helper.from_array(WEIGHT.T.copy(), "last"), numpy_helper.from_array(BIAS, "bias")
    nodes = [
        helper.make_node("Flatten", ["x"], ["flat"]),
        helper.make_node("MatMul", ["flat", "first"], ["hidden"]),
        helper.make_node("Relu", ["hidden"], ["features"]),
        helper.make_node("MatMul", ["features", "last"], ["product"]),
        helper.make_node("Add", ["product", "bias"], ["logits"]),
    ]
    image = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["n", 3, SIDE, SIDE])
    out = helper.make_tensor_value_info("logits", onnx.TensorProto.FLOAT, ["n", C])
    graph = helper.make_graph(nodes, "net", [image], [out], initializer=[first, last, bias])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    helper.set_model_props(model, {"class_names": json.dumps(NAMES)})
    content: bytes = model.SerializeToString()
    return content


def picture(image: NDArray[np.uint8], form: str = "png") -> bytes:
    """Encode an image ``[c, h, w]``."""
    buffer = io.BytesIO()
    Image.fromarray(image.transpose(1, 2, 0)).save(buffer, form)
    return buffer.getvalue()


def write_images(folder: Path) -> None:
    """Write an image folder, two forms of files."""
    for row, image in enumerate(IMAGES):
        place = folder / NAMES[row % len(NAMES)]
        place.mkdir(parents=True, exist_ok=True)
        form = ("png", "jpeg", "bmp", "webp")[row % 4]
        (place / f"{row}.{form}").write_bytes(picture(image, form))


def table(images: Sequence[bytes], labels: Sequence[Any]) -> Any:
    """Make a table of images and labels, as on the Hugging Face hub."""
    import pyarrow as pa

    features = {"image": {"_type": "Image"}, "label": {"names": list(NAMES), "_type": "ClassLabel"}}
    notes = {"huggingface": json.dumps({"info": {"features": features}})}
    column = pa.array([{"bytes": one, "path": None} for one in images], pa.struct([("bytes", pa.binary())]))
    return pa.table({"image": column, "label": list(labels)}).replace_schema_metadata(notes)


def _write_tables(folder: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    whole = table([picture(image) for image in IMAGES], [row % C for row in range(len(IMAGES))])
    (folder / "table").mkdir()
    pq.write_table(whole, folder / "table" / "test-00000-of-00001.parquet")
    (folder / "saved").mkdir()
    name = "data-00000-of-00001.arrow"
    with pa.OSFile(str(folder / "saved" / name), "wb") as sink, pa.ipc.new_stream(sink, whole.schema) as out:
        out.write_table(whole)
    (folder / "saved" / "state.json").write_text(json.dumps({"_data_files": [{"filename": name}]}))
    (folder / "saved" / "dataset_info.json").write_text(json.dumps({"features": {}}))
