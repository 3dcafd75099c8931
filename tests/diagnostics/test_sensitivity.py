"""The grid of N and M, against audits with the same settings."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest

from builders.audits import FORGET, compare, hidden
from sfra.auditing.config import AuditConfig
from sfra.core.errors import InputError
from sfra.diagnostics import sensitivity, sensitivity_from_rows


@cache
def audit_rows(scale: str = "canonical") -> list[dict[str, Any]]:
    """Rows as a benchmark keeps them: settings of the audit and one reading each."""
    toy, rows = hidden(), []
    for m in (5, 40):
        report = compare(toy, n=300, m=m, epochs=15, seeds=2, reset_row=False, scale=scale)
        rows += [{"n": 300, "m": m, "findings": [], **reading} for reading in report.to_dict()["results"]]
    return rows


@pytest.mark.parametrize("rule", ["source-free", "worst-case"])
@pytest.mark.parametrize("scale", ["canonical", "native"])
def test_every_pair_gives_what_an_audit_with_it_gives(rule: str, scale: str) -> None:
    toy = hidden()
    config = AuditConfig(epochs=15, seeds=2, threads=1, scale=scale)
    found = sensitivity(toy.head, toy.data, [FORGET], n=[300], m=[40, 5], config=config, rule=rule)
    expected = sensitivity_from_rows(audit_rows(scale), scale=scale, rule=rule)
    assert (found.scale, found.rule, found.variant) == (scale, rule, "released")
    assert [(p.n, p.m) for p in found.points] == [(300, 5), (300, 40)]
    for mine, other in zip(found.points, expected.points, strict=True):
        assert mine.to_dict() == pytest.approx(other.to_dict(), abs=1e-6)
    assert json.loads(json.dumps(found.to_dict())) == found.to_dict()


def test_pools_that_are_too_small_are_left_out_and_named() -> None:
    toy, told = hidden(), []
    found = sensitivity(
        toy.head,
        toy.data,
        [FORGET],
        n=[100, 20],
        m=[10, 11],
        config=AuditConfig(epochs=1, threads=1),
        progress=lambda stage, done, total: told.append((done, total)),
    )
    assert [(p.n, p.m) for p in found.points] == [(20, 10), (100, 10), (100, 11)]
    assert found.left_out == ((20, 11),)
    assert told == [(0, 3), (1, 3), (2, 3)]


def test_rows_of_several_models_are_refused_rather_than_averaged() -> None:
    rows = audit_rows()
    with pytest.raises(InputError, match="several rows for"):
        sensitivity_from_rows(rows + rows)
    with pytest.raises(InputError, match="no such row"):
        sensitivity_from_rows(rows, scale="kappa=9")


def test_what_makes_no_grid_is_refused() -> None:
    toy = hidden()
    with pytest.raises(InputError, match="no pair of n and m can be used"):
        sensitivity(toy.head, toy.data, [FORGET], n=[10], m=[10])
    with pytest.raises(InputError, match="sensitivity cannot use this rule"):
        sensitivity(toy.head, toy.data, [FORGET], n=[100], m=[10], rule="validation")
