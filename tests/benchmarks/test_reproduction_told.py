"""What the page of a second data set says of hiding methods, false alarms, its control and the choice of epoch."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from statistics import fmean
from typing import Any

import pytest

from builders.second_group import audits, minus, part
from reproduction.beside import alarm, common_gap, floors
from reproduction.claims import list_claims, our_numbers, told
from reproduction.document import SENTENCES, TABLES
from reproduction.document_beside import sentences_of, tables_of
from reproduction.sentences_checks import below_last, most_added
from reproduction.stored import METHOD_LIST, PUBLISHED, VERDICT, Kept, Row
from sfra.bench.tables.names import method_name


def changed(kept: Kept, change: Callable[[Row], Mapping[str, Any]], method: str) -> Kept:
    """Change the rows of one method's audits in the reading of the verdict."""
    rows = [
        {**row, **change(row)} if (row["method"], row["scale"], row["rule"]) == (method, *VERDICT) else row
        for row in kept.audits
    ]
    return replace(kept, audits=rows)


def always(values: Mapping[str, Any]) -> Callable[[Row], Mapping[str, Any]]:
    return lambda row: values


# methods that hide the class


def test_methods_that_only_give_up_the_retain_classes_are_named_apart(kept: Kept, other: Kept) -> None:
    say = sentences_of(other)["summary"]
    looks = {"forget_before": 0.0, "verdict": "recovered"}
    high = kept
    for method in METHOD_LIST:
        scored = {**looks, "rs": 0.9 if method in ("random-label", "salun") else 0.3}
        high = changed(high, always(scored), method)
    assert "(mean RS above 0.8): Random Label and SalUn. On" in say(high)
    apart = changed(high, lambda row: {"verdict": "degenerate"}, "random-label")
    by = "by giving up the retain classes (degenerate for"
    assert f"(mean RS above 0.8): SalUn; Random Label too, but only {by} 10 of 10). On CIFAR-10: " in say(apart)
    count = sum(row["verdict"] == "degenerate" for row in audits(other, VERDICT, "random-label"))
    assert f"; Random Label likewise ({count} of 10)." in say(apart)
    most = changed(apart, lambda row: {"verdict": "generic"} if row["forget"] in ("0", "10") else {}, "random-label")
    assert f"SalUn; Random Label too, but mostly {by} 8 of 10). On" in say(most)
    assert f"; Random Label too, but only {by} {count} of 10)." in say(most)
    half = changed(apart, lambda row: {"verdict": "generic"} if int(row["forget"]) < 50 else {}, "random-label")
    assert "(mean RS above 0.8): Random Label and SalUn. On" in say(half)
    alone = changed(apart, lambda row: {"rs": 0.3}, "salun")
    assert f"(mean RS above 0.8): only Random Label, and only {by} 10 of 10). On" in say(alone)


# false alarms


def test_an_alarm_is_told_by_the_floor_where_that_is_the_bar(kept: Kept, other: Kept) -> None:
    say = sentences_of(other)
    here = changed(kept, lambda row: {"floor": 0.4, "rs": 0.5, "verdict": "no-reference"}, "retrained")
    there = sorted(floors(other))
    bars = f"0.40 here, {there[0]:.2f} to {there[-1]:.2f} on CIFAR-10"
    scored = "what answering everything with the forget class would score"
    expected = f"10 of 10 retrained models have an RS above their floor ({scored}: {bars}); CIFAR-10: 0 of 10."
    assert f"False alarms: {expected}" in say["summary"](here)
    assert f"would score (0.40; CIFAR-10: {there[0]:.2f} to {there[-1]:.2f})" in say["scales"](here)
    quiet = changed(here, lambda row: {"verdict": "not-recovered"} if row["forget"] == "0" else {}, "retrained")
    other_bar = "a verdict other than not-recovered, whose bar is at least their floor"
    assert f"False alarms: 9 of 10 retrained models have {other_bar} (" in say["summary"](quiet)
    assert alarm(other, PUBLISHED, VERDICT) == "an RS above the model's floor"
    assert f"An alarm is an RS above the model's floor, {scored} ({there[0]:.2f} to " in SENTENCES["scales"](other)


# the positive control


def test_a_control_that_is_not_recovered_is_said_to_be_missed(kept: Kept, other: Kept) -> None:
    say = sentences_of(other)
    given = {"0": "generic", "10": "generic", "20": "inconclusive"}
    some = changed(kept, lambda row: {"verdict": given.get(row["forget"], "recovered")}, "masked")
    assert (
        "recovered for only 7 of 10 classes; the others are generic (2: ΔRS at most 0.1) and inconclusive (1: an "
        "interval of ΔRS that touches 0): here the audit misses part of what is hidden by construction."
    ) in say["summary"](some)
    none = changed(kept, lambda row: {"verdict": "not-recovered"}, "masked")
    assert "here the audit misses what is hidden by construction." in say["summary"](none)
    every = changed(kept, lambda row: {"verdict": "recovered"}, "masked")
    assert say["summary"](every).endswith("The positive control is recovered for 10 of 10 classes.")
    unread = changed(kept, lambda row: {"verdict": "no-reference"}, "masked")
    assert say["summary"](unread).endswith("the others are no-reference (10).")


def test_controls_that_are_barely_above_their_reference_are_counted(kept: Kept, other: Kept) -> None:
    say = sentences_of(other)["control"]
    flat = changed(kept, lambda row: {"rs": 0.5}, "retrained")
    near = {"0": 0.45, "10": 0.55, "20": 0.58}
    some = changed(flat, lambda row: {"rs": near.get(row["forget"], 0.9)}, "masked")
    assert say(some).endswith("9 of 10 are above the retrained model of their class, 2 of them by less than 0.1.")
    clear = changed(flat, lambda row: {"rs": 0.9}, "masked")
    assert say(clear).endswith("10 of 10 are above the retrained model of their class.")


# PRA and linear probes


def test_sfra_and_pra_are_compared_over_the_classes_that_both_have(kept: Kept, other: Kept) -> None:
    (claim,) = (one for one in list_claims() if "PRA" in one.text)
    lower = [{**row, "rs": 0.2} if row["method"] == "delete" else row for row in kept.pra]
    lower = [{**row, "rs": 0.8} if (row["method"], row["forget"]) == ("delete", "0") else row for row in lower]
    rows = [
        {**row, "rs": 0.3} if row["method"] == "delete" else row
        for row in kept.audits
        if (row["method"], row["forget"]) not in [("delete", str(label)) for label in range(10, 90, 10)]
    ]
    some = replace(kept, audits=rows, pra=lower)
    gaps = our_numbers(some, *PUBLISHED).over_pra
    assert gaps["delete"] == pytest.approx((0.3 - 0.8 + 0.3 - 0.2) / 2)
    more = sum(gap > 0 for gap in gaps.values())
    assert more < len(METHOD_LIST) == len(gaps)
    assert told(claim, our_numbers(some, *PUBLISHED)) == f"not held: {more} of 11"
    expected = (
        f"Over the classes that both have, SFRA in the paper's reading brings back more than PRA for {more} of 11"
    )
    assert expected in sentences_of(other)["controls"](some)
    assert common_gap({"a": {"0": 0.5}}, {"a": {"1": 0.5}}) == {}


def test_linear_probes_of_one_method_are_not_told_as_those_of_many(kept: Kept, other: Kept) -> None:
    say = sentences_of(other)
    alone = replace(kept, probes=[row for row in kept.probes if row["method"] == "retrained"])
    read = 100 * fmean(row["forget_accuracy"] for row in alone.probes)
    assert f"Linear probes exist of the 10 retrained models only: {read:.1f} %." in say["controls"](alone)
    fewer = replace(alone, probes=alone.probes[:4])
    assert "Linear probes exist of 4 retrained models only: " in say["controls"](fewer)
    audited = len({(row["method"], row["forget"]) for row in kept.audits if row["method"] in METHOD_LIST})
    assert say["held"](alone).endswith(f"linear probes cannot be decided yet: 10 of {audited} models have one.")
    assert say["held"](kept).endswith(f"The line on linear probes rests on {audited} of {audited} models.")
    assert "% by method; of" in say["controls"](kept)
    ragged = replace(kept, probes=[row for row in kept.probes if (row["method"], row["forget"]) != ("scrub", "0")])
    assert "% by method, each over the classes that it has; of" in say["controls"](ragged)
    assert TABLES["controls"](other).notes[0].endswith("; the paper's over all ten classes.")
    assert tables_of(other)["controls"](kept).notes[0].endswith("; CIFAR-10's over as many as there are.")


@pytest.mark.parametrize(("read", "above"), [(0.999, 0), (0.5, None)])
def test_a_probe_is_no_evidence_where_retrained_models_are_among_the_highest(
    kept: Kept, other: Kept, read: float, above: int | None
) -> None:
    say = sentences_of(other)["controls"]
    rows = [{**row, "forget_accuracy": read} if row["method"] == "retrained" else row for row in kept.probes]
    told = say(replace(kept, probes=rows))
    assert ("so a probe that reads the class is no evidence of memory." in told) == (above is not None)
    if above is not None:
        assert f"of retrained ones {100 * read:.1f} %, more than of 10 of the 10 other methods, so a probe " in told
    means = {m: fmean(r["forget_accuracy"] for r in kept.probes if r["method"] == m) for m in METHOD_LIST[1:]}
    order = sorted(means.values(), reverse=True)
    for place, said in ((2, True), (3, False)):
        between = (order[place - 1] + order[place]) / 2
        some = [{**row, "forget_accuracy": between} if row["method"] == "retrained" else row for row in kept.probes]
        assert (f", more than of {10 - place} of the 10" in say(replace(kept, probes=some))) == said
        assert ("no evidence of memory" in say(replace(kept, probes=some))) == said


# the choice of epoch and the forget row


def test_methods_whose_best_epoch_is_below_the_last_are_named_with_the_reason(kept: Kept, other: Kept) -> None:
    say = sentences_of(other)["selection"]
    gains = {"native": {"delete": -0.1, "scrub": 0.5}, "canonical": {"delete": -0.1, "scrub": 0.6}}

    def text(given: Mapping[str, Mapping[str, float]]) -> str:
        rows = [{**row, "best": row["last"] + given[row["scale"]].get(row["method"], 0.1)} for row in kept.selection]
        return say(replace(kept, selection=rows))

    assert "most for SCRUB (+0.50 native, +0.60 canonical)." in text(gains)
    why = "the best epoch is below the last, on average: it must keep 90 % of the retain accuracy, the last need not."
    assert f" For DELETE {why}" in text(gains)
    assert f" For DELETE at native scale {why}" in text({**gains, "canonical": {}})
    both = below_last({"delete": -0.1}, {"salun": -0.1, "delete": -0.001})
    assert both.startswith(" For DELETE at native scale and for SalUn at canonical scale the best")
    assert below_last({"delete": 0.1}, {"delete": -0.001}) == ""
    assert most_added({"delete": 0.1}, {"delete": 0.0, "salun": 0.2}) == "SalUn (+0.20 canonical)"


def test_what_other_seeds_share_is_a_range_and_a_mean(kept: Kept, other: Kept) -> None:
    shared = {
        method: fmean(
            row["transferred"] - row["last"]
            for row in kept.selection
            if (row["method"], row["scale"]) == (method, "native")
        )
        for method in METHOD_LIST
    }
    low, high, mean = (minus(end(shared.values()), "+.2f") for end in (min, max, fmean))
    text = sentences_of(other)["selection"](kept)
    assert f"at native scale {low} to {high} by method, {mean} on average, is an epoch that other seeds share" in text


def test_the_forget_row_drawn_anew_is_told_as_a_range_with_all_methods_at_its_ends(kept: Kept, other: Kept) -> None:
    say = sentences_of(other)["reset"]
    by = {"finetune": -0.04, "scrub": -0.042, "delete": 0.07}
    released = {(row["method"], row["forget"]): row["rs"] for m in METHOD_LIST for row in audits(kept, VERDICT, m)}

    def anew(row: Row) -> float:
        return float(released.get((row["method"], row["forget"]), 0.5) + by.get(row["method"], 0.0))

    rows = [{**row, "rs": anew(row)} if row["variant"] == "reset-row" else row for row in kept.audits]
    text = say(replace(kept, audits=rows))
    assert text.startswith(
        "Drawing the forget row anew changes mean RS by −0.04 (Finetune and SCRUB) to +0.07 (DELETE), 0.00 on average"
    )
    assert re.search(r"; retrained models go from (0\.\d\d) to \1\.$", text)
    one = part(replace(kept, audits=rows), lambda row: row["method"] == "delete")
    assert say(one) == f"Drawing the forget row anew changes mean RS by +0.07 ({method_name('delete')}), +0.07 on " + (
        "average over methods."
    )
