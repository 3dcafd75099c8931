"""Odd files and settings that once ended in a traceback or did not end: each is read, or refused with one message."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from builders.cli import BIAS, FORGET, SMALL, WEIGHT, Files, run, write_head

Capture = pytest.CaptureFixture[str]


@pytest.mark.parametrize("value", [1e20, 3e37])
def test_a_forget_row_of_any_size_gives_finite_numbers(files: Files, capfd: Capture, value: float) -> None:
    weight = WEIGHT.copy()
    weight[FORGET, 0] = value
    head = write_head(files.folder / "huge.npz", weight)
    ran = run(capfd, "audit", head, "--forget", FORGET, "--data", files.features, *SMALL, "--json", "--out", "out")
    assert ran.code == 0
    measured = {one["code"]: one["measured"] for one in json.loads(ran.out)["findings"]}
    norms = np.linalg.norm((weight.astype(float) - np.delete(weight, FORGET, 0).mean(0)), axis=1)
    assert measured["forget-row-outlier"] == pytest.approx(norms[FORGET] / norms.min() / 0.25, rel=0.5)


def test_classes_that_no_draw_reaches_are_refused_at_once(files: Files, capfd: Capture) -> None:
    head = write_head(files.folder / "tiny.npz", WEIGHT * np.float32(1e-40), np.arange(5, dtype=np.float32))
    ran = run(capfd, "audit", head, "--forget", FORGET, *SMALL)
    assert ran.code == 2
    assert "class 0 never wins: the inputs that are assigned to it are out of reach" in ran.err


def test_a_head_of_denormal_numbers_is_audited(files: Files, capfd: Capture) -> None:
    head = write_head(files.folder / "tiny.npz", WEIGHT * np.float32(1e-40), BIAS)
    assert run(capfd, "audit", head, "--forget", FORGET, *SMALL, "--quiet").code == 0


@pytest.mark.parametrize("value", [{}, "", [], None, -1, 0.5])
def test_a_reference_with_a_count_that_is_none_is_refused(files: Files, capfd: Capture, value: object) -> None:
    audit = audit_of_reference(files, capfd)
    audit["results"][0]["forget_samples"] = value
    Path("odd.json").write_text(json.dumps(audit), encoding="utf-8")
    ran = run(capfd, *files.measured, "--reference", "odd.json")
    assert ran.code == 2
    assert "results[0].forget_samples" in ran.err


@pytest.mark.parametrize("device", ["privateuseone", "hpu", "mkldnn", "meta"])
def test_a_device_that_torch_only_has_a_name_for_is_refused(files: Files, capfd: Capture, device: str) -> None:
    ran = run(capfd, *files.measured, "--device", device)
    assert ran.code == 2
    assert f"cannot use the device '{device}'" in ran.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--epochs", 4294967296), "epochs does not fit\n  expected: int <= 1000000\n"),
        (("--epochs", 10**30), "epochs does not fit"),
        (("--seeds", 10**9), "seeds does not fit\n  expected: int <= 10000\n"),
        (("--seed", 10**20), "seed"),
    ],
)
def test_numbers_without_measure_are_refused(
    files: Files, capfd: Capture, arguments: tuple[object, ...], message: str
) -> None:
    ran = run(capfd, "audit", files.head, "--forget", FORGET, "--n", 200, "--m", 20, *arguments)
    assert ran.code == 2
    assert message in ran.err


@pytest.mark.parametrize("seed", [99999999999999999999, -1])
def test_train_refuses_a_seed_that_no_generator_takes(files: Files, capfd: Capture, seed: int) -> None:
    ran = run(capfd, "train", "--data", "digits", "--backbone", "small-mlp", "--seed", seed, "--out", "made")
    assert ran.code == 2
    assert f"the seed is out of range\n  expected: 0 to 2^63 - 1\n  got:      {seed}" in ran.err


def audit_of_reference(files: Files, capfd: Capture) -> Any:
    data = ("--data", files.reference_features, *SMALL, "--json")
    return json.loads(run(capfd, "audit", files.reference, "--forget", FORGET, *data).out)
