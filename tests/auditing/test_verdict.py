"""From scores to a verdict: every verdict, at its thresholds and a hair beyond them."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
import numpy as np
import pytest
from scipy import stats

from builders.audits import scored
from sfra.auditing.result import Control, Finding, Hidden, Score
from sfra.auditing.verdict import (
    DELTA,
    FORGET_LOW,
    FRESH_SPREAD,
    RETAIN_LIMIT,
    RETRAINING_FREEDOM,
    RETRAINING_SPREAD,
    STILL_KNOWN,
    Sight,
    conclude,
    fitting,
    margin,
    overall_verdict,
    statement,
    verdict,
    worst,
)
from sfra.auditing.verdicts import VERDICTS
from sfra.core.metrics import degenerate_floor, relearning_score

FLOOR = degenerate_floor(0.95)
SEES = Sight(power=True)
HAIR = 2e-6  # beyond the slack at the edge of a bound


def reading(
    rs: float = 0.9,
    delta: float | None = 0.8,
    low: float | None = 0.7,
    before: float = 0.95,
    after: float = 0.94,
    forget_before: float = 0.0,
    margin: float | None = None,
) -> Score:
    interval = None if low is None else (low, 1.0)
    accuracies: dict[str, Any] = {"retain_before": before, "retain_after": after, "forget_before": forget_before}
    return scored(rs=rs, delta_rs=delta, delta_rs_interval=interval, margin=margin, **accuracies)


CASES: dict[str, list[Score | None]] = {
    "recovered": [
        reading(),
        reading(delta=DELTA + HAIR, low=1e-9),
        reading(delta=0.3 + HAIR, low=1e-9, margin=0.3),
        reading(rs=FLOOR + HAIR, delta=0.2, low=0.1),
        reading(after=0.95 - RETAIN_LIMIT),  # exactly at the limit of the retain drop
        reading(after=1.0),
    ],
    "inconclusive": [
        reading(low=0.0),
        reading(low=-0.2),
        reading(delta=DELTA + HAIR, low=-0.1),
        reading(delta=0.3, margin=0.3),
    ],
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
        reading(rs=0.45, delta=DELTA, before=0.70, after=0.70),  # the floor of a weak model is high
        reading(rs=0.19, before=0.70, after=0.70),
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
        reading(rs=0.0, forget_before=FORGET_LOW + HAIR),  # nothing more comes back, but this never went
        reading(delta=0.0, forget_before=FORGET_LOW + HAIR),
        reading(rs=0.0, delta=None, low=None, forget_before=STILL_KNOWN),
    ],
    "not-measured": [None],
}


def both(released: Score | None, fresh: Score | None) -> list[Score]:
    assert released is not None
    return [released, *([msgspec.structs.replace(fresh, variant="reset-row")] if fresh else [])]


@pytest.mark.parametrize(
    ("expected", "numbers"), [(name, numbers) for name, cases in CASES.items() for numbers in cases]
)
def test_the_numbers_allow_this_verdict_and_no_other(expected: str, numbers: Score | None) -> None:
    found = both(numbers, numbers) if numbers else []
    assert verdict(numbers) == expected
    assert overall_verdict(found, row_is_odd=False, sight=SEES) == expected
    assert overall_verdict(found, row_is_odd=True, sight=SEES) == expected
    blind = "blind" if VERDICTS[expected].kind == "clear" else expected
    assert overall_verdict(found, row_is_odd=False, sight=Sight()) == blind


@pytest.mark.parametrize("variant", ["reset-row", "restored-row"])
def test_what_a_fresh_row_answers_by_chance_is_not_held_against_the_release(variant: str) -> None:
    fresh = msgspec.structs.replace(reading(rs=0.05, forget_before=0.97), variant=variant)
    assert verdict(fresh) == "inconclusive"
    assert overall_verdict([fresh], row_is_odd=False, sight=SEES) == "inconclusive"
    assert overall_verdict([reading(delta=0.0), fresh], row_is_odd=False, sight=SEES) == (
        "inconclusive" if variant == "reset-row" else "blind"
    )


@pytest.mark.parametrize("code", VERDICTS)
def test_a_class_that_comes_back_is_not_called_generic_by_a_finding(code: str) -> None:
    generic, other = (Finding(name, "warning", 0.0, 0.1, "said") for name in ("generic-relearnability", "small-n"))
    back = code in ("recovered", "recovered-after-reset", "like-hidden", "not-unlearned")
    assert fitting([generic, other], code) == ((other,) if back else (generic, other))


def test_every_verdict_has_a_case_and_a_sentence() -> None:
    assert {*CASES, "recovered-after-reset", "like-hidden", "blind", "unusable"} == set(VERDICTS)
    sentences = [statement(code, None) for code in VERDICTS]
    assert all(sentence.endswith(".") for sentence in sentences)
    assert len(set(sentences)) == len(VERDICTS)


@pytest.mark.parametrize(
    ("gain", "amount"), [(0.98, "Almost all"), (0.6, "Most"), (0.3, "Part"), (0.12, "A small part"), (0.069, "A trace")]
)
def test_the_words_are_graded_by_how_much_comes_back(gain: float, amount: str) -> None:
    assert statement("recovered", scored(forget_after=gain)).startswith(f"{amount} of the forgotten class")


def test_the_margin_is_the_prediction_bound_of_a_further_retraining() -> None:
    for references, fresh in (([0.4], False), ([0.2, 0.5], True), ([0.1, 0.3, 0.35, 0.6], False)):
        prior = FRESH_SPREAD if fresh else RETRAINING_SPREAD
        angles = np.arcsin(np.sqrt(references))
        k, freedom = len(references), RETRAINING_FREEDOM + len(references) - 1
        squares = RETRAINING_FREEDOM * prior**2 + k * np.var(angles)
        bound = angles.mean() + stats.t.ppf(0.95, freedom) * np.sqrt(squares / freedom * (1 + 1 / k))
        assert margin(references, fresh=fresh) == pytest.approx(np.sin(bound) ** 2 - np.mean(references))


def test_more_references_that_agree_narrow_the_margin_and_ones_that_differ_widen_it() -> None:
    assert margin([0.3]) > margin([0.3, 0.3]) > margin([0.3] * 4) > DELTA == margin([1.0]) == margin([0.0] * 90)
    assert margin([0.3], fresh=True) < margin([0.3])
    assert margin([0.1, 0.7]) > margin([0.4])


def test_an_honest_retraining_rarely_exceeds_the_margin() -> None:
    rng = np.random.default_rng(0)
    for k in (1, 2, 4):
        drawn = np.sin(rng.normal(0.8, RETRAINING_SPREAD, (2000, k + 1))) ** 2
        over = [row[0] - row[1:].mean() > margin(row[1:].tolist()) for row in drawn]
        assert np.mean(over) < 0.06


def control(kind: Literal["original", "self"], *seen: bool) -> Control:
    hidden = [Hidden(classes=(i,), accuracy=0.9, seen=one, score=scored()) for i, one in enumerate(seen)]
    return Control(kind=kind, source="a model", hidden=tuple(hidden))


def test_only_controls_that_come_back_give_an_audit_power() -> None:
    seen, unseen = control("original", True), control("original", False)
    most, half = control("self", True, True, True, False), control("self", True, True, False, False)
    assert [Sight.of(given, 10).power for given in ([seen], [most], [seen, half])] == [True] * 3
    assert [Sight.of(given, 10).power for given in ([], [unseen], [half], [unseen, most])] == [False] * 4


def test_an_original_that_is_seen_gives_no_power_over_a_release_in_which_next_to_nothing_is() -> None:
    original, quarter = control("original", True), control("self", True, False, False, False)
    half = control("self", True, True, False, False)
    assert [Sight.of([original, own], 10).power for own in (half, quarter)] == [True, False]


def test_at_a_calibrated_scale_only_the_original_gives_power_and_only_where_the_release_is_seen_too() -> None:
    original, all_of_it, none = control("original", True), control("self", True, True), control("self", False, False)
    given = ([all_of_it], [original, all_of_it], [original, none], [original])
    assert [Sight.of(controls, 10, calibrated=True).power for controls in given] == [False, True, False, True]
    assert Sight.of([original, all_of_it], 10, calibrated=True).hidden == ()


def test_a_forgotten_class_is_read_beside_hidden_ones_only_with_power_and_few_classes() -> None:
    most, half = control("self", True, True, True, False), control("self", True, True, False, False)
    assert len(Sight.of([most], 10).hidden) == 4
    assert (
        Sight.of([half], 10).hidden == Sight.of([most], 100).hidden == Sight.of([control("original", True)], 10).hidden
    )


@pytest.mark.parametrize(("fresh", "expected"), [(0.7, "like-hidden"), (0.6, "like-hidden"), (0.5, "no-reference")])
def test_without_a_reference_a_class_that_comes_back_as_hidden_ones_do_is_taken_for_hidden(
    fresh: float, expected: str
) -> None:
    sight = Sight(power=True, hidden=(0.2, 0.5, 0.7, 0.9))  # the median is 0.6
    alone = reading(rs=fresh, delta=None, low=None)
    for released in (alone, reading(rs=0.0, delta=None, low=None)):
        assert overall_verdict(both(released, alone), row_is_odd=False, sight=sight) == expected
        assert overall_verdict(both(released, alone), row_is_odd=False, sight=SEES) == "no-reference"
    beside = reading(rs=fresh, delta=0.0)
    assert overall_verdict(both(beside, beside), row_is_odd=False, sight=sight) == "generic"  # a reference decides


@pytest.mark.parametrize(("released", "amount"), [(0.95, "Almost all"), (0.0, "Part")])
def test_like_hidden_speaks_of_the_head_as_released_where_the_class_comes_back_in_it(
    released: float, amount: str
) -> None:
    own, fresh = (
        msgspec.structs.replace(reading(rs=gain, delta=None, low=None), forget_before=0.0, forget_after=gain)
        for gain in (released, 0.45)
    )
    assert conclude("like-hidden", both(own, fresh), [])[1].startswith(f"{amount} of the forgotten class comes back")


def test_the_worst_verdict_is_the_gravest() -> None:
    assert worst(["not-recovered", "recovered", "generic"]) == "recovered"
    assert worst(["generic", "blind", "not-recovered"]) == "blind"


@pytest.mark.parametrize("found", CASES)
def test_a_critical_finding_leaves_no_other_verdict_and_its_cause_and_remedy_stand_in_the_statement(found: str) -> None:
    mild = Finding("retain-drop", "warning", 0.07, 0.05, "Relearning cost 7 points.")
    grave = Finding("retain-low", "critical", 0.11, 0.15, "It guesses.", "divide by 255")
    assert conclude(found, [], [mild]) == (found, statement(found, None))
    code, said = conclude(found, [], [mild, grave])
    assert code == "unusable"
    assert said == f"{VERDICTS['unusable'].sentence} It guesses. What to do: divide by 255."


RECOVERED = reading()
FRESH = msgspec.structs.replace(RECOVERED, variant="reset-row")
FOUND = ["not-recovered", "generic", "inconclusive", "degenerate"]


@pytest.mark.parametrize("found", FOUND)
def test_a_class_that_a_fresh_row_brings_back_is_not_let_pass_when_the_released_row_is_odd(found: str) -> None:
    for numbers in CASES[found]:
        if numbers is not None and numbers.delta_rs is not None:
            assert overall_verdict([numbers, FRESH], row_is_odd=True, sight=SEES) == "recovered-after-reset"
            ordinary = "inconclusive" if VERDICTS[found].kind == "clear" else found  # two readings disagree
            assert overall_verdict([numbers, FRESH], row_is_odd=False, sight=SEES) == ordinary


@pytest.mark.parametrize("found", ["recovered", *FOUND])
@pytest.mark.parametrize("fresh", FOUND)
def test_a_fresh_row_that_brings_nothing_back_changes_nothing(found: str, fresh: str) -> None:
    numbers = CASES[found][0]
    open_ones = ("inconclusive", "degenerate")
    expected = fresh if VERDICTS[found].kind == "clear" and fresh in open_ones else found
    assert overall_verdict(both(numbers, CASES[fresh][0]), row_is_odd=True, sight=SEES) == expected


@pytest.mark.parametrize("found", ["not-recovered", "generic"])
def test_no_class_is_cleared_without_a_look_at_a_fresh_row(found: str) -> None:
    numbers = CASES[found][0]
    assert numbers is not None
    assert overall_verdict([numbers], row_is_odd=False, sight=SEES) == "blind"
    restored = msgspec.structs.replace(numbers, variant="restored-row")
    assert overall_verdict([restored], row_is_odd=False, sight=SEES) == found


def test_what_comes_back_as_released_is_recovered_whatever_a_fresh_row_gives() -> None:
    for case in (numbers for cases in CASES.values() for numbers in cases):
        assert overall_verdict(both(RECOVERED, case), row_is_odd=True, sight=Sight()) == "recovered"


def test_without_a_reference_an_odd_row_does_not_make_a_class_that_comes_back_look_gone() -> None:
    nothing, something = reading(rs=0.0, delta=None, low=None), reading(rs=0.8, delta=None, low=None)
    assert overall_verdict(both(nothing, something), row_is_odd=True, sight=SEES) == "no-reference"
    assert overall_verdict(both(nothing, something), row_is_odd=False, sight=SEES) == "no-reference"
    assert overall_verdict(both(nothing, nothing), row_is_odd=True, sight=SEES) == "not-recovered"


def test_a_head_that_answers_the_class_blindly_has_not_recovered_it() -> None:
    # A share of .08 of all inputs gets the forget class: 8 points lost, 8 points gained, whatever the reference does.
    blind = relearning_score(1.0, 0.92, 0.0, 0.08)
    assert blind > degenerate_floor(1.0)
    assert verdict(reading(rs=blind, delta=blind, low=0.05, before=1.0, after=0.92)) == "not-recovered"
    seeing = relearning_score(1.0, 0.92, 0.0, 0.30)
    assert verdict(reading(rs=seeing, delta=seeing, low=0.05, before=1.0, after=0.92)) == "recovered"


@pytest.mark.parametrize(("delta", "expected"), [(0.3, "inconclusive"), (None, "no-reference"), (0.1, "not-recovered")])
def test_the_high_floor_of_a_weak_model_does_not_clear_a_class_that_comes_back_at_no_cost(
    delta: float | None, expected: str
) -> None:
    # A hidden class of CIFAR-100: 23 % of it come back for 2 of 76 points, and always answering it scores 0.41.
    part = reading(rs=0.37, delta=delta, low=None if delta is None else 0.2, before=0.745, after=0.724)
    assert verdict(part) == "not-recovered"
    assert overall_verdict(both(part, part), row_is_odd=False, sight=SEES) == expected
    nothing = reading(rs=0.0, delta=None if delta is None else 0.0, before=0.745, after=0.724)
    assert overall_verdict(both(nothing, part), row_is_odd=False, sight=SEES) == expected
    blind = reading(rs=0.37, delta=delta, low=part.delta_rs_interval and 0.2, before=0.745, after=0.65)
    assert overall_verdict(both(blind, blind), row_is_odd=False, sight=SEES) == "not-recovered"


def test_a_fresh_row_that_answers_the_class_by_luck_leaves_it_open() -> None:
    gone, lucky = reading(rs=0.0, delta=0.0), reading(rs=0.4, delta=0.0, forget_before=STILL_KNOWN + HAIR)
    assert overall_verdict(both(gone, lucky), row_is_odd=True, sight=SEES) == "inconclusive"
    assert overall_verdict(both(gone, gone), row_is_odd=True, sight=SEES) == "not-recovered"


def test_a_model_that_still_knows_the_class_is_not_called_clean() -> None:
    known, few = (reading(rs=0.0, delta=0.0, low=0.0, after=0.95, forget_before=share) for share in (0.97, 0.1))
    assert verdict(known) == "not-unlearned"
    assert verdict(few) == "not-recovered"  # control: a few samples are left
    assert overall_verdict([known, FRESH], row_is_odd=True, sight=SEES) == "not-unlearned"


def test_a_part_that_never_went_is_told_from_a_stray_hit_and_from_the_luck_of_a_fresh_row() -> None:
    part = scored(forget_before=0.3, forget_after=0.3)
    assert verdict(part) == "not-unlearned"
    assert verdict(msgspec.structs.replace(part, variant="reset-row")) == "not-recovered"
    assert verdict(scored(forget_before=1 / 6, forget_after=1 / 6, samples=6)) == "not-recovered"
    assert verdict(scored(forget_before=2 / 6, forget_after=2 / 6, samples=6)) == "not-unlearned"
