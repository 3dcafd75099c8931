"""A head or a setting that cannot be audited is refused at once, in the words of the audit, without importing torch."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sfra
from builders.cli import BIAS, WEIGHT, Files
from sfra.cli.early import check_head_file
from sfra.core.errors import InputError

DAMAGED = np.where(np.arange(WEIGHT.size).reshape(WEIGHT.shape) < 2, np.nan, WEIGHT)
CASES: dict[str, tuple[dict[str, Any], int, int]] = {
    "weight": ({"weight": DAMAGED, "bias": BIAS}, 3, 8),
    "bias": ({"weight": WEIGHT, "bias": BIAS.astype(np.float64) + 1e300}, 3, 8),
    "forget": ({"weight": WEIGHT}, 17, 8),
    "width": ({"weight": WEIGHT}, 3, 5),
}


def written(case: str) -> tuple[str, int, str]:
    arrays, forget, width = CASES[case]
    np.savez("odd.npz", **arrays)
    labels = np.arange(40) % 5
    np.savez("odd_features.npz", features=np.ones((40, width), np.float32), labels=labels)
    return "odd.npz", forget, "odd_features.npz"


@pytest.mark.parametrize("case", CASES)
def test_the_refusal_is_that_of_the_audit(files: Files, case: str) -> None:
    model, forget, data = written(case)
    with pytest.raises(InputError) as early:
        check_head_file(model, [str(forget)], data, missing_row=False)
    with pytest.raises(InputError) as late:
        sfra.audit(model, forget, data=data)
    assert str(early.value) == str(late.value)


def test_torch_is_not_imported_to_refuse(files: Files) -> None:
    model, forget, data = written("width")
    right = ["audit", str(files.head), "--forget", "3"]
    refused = [
        ["audit", model, "--forget", str(forget), "--data", data],
        [*right, "--epochs", "0"],
        [*right, "--threads", "2000"],
        [*right, "--scale", "-1"],
        [*right, "--scale", "cannonical"],
        [*right, "--proposal", "cauchy"],
        [*right, "--forget-weight", "balance"],
        [*right, "--expect-accuracy", "94"],
        [*right, "--fail-if", "verdikt==recovered"],
        ["explain", "recoverd"],
        ["report", "."],
        ["card", "nothing"],
    ]
    script = (
        "import sys; from sfra.cli import main; "
        f"print([main(words) for words in {[*refused, ['list', 'scales']]}][:-1], 'torch' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1] == f"{[2] * len(refused)} False"
    assert [line for line in ran.stderr.splitlines() if line.startswith("error: ")] == [
        "error: the features do not fit the head",
        "error: the setting epochs does not fit",
        "error: the number of threads is out of range",
        "error: unknown scale",
        "error: unknown scale",
        "error: unknown proposal",
        "error: unknown forget_weight",
        "error: budgets, epsilon_r, delta_f and expect_accuracy are shares",
        "error: cannot read the gate",
        "error: there is no such finding or verdict",
        "error: there is no audit to report",
        "error: there is no audit to report",
    ]
    for meant in ("canonical", "verdict", "recovered or not-recovered"):
        assert f"write {meant}, if you mean that" in ran.stderr


def test_what_may_be_right_or_is_wrong_otherwise_is_left_to_the_audit(files: Files) -> None:
    np.savez("turned.npz", weight=WEIGHT.T, bias=BIAS)
    check_head_file("turned.npz", ["3"], str(files.features), missing_row=False)
    check_head_file(str(files.head), ["3"], str(files.features), missing_row=False)
    check_head_file(str(files.head), ["5"], str(files.features), missing_row=True)
    Path("torn.npz").write_bytes(b"PK\x03\x04")
    check_head_file("torn.npz", ["3"], "torn.npz", missing_row=False)
    np.savez("texts.npz", weight=np.array([["a", "b"]]))
    check_head_file("texts.npz", ["3"], None, missing_row=False)


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "head.npz"
    os.mkfifo(pipe)
    ask = "from sfra.cli.early import check_head_file as check\n"
    ask += f"check({str(pipe)!r}, ['3'], {str(pipe)!r}, missing_row=False)"
    assert subprocess.run([sys.executable, "-c", ask], check=False, timeout=60).returncode == 0
