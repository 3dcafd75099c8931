"""``--fail-if``: numbers of the result as an exit code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from builders.cli import Files, run
from sfra.auditing.config import AuditConfig
from sfra.cli.gates import OPERATORS, failures, parse, scalar_names
from sfra.core.errors import InputError

Capture = pytest.CaptureFixture[str]


def test_a_gate_that_holds_ends_with_1_after_everything_was_written(files: Files, capfd: Capture) -> None:
    ran = run(capfd, *files.measured, "--out", "out", "--fail-if", "retain.before>0.5")
    value = json.loads(Path("out/audit.json").read_text())["retain"]["before"]
    assert ran.code == 1
    assert ran.err.splitlines()[-1] == f"gate failed: retain.before > 0.5 (retain.before is {value:.6g})"
    assert "Verdict: " in ran.out
    assert Path("out/relearned_head.safetensors").is_file()


def test_a_gate_that_does_not_hold_ends_with_0(files: Files, capfd: Capture) -> None:
    ran = run(capfd, *files.measured, "--fail-if", "retain.before<0.5", "--fail-if", "rs>=2")
    assert ran.code == 0
    assert "gate" not in ran.err


def test_every_gate_is_checked_and_named(files: Files, capfd: Capture) -> None:
    gates = ("findings>=0", "retain.before<0", "native.released.worst-case.rs>=0")
    ran = run(capfd, *files.measured, "--quiet", *(part for gate in gates for part in ("--fail-if", gate)))
    assert ran.code == 1
    assert [line.partition(" (")[0] for line in ran.err.splitlines()] == [
        "gate failed: findings >= 0",
        "gate failed: native.released.worst-case.rs >= 0",
    ]


def test_with_json_the_failed_gate_is_on_stderr_only(files: Files, capfd: Capture) -> None:
    ran = run(capfd, *files.compared, "--json", "--fail-if", "delta_rs>-2")
    assert ran.code == 1
    assert json.loads(ran.out)["delta_rs"] is not None
    assert "gate failed: delta_rs > -2" in ran.err


@pytest.mark.parametrize(
    "text", ["rs", "rs=0.1", "rs>", ">0.1", "rs>high", "rs>nan", "rs>inf", "rs > 0.1 0.2", "", "rs=>1"]
)
def test_a_gate_that_cannot_be_read_is_refused_before_the_audit(files: Files, capfd: Capture, text: str) -> None:
    ran = run(capfd, *files.measured, "--out", "out", "--fail-if", text)
    assert ran.code == 2
    assert "the gate cannot be read" in ran.err
    assert "for example delta_rs>0.1" in ran.err
    assert "relearning" not in ran.err
    assert not Path("out").exists()


@pytest.mark.parametrize(
    "name", ["sr", "verdict", "retain", "rs_at.0.5", "kappa=3.released.source-free.rs", "sweep.area"]
)
def test_a_gate_on_an_unknown_name_is_refused_before_the_audit(files: Files, capfd: Capture, name: str) -> None:
    ran = run(capfd, *files.measured, "--fail-if", f"{name}>0.1")
    assert ran.code == 2
    assert f"the result has no number named {name}\n" in ran.err
    assert "rs, rs_std, floor" in ran.err
    assert "relearning" not in ran.err


def test_a_gate_on_a_variant_that_was_left_out_is_unknown(files: Files, capfd: Capture) -> None:
    gate = "canonical.reset-row.source-free.rs>2"
    assert run(capfd, *files.measured, "--fail-if", gate).code == 0
    assert run(capfd, *files.measured, "--no-reset-row", "--fail-if", gate).code == 2


def test_a_gate_on_a_measurement_without_data_says_to_pass_data(files: Files, capfd: Capture) -> None:
    ran = run(capfd, "audit", files.head, "--forget", 3, "--n", 200, "--m", 20, "--fail-if", "rs>0.1")
    assert ran.code == 2
    assert "rs is not measured by this audit" in ran.err
    assert "pass --data" in ran.err


@pytest.mark.parametrize("name", ["delta_rs", "reference_rs", "native.released.validation.delta_rs"])
def test_a_gate_on_a_comparison_without_a_reference_says_to_pass_one(files: Files, capfd: Capture, name: str) -> None:
    ran = run(capfd, *files.measured, "--fail-if", f"{name}>0.1")
    assert ran.code == 2
    assert "pass --reference" in ran.err
    assert run(capfd, *files.compared, "--fail-if", f"{name}>2").code == 0


def test_a_gate_on_the_spread_of_one_seed_says_to_pass_seeds(files: Files, capfd: Capture) -> None:
    ran = run(capfd, *files.measured, "--fail-if", "rs_std>0.1")
    assert ran.code == 2
    assert "pass --seeds 2 or more" in ran.err
    assert run(capfd, *files.measured, "--seeds", 2, "--fail-if", "rs_std>9").code == 0


def test_a_number_that_turns_out_not_to_be_measured_is_refused_in_the_end() -> None:
    with pytest.raises(InputError, match=r"canonical\.released\.validation\.rs is not measured"):
        failures([parse("canonical.released.validation.rs>0.1")], {"rs": 0.5})


@pytest.mark.parametrize(
    "options", [(), ("--scale", "sweep"), ("--scale", "native"), ("--scale", "3"), ("--no-reset-row",)]
)
def test_the_names_known_in_advance_are_those_of_the_result(files: Files, options: tuple[str, ...]) -> None:
    import sfra

    scale = options[1] if len(options) == 2 else "canonical"
    config = AuditConfig(
        n=200,
        m=20,
        epochs=2,
        scale=float(scale) if scale.isdigit() else scale,
        reset_row=options != ("--no-reset-row",),
    )
    report = sfra.audit(str(files.head), 3, data=str(files.features), config=config)
    assert sorted(scalar_names(config, missing=False)) == sorted(report.scalars())


def test_the_names_of_a_missing_row_are_known_in_advance(files: Files) -> None:
    import sfra

    config = AuditConfig(n=200, m=20, epochs=2)
    report = sfra.audit(str(files.headless), 3, data=str(files.features), missing_row=True, config=config)
    assert sorted(scalar_names(config, missing=True)) == sorted(report.scalars())


@pytest.mark.parametrize(
    ("symbol", "holding"),
    [(">", "high"), (">=", "high same"), ("<", "low"), ("<=", "low same"), ("==", "same"), ("!=", "low high")],
)
def test_operators_mean_what_they_say(symbol: str, holding: str) -> None:
    gate = parse(f"kappa=1.414.released.source-free.rs{symbol}0.5")
    assert gate.name == "kappa=1.414.released.source-free.rs"
    values = {"low": 0.4, "same": 0.5, "high": 0.6}
    assert {word for word, value in values.items() if gate.holds(value)} == {*holding.split()}
    assert symbol in OPERATORS


def test_a_gate_may_have_blanks_and_truth_values() -> None:
    assert parse("  relearned == true ").holds(True)
    assert not parse("relearned==false").holds(True)
