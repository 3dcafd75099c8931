"""``--fail-if``: numbers of the result as an exit code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

import sfra
from builders.audits import QUICK, compare, hidden, knowing, never_seen
from builders.cli import Files, Run
from sfra.auditing.config import AuditConfig
from sfra.auditing.result import AuditReport
from sfra.cli.gates import Gate, judge, parse, scalar_names
from sfra.core.errors import InputError


def failures(gates: list[Gate], report: AuditReport) -> list[str]:
    return [said for said in judge(gates, report).values() if said is not None]


def test_failed_gate_ends_with_1_after_everything_was_written(files: Files, run: Run) -> None:
    ran = run(*files.compared, "--out", "out", "--json", "--fail-if", "retain.before>0.5")
    value = json.loads(Path("out/audit.json").read_text())["retain"]["before"]
    assert ran.code == 1
    assert ran.err.splitlines()[-1] == f"gate failed: retain.before > 0.5 (retain.before is {value:.6g})"
    assert json.loads(ran.out)["delta_rs"] is not None
    assert Path("out/relearned_head.safetensors").is_file()


def test_every_gate_is_checked_and_named(files: Files, run: Run) -> None:
    gates = ("findings>=0", "findings>99", "native.released.worst-case.rs>=0")
    ran = run(*files.measured, "--quiet", *(part for gate in gates for part in ("--fail-if", gate)))
    assert ran.code == 1
    assert [line.partition(" (")[0] for line in ran.err.splitlines()] == [
        "gate failed: findings >= 0",
        "gate failed: native.released.worst-case.rs >= 0",
    ]


@pytest.mark.parametrize("text", ["rs", "rs=0.1", ">0.1", "rs>nan"])
def test_unreadable_gate_is_refused_before_the_audit(files: Files, run: Run, text: str) -> None:
    ran = run(*files.measured, "--out", "out", "--fail-if", text)
    assert ran.code == 2
    assert "for example delta_rs>0.1" in ran.err
    assert "relearning" not in ran.err
    assert not Path("out").exists()


@pytest.mark.parametrize(
    ("options", "name", "remedy"),
    [
        ((), "sr", "has no number named sr\n  expected: seconds, findings, verdict, clear, rs, rs_std, floor"),
        (("--no-reset-row",), "canonical.reset-row.source-free.rs", "has no number named canonical.reset-row"),
        ((), "forget.aftr", "write forget.after or"),
        ((), "delta_rs", "pass --reference"),
        ((), "rs_std", "pass --seeds 2 or more"),
    ],
)
def test_gate_on_a_number_that_will_not_be_measured_is_refused_before_the_audit(
    files: Files, run: Run, options: tuple[str, ...], name: str, remedy: str
) -> None:
    ran = run(*files.measured, *options, "--fail-if", f"{name}>0.1")
    assert ran.code == 2
    assert remedy in ran.err
    assert "relearning" not in ran.err


def test_gate_on_a_measurement_without_data_says_to_pass_data(files: Files, run: Run) -> None:
    ran = run("audit", files.head, "--forget", 3, "--n", 200, "--m", 20, "--fail-if", "rs>0.1")
    assert (ran.code, "pass --data" in ran.err) == (2, True)


def test_gates_that_do_not_hold_end_with_0(files: Files, run: Run) -> None:
    gates = ("verdict==recovered", "findings>99", "seconds>1e9")
    given = [part for gate in gates for part in ("--fail-if", gate)]
    assert run(*files.compared, *given).code == 0


@pytest.fixture(scope="module")
def blind() -> AuditReport:
    """An audit that brings nothing back and has no control."""
    return compare(never_seen(), never_seen(seed=7), self_controls=0, **QUICK)


@pytest.mark.parametrize("gate", ["delta_rs>0.1", "rs>0.5", "clear==false", "clear != true", "verdict==blind"])
def test_an_audit_that_would_not_have_seen_the_class_fails_gates_on_numbers(blind: AuditReport, gate: str) -> None:
    assert blind.verdict == "blind"
    [sentence] = failures([parse(gate)], blind)
    assert sentence.startswith("gate failed: ")


@pytest.mark.parametrize("gate", ["verdict==recovered", "verdict in (recovered, inconclusive)", "seconds>1e9"])
def test_a_gate_on_the_verdict_by_name_means_what_it_says(blind: AuditReport, gate: str) -> None:
    assert failures([parse(gate)], blind) == []


@pytest.mark.parametrize("gate", ["delta_rs>0.1", "rs>0.99", "clear==false", "verdict==recovered", "verdict!=generic"])
def test_a_class_that_comes_back_with_a_fresh_row_passes_no_gate_on_the_released_row(
    blind: AuditReport, gate: str
) -> None:
    hidden = msgspec.structs.replace(blind, verdict="recovered-after-reset")
    [sentence] = failures([parse(gate)], hidden)
    assert "recovered-after-reset" in sentence


@pytest.mark.parametrize("code", ["recovered", "like-hidden"])
def test_a_class_that_comes_back_in_another_reading_passes_no_gate_on_numbers(blind: AuditReport, code: str) -> None:
    low = msgspec.structs.replace(blind.results[0], verdict="generic")
    elsewhere = msgspec.structs.replace(blind, verdict=code, results=(low,))
    [sentence] = failures([parse("rs>0.99")], elsewhere)
    assert f"but the verdict is {code}" in sentence
    here = msgspec.structs.replace(elsewhere, results=(msgspec.structs.replace(low, verdict="recovered"),))
    assert failures([parse("rs>0.99")], here) == []


@pytest.mark.parametrize("gate", ["delta_rs>0.1", "rs>0.5", "clear==false", "forget.before>0.1"])
def test_a_class_that_never_went_passes_no_gate(gate: str) -> None:
    kept = compare(knowing(), never_seen(), self_controls=0, **QUICK)
    assert (kept.verdict, kept.scored) == ("not-unlearned", False)
    assert kept.delta_rs is not None
    assert kept.delta_rs < 0.1
    assert not {one.code for one in kept.findings} & {"negative-delta", "degenerate", "generic-relearnability"}
    [sentence] = failures([parse(gate)], kept)
    assert "not-unlearned" in sentence or "forget.before is" in sentence


@pytest.mark.parametrize(
    "gate",
    ["verdict == recovered", "verdict in (generic, recovered)", "verdict not in (generic,blind)", "verdict!=generic"],
)
def test_gates_take_verdicts_by_name(gate: str) -> None:
    assert parse(gate).holds("recovered")
    assert not parse(gate).holds("generic") or "in (generic, recovered)" in gate


def test_an_unknown_verdict_in_a_gate_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InputError, match="write recovered or not-recovered, if you mean that"):
        parse("verdict==recoverd")


@pytest.mark.parametrize(
    "gate", ["verdict == recovered", "verdict not in (generic, blind)", "clear == false", "rs > 0.1"]
)
def test_a_gate_is_written_as_it_was_typed(gate: str) -> None:
    assert str(parse(gate)) == gate


def test_a_single_sign_for_equal_leads_to_the_right_one() -> None:
    with pytest.raises(InputError, match="write == for equal"):
        parse("clear=false")


def test_a_gate_passes_when_the_control_shows_that_the_class_would_have_been_seen() -> None:
    cleared = compare(never_seen(), never_seen(seed=7), m=200, epochs=60)
    assert cleared.verdict in ("not-recovered", "generic")
    assert failures([parse("clear==false"), parse("delta_rs>0.1")], cleared) == []


def test_number_that_turns_out_not_to_be_measured_is_refused_in_the_end() -> None:
    with pytest.raises(InputError, match="does not measure rs_std"):
        failures([parse("rs_std>0.1")], compare(hidden(), **QUICK))


@pytest.mark.parametrize(
    "settings", [{}, {"scale": "sweep"}, {"scale": 3.0}, {"reset_row": False}, {"missing": True}], ids=str
)
def test_names_known_in_advance_are_those_of_the_result(files: Files, settings: dict[str, Any]) -> None:
    missing = settings.pop("missing", False)
    config = AuditConfig(n=200, m=20, epochs=2, **settings)
    head = files.headless if missing else files.head
    report = sfra.audit(str(head), 3, data=str(files.features), missing_row=missing, config=config)
    assert sorted(scalar_names(config, missing=missing)) == sorted([*report.scalars(), "verdict", "clear"])


@pytest.mark.parametrize(
    ("symbol", "holding"),
    [(">", "high"), (">=", "high same"), ("<", "low"), ("<=", "low same"), ("==", "same"), ("!=", "low high")],
)
def test_operators_mean_what_they_say(symbol: str, holding: str) -> None:
    gate = parse(f" kappa=1.414.released.source-free.rs {symbol}0.5")
    assert gate.name == "kappa=1.414.released.source-free.rs"
    values = {"low": 0.4, "same": 0.5, "high": 0.6}
    assert {word for word, value in values.items() if gate.holds(value)} == {*holding.split()}
    assert parse("relearned==true").holds(True)
