"""``sfra audit``: what it prints, writes and returns."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

import sfra
from builders.cli import SMALL, Files, Run
from sfra.core.head import Head


def test_audit_prints_the_summary_and_writes_nothing_without_out(files: Files, run: Run) -> None:
    arguments = files.measured
    before = sorted(files.folder.iterdir())
    ran = run(*arguments)
    assert ran.code == 0
    assert "Verdict: " in ran.out
    assert "Nothing was written: pass --out DIR" in ran.out
    assert sorted(files.folder.iterdir()) == before


def test_out_receives_the_relearned_head_and_the_json_that_json_prints(files: Files, run: Run) -> None:
    ran = run(*files.compared, "--out", "deep/er", "--json")
    assert sorted(path.name for path in Path("deep/er").iterdir()) == ["audit.json", "relearned_head.safetensors"]
    relearned = Head.load("deep/er/relearned_head.safetensors")
    assert (relearned.classes, relearned.width) == (5, 8)
    assert not np.array_equal(relearned.weight.numpy(), np.load(files.head)["weight"])
    assert ran.out == Path("deep/er/audit.json").read_text(encoding="utf-8")
    whose = "3 of the model, 3 of references, 4 of hidden classes"
    assert ran.err.splitlines() == [f"auditing: 10 draws of probes, as many relearnings of 3 epochs: {whose}"]


def test_command_and_function_give_the_same_result(files: Files, run: Run) -> None:
    ran = run(*files.compared, "--json", "--seeds", "2", "--seed", "5", "--scale", "1.5", "--no-reset-row")
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


def test_forget_takes_commas_and_repetition(files: Files, run: Run) -> None:
    ran = run("audit", files.head, "--forget", "3", "--forget", "1, 0", *SMALL, "--json")
    assert json.loads(ran.out)["forget_classes"] == [0, 1, 3]


def test_quiet_prints_nothing_at_all(files: Files, run: Run) -> None:
    ran = run(*files.measured, "--quiet")
    assert (ran.code, ran.out, ran.err) == (0, "", "")


@pytest.mark.parametrize(
    ("out", "message"),
    [("file/out", "file is a file"), ("/proc/sfra-out", "/proc"), ("full", "a folder")],
)
def test_audit_refuses_a_bad_out_before_the_work(files: Files, run: Run, out: str, message: str) -> None:
    Path("file").write_text("mine")
    Path("full/audit.json").mkdir(parents=True)
    ran = run(*files.measured, "--out", out)
    assert ran.code == 2
    assert message in ran.err
    assert "do:       choose another" in ran.err
    assert "relearning" not in ran.err
    assert Path("file").read_text() == "mine"


@pytest.mark.parametrize(
    ("problem", "code", "message"),
    [
        (KeyboardInterrupt(), 130, "interrupted\n"),
        (ZeroDivisionError("by zero"), 70, "ZeroDivisionError: by zero\nthis is a defect of sfra, not of your input"),
        (OSError(28, "No space left on device"), 2, "error: cannot use a file\n  got:      No space left on device\n"),
    ],
)
def test_audit_ends_with_the_exit_code_of_the_problem(
    files: Files, run: Run, monkeypatch: pytest.MonkeyPatch, problem: BaseException, code: int, message: str
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise problem

    monkeypatch.setattr(sys.modules["sfra.auditing.audit"], "audit", broken)
    ran = run(*files.measured, "--out", "out")
    assert (ran.code, ran.out) == (code, "")
    assert message in ran.err
    assert ("Traceback" in ran.err) == (code == 70)
    assert not Path("out").exists()


def test_debug_adds_the_traceback_of_what_the_user_can_fix(files: Files, run: Run) -> None:
    plain = run("audit", "missing.npz", "--forget", 3)
    full = run("audit", "missing.npz", "--forget", 3, "--debug")
    assert (plain.code, full.code) == (2, 2)
    assert "Traceback" not in plain.err
    assert "Traceback" in full.err
    assert plain.err.splitlines()[-1] == full.err.splitlines()[-1]
