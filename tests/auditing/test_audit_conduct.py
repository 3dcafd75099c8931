"""How the audit behaves: repeatable, quiet, and true to what it reports."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from builders.audits import FORGET, QUICK, compare, hidden, never_seen
from sfra.attack.outlook import Outlook
from sfra.auditing.audit import audit
from sfra.auditing.schema import json_schema
from sfra.core.head import Head
from sfra.core.progress import PARTS
from sfra.core.types import Progress
from sfra.diagnostics import diagnose


def test_two_runs_differ_in_nothing_but_times() -> None:
    def once() -> dict[str, Any]:
        content = json.loads(compare(hidden(), never_seen(), seeds=2, **QUICK).to_json())
        for row in content["probes"]:
            del row["seconds"]
        return {name: value for name, value in content.items() if name not in ("seconds", "created")}

    assert once() == once()


def test_the_global_generators_are_left_alone() -> None:
    script = """
import random, numpy, torch
def states():
    return torch.get_rng_state().tolist(), numpy.random.get_state()[1].tolist(), random.getstate()
import sfra
features, labels = torch.eye(8)[torch.arange(40) % 4], torch.arange(40) % 4
before = states()
report = sfra.audit(sfra.Head(torch.eye(8)[:4]), 2, data=(features, labels), n=100, m=10, epochs=2, seeds=2)
assert report.rs is not None
assert states() == before
"""  # in an interpreter of its own: the checks of types during the tests do use Python's generator
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_progress_is_told_once_what_will_be_done_and_then_how_much_of_all_of_it_is() -> None:
    told: list[tuple[str, int, int]] = []
    compare(hidden(), never_seen(), progress=lambda *news: told.append(news), **QUICK)
    (plan, first, _), *steps = told
    work = f"10 draws of probes, as many relearnings of {QUICK['epochs']} epochs"
    assert (plan, first) == (f"auditing ({work}: 3 of the model, 3 of references, 4 of hidden classes)", 0)
    assert [stage for stage, _, _ in steps if stage.endswith(" of 10)")] == [
        f"auditing (drawing probes {draw} of 10)" for draw in range(1, 11)
    ]
    assert {total for _, _, total in told} == {PARTS}
    assert told[-1][0].startswith("auditing (relearning")
    assert all(0 <= done <= PARTS for _, done, _ in told)


def test_what_was_foreseen_is_what_was_done(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Outlook] = []

    def make(progress: Progress) -> Outlook:
        made.append(Outlook(progress))
        return made[-1]

    monkeypatch.setattr("sfra.auditing.foresee.Outlook", make)
    for missing, model in ((False, hidden()), (True, hidden().without_row())):
        compare(model, never_seen(), seeds=2, missing_row=missing, **QUICK)
        for kind in made[-1].kinds.values():
            assert kind.done == kind.amount > 0
            assert kind.steps in (0, kind.begun)


@pytest.mark.parametrize("scale", ["canonical", "native", 0.7])
def test_the_written_head_gives_the_reported_accuracies_on_the_original_features(
    scale: str | float, tmp_path: Path
) -> None:
    toy = hidden(bias=-1.0).scaled(7.0)
    report = compare(toy, epochs=20, scale=scale)
    report.save(tmp_path)
    head = Head.load(tmp_path / "relearned_head.safetensors")
    labels, right = toy.data.labels, head(toy.data.features).argmax(1) == toy.data.labels
    assert report.forget.after == pytest.approx(float(right[labels == FORGET].double().mean()))
    assert report.retain.after == pytest.approx(float(right[labels != FORGET].double().mean()))


DIAGNOSED: dict[str, Any] = {"n": 400, "m": 40, "epochs": 12, "threads": 1}
SCHEMA = json_schema()


def test_diagnostics_belong_to_the_setting_of_the_verdict_and_do_not_change_the_result() -> None:
    plain = compare(hidden(bias=-1.0), never_seen(), **DIAGNOSED)
    told = compare(hidden(bias=-1.0), never_seen(), diagnostics=diagnose, **DIAGNOSED)
    assert plain.diagnostics is None
    assert told.diagnostics is not None
    assert (told.rs, told.delta_rs, told.verdict) == (plain.rs, plain.delta_rs, plain.verdict)
    assert (told.diagnostics["scale"], told.diagnostics["variant"]) == (told.scale, told.variant)
    assert told.diagnostics["alignment"][0]["forget_class"] == FORGET
    assert told.diagnostics["tradeoff"]["budgets"]
    jsonschema.validate(json.loads(told.to_json()), SCHEMA)


def test_without_data_only_the_support_is_known() -> None:
    report = audit(hidden().head, FORGET, diagnostics=diagnose, **DIAGNOSED)
    assert report.diagnostics is not None
    unknown = ("alignment", "margin", "confidence", "tradeoff")
    assert all(report.diagnostics[name] is None for name in unknown)
    assert report.diagnostics["support"]
    jsonschema.validate(json.loads(report.to_json()), SCHEMA)
