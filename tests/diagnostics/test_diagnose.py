"""All cheap diagnostics of an audit in one call."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest
import torch

from builders.audits import FORGET, SMALL, Toy, hidden, never_seen
from sfra.attack.grid import Setting
from sfra.attack.outlook import Outlook
from sfra.attack.scale import Canonical, Native
from sfra.auditing import audit
from sfra.auditing.config import AuditConfig
from sfra.auditing.measure import Evidence
from sfra.auditing.subject import Subject
from sfra.core.errors import InputError
from sfra.diagnostics import alignment, confidence, diagnose, diagnose_parts, margin, tradeoff
from sfra.diagnostics.record import Record
from sfra.release import load


def gather(toy: Toy, *forget: int, data: bool = True, **settings: Any) -> Evidence:
    """Do what an audit does before it scores."""
    missing = settings.pop("missing", False)
    subject = Subject(
        release=load(toy.head),
        forget=forget or (FORGET,),
        missing=missing,
        test=toy.data if data else None,
        validation=None,
    )
    config = AuditConfig(**{**SMALL, "epochs": 10, **settings})
    return audit.gather(subject, config, Outlook())


def test_the_parts_are_those_of_the_single_diagnostics_at_the_scale_of_the_verdict() -> None:
    toy = hidden()
    evidence = gather(toy, seeds=2)
    found = diagnose(evidence, [FORGET], bootstrap=20)
    runs = [run for run in evidence.runs if run.setting == evidence.runs[0].setting]
    placed, args = runs[0].placed, (toy.data.features, toy.data.labels, [FORGET])
    assert (found.scale, found.gain, found.variant) == ("canonical", placed.gain, "released")
    assert placed.gain != 1.0
    assert found.alignment is not None
    each = tuple(alignment(run.probes, *args, gain=placed.gain)[0] for run in runs)
    assert (found.alignment[0].per_seed, found.alignment[0].seeds) == (each, 2)
    assert found.margin == margin(placed.head, runs[0].probes, *args, gain=placed.gain, bootstrap=20)
    assert found.confidence == confidence(placed.head, *args, gain=placed.gain)
    assert evidence.measured is not None
    assert found.tradeoff == tradeoff([m.test for m in evidence.measured if m.run.setting == runs[0].setting])
    assert [row.mean_norm for row in found.support] == [run.probes.support.mean_norm for run in runs]


def test_another_scale_can_be_asked_for() -> None:
    evidence = gather(hidden())
    native = diagnose(evidence, [FORGET], setting=Setting(scale=Native(), variant="released"), bootstrap=2)
    assert (native.scale, native.gain) == ("native", 1.0)
    assert diagnose(evidence, [FORGET], bootstrap=2).scale == "canonical"
    with pytest.raises(InputError, match="the audit has no such setting"):
        diagnose(evidence, [FORGET], setting=Setting(scale=Canonical(9.0), variant="released"))


def test_the_result_is_plain_json_of_a_bounded_size() -> None:
    found = diagnose(gather(hidden(), 1, FORGET, seeds=2), [1, FORGET]).to_dict()
    text = json.dumps(found, allow_nan=False)
    assert json.loads(text) == found
    assert len(text) < 400_000
    assert set(found) == {"scale", "gain", "variant", "support", "alignment", "margin", "confidence", "tradeoff"}
    assert [row["forget_class"] for row in found["margin"]] == [1, FORGET]


def test_without_data_only_the_probes_are_described() -> None:
    found = diagnose(gather(hidden(), data=False), [FORGET])
    assert (found.alignment, found.margin, found.confidence, found.tradeoff) == (None, None, None, None)
    assert found.support[0].probes == 1000


def test_a_head_without_the_forget_row_is_diagnosed_with_the_row_that_was_restored() -> None:
    found = diagnose(gather(hidden().without_row(), missing=True), [FORGET], bootstrap=2)
    assert found.variant == "restored-row"
    assert found.margin is not None
    assert len(found.margin[0].competitors) == 5


def test_a_hidden_class_is_answered_less_surely_than_one_that_was_never_seen() -> None:
    gaps = [diagnose(gather(toy), [FORGET], bootstrap=2).confidence for toy in (hidden(), never_seen())]
    assert gaps[0] is not None
    assert gaps[1] is not None
    assert (gaps[0].gap or 0.0) > 0.2 + (gaps[1].gap or 0.0)


def test_parts_that_do_not_make_sense_are_refused() -> None:
    toy, run = hidden(), gather(hidden()).runs[0]
    with pytest.raises(InputError, match="there are no probes to diagnose"):
        diagnose_parts(head=toy.head, forget=[FORGET], probes=[])
    with pytest.raises(InputError, match="features and labels come together"):
        diagnose_parts(head=toy.head, forget=[FORGET], probes=[run.probes], features=torch.zeros(1, 12))


@dataclass(frozen=True, kw_only=True)
class Inner(Record):
    value: float


@dataclass(frozen=True, kw_only=True)
class Outer(Record):
    inner: tuple[Inner, ...]
    named: dict[int, bool]
    text: str | None = None


def test_nested_records_become_plain_values_with_seven_digits() -> None:
    record = Outer(inner=(Inner(value=1 / 3), Inner(value=float("nan")), Inner(value=-2.5e-9)), named={3: True})
    assert record.to_dict() == {
        "inner": [{"value": 0.3333333}, {"value": None}, {"value": -2.5e-9}],
        "named": {"3": True},
        "text": None,
    }
