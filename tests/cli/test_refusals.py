"""What ``sfra audit`` refuses: exit code 2, one message without a traceback, and no file left behind.

Beside it odd heads that once ended so and are audited.
"""

from __future__ import annotations

import json
import os
import pickle
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from builders.cli import BIAS, FORGET, LABELS, SMALL, WEIGHT, Files, Run, write_head
from builders.releases import Bomb
from sfra.core.head import Head

Arguments = tuple[object, ...]


def bomb() -> Bomb:
    return Bomb(Path("exploded").absolute())


def bare_pickle(files: Files) -> Arguments:
    Path("model.pth").write_bytes(pickle.dumps(bomb()))
    return ("model.pth", "--arch", "small-mlp", "--forget", 3)


def torch_archive(files: Files) -> Arguments:
    torch.save({"state_dict": {"weight": torch.ones(5, 8)}, "extra": bomb()}, "model.pt")
    return ("model.pt", "--forget", 3)


def pickled_features(files: Files) -> Arguments:
    np.savez(
        "bomb.npz",
        features=np.array([bomb()], dtype=object),
        labels=LABELS[:1],
        allow_pickle=True,
    )
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
    files: Files, run: Run, case: Callable[[Files], Arguments], message: str
) -> None:
    refused(files, run, case(files), message)
    assert not Path("exploded").exists()


def truncated(files: Files) -> Arguments:
    Head(WEIGHT, BIAS).save("whole.safetensors")
    content = Path("whole.safetensors").read_bytes()
    Path("cut.safetensors").write_bytes(content[: len(content) // 2])
    return ("cut.safetensors", "--forget", 3)


def out_of_reach(files: Files) -> Arguments:
    head = write_head(files.folder / "tiny.npz", WEIGHT * np.float32(1e-40), np.arange(5, dtype=np.float32))
    return (head, "--forget", FORGET)


def plain(*options: object) -> Callable[[Files], Arguments]:
    return lambda files: (files.head, *options)


REFUSED = {
    "truncated safetensors": (truncated, "cut.safetensors"),
    "a key for a head": (plain("--forget", 3, "--key", "ema"), "a key belongs to a state dict"),
    "classes that no draw reaches": (out_of_reach, "class 0 never wins: the inputs that are assigned to it are out of"),
    **{
        f"the device {name}, which torch only has a name for": (
            plain("--forget", 3, "--device", name),
            f"cannot use the device '{name}'",
        )
        for name in ("privateuseone", "hpu", "mkldnn", "meta")
    },
    "epochs without measure": (plain("--forget", 3, "--epochs", 2**32), "does not fit\n  expected: int <= 1000000\n"),
    "seeds without measure": (plain("--forget", 3, "--seeds", 10**9), "seeds does not fit\n  expected: int <= 10000\n"),
    "a scale without measure": (plain("--forget", 3, "--scale", "1e400"), "got:      1e400\n"),
    "no forget class": (plain(), "--forget"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_audit_refuses_bad_input_with_a_message(files: Files, run: Run, case: str) -> None:
    make, message = REFUSED[case]
    refused(files, run, make(files), message)


def test_image_that_is_too_large_is_refused_without_a_warning(files: Files, run: Run) -> None:
    Path("images/a").mkdir(parents=True)
    Image.new("1", (10_000, 10_000)).save("images/a/1.png")
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        ran = run("audit", files.state_dict, "--arch", "small-mlp", "--forget", 3, "--data", "images")
        warnings.warn("shown as before", UserWarning, stacklevel=1)
    assert ran.code == 2
    assert "1.png is too large\n  expected: at most 67,108,864 pixels\n  got:      10,000 x 10,000" in ran.err
    assert [str(each.message) for each in seen] == ["shown as before"]


def refused(files: Files, run: Run, arguments: Arguments, message: str) -> None:
    before = everything(files.folder)
    small = () if {"--n", "--epochs"} & {*map(str, arguments)} else SMALL
    for machine in ((), ("--json",)):
        ran = run("audit", *arguments, *small, *machine, "--out", "out")
        assert (ran.code, ran.out) == (2, "")
        assert message in ran.err
        assert "Traceback" not in ran.err
        assert len(ran.err.splitlines()) <= 8
    assert everything(files.folder) == before


def everything(folder: Path) -> set[str]:
    return {os.path.join(where, name) for where, folders, names in os.walk(folder) for name in (*folders, *names)}


@pytest.mark.parametrize("value", [1e20, 3e37])
def test_a_forget_row_of_any_size_gives_finite_numbers(files: Files, run: Run, value: float) -> None:
    weight = WEIGHT.copy()
    weight[FORGET, 0] = value
    head = write_head(files.folder / "huge.npz", weight)
    ran = run("audit", head, "--forget", FORGET, "--data", files.features, *SMALL, "--json", "--out", "out")
    assert ran.code == 0
    measured = {one["code"]: one["measured"] for one in json.loads(ran.out)["findings"]}
    norms = np.linalg.norm((weight.astype(float) - np.delete(weight, FORGET, 0).mean(0)), axis=1)
    assert measured["forget-row-outlier"] == pytest.approx(norms[FORGET] / norms.min() / 0.25, rel=0.5)


def test_a_head_of_denormal_numbers_is_audited(files: Files, run: Run) -> None:
    head = write_head(files.folder / "tiny.npz", WEIGHT * np.float32(1e-40), BIAS)
    assert run("audit", head, "--forget", FORGET, *SMALL, "--quiet").code == 0


@pytest.mark.parametrize("value", [None, -1])
def test_a_reference_with_a_count_that_is_none_is_refused(files: Files, run: Run, value: object) -> None:
    data = ("--data", files.reference_features, *SMALL, "--json")
    audit = json.loads(run("audit", files.reference, "--forget", FORGET, *data).out)
    audit["results"][0]["forget_samples"] = value
    Path("odd.json").write_text(json.dumps(audit), encoding="utf-8")
    ran = run(*files.measured, "--reference", "odd.json")
    assert ran.code == 2
    assert "results[0].forget_samples" in ran.err
