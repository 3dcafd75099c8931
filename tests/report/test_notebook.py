"""A report in a notebook: the card, the summary, the page and single figures."""

from __future__ import annotations

import base64
import re
import sys

import pytest
import torch
from msgspec.structs import replace

import sfra
from builders.cli import BIAS, FEATURES, LABELS, WEIGHT
from sfra.auditing.result import AuditReport
from sfra.auditing.stored import parse_result
from sfra.auditing.verdicts import VERDICTS
from sfra.core.errors import InputError, MissingPackageError
from sfra.data import FeatureSet
from sfra.report import notebook


@pytest.fixture(scope="module")
def report() -> AuditReport:
    names = ("ant", "cat", "dog", "<b>ox", "pig")
    data = FeatureSet(features=torch.tensor(FEATURES), labels=torch.tensor(LABELS), class_names=names, source="beasts")
    weight = WEIGHT.copy()
    weight[3] = 0.0
    return sfra.audit(sfra.Head(weight, BIAS - 1), "<b>ox", data=data, n=2000, m=200, epochs=20)


def test_card_shows_verdict_numbers_and_picture(report: AuditReport) -> None:
    shown = replace(report, verdict="recovered", statement="It comes back.", rs=0.8754, rs_interval=(0.81, 0.93))
    card = replace(shown, delta_rs=0.5, delta_rs_interval=(0.4, 0.6))._repr_html_()
    for text in ("recovered</strong>", "It comes back.", "0.88", "interval 0.81 to 0.93", "+0.50", "+0.40 to +0.60"):
        assert text in card
    [picture] = re.findall(r'src="data:image/svg\+xml;base64,([^"]*)"', card)
    assert base64.b64decode(picture).startswith(b"<svg")
    assert all(f">{code}</strong>" in replace(report, verdict=code)._repr_html_() for code in VERDICTS)


def test_card_runs_nothing_that_a_name_says(report: AuditReport) -> None:
    card = report._repr_html_()
    assert "&lt;b&gt;ox" in card
    assert "<b>ox" not in card
    assert "<script" not in card
    assert not re.search(r"https?:", re.sub(r"base64,[^\"]*", "", card))


def test_card_of_an_unusable_audit_shows_no_number(report: AuditReport) -> None:
    card = replace(report, verdict="unusable", statement="Something is wrong.")._repr_html_()
    assert "Something is wrong." in card
    assert "<table" not in card
    assert "<img" not in card


def test_card_without_the_drawing_packages_says_which(report: AuditReport, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "altair", None)
    card = report._repr_html_()
    assert "pip install 'sfra[report]'" in card
    assert "<table" in card
    with pytest.raises(MissingPackageError, match="altair"):
        report.plot()


def test_summary_is_what_the_command_line_prints_without_where_it_went(report: AuditReport) -> None:
    text = report.summary()
    assert f"Verdict: {report.verdict}" in text
    assert "All readings" in text
    assert "--out" not in text
    assert "\x1b" not in text


def test_page_and_figures_are_those_of_the_report(report: AuditReport) -> None:
    assert report.to_html().startswith("<!DOCTYPE html>")
    assert report.plot().to_dict() == notebook.plot(report, "trajectory").to_dict()
    assert report.plot("budget").to_dict()["title"]["text"] == "What comes back at which cost"
    with pytest.raises(InputError, match="write trajectory, if you mean that"):
        report.plot("trajektory")


def test_result_that_was_read_from_a_file_shows_itself_too(report: AuditReport) -> None:
    read = parse_result(report.to_dict(), "a file")
    assert read._repr_html_() == report._repr_html_()
    assert read.summary() == report.summary()
