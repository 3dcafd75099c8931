"""Verdicts of a second data set at every scale: where the control is recovered, and where audits are degenerate."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence

import pytest

from builders.reproduction import cells
from builders.second_group import GROUP
from builders.sweep import (
    BASE,
    KAPPAS,
    LOST,
    SCALES,
    SHIFT,
    empty,
    flat_sweep,
    grid,
    judged,
    reading,
    sweep_of,
    with_sweep,
)
from reproduction.document_beside import sentences_of, tables_of
from reproduction.stored import KEPT, Kept, Row, read_kept
from reproduction.sweeps import broken_from, outcomes


@pytest.fixture(scope="module")
def say(other: Kept) -> Callable[[Kept], str]:
    return sentences_of(other)["every-scale"]


# verdicts


def test_outcomes_of_a_scale_are_counts_of_its_rows() -> None:
    rows = [
        reading("masked", "0", 1.0, 0.5, verdict="recovered", retain_after=0.75),
        reading("masked", "40", 1.0, 0.3, verdict="not-recovered"),
        reading("masked", "50", 1.0, 0.9, verdict="degenerate", retain_after=0.56),
        reading("retrained", "0", 1.0, 0.5, verdict="no-reference"),
        reading("retrained", "40", 1.0, 0.3, verdict="not-recovered"),
        reading("retrained", "50", 1.0, 0.6, verdict="degenerate", retain_after=0.6),
        reading("salun", "0", 1.0, 0.9, verdict="recovered"),
        reading("salun", "0", 2.0, 0.9, verdict="degenerate"),
        reading("masked", "0", None, 0.9, verdict="recovered"),
        reading("masked", "0", 1.0, 0.9, verdict="recovered", rule="worst-case"),
    ]
    found = outcomes(with_sweep(empty(), rows))
    assert list(found) == [1.0, 2.0]
    here = found[1.0]
    assert (here.recovered, here.above, here.controls) == (("0",), 2, 3)
    assert (here.alarms, here.references) == (2, 3)
    assert (here.degenerate, here.audits) == (2, 7)
    assert here.lost == pytest.approx((0.01, 0.0, 0.2, 0.0, 0.0, 0.16, 0.0))
    assert broken_from(found) == 2.0
    assert broken_from({1.0: here}) is None
    assert broken_from({1.0: found[2.0], 2.0: here}) is None


def test_the_scale_with_most_controls_is_named_with_its_alarms(kept: Kept, say: Callable[[Kept], str]) -> None:
    rows = flat_sweep()
    told = say(with_sweep(kept, rows))
    counts = [
        sum(r["verdict"] == "recovered" for r in rows if (r["method"], r["kappa"]) == ("masked", k)) for k in KAPPAS
    ]
    assert counts == [0, 0, 0, 2, 2, 0, 0, 0, 0]
    assert (
        "- Controls are recovered most often at κ = 1.43 and 1.70: 2 of 3 (thing 0 (0) and thing 40 (40)); 0 of 3 "
        "retrained models raise an alarm at κ = 1.43. Recovered at no scale: thing 50 (50).\n"
    ) in told
    gone = {"method": "masked", "forget": "0", "kappa": KAPPAS[4]}
    fewer = [{**row, "verdict": "generic"} if gone.items() <= row.items() else row for row in rows]
    assert (
        "- Controls are recovered most often at κ = 1.43: 2 of 3 (thing 0 (0) and thing 40 (40)); 0 of 3 retrained "
        "models raise an alarm there."
    ) in say(with_sweep(kept, fewer))
    back = {"method": "masked", "forget": "50", "kappa": KAPPAS[4]}
    swapped = [{**row, "verdict": "recovered"} if back.items() <= row.items() else row for row in fewer]
    assert "most often at κ = 1.43 and 1.70: 2 of 3; 0 of 3 retrained" in say(with_sweep(kept, swapped))
    lost = [100 * one for one in LOST[6:]]
    assert (
        f"- From κ = {KAPPAS[6]:.2f} on every audit is degenerate: retain accuracy falls by {min(lost):.0f} to "
        f"{max(lost):.0f} points.\n"
    ) in told


def test_no_recovered_control_and_no_degenerate_audit_are_told_as_such(kept: Kept, say: Callable[[Kept], str]) -> None:
    told = say(with_sweep(kept, sweep_of(BASE)))
    assert "- No control is recovered at any scale.\n" in told
    assert "degenerate: retain" not in told
    every = [{**row, "verdict": "recovered"} if row["method"] == "masked" else row for row in sweep_of(BASE)]
    whole = say(with_sweep(kept, every))
    assert (
        "- All 3 controls are recovered at every scale; 0 of 3 retrained models raise an alarm at κ = 0.85.\n" in whole
    )
    assert "at no scale" not in whole


def test_a_gap_counts_only_where_no_audit_is_degenerate(kept: Kept, say: Callable[[Kept], str]) -> None:
    rows = flat_sweep()
    apart = (grid(rows, "masked") - grid(rows, "retrained"))[:, :6]
    whole = grid(rows, "masked") - grid(rows, "retrained")
    assert list(whole.argmax(axis=1)) == [8, 8, 8]
    assert list(apart[:2].argmax(axis=1)) == [3, 3]
    assert apart[2].max() == pytest.approx(0.03)
    mean = apart.mean(axis=0)
    assert int(mean.argmax()) == 3
    told = say(with_sweep(kept, rows))
    assert (
        f"- Masked minus retrained, where neither audit is degenerate, is largest at κ = 1.43 for thing 0 (0) "
        f"(+{apart[0].max():.2f}) and at κ = 1.43 for thing 40 (40) (+{apart[1].max():.2f}); thing 50 (50) stands out "
        f"nowhere (at most +0.03, at κ = 1.01); on average over the 3 at κ = 1.43 (+{mean[3]:.2f}).\n"
    ) in told
    assert (
        "- κ = 1.70, which was chosen on CIFAR-10 and digits, is 1 step of the sweep above that, with an average gap "
        f"of +{mean[4]:.2f}: 2 of 3 controls are recovered there (2 at κ = 1.43), and 3 of 3 retrained models raise an "
        "alarm (0 at κ = 1.43); retrained models give 0.43 to 0.46.\n"
    ) in told


def test_a_control_that_stands_out_nowhere_is_said_to_do_so(kept: Kept, say: Callable[[Kept], str]) -> None:
    curves = {"retrained": [0.2] * 9, "masked": [0.2, 0.25, *([0.1] * 7)]}
    told = say(with_sweep(kept, sweep_of(curves, {"0": 0.0})))
    assert "neither audit is degenerate, is nowhere above 0.05: thing 0 (0) (at most +0.05, at κ = 1.01)." in told
    wide = say(with_sweep(kept, sweep_of({**curves, "masked": [0.2, 0.26, *([0.1] * 7)]}, {"0": 0.0})))
    assert "is largest at κ = 1.01 for thing 0 (0) (+0.06)." in wide
    assert "nowhere" not in wide


def test_where_every_audit_is_degenerate_no_gap_is_told(kept: Kept, say: Callable[[Kept], str]) -> None:
    rows = judged(sweep_of(BASE), [0.5] * 9)
    told = say(with_sweep(kept, rows))
    assert "- At every scale masked or retrained audits of a class are degenerate, so their gap says nothing." in told
    assert "- Every audit is degenerate: retain accuracy falls by 50 points.\n" in told


def test_the_committed_sweep_says_what_its_csv_says(say: Callable[[Kept], str], other: Kept) -> None:
    with (KEPT / GROUP / "audits.csv").open(newline="", encoding="utf-8") as file:
        wanted = {"protocol": SCALES, "audit": "main", "variant": "released", "rule": "source-free"}
        rows = [row for row in csv.DictReader(file) if row["kappa"] and wanted.items() <= row.items()]
    if not rows:
        pytest.skip("the sweep has not been run")
    committed = read_kept(GROUP)
    told, table = say(committed), cells(tables_of(other)["every-scale"](committed))
    lost = {}
    for kappa in sorted({row["kappa"] for row in rows}, key=float):
        here = [row for row in rows if row["kappa"] == kappa]
        masked, retrained = ([row for row in here if row["method"] == m] for m in ("masked", "retrained"))
        shown = table[f"{float(kappa):.2f}"]
        back = sum(row["verdict"] == "recovered" for row in masked)
        assert shown["recovered"] == f"{back} of {len(masked)}"
        loud = sum(row["verdict"] != "not-recovered" for row in retrained)
        assert shown["alarms"] == f"{loud} of {len(retrained)}"
        if all(row["verdict"] == "degenerate" for row in here):
            lost[float(kappa)] = [100 * (float(row["retain_before"]) - float(row["retain_after"])) for row in here]
    assert lost
    falls = [one for some in lost.values() for one in some]
    on = f"From κ = {min(lost):.2f} on every audit is degenerate: retain accuracy falls by"
    assert f"{on} {min(falls):.0f} to {max(falls):.0f} points." in told
    for kappa in lost:
        assert f"largest at κ = {kappa:.2f}" not in told


# tables and the summary


def test_the_table_has_the_control_and_its_references_by_class_with_their_verdicts(kept: Kept, other: Kept) -> None:
    rows = flat_sweep()
    table = tables_of(other)["every-scale"](with_sweep(kept, rows))
    shown = cells(table)
    assert list(shown) == [f"{kappa:.2f}" for kappa in KAPPAS]
    assert len(table.columns) == 9
    for i, kappa in enumerate(KAPPAS):
        row, here = shown[f"{kappa:.2f}"], [one for one in rows if one["kappa"] == kappa]
        for method in ("masked", "retrained"):
            found = grid(rows, method)[:, i]
            assert [row[f"{method}_{forget}"] for forget in SHIFT] == [f"{one:.2f}" for one in found]
        back = sum((one["method"], one["verdict"]) == ("masked", "recovered") for one in here)
        loud = sum(one["method"] == "retrained" and one["verdict"] != "not-recovered" for one in here)
        assert (row["recovered"], row["alarms"]) == (f"{back} of 3", f"{loud} of 3")
    assert [column.heading for column in table.columns][1:3] == ["Masked: thing 0 (0)", "Masked: thing 40 (40)"]
    assert table.notes[-1] == f"From κ = {KAPPAS[6]:.2f} on every audit is degenerate."
    sound = tables_of(other)["every-scale"](with_sweep(kept, sweep_of(BASE)))
    assert [note for note in sound.notes if "degenerate." in note] == []


def test_the_table_of_means_has_every_method_and_what_the_scale_costs(kept: Kept, other: Kept) -> None:
    rows = flat_sweep()
    table = tables_of(other)["every-scale-means"](with_sweep(kept, rows))
    shown = cells(table)
    assert list(shown) == [f"{kappa:.2f}" for kappa in KAPPAS]
    assert len(table.columns) == 9
    for i, kappa in enumerate(KAPPAS):
        row = shown[f"{kappa:.2f}"]
        for method in BASE:
            mean = grid(rows, method)[:, i].mean()
            assert float(row[method.replace("-", "_")] or "nan") == pytest.approx(mean, abs=0.00501)
        assert row["lost"] == f"{100 * LOST[i]:.1f}"
        assert row["degenerate"] == f"{18 if i >= 6 else 0} of 18"
    assert table.notes[-1] == f"From κ = {KAPPAS[6]:.2f} on every audit is degenerate."


def test_the_summary_says_at_which_scale_how_many_controls_are_recovered(kept: Kept, other: Kept) -> None:
    say = sentences_of(other)["summary"]

    def told(rows: Sequence[Row]) -> str:
        return say(with_sweep(kept, rows)).splitlines()[-1]

    over = "- Over 9 scales, for thing 0 (0), thing 40 (40) and thing 50 (50): "
    rows = flat_sweep()
    assert told(rows) == (
        f"{over}2 of 3 controls are recovered and 0 of 3 retrained models raise an alarm at κ = 1.43, 2 and 3 at κ = "
        "1.70; at no scale are more controls recovered."
    )
    place = {"method": "masked", "forget": "0", "kappa": KAPPAS[3]}
    fewer = [{**row, "verdict": "generic"} if place.items() <= row.items() else row for row in rows]
    assert told(fewer) == (
        f"{over}2 of 3 controls are recovered and 3 of 3 retrained models raise an alarm at κ = 1.70; at no scale are "
        "more controls recovered."
    )
    assert told(sweep_of(BASE)) == f"{over}no control is recovered at any of them."
    masked = [row for row in rows if row["method"] == "masked"]
    assert told(masked) == (
        f"{over}2 of 3 controls are recovered at κ = 1.43, 2 at κ = 1.70; at no scale are more controls recovered."
    )
    alone = [row for row in rows if row["method"] == "salun"]
    assert say(with_sweep(kept, alone)) == say(kept)
