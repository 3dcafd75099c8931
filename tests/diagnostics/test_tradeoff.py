"""The trade-off, against a comparison of all pairs of epochs and the metrics' own RS@ε."""

from __future__ import annotations

import json
from collections.abc import Callable
from statistics import fmean, stdev
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from builders.audits import compare, hidden, trace_of
from sfra.auditing.result import RunTrace
from sfra.core.errors import InputError
from sfra.core.metrics import relearning_score
from sfra.diagnostics import pareto, tradeoff

FEW = st.integers(0, 4).map(lambda i: i / 4)


def curves(points: list[tuple[float, float]]) -> RunTrace:
    """The accuracies of a run as a stored audit keeps them."""
    retain, forget = zip(*points, strict=True)
    about: dict[str, Any] = {"subject": "model", "scale": "canonical", "kappa": 1.7, "variant": "released", "seed": 0}
    return RunTrace(**about, retain=retain, forget=forget, rs=None, loss=())


def dominates(a: tuple[float, float], b: tuple[float, float]) -> bool:
    return a[0] >= b[0] and a[1] >= b[1] and a != b


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(FEW, FEW), min_size=1, max_size=25))
def test_the_efficient_epochs_are_those_that_no_other_dominates_ties_included(pairs: list[tuple[float, float]]) -> None:
    expected = [i for i, one in enumerate(pairs) if not any(dominates(other, one) for other in pairs)]
    found = pareto([rs for rs, _ in pairs], [change for _, change in pairs])
    assert sorted(found) == expected
    along = [(-pairs[i][1], pairs[i][0], i) for i in found]
    assert along == sorted(along)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(FEW, FEW), min_size=1, max_size=12), FEW)
def test_rs_at_a_budget_is_the_best_efficient_epoch_within_it(
    points: list[tuple[float, float]], epsilon: float
) -> None:
    found = tradeoff([curves(points)], epsilons=[epsilon])
    scores = {
        p.epoch: relearning_score(*(points[0][0], points[p.epoch][0], points[0][1], points[p.epoch][1]))
        for p in found.efficient[0]
    }
    assert all(p.rs == pytest.approx(scores[p.epoch]) for p in found.efficient[0])
    assert all(p.change == pytest.approx(points[p.epoch][0] - points[0][0]) for p in found.efficient[0])
    within = [p.rs for p in found.efficient[0] if p.change >= -epsilon]
    assert found.budgets[0].rs == pytest.approx(max(within))


def test_seeds_are_averaged_at_each_budget() -> None:
    one = curves([(0.9, 0.0), (0.88, 0.5), (0.8, 0.9)])
    other = curves([(0.9, 0.0), (0.85, 0.7), (0.7, 1.0)])
    found = tradeoff([one, other], epsilons=[0.1, 0.0, 0.03])
    assert [row.epsilon for row in found.budgets] == [0.0, 0.03, 0.1]
    assert found.budgets[0].rs_seeds == (0.0, 0.0)
    expected = (relearning_score(0.9, 0.8, 0.0, 0.9), relearning_score(0.9, 0.85, 0.0, 0.7))
    assert found.budgets[2].rs_seeds == pytest.approx(expected)
    assert found.budgets[2].rs == pytest.approx(fmean(expected))
    assert found.budgets[2].rs_std == pytest.approx(stdev(expected))
    assert tradeoff([one]).budgets[0].rs_std is None


def test_a_trace_and_its_stored_form_give_the_same() -> None:
    trace = trace_of([[90, 80, 0], [88, 81, 30], [70, 80, 60], [60, 50, 60]], [100, 100, 100], (2,))
    stored = curves([*zip(trace.retain.tolist(), trace.forget.tolist(), strict=True)])
    assert tradeoff([trace]) == tradeoff([stored])
    assert [point.epoch for point in tradeoff([trace]).efficient[0]] == [0, 1, 2]


def test_the_trajectory_of_an_audit_can_be_read() -> None:
    report = compare(hidden(), epochs=5, reset_row=False)
    entry = next(one for one in report.traces if one.scale == "canonical")
    found = tradeoff([entry], epsilons=[1.0])
    assert found.budgets[0].rs == pytest.approx(max(entry.rs or ()), abs=1e-5)
    assert json.loads(json.dumps(found.to_dict())) == found.to_dict()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: tradeoff([]), "there is no trace"),
        (lambda: tradeoff([replace(curves([(0.9, 0.0)]), retain=None)]), "nothing was measured in this audit"),
        (lambda: tradeoff([curves([(0.9, 0.0)])], epsilons=[5.0]), "this looks like a percentage"),
    ],
)
def test_what_has_no_trade_off_is_refused(call: Callable[[], object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        call()
