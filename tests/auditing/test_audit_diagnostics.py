"""An audit says how its result came about when asked to, and only then."""

from __future__ import annotations

import json
from typing import Any

import jsonschema

from builders.audits import FORGET, compare, hidden, never_seen
from sfra.auditing.audit import audit
from sfra.auditing.schema import json_schema
from sfra.diagnostics import diagnose

QUICK: dict[str, Any] = {"n": 400, "m": 40, "epochs": 12, "threads": 1}
SCHEMA = json_schema()


def test_diagnostics_belong_to_the_setting_of_the_verdict_and_do_not_change_the_result() -> None:
    plain = compare(hidden(bias=-1.0), never_seen(), **QUICK)
    told = compare(hidden(bias=-1.0), never_seen(), diagnostics=diagnose, **QUICK)
    assert plain.diagnostics is None
    assert told.diagnostics is not None
    assert (told.rs, told.delta_rs, told.verdict) == (plain.rs, plain.delta_rs, plain.verdict)
    assert (told.diagnostics["scale"], told.diagnostics["variant"]) == (told.scale, told.variant)
    assert told.diagnostics["alignment"][0]["forget_class"] == FORGET
    assert told.diagnostics["tradeoff"]["budgets"]
    jsonschema.validate(json.loads(told.to_json()), SCHEMA)


def test_without_data_only_the_support_is_known() -> None:
    report = audit(hidden().head, FORGET, diagnostics=diagnose, **QUICK)
    assert report.diagnostics is not None
    unknown = ("alignment", "margin", "confidence", "tradeoff")
    assert all(report.diagnostics[name] is None for name in unknown)
    assert report.diagnostics["support"]
    jsonschema.validate(json.loads(report.to_json()), SCHEMA)
