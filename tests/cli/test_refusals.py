"""What ``sfra audit`` refuses: exit code 2, one message without a traceback, and no file left behind."""

from __future__ import annotations

import os
import pickle
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from builders.cli import BIAS, FEATURES, LABELS, SMALL, WEIGHT, Files, run, write_features, write_head
from sfra.core.head import Head

Capture = pytest.CaptureFixture[str]
Arguments = tuple[object, ...]


class Bomb:
    """Creates a file when it is unpickled."""

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return Path.touch, (Path("exploded"),)


def test_the_bomb_would_go_off(files: Files) -> None:
    pickle.loads(pickle.dumps(Bomb()))
    assert Path("exploded").exists()


def bare_pickle(files: Files) -> Arguments:
    Path("model.pth").write_bytes(pickle.dumps(Bomb()))
    return ("model.pth", "--arch", "small-mlp", "--forget", 3)


def torch_archive(files: Files) -> Arguments:
    torch.save({"state_dict": {"weight": torch.ones(5, 8)}, "extra": Bomb()}, "model.pt")
    return ("model.pt", "--forget", 3)


def pickled_features(files: Files) -> Arguments:
    np.savez("bomb.npz", features=np.array([Bomb()], dtype=object), labels=LABELS[:1], allow_pickle=True)
    return (files.head, "--forget", 3, "--data", "bomb.npz")


@pytest.mark.parametrize(
    ("case", "message"),
    [
        (bare_pickle, "opening it could run code: it was not opened"),
        (torch_archive, "opening it could run code: it was not opened"),
        (pickled_features, "bomb.npz"),
    ],
)
def test_audit_does_not_open_a_file_that_would_run_code(
    files: Files, capfd: Capture, case: Callable[[Files], Arguments], message: str
) -> None:
    refused(files, capfd, case(files), message)
    assert not Path("exploded").exists()


def with_weight(value: float) -> Callable[[Files], Arguments]:
    def case(files: Files) -> Arguments:
        weight = WEIGHT.copy()
        weight[2, 1] = value
        return (write_head(files.folder / "bad.npz", weight), "--forget", 3)

    return case


def truncated(files: Files) -> Arguments:
    Head(WEIGHT, BIAS).save("whole.safetensors")
    content = Path("whole.safetensors").read_bytes()
    Path("cut.safetensors").write_bytes(content[: len(content) // 2])
    return ("cut.safetensors", "--forget", 3)


def without_linear_end(files: Files) -> Arguments:
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    shape = ("n", 4)
    ends = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape) for name in ("x", "y")]
    graph = onnx.helper.make_graph([onnx.helper.make_node("Relu", ["x"], ["y"])], "g", ends[:1], ends[1:])
    opset = [onnx.helper.make_opsetid("", 17)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opset, ir_version=9), "relu.onnx")
    return ("relu.onnx", "--forget", 3)


def with_data(features: object = FEATURES, labels: object = LABELS) -> Callable[[Files], Arguments]:
    def case(files: Files) -> Arguments:
        path = write_features(files.folder / "bad.npz", np.asarray(features), np.asarray(labels))
        return (files.head, "--forget", 3, "--data", path)

    return case


def plain(*options: object) -> Callable[[Files], Arguments]:
    return lambda files: (files.head, *options)


REFUSED = {
    "nan weights": (with_weight(np.nan), "NaN"),
    "forget index too high": (plain("--forget", 5), "out of range"),
    "no such class name": (plain("--forget", "zebra"), "zebra"),
    "all but one class forgotten": (plain("--forget", "0,1,2,3"), "classes"),
    "features too wide": (with_data(np.ones((10, 9)), np.arange(10) % 5), "8"),
    "label outside": (with_data(labels=np.where(LABELS == 0, 5, LABELS)), "5"),
    "no forget sample": (with_data(labels=np.where(LABELS == 3, 2, LABELS)), "forget class"),
    "nan features": (with_data(np.full_like(FEATURES, np.nan)), "finite"),
    "truncated safetensors": (truncated, "cut.safetensors"),
    "onnx without a linear end": (without_linear_end, "linear"),
    "pools too small": (plain("--forget", 3, "--n", 30, "--m", 16), "lower m"),
    "unknown proposal": (plain("--forget", 3, "--proposal", "cauchy"), "cauchy"),
    "unknown scale": (plain("--forget", 3, "--scale", "big"), "scale"),
    "negative scale": (plain("--forget", 3, "--scale=-2"), "scale"),
    "unknown device": (plain("--forget", 3, "--device", "abacus"), "abacus"),
    "missing model": (lambda files: ("nowhere.npz", "--forget", 3), "nowhere.npz"),
    "missing data": (plain("--forget", 3, "--data", "nowhere.npz"), "nowhere.npz"),
    "state dict without an architecture": (lambda files: (files.state_dict, "--forget", 3), "pass --arch"),
    "unknown architecture": (lambda files: (files.state_dict, "--forget", 3, "--arch", "vgg99"), "vgg99"),
    "architecture for a head": (plain("--forget", 3, "--arch", "small-mlp"), "leave --arch out"),
    "features without those of the reference": (
        lambda files: (files.head, "--forget", 3, "--data", files.features, "--reference", files.reference),
        "--reference-data",
    ),
    "n of zero": (plain("--forget", 3, "--n", 0), "n "),
    "negative seed": (plain("--forget", 3, "--seed=-1"), "seed"),
    "no threads": (plain("--forget", 3, "--threads", 0), "threads"),
    "pools that cannot be counted": (plain("--forget", 3, "--n", 10**30), "pools"),
    "unknown option": (plain("--forget", 3, "--prposal", "gaussian"), "--proposal"),
    "no forget class": (plain(), "--forget"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_audit_refuses_bad_input_with_a_message(files: Files, capfd: Capture, case: str) -> None:
    make, message = REFUSED[case]
    refused(files, capfd, make(files), message)


def test_image_that_is_too_large_is_refused_without_a_warning(files: Files, capfd: Capture) -> None:
    Path("images/a").mkdir(parents=True)
    Image.new("1", (10_000, 10_000)).save("images/a/1.png")
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        ran = run(capfd, "audit", files.state_dict, "--arch", "small-mlp", "--forget", 3, "--data", "images")
        warnings.warn("shown as before", UserWarning, stacklevel=1)
    assert ran.code == 2
    assert "1.png is too large\n  expected: at most 67,108,864 pixels\n  got:      10,000 x 10,000" in ran.err
    assert [str(each.message) for each in seen] == ["shown as before"]


def refused(files: Files, capfd: Capture, arguments: Arguments, message: str) -> None:
    before = everything(files.folder)
    small = () if {"--n", "--epochs"} & {*map(str, arguments)} else SMALL
    for machine in ((), ("--json",)):
        ran = run(capfd, "audit", *arguments, *small, *machine, "--out", "out")
        assert (ran.code, ran.out) == (2, "")
        assert message in ran.err
        assert "Traceback" not in ran.err
        assert len(ran.err.splitlines()) <= 8
    assert everything(files.folder) == before


def everything(folder: Path) -> set[str]:
    return {os.path.join(where, name) for where, folders, names in os.walk(folder) for name in (*folders, *names)}
