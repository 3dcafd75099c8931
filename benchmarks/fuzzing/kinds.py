"""One function per kind of input: change a whole one, and say which command reads it."""

from __future__ import annotations

import io
import json
import random
import shutil
import struct
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.numpy import save as save_safetensors

from fuzzing.mutate import NUMBERS, Arrays, change_arrays, change_bytes, change_json, change_text
from fuzzing.seeds import AUDIT, DATA, FORGET, HEAD, IMAGES, SMALL, C, picture, table

Kind = Callable[[Path, Path, random.Random], Sequence[str]]
"""From the folder of whole inputs, an empty folder and a generator to the arguments of a command."""


def opened(model: str, *options: str, chance: random.Random, doctor: float = 0.4) -> list[str]:
    """Return the command that opens a model: an audit, or the doctor."""
    if chance.random() < doctor:
        return ["doctor", model, *options, "--json"]
    return ["audit", model, *options, *AS_MODEL]


AS_MODEL = ("--forget", str(FORGET), *SMALL, "--json", "--out", "out")


def write_arrays(target: Path, arrays: Arrays, chance: random.Random) -> Path:
    """Write arrays as ``.npz`` or ``.safetensors``, at times with other bytes."""
    buffer = io.BytesIO()
    numeric = all(array.dtype.kind in "fiub" and array.dtype.isnative for array in arrays.values())
    if chance.random() < 0.4 and numeric:
        target = target.with_suffix(".safetensors")
        content = save_safetensors({name: np.ascontiguousarray(array) for name, array in arrays.items()})
        if chance.random() < 0.4:
            content = _other_header(content, chance)
    else:
        save = np.savez_compressed if chance.random() < 0.3 else np.savez
        save(buffer, **{name or "none": array for name, array in arrays.items()})  # type: ignore[arg-type]
        content = buffer.getvalue()
    target.write_bytes(change_bytes(content, chance) if chance.random() < 0.15 else content)
    return target


def _other_header(content: bytes, chance: random.Random) -> bytes:
    """Change the JSON at the beginning of a safetensors file: shapes, kinds, offsets."""
    (size,) = struct.unpack("<Q", content[:8])
    header = change_text(content[8 : 8 + size].decode(), chance)
    return struct.pack("<Q", len(header)) + header + content[8 + size :]


def head(whole: Path, place: Path, chance: random.Random) -> Sequence[str]:
    """A head alone."""
    file = write_arrays(place / "head.npz", change_arrays(HEAD, chance), chance)
    if chance.random() < 0.03:
        file = place / "head.npy"
        np.save(file, HEAD["weight"])
        file.write_bytes(change_bytes(file.read_bytes(), chance))
    shutil.copy(whole / "features.npz", place)
    data = ("--data", "features.npz") if chance.random() < 0.7 else ()
    return opened(file.name, *data, chance=chance, doctor=0.2)


def features(whole: Path, place: Path, chance: random.Random) -> Sequence[str]:
    """Features, or images as an array."""
    arrays: Arrays = DATA if chance.random() < 0.7 else {"images": IMAGES, "labels": np.arange(20) % C}
    file = write_arrays(place / "features.npz", change_arrays(arrays, chance), chance)
    model = "head.npz" if "features" in arrays else "vit"
    (shutil.copy if model == "head.npz" else shutil.copytree)(whole / model, place / model)
    more = ("--missing-row",) if chance.random() < 0.1 else ()
    return ["audit", model, "--data", file.name, *more, *AS_MODEL]


def state_dict(whole: Path, place: Path, chance: random.Random) -> Sequence[str]:
    """A state dict of a known architecture, or of none."""
    weights = dict(torch.load(whole / "weights.pt", weights_only=True))
    content: Any = {name: _other_tensor(one, chance) for name, one in weights.items()}
    for _ in range(chance.randrange(3)):
        content = {chance.choice(("state_dict", "model", "ema", "net", "a.b", "")): content, "epoch": 3}
    if chance.random() < 0.2:
        content = chance.choice(([content], (content, 1), {"x": [content, content]}, None, 7, {1: content}))
    file = place / chance.choice(("weights.pt", "weights.bin", "last.ckpt", "model.pth.tar", "weights"))
    torch.save(content, file, _use_new_zipfile_serialization=chance.random() < 0.8)
    if chance.random() < 0.5:
        file.write_bytes(_other_archive(file.read_bytes(), chance))
    arch = ("--arch", "small-mlp") if chance.random() < 0.6 else ()
    return opened(file.name, *arch, chance=chance)


def _other_tensor(tensor: torch.Tensor, chance: random.Random) -> Any:
    if chance.random() < 0.7:
        return tensor
    ways: Sequence[Callable[[], Any]] = (
        lambda: tensor.double(),
        lambda: tensor.half(),
        lambda: tensor.to(torch.complex64),
        lambda: tensor.bool(),
        lambda: tensor[:0],
        lambda: tensor[..., None],
        lambda: tensor.sum(),
        lambda: tensor.to_sparse(),
        lambda: torch.zeros(1).expand(2**20, 2**20),
        lambda: tensor.numpy(),
        lambda: torch.nn.Parameter(tensor.float()),
        lambda: torch.full_like(tensor.float(), chance.choice(NUMBERS)),
        lambda: torch.quantize_per_tensor(tensor.float(), 0.1, 0, torch.qint8),
        lambda: "text",
        lambda: tensor.to("meta"),
        lambda: tensor.T if tensor.ndim == 2 else tensor.flip(0) if tensor.ndim else tensor,
    )
    return chance.choice(ways)()


def _other_archive(content: bytes, chance: random.Random) -> bytes:
    """Change the bytes of an archive, or of one of its members."""
    if chance.random() < 0.4 or not content.startswith(b"PK"):
        return change_bytes(content, chance)
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(made, "w") as new:
        chosen = chance.choice(old.namelist())
        pickled = [name for name in old.namelist() if name.endswith(".pkl")]
        chosen = pickled[0] if pickled and chance.random() < 0.6 else chosen
        for name in old.namelist():
            part = old.read(name)
            new.writestr(name, change_bytes(part, chance) if name == chosen else part)
    return made.getvalue()


def directory(whole: Path, place: Path, chance: random.Random) -> Sequence[str]:
    """A Hugging Face directory with another configuration, preprocessing or weights."""
    family = chance.choice(("vit", "vit", "resnet", "swin", "convnext"))
    shutil.copytree(whole / family, place / "model")
    for name, odds in (("config.json", 0.6), ("preprocessor_config.json", 0.4), ("model.safetensors", 0.2)):
        file = place / "model" / name
        if chance.random() >= odds:
            continue
        if file.suffix == ".json":
            file.write_bytes(change_text(file.read_text(encoding="utf-8"), chance))
        else:
            content = file.read_bytes()
            file.write_bytes(chance.choice((change_bytes, _other_header))(content, chance))
    if chance.random() < 0.1:
        (place / "model" / "model.safetensors").rename(place / "model" / "model-00001-of-00002.safetensors")
        index = {"weight_map": {"a": chance.choice(("../../etc/passwd", "model-00001-of-00002.safetensors", "b"))}}
        (place / "model" / "model.safetensors.index.json").write_text(json.dumps(change_json(index, chance)))
    shutil.copytree(whole / "table", place / "table")
    data = ("--data", "table") if chance.random() < 0.4 else ()
    return opened("model", *data, chance=chance)


def onnx(whole: Path, place: Path, chance: random.Random) -> Sequence[str]:
    """An ONNX graph with other nodes, shapes or bytes."""
    content = (whole / "model.onnx").read_bytes()
    file = place / "model.onnx"
    file.write_bytes(change_bytes(content, chance) if chance.random() < 0.5 else _other_graph(content, chance))
    shutil.copytree(whole / "table", place / "table")
    data = ("--data", "table") if chance.random() < 0.3 else ()
    return opened("model.onnx", *data, chance=chance)


def _other_graph(content: bytes, chance: random.Random) -> bytes:
    import onnx as onnx_package

    model = onnx_package.ModelProto.FromString(content)
    graph = model.graph
    for _ in range(chance.choice((1, 1, 2, 3))):
        way, node, weight = chance.randrange(10), chance.choice(graph.node), chance.choice(graph.initializer)
        if way == 0:
            node.op_type = chance.choice(("Gemm", "Softmax", "Loop", "If", "Conv", "Identity", "Nothing", "", "Div"))
        elif way == 1:
            weight.dims[0] = chance.choice((-1, 0, 1, 2**31, 2**62, 7))
        elif way == 2:
            weight.data_type = chance.randrange(24)
        elif way == 3:
            node.input[0] = chance.choice(("x", "logits", "last", "", "none"))
        elif way == 4:
            node.output[0] = chance.choice(("x", "logits", "features", ""))
        elif way == 5:
            weight.raw_data = weight.raw_data[: chance.randrange(len(weight.raw_data) + 1)]
        elif way == 6:
            graph.input[0].type.tensor_type.shape.dim[chance.randrange(4)].dim_value = chance.choice(
                (0, 1, 2**40, 4096)
            )
        elif way == 7:
            graph.node.append(node)
        elif way == 8:
            model.opset_import[0].version = chance.choice((0, 1, 7, 99, 2**62))
        else:
            del graph.node[chance.randrange(len(graph.node)) :]
            return bytes(model.SerializeToString())
    return bytes(model.SerializeToString())


def audit_json(whole: Path, place: Path, chance: random.Random) -> Sequence[str]:
    """An audit.json of a stranger, as a reference or for a page."""
    shutil.copytree(whole / "audit", place / "audit")
    file = place / "audit" / "audit.json"
    file.write_bytes(change_text(file.read_text(encoding="utf-8"), chance))
    if chance.random() < 0.2:
        head = place / "audit" / "relearned_head.safetensors"
        head.write_bytes(change_bytes(head.read_bytes(), chance))
    if chance.random() < 0.5:
        return ["report", "audit", "--out", "page.html"]
    for name in ("head.npz", "features.npz"):
        shutil.copy(whole / name, place)
    np.savez(place / "head.npz", weight=HEAD["weight"] * 1.1, bias=HEAD["bias"])
    return [*AUDIT, "--reference", "audit/audit.json", "--json", "--out", "out"]


def tables(whole: Path, place: Path, chance: random.Random) -> Sequence[str]:
    """Parquet or Arrow files with other bytes, images or labels."""
    name = chance.choice(("table", "saved"))
    shutil.copytree(whole / name, place / name)
    files = [file for file in sorted((place / name).iterdir()) if file.is_file()]
    if chance.random() < 0.5 and name == "table":
        import pyarrow.parquet as pq

        images = [change_bytes(picture(one), chance) if chance.random() < 0.2 else picture(one) for one in IMAGES]
        odd = chance.choice((None, -1, 2**40, 0, 4))
        labels = [odd if chance.random() < 0.2 else row % C for row in range(len(IMAGES))]
        kinds = [str(one) for one in labels], [float(one or 0) for one in labels], labels
        try:
            pq.write_table(table(images, chance.choice(kinds)), files[0])
        except (ValueError, OverflowError, TypeError):
            pq.write_table(table(images, [0] * len(images)), files[0])
    else:
        file = chance.choice(files)
        json_file = file.suffix == ".json" and chance.random() < 0.7
        content = file.read_bytes()
        file.write_bytes(change_text(content.decode(), chance) if json_file else change_bytes(content, chance))
    shutil.copytree(whole / "vit", place / "vit")
    query = chance.choice(("", "", "?image=image&label=label", "?image=", "?label=image", "?x=1"))
    return ["audit", "vit", "--data", name + query, *AS_MODEL]


def images(whole: Path, place: Path, chance: random.Random) -> Sequence[str]:
    """A folder of images, some of them broken or called otherwise."""
    shutil.copytree(whole / "images", place / "images")
    for file in sorted((place / "images").rglob("*.*")):
        if chance.random() < 0.15:
            file.write_bytes(change_bytes(file.read_bytes(), chance))
        if chance.random() < 0.05:
            file.rename(file.with_suffix(chance.choice((".png", ".jpg", ".gif", ".tiff", ".svg", ".txt", ""))))
    if chance.random() < 0.3:
        (place / "images" / chance.choice((".hidden", "a\nb", "train", "x" * 200, "\x1b[2J"))).mkdir()
    shutil.copytree(whole / "vit", place / "vit")
    return ["audit", "vit", "--data", "images", *AS_MODEL]
