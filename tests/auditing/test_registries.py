"""One entry in a registry is enough: the audit, its result, the schema, the command line and the docs' lists see it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest

from builders.audits import compare, hidden, never_seen
from builders.cli import Files, run
from sfra.attack import scale
from sfra.attack.scale import Placed, ScaleChoice
from sfra.auditing import rules
from sfra.auditing.findings import Finding, registry
from sfra.auditing.rules import Rule
from sfra.auditing.schema import json_schema
from sfra.core.head import Head

Capture = pytest.CaptureFixture[str]
QUICK: dict[str, Any] = {"n": 200, "m": 20, "epochs": 3}


def test_a_new_selection_rule_is_scored_listed_and_in_the_schema(
    monkeypatch: pytest.MonkeyPatch, capfd: Capture
) -> None:
    monkeypatch.setitem(rules.RULES, "first-epoch", Rule(sentence="the first epoch", choose=lambda trace: 1))
    report = compare(hidden(bias=-1.0), never_seen(), **QUICK)
    mine = [score for score in report.results if score.rule == "first-epoch"]
    assert len(mine) == 3
    assert {score.epoch for score in mine} == {1}
    assert report.value("canonical.released.first-epoch.rs") == mine[0].rs
    assert "first-epoch" in json_schema()["$defs"]["Score"]["properties"]["rule"]["enum"]
    assert "the first epoch" in run(capfd, "list", "rules").out


@dataclass(frozen=True)
class Doubled:
    """Twice the released weight."""

    name: ClassVar[str] = "doubled"
    kappa: ClassVar[None] = None

    def place(self, head: Head, retain: object) -> Placed:
        return Placed(head=Head(2 * head.weight, head.bias), gain=2.0)


def test_a_new_scale_is_audited_listed_and_taken_by_the_command_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: Capture
) -> None:
    entry = ScaleChoice(sentence="twice the released weight", verdict=Doubled())
    monkeypatch.setitem(scale.SCALES, "doubled", entry)
    report = compare(hidden(bias=-1.0), never_seen(), scale="doubled", **QUICK)
    assert report.scale == "doubled"
    assert {score.scale for score in report.results} == {"doubled", "canonical", "native"}
    assert "twice the released weight" in run(capfd, "list", "scales").out
    assert "doubled" in run(capfd, *Files(tmp_path).measured, "--scale", "doubled", "--json").out


def test_a_new_finding_is_raised_by_the_facts_that_its_parameters_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def any_score(rs: float, retain_classes: int) -> Finding:
        return Finding("any-score", "critical", rs, None, f"RS with {retain_classes} retain classes.")

    monkeypatch.setitem(registry.FINDINGS, "any-score", any_score)
    report = compare(hidden(bias=-1.0), never_seen(), **QUICK)
    assert report.findings[0] == Finding("any-score", "critical", report.rs, None, "RS with 5 retain classes.")
    assert "any-score" in json_schema()["$defs"]["Finding"]["properties"]["code"]["enum"]
