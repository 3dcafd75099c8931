"""Files made to do harm: each would leave a file called ``executed`` behind, fill the memory or read what is not its.

:func:`prove` shows that the bombs are live: opened without care, they go off.
"""

from __future__ import annotations

import io
import json
import os
import pickle
import random
import shutil
import struct
import zipfile
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fuzzing.kinds import AS_MODEL, opened
from fuzzing.seeds import AUDIT, BIAS, IMAGES, WEIGHT, C, onnx_model, picture, table

CODE = "open('executed', 'w').close()"


class Bomb:
    """Runs code when it is unpickled."""

    def __init__(self, way: int) -> None:
        self.way = way

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        ways: tuple[tuple[Callable[..., object], tuple[object, ...]], ...] = (
            (os.system, ("touch executed",)),
            (exec, (CODE,)),
            (Path.touch, (Path("executed"),)),
            (os.mkdir, ("executed",)),
            (eval, (f"exec({CODE!r})",)),
            (np.save, ("executed", np.zeros(1))),
            (torch.save, (0, "executed")),
        )
        return ways[self.way % len(ways)]


WAYS = 7


def prove(place: Path) -> int:
    """Unpickle every bomb in a folder and return how many went off."""
    before, count = os.getcwd(), 0
    os.chdir(place)
    try:
        for way in range(WAYS):
            pickle.loads(pickle.dumps(Bomb(way)))  # noqa: S301 - to show that it is live
            gone = [*place.glob("executed*")]
            count += bool(gone)
            for one in gone:
                one.rmdir() if one.is_dir() else one.unlink()
    finally:
        os.chdir(before)
    return count


def pickles(whole: Path, place: Path, chance: random.Random) -> Sequence[str]:
    """Pickles of all sorts, under names that promise something else."""
    bomb = Bomb(chance.randrange(WAYS))
    names = ("m.pt", "m.pth", "m.bin", "m.ckpt", "m.pkl", "m.pth.tar", "m", "m.npz", "m.npy", "m.safetensors", "m.onnx")
    file, way = place / chance.choice(names), chance.randrange(5)
    weights = {"fc.weight": torch.ones(5, 8), "fc.bias": torch.zeros(5)}
    if way == 0:
        file.write_bytes(pickle.dumps(bomb, protocol=chance.randrange(6)))
    elif way == 1:
        torch.save({"state_dict": weights, "extra": bomb}, file)
    elif way == 2:
        torch.save({**weights, "x": bomb}, file, _use_new_zipfile_serialization=False)
    elif way == 3:
        with file.open("wb") as opened:
            np.savez(opened, weight=WEIGHT, bias=np.array([bomb], dtype=object), allow_pickle=True)
    else:
        torch.save(weights, file, pickle_protocol=2)
        content = file.read_bytes()
        file.write_bytes(content.replace(b"ctorch._utils\n_rebuild_tensor_v2\n", b"cos\nsystem\n" + b"\0" * 23))
    data = chance.random() < 0.3
    if data:
        shutil.copy(whole / "head.npz", place)
    arch = ("--arch", "small-mlp") if chance.random() < 0.5 and not data else ()
    return ["audit", *(("head.npz", "--data", file.name) if data else (file.name, *arch)), *AS_MODEL]


def code_in_directories(whole: Path, place: Path, chance: random.Random) -> Sequence[str]:
    """Model directories that ask for code of their own, or for pickled weights."""
    family = chance.choice(("vit", "resnet", "swin", "convnext"))
    shutil.copytree(whole / family, place / "model")
    for name in ("modeling.py", "configuration.py", "processing.py", "hubconf.py", "__init__.py", "sitecustomize.py"):
        (place / "model" / name).write_text(f"{CODE}\nclass Config: pass\nclass Model: pass\n")
    kinds = ("AutoConfig", "AutoModelForImageClassification", "AutoImageProcessor")
    asked: dict[str, Any] = {
        "auto_map": {
            kind: f"{chance.choice(('modeling', 'configuration', 'owner/repo--modeling'))}.Model" for kind in kinds
        },
        "custom_pipelines": {"image-classification": {"impl": "modeling.Model"}},
        "_attn_implementation": "owner/kernel",
        "model_type": chance.choice(("evil", "vit", "timm_wrapper")),
        "trust_remote_code": True,
        "transformers_weights": "../../secret.bin",
        "use_kernels": True,
        "quantization_config": {"quant_method": "owner/x"},
    }
    chosen = {key: asked[key] for key in chance.sample([*asked], chance.randrange(1, 4))}
    for name in ("config.json", "preprocessor_config.json"):
        if chance.random() < 0.7:
            file = place / "model" / name
            content = json.loads(file.read_text())
            inside = content.setdefault("vision_config", {}) if chance.random() < 0.2 else content
            inside.update(chosen)
            file.write_text(json.dumps(content))
    if chance.random() < 0.3:
        (place / "model" / "model.safetensors").unlink()
        torch.save({"x": Bomb(chance.randrange(WAYS))}, place / "model" / "pytorch_model.bin")
    return opened("model", chance=chance)


def outside(whole: Path, place: Path, chance: random.Random) -> Sequence[str]:
    """ONNX weights, shards and links that lead out of the folder; folders in circles; a pipe that nobody writes to."""
    (place / "secret").mkdir()
    (place / "secret" / "weights.bin").write_bytes(WEIGHT.T.copy().tobytes())
    (place / "here").mkdir()
    way = chance.randrange(6)
    if way == 0:
        return ["audit", _outside_data(place, chance), *AS_MODEL]
    if way == 1:
        shutil.copytree(whole / "vit", place / "here/model")
        (place / "here/model/model.safetensors").rename(place / "secret/model.safetensors")
        index = {"weight_map": {"x": chance.choice(("../../secret/model.safetensors", "/etc/passwd", ""))}}
        (place / "here/model/model.safetensors.index.json").write_text(json.dumps(index))
        return ["audit", "here/model", *AS_MODEL]
    shutil.copytree(whole / "images", place / "here/images")
    if way == 2:
        (place / "here/images/ape/loop").symlink_to(place / "here/images")
    elif way == 3:
        (place / "here/images/ape/0.png").unlink()
        (place / "here/images/ape/0.png").symlink_to(chance.choice(("/dev/zero", "/dev/stdin", "/etc/passwd", "0.png")))
    elif way == 4:
        os.mkfifo(place / "here/images/ape/pipe.png")
    else:
        os.mkfifo(place / "here/head.npz")
        return ["audit", "here/head.npz", *AS_MODEL]
    shutil.copytree(whole / "vit", place / "vit")
    return ["audit", "vit", "--data", "here/images", *AS_MODEL]


def _outside_data(place: Path, chance: random.Random) -> str:
    import onnx

    model = onnx.ModelProto.FromString(onnx_model())
    weight = next(one for one in model.graph.initializer if one.name == "last")
    weight.ClearField("raw_data")
    weight.data_location = onnx.TensorProto.EXTERNAL
    link = chance.random() < 0.3
    where = "weights.bin" if link else chance.choice(("../secret/weights.bin", str(place / "secret/weights.bin")))
    if link:
        (place / "here/weights.bin").symlink_to(place / "secret/weights.bin")
    for key, value in (("location", where), ("offset", "0"), ("length", str(WEIGHT.nbytes))):
        entry = weight.external_data.add()
        entry.key, entry.value = key, chance.choice((value, value, value, "-1", str(2**62)))
    (place / "here/model.onnx").write_bytes(model.SerializeToString())
    return "here/model.onnx"


def bombs(whole: Path, place: Path, chance: random.Random) -> Sequence[str]:
    """Small files that say that they are large: archives, arrays, images, tables, JSON, graphs."""
    way = chance.randrange(9)
    size = chance.choice((2**28, 2**31, 2**34, 2**40, 2**62))
    shutil.copy(whole / "head.npz", place)
    if way == 0:
        with zipfile.ZipFile(place / "bomb.npz", "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("weight.npy", _npy((min(size, 2**28) // 4,)) + bytes(min(size, 2**28)))
        return ["audit", "bomb.npz", *AS_MODEL]
    if way == 1:
        with zipfile.ZipFile(place / "lie.npz", "w") as archive:
            archive.writestr("weight.npy", _npy((size // 8, 8)) + bytes(64))
            archive.writestr("bias.npy", _npy((C,)) + bytes(4 * C))
        return ["audit", "lie.npz", *AS_MODEL]
    if way == 2:
        (place / "lie.npy").write_bytes(_npy((size // 4,)))
        return ["audit", "lie.npy", *AS_MODEL]
    if way == 3:
        header = json.dumps({"weight": {"dtype": "F32", "shape": [size // 4], "data_offsets": [0, size]}}).encode()
        (place / "lie.safetensors").write_bytes(struct.pack("<Q", chance.choice((len(header), size))) + header)
        return ["audit", "lie.safetensors", *AS_MODEL]
    if way == 4:
        torch.save({"fc.weight": torch.zeros(1).expand(5, size // 4096), "fc.bias": torch.zeros(5)}, place / "lie.pt")
        return ["audit", "lie.pt", *AS_MODEL]
    if way == 5:
        (place / "audit.json").write_text(chance.choice(("[" * 10**6, '{"a":' * 10**5, "1" * 10**6, '"' * 10**6)))
        return ["report", "audit.json", "--out", "page.html"]
    if way == 8:
        (place / "grows.onnx").write_bytes(_growing(size, functions=chance.random() < 0.5))
        return ["audit", "grows.onnx", *AS_MODEL]
    shutil.copytree(whole / "vit", place / "vit")
    side = chance.choice((2**14, 2**15, 2**16, 2**20))
    bomb = _png(side, side)
    if way == 6:
        shutil.copytree(whole / "images", place / "images")
        (place / "images/ape/0.png").write_bytes(bomb)
        return ["audit", "vit", "--data", "images", *AS_MODEL]
    import pyarrow.parquet as pq

    (place / "table").mkdir()
    rows = [*(picture(one) for one in IMAGES), bomb]
    pq.write_table(table(rows, [row % C for row in range(len(rows))]), place / "table/test-00000-of-00001.parquet")
    return ["audit", "vit", "--data", "table", *AS_MODEL]


def _growing(size: int, *, functions: bool) -> bytes:
    """Return a graph that makes the weights of its head of nothing, or has functions that call one another twice."""
    import onnx
    from onnx import helper

    model = onnx.ModelProto.FromString(onnx_model())
    if not functions:
        rows = onnx.numpy_helper.from_array(np.array([WEIGHT.shape[1], size // (4 * WEIGHT.shape[1])]), "rows")
        model.graph.initializer.append(rows)
        model.graph.node.insert(0, helper.make_node("ConstantOfShape", ["rows"], ["much"]))
        model.graph.node[-2].input[1] = "much"
        return bytes(model.SerializeToString())
    opsets = [*model.opset_import, helper.make_opsetid("own", 1)]
    bodies = [[helper.make_node("Relu", ["a"], ["b"])]]
    for level in range(size.bit_length()):
        steps = (("a", "c"), ("c", "b"))
        bodies.append([helper.make_node(f"f{level}", [one], [two], domain="own") for one, two in steps])
    made = [helper.make_function("own", f"f{at}", ["a"], ["b"], body, opsets) for at, body in enumerate(bodies)]
    model.functions.extend(made)
    model.opset_import.append(opsets[1])
    model.graph.node[2].CopyFrom(helper.make_node(made[-1].name, ["hidden"], ["features"], domain="own"))
    return bytes(model.SerializeToString())


def scripts(whole: Path, place: Path, chance: random.Random) -> Sequence[str]:
    """Names and sources that a page, or a terminal, would act upon."""
    shutil.copytree(whole / "audit", place / "audit")
    file = place / "audit/audit.json"
    content = json.loads(file.read_text())
    evil = chance.choice(EVIL)
    content["class_names"] = [evil] * C
    content["model"]["source"] = content["statement"] = content["data"]["source"] = evil
    content["findings"] = [{**one, "message": evil} for one in content["findings"]]
    content["versions"][evil] = evil
    file.write_text(json.dumps(content))
    return ["report", "audit", "--out", "page.html"]


EVIL = (
    "</script><script>executed()</script>",
    '"><img src=x onerror=executed()>',
    "<!--<script>",
    "\x1b]0;x\x07\x1b[2J<b>",
)


def earlier(whole: Path, place: Path, chance: random.Random) -> Sequence[str]:
    """An earlier audit whose numbers are believable and wrong, as the reference."""
    shutil.copytree(whole / "audit", place / "audit")
    file = place / "audit/audit.json"
    content = json.loads(file.read_text())
    score, trace = chance.choice(content["results"]), chance.choice(content["traces"])
    changes = (score, "rs", 0.123), (score, "rs_seeds", [0.1]), (trace, "rs", [0.123] * 3), (trace, "loss", [])
    changes += (trace, "seed", 7), (trace, "retain", [0.9, 0.1, 0.2]), (trace, "forget", [0.1] * 3)
    changes += ((content["results"][0], "retain_after", 0.123),)
    part, key, value = chance.choice(changes)
    part[key] = value
    file.write_text(json.dumps(content))
    np.savez(place / "head.npz", weight=1.1 * WEIGHT, bias=BIAS)
    shutil.copy(whole / "features.npz", place)
    return [*AUDIT, "--reference", "audit/audit.json", "--json", "--out", "out"]


def _npy(shape: tuple[int, ...]) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, {"descr": "<f4", "fortran_order": False, "shape": shape})
    return buffer.getvalue()


def _png(width: int, height: int) -> bytes:
    """Return a PNG of any size, all black, in a few bytes."""

    def chunk(name: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))

    rows = zlib.compress(bytes(min(2**22, (width // 8 + 1) * height)), 9)
    outline = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", outline) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")
