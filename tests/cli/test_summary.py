"""The summary on the terminal: what a reader takes away from it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from msgspec.structs import replace
from rich.console import Console

import sfra
from builders.cli import BIAS, FEATURES, FORGET, LABELS, WEIGHT, Files, Run
from sfra.attack.scale import SWEEP
from sfra.auditing.config import AuditConfig
from sfra.auditing.findings import Finding
from sfra.auditing.result import AuditReport, BeforeAfter, ClassResult
from sfra.auditing.verdict import conclude
from sfra.auditing.verdicts import VERDICTS
from sfra.cli.summary import summary
from sfra.data import FeatureSet

NAMES = ("ant", "cat", "dog", "ox", "pig")


@pytest.fixture(scope="module")
def report() -> AuditReport:
    """A real report, with a reference, a sweep and two seeds."""
    data = FeatureSet(features=torch.tensor(FEATURES), labels=torch.tensor(LABELS), class_names=NAMES, source="beasts")
    weight, bias = WEIGHT.copy(), BIAS.copy()
    weight[FORGET], bias[FORGET] = 0.0, -3.0
    head, reference = sfra.Head(weight, bias), sfra.Head(weight, 2 * bias)
    settings = AuditConfig(n=200, m=20, epochs=3, seeds=2, scale="sweep")
    return sfra.audit(head, "ox", data=data, reference=reference, reference_data=data, config=settings)


def text(report: AuditReport, out: Path | None = None, *, width: int = 80) -> str:
    console = Console(width=width, highlight=False, markup=False, emoji=False)
    with console.capture() as captured:
        console.print(summary(report, out))
    return captured.get()


def words(report: AuditReport) -> str:
    """The summary on one line, whatever the width."""
    return " ".join(text(report).split())


def test_verdict_stands_in_words_above_every_number(report: AuditReport) -> None:
    for code, verdict in VERDICTS.items():
        shown = words(replace(report, verdict=code, statement=verdict.meaning))
        assert f"Verdict: {code} {verdict.meaning}" in shown
        assert code == "unusable" or shown.index("Verdict:") < shown.index("Accuracy")


def test_an_unusable_audit_says_so_first_with_cause_and_remedy_and_shows_no_number_of_its_own(
    report: AuditReport,
) -> None:
    causes = (
        Finding("inputs-differ", "critical", 9.0, 1.0, "The images are in another range.", "divide by 255"),
        Finding("confidence-gap", "critical", 0.8, 0.3, "It is too sure.", "feed it"),
        Finding("degenerate", "info", 0.0, 0.1, "There is no sign of recovery."),
    )
    code, statement = conclude("recovered", report.results, causes)
    shown = text(replace(report, verdict=code, statement=statement, findings=causes))
    assert shown.startswith("Verdict: unusable\n")
    assert "What to do: divide by 255." in [line.strip() for line in shown.splitlines()]
    assert shown.count("inputs-differ") == 0  # the verdict says it
    assert "critical  confidence-gap" in shown
    for number in ("RS", "Accuracy", "no sign of recovery", "Other readings", "only hidden", "±"):
        assert number not in shown


def test_of_a_class_that_never_went_accuracies_are_shown_and_no_score(report: AuditReport) -> None:
    shown = text(replace(report, verdict="not-unlearned", findings=()))
    assert "Accuracy" in shown
    for number in ("RS", "floor", "only hidden", "All readings"):
        assert number not in shown


def test_score_comes_with_its_setting_spread_interval_and_floor(report: AuditReport) -> None:
    changed = replace(report, rs=0.8754, rs_std=0.0042, rs_interval=(0.8581, 0.8893), floor=0.1036)
    shown = words(changed)
    assert "RS 0.875 0: nothing comes back; 1: all of it" in shown
    assert "± 0.004 over 2 seeds, 95 % interval 0.858 to 0.889" in shown
    assert "canonical scale, source-free rule (last epoch: no real data is used)" in shown
    assert "floor 0.104 scored by a head that always answers the forgotten class" in shown
    assert "over 2 seeds" not in words(replace(changed, rs_std=None))


def test_numbers_stand_beside_what_they_are(report: AuditReport) -> None:
    changed = replace(report, retain=BeforeAfter(before=0.9391, after=0.9), forget=BeforeAfter(before=0.0, after=0.939))
    shown = words(replace(changed, delta_rs=0.7954, reference_rs=0.08, delta_rs_interval=(0.75, 0.83)))
    assert "Forgotten class 3 (ox)" in shown
    assert "N = 200, M = 20 probes per class, 3 epochs, 2 seeds" in shown
    assert "retain the other classes 93.9 % 90.0 % -3.9 points" in shown
    assert "forget forgotten class 0.0 % 93.9 % +93.9 points" in shown
    assert "ΔRS +0.795 RS minus 0.080" in shown
    assert "95 % interval +0.750 to +0.830" in shown


def test_without_a_reference_the_score_is_said_to_be_no_evidence(files: Files, run: Run) -> None:
    shown = " ".join(run(*files.measured).out.split())
    assert "Reference none: there is nothing to compare with" in shown
    assert "ΔRS - not measured: without a reference, RS alone is not evidence of memory (pass --reference)" in shown


def test_without_data_nothing_is_said_to_be_measured(files: Files, run: Run) -> None:
    shown = " ".join(run("audit", files.head, "--forget", 3, "--n", 200, "--m", 20, "--epochs", 2).out.split())
    assert "Data none: nothing is measured" in shown
    assert "without evaluation data nothing was measured" in shown
    assert re.search(r"RS [\d.+-]", shown) is None  # findings may speak of RS, none is shown


def test_every_reading_is_in_the_table_and_that_of_the_verdict_is_marked(report: AuditReport) -> None:
    lines = text(report).splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("All readings"))
    table = lines[start + 2 : start + 11]
    assert sum("*" in line for line in table) == 1
    assert table[0].split()[:4] == ["*", "canonical", "released", "source-free"]
    for rule in ("source-free", "validation", "worst-case"):
        assert sum(rule in line for line in table) == 3


def test_reading_that_says_otherwise_stands_beside_the_verdict(report: AuditReport) -> None:
    results = [replace(score, verdict=report.verdict) for score in report.results]
    agreed = words(replace(report, results=tuple(results)))
    at = next(i for i, score in enumerate(results) if (score.variant, score.rule) == ("reset-row", "source-free"))
    results[at] = replace(results[at], verdict="recovered", rs=0.55, delta_rs=0.5)
    sentence = "Other readings of the same audit: - with a fresh forget row: recovered (RS 0.550, ΔRS +0.500)"
    assert report.verdict != "recovered"
    assert sentence not in agreed
    assert sentence in words(replace(report, results=tuple(results)))
    after_reset = words(replace(report, verdict="recovered-after-reset"))
    assert f"- as released, the numbers below: {report.results[0].verdict} (RS " in after_reset


@pytest.mark.parametrize(("code", "each"), [("like-hidden", "no-reference"), ("blind", "generic")])
def test_reading_that_says_what_the_verdict_is_made_of_does_not_stand_as_another(
    report: AuditReport, code: str, each: str
) -> None:
    results = tuple(replace(score, verdict=each) for score in report.results)
    assert "Other readings" not in words(replace(report, verdict=code, results=results))
    other = (*results, replace(results[0], verdict="degenerate", scale="native"))
    shown = words(replace(report, verdict=code, results=other))
    assert "Other readings of the same audit: - at native scale: degenerate" in shown
    assert "as released, the numbers below" not in shown


def test_what_the_audit_sees_of_hidden_classes_stands_there(report: AuditReport) -> None:
    shown = words(report)
    [control] = report.controls
    assert "What this audit sees of classes that are only hidden" in shown
    for one in control.hidden:
        assert one.score.delta_rs is not None
        beside = f"{one.score.rs:.3f} {one.score.delta_rs:+z.3f}"
        assert f"{beside} {100 * one.score.forget_after:.1f} % {'yes' if one.seen else 'no'}" in shown
    assert "only hidden" not in words(replace(report, controls=()))


def test_each_of_several_classes_stands_there_with_its_verdict(report: AuditReport) -> None:
    one = ClassResult(label=3, verdict="recovered", scores=(replace(report.results[0], rs=0.8123),))
    gone = ClassResult(label=1, verdict="not-measured", scores=())
    shown = words(replace(report, classes=(one, gone)))
    assert "Each forgotten class for itself" in shown
    assert "3 (ox) recovered" in shown
    assert "0.812" in shown
    assert "not-measured - - - -" in shown


def test_sweep_is_summed_up(report: AuditReport) -> None:
    assert report.sweep is not None
    shown = words(replace(report, sweep=replace(report.sweep, area=0.3123, rs_at_reference=0.8471, level=0.05)))
    assert f"Scale κ RS reference RS ΔRS retain forget {SWEEP[0].kappa:.2f}" in shown
    assert "curve: +0.312 (0: relearns like the reference" in shown
    assert "Highest RS while the reference stays at or below 0.05: 0.847." in shown
    alone = words(replace(report, sweep=replace(report.sweep, area=None, best_rs=0.5)))
    assert "Highest RS 0.500. Without a reference a curve says little." in alone


def test_findings_stand_in_the_order_given_with_code_severity_and_message(report: AuditReport) -> None:
    findings = (
        Finding("degenerate", "critical", 0.4, 0.1, "Relearning destroyed the rest."),
        Finding("small-m", "warning", 20.0, 200.0, "M = 20 is few."),
    )
    shown = words(replace(report, findings=findings))
    assert "critical degenerate Relearning destroyed the rest. warning small-m M = 20 is few." in shown
    assert "Findings" not in words(replace(report, findings=()))


@pytest.mark.parametrize("width", [80, 120])
def test_no_line_is_wider_than_the_terminal_and_nothing_is_cut_off(report: AuditReport, width: int) -> None:
    long = replace(report, model=replace(report.model, source="a model with a very long name " * 5), seconds=1e5)
    shown = text(long, Path("a/rather/long/path" * 9), width=width)
    assert max(map(len, shown.splitlines())) <= width
    assert "…" not in shown


def test_on_a_narrow_terminal_words_stay_whole_and_the_last_columns_go(report: AuditReport) -> None:
    lines = text(report, width=60).splitlines()
    assert max(map(len, lines)) <= 60
    readings = next(line for line in lines if "Forget row" in line).split()
    assert readings == ["Scale", "Forget", "row", "Rule", "RS", "ΔRS"]
    assert any("canonical" in line and "released" in line and "source-free" in line for line in lines)
    assert any(line.split()[:1] == ["Accuracy"] for line in lines)
    assert any(line.split()[:3] == ["retain", "the", "other"] for line in lines)


def test_text_from_files_cannot_reach_the_terminal_as_codes_or_markup(report: AuditReport) -> None:
    names = ("ant", "cat", "dog", "[red]o\x1b[2Jx[/red]", "pig")
    shown = text(replace(report, class_names=names, model=replace(report.model, source="x\x1b]0;y\x07")))
    assert "\x1b" not in shown
    assert "3 ([red]o?[2Jx[/red])" in shown
