"""What an audit says may be typed next."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from msgspec.structs import replace

import sfra
from builders.cli import BIAS, FEATURES, LABELS, WEIGHT, Files, Run
from sfra.auditing.findings import Finding
from sfra.auditing.result import AuditReport, Control
from sfra.auditing.verdicts import VERDICTS
from sfra.cli.following import following
from sfra.data import FeatureSet
from sfra.models import backbones
from sfra.models.backbones.checkpoint import save_model


@pytest.fixture(scope="module")
def report() -> AuditReport:
    data = FeatureSet(features=torch.tensor(FEATURES), labels=torch.tensor(LABELS), source="beasts")
    return sfra.audit(sfra.Head(WEIGHT, BIAS), 3, data=data, n=200, m=20, epochs=2, self_controls=0)


def lines(report: AuditReport, verdict: str, **given: Any) -> list[str]:
    how = {name: given.pop(name, None) for name in ("arch", "key", "head_key")}
    settings: dict[str, Any] = {"model": "models/cut", "data": None, "how": how, "out": None} | given
    return following(replace(report, verdict=verdict), **settings)


@pytest.mark.parametrize("verdict", VERDICTS)
def test_every_verdict_leads_to_its_explanation_and_a_kept_result_to_its_page(
    report: AuditReport, verdict: str
) -> None:
    shown = lines(report, verdict, out=Path("results"))
    assert shown[-2:] == ["sfra report results --out results/report.html", f"sfra explain {verdict}"]
    assert not any(line.startswith("sfra report") for line in lines(report, verdict))


@pytest.mark.parametrize(
    ("verdict", "lacks"),
    [
        ("not-measured", "--data DATA"),
        ("no-reference", "--reference REFERENCE --reference-data FEATURES, a model trained without the class"),
        ("like-hidden", "--reference REFERENCE --reference-data FEATURES, a model trained without the class"),
        ("inconclusive", "one more --reference, trained with another --seed"),
        ("degenerate", "--scale calibrated"),
        ("blind", "--control ORIGINAL --control-data FEATURES, the model before it forgot"),
    ],
)
def test_first_line_names_what_the_verdict_lacks(report: AuditReport, verdict: str, lacks: str) -> None:
    assert lines(report, verdict)[0] == f"the same audit with {lacks}"


def test_control_that_did_not_come_back_leads_to_another_size_and_then_to_a_longer_audit(report: AuditReport) -> None:
    tried = replace(report, controls=(Control(kind="original", source="original", hidden=()),))
    assert lines(tried, "blind")[0] == "the same audit with --scale calibrated"
    found = replace(tried, settings=tried.settings | {"scale": 0.85})
    assert lines(found, "blind")[0] == "the same audit with --epochs 300"
    longer = replace(found, settings=found.settings | {"epochs": 300})
    assert not any("--epochs" in line for line in lines(longer, "blind"))
    assert lines(found, "degenerate")[0] == "the same audit with --scale sweep"


def test_missing_reference_can_be_trained_where_the_data_has_a_name(report: AuditReport, tmp_path: Path) -> None:
    images = replace(report, data=replace(report.data, kind="images"))  # type: ignore[type-var]
    named = {"data": "digits", "arch": "small-cnn"}
    assert lines(images, "no-reference", **named)[:2] == [
        "sfra train --data digits --backbone small-cnn --without 3 --out models/reference-3",
        "the same audit with --reference models/reference-3",
    ]
    model = save_model(
        tmp_path / "cut", backbones.build("small-mlp", classes=10, seed=0), backbone="small-mlp", classes=10
    )
    trained = f"sfra train --data digits --backbone small-mlp --without 3 --out {tmp_path / 'reference-3'}"
    assert lines(images, "no-reference", model=str(model), data="digits")[0] == trained
    (tmp_path / "reference-3").mkdir()
    again = lines(images, "no-reference", model=str(model), data="digits")
    assert again[0] == f"the same audit with --reference {tmp_path / 'reference-3'}"


def test_critical_finding_is_what_an_unusable_audit_leads_to(report: AuditReport) -> None:
    grave = Finding("retain-low", "critical", 0.1, 0.2, "It guesses.")
    shown = lines(replace(report, findings=(grave,)), "unusable", data="digits")
    assert shown == ["sfra doctor models/cut --data digits", "sfra explain retain-low"]
    shown = lines(replace(report, findings=(grave,)), "unusable", arch="small-cnn", key="ema", head_key=None)
    assert shown[0] == "sfra doctor models/cut --arch small-cnn --key ema"


def test_next_commands_stand_below_the_summary_unbroken(files: Files, run: Run) -> None:
    out = files.folder / ("a-long-name" * 8)
    shown = run(*files.measured, "-o", out).out
    assert "\nNext:\n  the same audit with --control ORIGINAL" in shown
    assert f"\n  sfra report {out} --out {out}/report.html\n" in shown
    assert "Next:" not in run(*files.measured, "--json").out + run(*files.measured, "-q").out
