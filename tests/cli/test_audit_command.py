"""``sfra audit``: what it prints, writes and returns."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sfra
from builders.cli import SMALL, Files, run
from sfra.core.head import Head

Capture = pytest.CaptureFixture[str]


def test_an_audit_prints_the_summary_on_stdout_and_writes_nothing_without_out(files: Files, capfd: Capture) -> None:
    arguments = files.measured
    before = sorted(files.folder.iterdir())
    ran = run(capfd, *arguments)
    assert ran.code == 0
    assert "Verdict: " in ran.out
    assert "Nothing was written: pass --out DIR" in ran.out
    assert sorted(files.folder.iterdir()) == before


def test_out_receives_the_json_and_the_relearned_head(files: Files, capfd: Capture) -> None:
    ran = run(capfd, *files.measured, "--out", "deep/er")
    assert ran.code == 0
    assert sorted(path.name for path in Path("deep/er").iterdir()) == ["audit.json", "relearned_head.safetensors"]
    relearned = Head.load("deep/er/relearned_head.safetensors")
    assert (relearned.classes, relearned.width) == (5, 8)
    assert not np.array_equal(relearned.weight.numpy(), np.load(files.head)["weight"])
    assert "Written to deep/er: audit.json, relearned_head.safetensors." in ran.out


def test_json_on_stdout_is_exactly_the_file_and_nothing_else(files: Files, capfd: Capture) -> None:
    ran = run(capfd, *files.compared, "--out", "out", "--json")
    assert ran.out == Path("out/audit.json").read_text(encoding="utf-8")
    assert json.loads(ran.out)["schema"] == "sfra.audit/1"
    assert ran.out.endswith("\n}\n")
    assert "relearning" in ran.err


def test_the_command_says_what_the_python_function_says(files: Files, capfd: Capture) -> None:
    ran = run(capfd, *files.compared, "--json", "--seeds", "2", "--seed", "5", "--scale", "1.5", "--no-reset-row")
    shown = json.loads(ran.out)
    report = sfra.audit(
        str(files.head),
        3,
        data=str(files.features),
        reference=str(files.reference),
        reference_data=str(files.reference_features),
        n=200,
        m=20,
        epochs=3,
        seeds=2,
        seed=5,
        scale=1.5,
        reset_row=False,
    )
    same = json.loads(report.to_json())
    for varying in ("seconds", "created", "probes"):
        del shown[varying], same[varying]
    assert shown == same


@pytest.mark.parametrize(("given", "expected"), [(["3"], [3]), (["3,1"], [1, 3]), (["3", "1, 0"], [0, 1, 3])])
def test_forget_takes_commas_and_repetition(
    files: Files, capfd: Capture, given: list[str], expected: list[int]
) -> None:
    options = [part for one in given for part in ("--forget", one)]
    ran = run(capfd, "audit", files.head, *options, *SMALL, "--json")
    assert json.loads(ran.out)["forget_classes"] == expected


def test_forget_takes_names(files: Files, capfd: Capture) -> None:
    release = files.state_dict
    ran = run(capfd, "audit", release, "--arch", "small-mlp", "--forget", "9", "--data", "digits", *SMALL, "--no-cache")
    assert ran.code == 0
    assert "Forgotten  class 9\n" in ran.out


def test_an_empty_forget_class_is_refused(files: Files, capfd: Capture) -> None:
    ran = run(capfd, "audit", files.head, "--forget", "1,,3")
    assert ran.code == 2
    assert "a forget class is empty" in ran.err


@pytest.mark.parametrize(
    ("option", "value", "needed"),
    [
        ("--reference", "reference.npz", "--data"),
        ("--validation", "features.npz", "--data"),
        ("--reference-data", "features.npz", "--reference"),
    ],
)
def test_an_option_that_means_nothing_without_another_is_refused(
    files: Files, capfd: Capture, option: str, value: str, needed: str
) -> None:
    ran = run(capfd, "audit", files.head, "--forget", 3, option, value)
    assert ran.code == 2
    assert ran.err.startswith(f"error: {option} is of no use without {needed}\n")


def test_quiet_prints_nothing_at_all(files: Files, capfd: Capture) -> None:
    ran = run(capfd, *files.measured, "--quiet")
    assert (ran.code, ran.out, ran.err) == (0, "", "")


def test_a_log_gets_one_line_per_stage(files: Files, capfd: Capture) -> None:
    ran = run(capfd, *files.compared)
    assert ran.err.splitlines() == ["relearning: 3 runs", "relearning: 3 runs"]


def test_an_out_that_is_a_file_is_refused_before_the_work(files: Files, capfd: Capture) -> None:
    Path("out").write_text("mine")
    ran = run(capfd, *files.measured, "--out", "out")
    assert ran.code == 2
    assert "the results cannot be written there" in ran.err
    assert "relearning" not in ran.err
    assert Path("out").read_text() == "mine"


def test_an_out_below_a_file_is_refused_before_the_work(files: Files, capfd: Capture) -> None:
    Path("file").write_text("mine")
    ran = run(capfd, *files.measured, "--out", "file/out")
    assert ran.code == 2
    assert "is a file" in ran.err
    assert "relearning" not in ran.err


def test_an_out_that_takes_no_files_is_refused_before_the_work(files: Files, capfd: Capture) -> None:
    ran = run(capfd, *files.measured, "--out", "/proc/sfra-out")
    assert ran.code == 2
    assert "--out with a folder that you may write to" in ran.err
    assert "relearning" not in ran.err


def test_a_result_name_that_is_a_folder_is_refused_before_the_work(files: Files, capfd: Capture) -> None:
    Path("out/audit.json").mkdir(parents=True)
    ran = run(capfd, *files.measured, "--out", "out")
    assert ran.code == 2
    assert "a result cannot be written" in ran.err
    assert "relearning" not in ran.err


def broken(problem: BaseException) -> Callable[..., Any]:
    def audit(*_: object, **__: object) -> None:
        raise problem

    return audit


def test_ctrl_c_ends_with_130_and_one_line(files: Files, capfd: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["sfra.auditing.audit"], "audit", broken(KeyboardInterrupt()))
    ran = run(capfd, *files.measured, "--out", "out")
    assert (ran.code, ran.out, ran.err) == (130, "", "interrupted\n")
    assert not Path("out").exists()


def test_a_defect_ends_with_70_and_a_traceback(files: Files, capfd: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["sfra.auditing.audit"], "audit", broken(ZeroDivisionError("by zero")))
    ran = run(capfd, *files.measured)
    assert ran.code == 70
    assert "ZeroDivisionError: by zero" in ran.err
    assert ran.err.splitlines()[-1].startswith("this is a defect of sfra, not of your input: please report it")


def test_debug_adds_the_traceback_of_what_the_user_can_fix(files: Files, capfd: Capture) -> None:
    plain = run(capfd, "audit", "missing.npz", "--forget", 3)
    full = run(capfd, "audit", "missing.npz", "--forget", 3, "--debug")
    assert (plain.code, full.code) == (2, 2)
    assert "Traceback" not in plain.err
    assert "Traceback" in full.err
    assert plain.err.splitlines()[-1] == full.err.splitlines()[-1]


def test_results_that_cannot_be_written_in_the_end_are_the_users_to_fix(
    files: Files, capfd: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("sfra.auditing.result.write_together", full)
    ran = run(capfd, *files.measured, "--out", "out")
    assert ran.code == 2
    assert "the results could not be written" in ran.err
    assert "No space left on device" in ran.err
