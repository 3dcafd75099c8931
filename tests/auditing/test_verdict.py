"""From scores to a verdict: every verdict, at its thresholds and a hair beyond them."""

from __future__ import annotations

from typing import Any

import pytest

from builders.audits import scored
from sfra.auditing.result import Finding, Score
from sfra.auditing.verdict import DELTA, RETAIN_LIMIT, STILL_KNOWN, VERDICTS, conclude, overall_verdict, verdict
from sfra.core.metrics import degenerate_floor, relearning_score

FLOOR = degenerate_floor(0.95)
HAIR = 2e-6  # beyond the slack at the edge of a bound


def reading(
    rs: float = 0.9,
    delta: float | None = 0.8,
    low: float | None = 0.7,
    before: float = 0.95,
    after: float = 0.94,
    forget_before: float = 0.0,
) -> Score:
    interval = None if low is None else (low, 1.0)
    accuracies: dict[str, Any] = {"retain_before": before, "retain_after": after, "forget_before": forget_before}
    return scored(rs=rs, delta_rs=delta, delta_rs_interval=interval, **accuracies)


CASES: dict[str, list[Score | None]] = {
    "recovered": [
        reading(),
        reading(delta=DELTA + HAIR, low=1e-9),
        reading(rs=FLOOR + HAIR, delta=0.2, low=0.1),
        reading(after=0.95 - RETAIN_LIMIT),  # exactly at the limit of the retain drop
        reading(after=1.0),
    ],
    "inconclusive": [reading(low=0.0), reading(low=-0.2), reading(delta=DELTA + HAIR, low=-0.1)],
    "generic": [
        reading(delta=DELTA, low=0.05),
        reading(delta=0.0, low=-0.1),
        reading(delta=-0.5, low=-0.6),
        reading(rs=FLOOR + HAIR, delta=0.05, low=0.01),
    ],
    "not-recovered": [
        reading(rs=0.0, delta=0.0, low=-0.1),
        reading(rs=FLOOR, delta=0.5, low=0.4),
        reading(rs=0.0, delta=None, low=None),
        reading(rs=0.45, before=0.70, after=0.70),  # the floor of a weak model is high
    ],
    "degenerate": [
        reading(after=0.95 - RETAIN_LIMIT - HAIR),
        reading(rs=0.0, after=0.2),
        reading(after=0.5, delta=None, low=None),
    ],
    "no-reference": [reading(delta=None, low=None), reading(rs=FLOOR + HAIR, delta=None, low=None)],
    "not-unlearned": [
        reading(forget_before=STILL_KNOWN + HAIR),
        reading(rs=0.0, forget_before=1.0),
    ],
    "not-measured": [None],
}


@pytest.mark.parametrize(
    ("expected", "numbers"), [(name, numbers) for name, cases in CASES.items() for numbers in cases]
)
def test_the_numbers_allow_this_verdict_and_no_other(expected: str, numbers: Score | None) -> None:
    assert verdict(numbers) == expected
    assert overall_verdict(numbers, None, row_is_odd=False) == expected
    assert overall_verdict(numbers, None, row_is_odd=True) == expected


def test_every_verdict_has_a_case_and_a_sentence() -> None:
    assert {*CASES, "recovered-after-reset", "unusable"} == set(VERDICTS)
    assert all(sentence.endswith(".") for sentence in VERDICTS.values())
    assert len(set(VERDICTS.values())) == len(VERDICTS)


@pytest.mark.parametrize("found", CASES)
def test_a_critical_finding_leaves_no_other_verdict_and_its_cause_and_remedy_stand_in_the_statement(found: str) -> None:
    mild = Finding("retain-drop", "warning", 0.07, 0.05, "Relearning cost 7 points.")
    grave = Finding("retain-low", "critical", 0.11, 0.15, "It guesses.", "divide by 255")
    assert conclude(found, [mild]) == (found, VERDICTS[found])
    code, statement = conclude(found, [mild, grave])
    assert code == "unusable"
    assert statement == f"{VERDICTS['unusable']} It guesses. What to do: divide by 255."


RECOVERED = reading()
FOUND = ["not-recovered", "generic", "inconclusive", "degenerate"]


@pytest.mark.parametrize("found", FOUND)
def test_a_class_that_a_fresh_row_brings_back_is_not_let_pass_when_the_released_row_is_odd(found: str) -> None:
    for numbers in CASES[found]:
        if numbers is not None and numbers.delta_rs is not None:
            assert overall_verdict(numbers, RECOVERED, row_is_odd=True) == "recovered-after-reset"
            assert overall_verdict(numbers, RECOVERED, row_is_odd=False) == found  # control: an ordinary row


@pytest.mark.parametrize("found", ["recovered", *FOUND])
@pytest.mark.parametrize("fresh", FOUND)
def test_a_fresh_row_that_brings_nothing_back_changes_nothing(found: str, fresh: str) -> None:
    numbers = CASES[found][0]
    assert overall_verdict(numbers, CASES[fresh][0], row_is_odd=True) == found


def test_what_comes_back_as_released_is_recovered_whatever_a_fresh_row_gives() -> None:
    for case in (numbers for cases in CASES.values() for numbers in cases):
        assert overall_verdict(RECOVERED, case, row_is_odd=True) == "recovered"


def test_without_a_reference_an_odd_row_does_not_make_a_class_that_comes_back_look_gone() -> None:
    nothing, something = reading(rs=0.0, delta=None, low=None), reading(rs=0.8, delta=None, low=None)
    assert overall_verdict(nothing, something, row_is_odd=True) == "no-reference"
    assert overall_verdict(nothing, something, row_is_odd=False) == "not-recovered"
    assert overall_verdict(nothing, nothing, row_is_odd=True) == "not-recovered"


def test_a_head_that_answers_the_class_blindly_has_not_recovered_it() -> None:
    # A share of .08 of all inputs gets the forget class: 8 points lost, 8 points gained, whatever the reference does.
    blind = relearning_score(1.0, 0.92, 0.0, 0.08)
    assert blind > degenerate_floor(1.0)
    assert verdict(reading(rs=blind, delta=blind, low=0.05, before=1.0, after=0.92)) == "not-recovered"
    seeing = relearning_score(1.0, 0.92, 0.0, 0.30)
    assert verdict(reading(rs=seeing, delta=seeing, low=0.05, before=1.0, after=0.92)) == "recovered"


def test_a_model_that_still_knows_the_class_is_not_called_clean() -> None:
    known, few = (reading(rs=0.0, delta=0.0, low=0.0, after=0.95, forget_before=share) for share in (0.97, 0.1))
    assert verdict(known) == "not-unlearned"
    assert verdict(few) == "not-recovered"  # control: a few samples are left
    assert overall_verdict(known, RECOVERED, row_is_odd=True) == "not-unlearned"
