"""The result as data: scalars by name, JSON, and files that are whole or not there."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from msgspec.structs import replace

from builders.audits import FORGET, SMALL, compare, hidden, never_seen
from sfra.auditing.audit import audit
from sfra.auditing.result import SCHEMA, AuditReport
from sfra.auditing.stored import read_result
from sfra.auditing.verdict import statement
from sfra.core.errors import InputError
from sfra.core.head import Head

QUICK: dict[str, Any] = {"n": 200, "m": 20, "epochs": 3}


@pytest.fixture(scope="module")
def report() -> AuditReport:
    return compare(hidden(bias=0.0), never_seen(), seeds=2, scale="sweep", **QUICK)


@pytest.fixture(scope="module")
def unmeasured() -> AuditReport:
    return audit(hidden().head, FORGET, **{**SMALL, **QUICK})


def test_its_representation_is_a_line_with_the_verdict_and_its_numbers(
    report: AuditReport, unmeasured: AuditReport
) -> None:
    shown, bare = repr(report), repr(unmeasured)
    assert shown.startswith(f"AuditReport({report.verdict!r}, rs={report.rs:.3f}, delta_rs={report.delta_rs:.3f}, ")
    assert f"forget {report.forget.before:.1%} to {report.forget.after:.1%}, " in shown
    assert all(finding.code in shown for finding in report.findings)
    assert bare.startswith("AuditReport('not-measured', rs=None, delta_rs=None, forget_classes=[2], findings: ")
    for text in (shown, bare):
        assert "tensor" not in text
        assert "\n" not in text
        assert len(text) < 400


def test_a_scalar_is_found_by_its_dotted_name(report: AuditReport) -> None:
    assert report.sweep is not None
    row = next(row for row in report.results if (row.scale, row.rule) == ("native", "worst-case"))
    expected = {
        "rs": report.rs,
        "rs_std": report.rs_std,
        "delta_rs": report.delta_rs,
        "reference_rs": report.reference_rs,
        "floor": report.floor,
        "forget.after": report.forget.after,
        "retain.before": report.retain.before,
        "rs_at.0.02": report.rs_at["0.02"],
        "sweep.area": report.sweep.area,
        "native.released.worst-case.rs": row.rs,
        "native.released.worst-case.delta_rs": row.delta_rs,
        "canonical.reset-row.source-free.forget_after": next(
            row.forget_after for row in report.results if row.variant == "reset-row"
        ),
        "findings": len(report.findings),
        "seconds": report.seconds,
        "relearned": float(bool(report.relearned)),
    }
    scalars = report.scalars()
    assert {name: scalars[name] for name in expected} == expected


def test_what_was_not_measured_is_none_and_not_zero(unmeasured: AuditReport) -> None:
    scalars = unmeasured.scalars()
    assert scalars.pop("seconds") == unmeasured.seconds
    assert scalars.pop("findings") == len(unmeasured.findings)
    assert scalars.keys() >= {"rs", "delta_rs", "relearned", "forget.after"}
    assert set(scalars.values()) == {None}


@pytest.mark.parametrize("which", ["report", "unmeasured"])
def test_the_json_is_strict_and_says_it_all_but_the_head(which: str, request: pytest.FixtureRequest) -> None:
    one: AuditReport = request.getfixturevalue(which)

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    content = json.loads(one.to_json(), parse_constant=refuse)
    assert content == json.loads(json.dumps(one.to_dict()))
    assert list(content)[:3] == ["schema", "verdict", "statement"]
    assert content["schema"] == SCHEMA
    assert content["statement"] == statement(one.verdict, one.results[0] if one.results else None) == one.statement
    assert "relearned_head" not in content
    assert content["findings"][0].keys() == {"code", "severity", "measured", "threshold", "message", "remedy"}
    assert content["rs_interval"] == (None if one.rs_interval is None else list(one.rs_interval))


def test_saved_files_hold_the_report_and_the_head(report: AuditReport, tmp_path: Path) -> None:
    path = report.save(tmp_path / "new" / "folder")
    assert path == tmp_path / "new" / "folder" / "audit.json"
    assert json.loads(path.read_text(encoding="utf-8"))["rs"] == report.rs
    assert {file.name for file in path.parent.iterdir()} == {"audit.json", "relearned_head.safetensors"}
    again = Head.load(path.parent / "relearned_head.safetensors")
    assert again.fingerprint == report.relearned_head.fingerprint
    assert report.save(str(path.parent)) == path  # over itself


def test_an_audit_beside_the_head_of_another_is_refused(
    report: AuditReport, unmeasured: AuditReport, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report.save(tmp_path)
    assert read_result(tmp_path / "audit.json").verdict == report.verdict
    real, renamed = os.replace, list[Path]()

    def killed(draft: str, target: Path) -> None:
        if renamed:
            raise KeyboardInterrupt
        renamed.append(target)
        real(draft, target)

    monkeypatch.setattr("sfra.core.files.os.replace", killed)
    with pytest.raises(KeyboardInterrupt):
        unmeasured.save(tmp_path)
    with pytest.raises(
        InputError, match=r"audit\.json and relearned_head\.safetensors in .* are not of the same audit"
    ):
        read_result(tmp_path / "audit.json")
    (tmp_path / "relearned_head.safetensors").unlink()
    assert read_result(tmp_path / "audit.json").verdict == report.verdict


def test_a_file_in_the_place_of_the_folder_is_refused_and_kept(report: AuditReport, tmp_path: Path) -> None:
    target = tmp_path / "results"
    target.write_text("mine")
    with pytest.raises(InputError, match="cannot write the results there\n  expected: a folder"):
        report.save(target)
    assert target.read_text() == "mine"


def test_nothing_is_half_written_when_the_second_file_cannot_be(
    report: AuditReport, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "audit.json").write_text("of an earlier audit")
    Head(torch.eye(3)).save(tmp_path / "relearned_head.safetensors")
    before = {file: file.read_bytes() for file in tmp_path.iterdir()}
    real, opened = os.fdopen, []

    def full(handle: int, mode: str) -> Any:
        opened.append(handle)
        if len(opened) == 2:
            os.close(handle)
            raise OSError("no space left")
        return real(handle, mode)

    monkeypatch.setattr("sfra.core.files.os.fdopen", full)
    with pytest.raises(OSError, match="no space left"):
        report.save(tmp_path)
    assert {file: file.read_bytes() for file in tmp_path.iterdir()} == before


def test_a_number_that_json_does_not_have_is_refused_before_anything_is_written(
    report: AuditReport, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match="JSON"):
        replace(report, rs=float("nan")).save(tmp_path / "out")
    assert not (tmp_path / "out").exists()
