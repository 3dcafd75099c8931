"""Some models of a second data set at every scale: what is said of them, and that nothing else is made of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from builders.reproduction import cells
from builders.second_group import GROUP, TEMPLATE, blocks
from builders.sweep import BASE, FLOOR, KAPPAS, SCALES, SHIFT, covered, empty, grid, reading, sweep_of, with_sweep
from reproduction.document_beside import refresh_beside, sentences_of, tables_of
from reproduction.draw import beside_figures, description, document_figures
from reproduction.stored import METHOD_LIST, PUBLISHED, VERDICT, Kept, Row, read_kept
from reproduction.sweeps import gaps, mean_gap, quiet_scales, read_sweep
from sfra.attack.scale import KAPPA
from sfra.bench.plan import plan
from sfra.bench.protocol import load_protocol


@pytest.fixture(scope="module")
def say(other: Kept) -> Callable[[Kept], str]:
    return sentences_of(other)["every-scale"]


# the protocol


def test_the_sweep_asks_for_eighteen_audits_of_models_that_the_group_has() -> None:
    def features(name: str) -> dict[tuple[str, str], str]:
        return {
            (goal.identity["method"], goal.identity["forget"]): goal.cell.needs["test"].key
            for goal in plan(load_protocol(name))
            if goal.what == "audit"
        }

    goals = plan(load_protocol(SCALES))
    audited = {(goal.identity["method"], goal.identity["forget"]) for goal in goals if goal.what == "audit"}
    assert audited == {(method, forget) for method in BASE for forget in SHIFT}
    assert {goal.what for goal in goals} <= {"audit", "accuracy"}
    mine, group = features(SCALES), features(GROUP)
    assert len(mine) == 18
    assert {place: group[place] for place in mine} == mine
    audits = [{goal.cell.key for goal in plan(load_protocol(name)) if goal.what == "audit"} for name in (SCALES, GROUP)]
    assert audits[0] & audits[1] == set()


# no rows


def test_without_rows_it_says_that_it_has_not_been_run(kept: Kept, other: Kept, say: Callable[[Kept], str]) -> None:
    assert say(kept) == (
        f"It has not been run: `{SCALES}` asks for 9 scales of models of thing 0 (0), thing 40 (40) and thing 50 (50)."
    )
    for name in ("every-scale", "every-scale-means"):
        assert tables_of(other)[name](kept).rows == ()
    assert "sweep" not in beside_figures(kept, other)
    text = refresh_beside(TEMPLATE.read_text(encoding="utf-8"), kept, other)
    assert "sweep.svg" not in text
    assert blocks(text)["table", "every-scale"] == blocks(text)["table", "every-scale-means"] == ""


def test_the_committed_rows_are_told_of_as_they_are(other: Kept, say: Callable[[Kept], str]) -> None:
    committed = read_kept(GROUP)
    there = [row for row in committed.audits if row["protocol"] == SCALES]
    told = say(committed)
    assert told.startswith(f"`{SCALES}`: " if there else "It has not been run: ")
    assert ("sweep" in beside_figures(committed, other)) == bool(there)
    assert ("sweep.svg" in told) == bool(there)


# what is said


def test_quiet_scales_and_what_is_given_there_are_those_of_numpy(kept: Kept, say: Callable[[Kept], str]) -> None:
    rows = sweep_of(BASE)
    told = say(with_sweep(kept, rows)).splitlines()
    assert told[0] == (
        f"`{SCALES}`: all 18 models of thing 0 (0), thing 40 (40) and thing 50 (50), at 9 scales, κ = 0.85 to 3.40, "
        "last epoch."
    )
    top = grid(rows, "retrained").max(axis=0)
    for line, limit, what in ((told[2], 0.05, "RS 0.05"), (told[3], FLOOR, "its floor")):
        last = int(np.flatnonzero(top <= limit).max())
        assert line.startswith(f"- Every retrained model is at or below {what}")
        assert f" up to κ = {KAPPAS[last]:.2f}; there RS is " in line
        for method, name in (("masked", "Masked"), ("bad-teacher", "Bad Teacher"), ("salun", "SalUn")):
            found = grid(rows, method)[:, last]
            assert f"{found.min():.2f} to {found.max():.2f} (mean {found.mean():.2f}) for {name}" in line
    assert f"its floor ({FLOOR:.2f}: what answering every sample with the forget class would score) up to" in told[3]
    assert KAPPAS[int(np.flatnonzero(top <= 0.05).max())] == 1.20208
    high = int((grid(rows, "masked")[:, int(np.flatnonzero(top <= FLOOR).max())] > FLOOR).sum())
    assert told[3].endswith(f" for SalUn; {high} of 3 controls are above their floor.")
    assert "above their floor" not in told[2]


@pytest.mark.parametrize(
    ("retrained", "told"),
    [
        ([0.0, 0.2, 0.2], "is at or below RS 0.05 only at the smallest scale, κ = 0.85; there RS is "),
        ([0.0, 0.0, 0.2], "is at or below RS 0.05 up to κ = 1.01; there RS is "),
        ([0.2, 0.0, 0.2], "is at or below RS 0.05 at κ = 1.01; there RS is "),
    ],
)
def test_the_smallest_scale_is_no_range(
    kept: Kept, say: Callable[[Kept], str], retrained: list[float], told: str
) -> None:
    curves = {**BASE, "retrained": [*retrained, *([0.2] * 6)]}
    assert told in say(with_sweep(kept, sweep_of(curves, dict.fromkeys(SHIFT, 0.0))))


def test_controls_above_their_floor_are_counted_where_references_are_below_theirs(
    kept: Kept, say: Callable[[Kept], str]
) -> None:
    curves = {"retrained": [0.1, 0.1, *([0.5] * 7)], "masked": [0.1, FLOOR, *([0.5] * 7)]}
    for shifts, told in (((0.0, 0.01), "1 of 2 controls is"), ((0.01, 0.02), "2 of 2 controls are")):
        text = say(with_sweep(kept, sweep_of(curves, dict(zip(("0", "40"), shifts, strict=True)))))
        assert "up to κ = 1.01; there RS is " in text
        assert f"; {told} above their floor." in text


def test_the_widest_gap_is_named_by_class_and_on_average(kept: Kept, say: Callable[[Kept], str]) -> None:
    rows = sweep_of(BASE)
    rows = [
        {**row, "rs": 0.9} if (row["method"], row["forget"], row["kappa"]) == ("masked", "50", KAPPAS[1]) else row
        for row in rows
    ]
    apart = grid(rows, "masked") - grid(rows, "retrained")
    told = say(with_sweep(kept, rows))
    places = [
        f"at κ = {KAPPAS[i]:.2f} for thing {forget} ({forget}) (+{curve[i]:.2f})"
        for forget, curve in zip(SHIFT, apart, strict=True)
        for i in [int(curve.argmax())]
    ]
    mean = apart.mean(axis=0)
    best = int(mean.argmax())
    assert f"largest {places[0]}, {places[1]} and {places[2]}; on average over the 3 at κ = {KAPPAS[best]:.2f}" in told
    assert (KAPPAS[int(apart[2].argmax())], KAPPAS[best]) == (KAPPAS[1], KAPPAS[3])
    assert f"(+{mean[best]:.2f})." in told
    at = KAPPAS.index(KAPPA)
    assert f"is 1 step of the sweep above that, with an average gap of +{mean[at]:.2f}: 0 of 3 controls are" in told
    assert "and 0 of 3 retrained models raise an alarm (0 at κ = 1.43); retrained models give 0.38 to 0.41." in told
    assert " less" not in told


@pytest.mark.parametrize(
    ("best", "told"),
    [
        (4, "which was chosen on CIFAR-10 and digits, is the scale of the largest average gap: 0 of 3 controls are"),
        (5, "is 1 step of the sweep below that, with an average gap of +0.50: 0 of 3 controls are"),
        (3, "is 1 step of the sweep above that, with an average gap of +0.50: 0 of 3 controls are"),
        (0, "is 4 steps of the sweep above that, with an average gap of +0.50: 0 of 3 controls are"),
        (8, "is 4 steps of the sweep below that, with an average gap of +0.50: 0 of 3 controls are"),
    ],
)
def test_how_far_the_canonical_scale_is_away_follows_from_the_gaps(
    kept: Kept, say: Callable[[Kept], str], best: int, told: str
) -> None:
    masked = [0.8 if i == best else 0.5 for i in range(9)]
    text = say(with_sweep(kept, sweep_of({"retrained": [0.0] * 9, "masked": masked}, dict.fromkeys(SHIFT, 0.0))))
    assert told in text
    assert text.count("κ = 1.70, which was chosen") == 1


def test_where_no_scale_is_quiet_the_smallest_is_told(kept: Kept, say: Callable[[Kept], str]) -> None:
    loud = {**BASE, "retrained": [rs + 0.4 if rs < 0.5 else rs for rs in BASE["retrained"]]}
    told = say(with_sweep(kept, sweep_of(loud)))
    assert told.count("At no scale of the sweep is every retrained model at or below ") == 2
    assert "κ = 0.85, retrained models give 0.38 to 0.41; there RS is 0.08 to 0.11 (mean 0.10) for Masked" in told


def test_quiet_scales_between_loud_ones_are_listed(kept: Kept, say: Callable[[Kept], str]) -> None:
    odd = {**BASE, "retrained": [0.5, 0.0, 0.5, 0.0, 0.5, 0.5, 0.5, 0.5, 0.5]}
    told = say(with_sweep(kept, sweep_of(odd, {"0": 0.0})))
    assert (
        "Every retrained model is at or below RS 0.05 at κ = 1.01 and 1.43; at κ = 1.43 RS is 0.70 for Masked" in told
    )


def test_a_model_exactly_at_its_limit_is_quiet_and_one_without_a_floor_is_not() -> None:
    rows = [reading("retrained", "0", 1.0, 0.05, floor=0.05), reading("retrained", "0", 2.0, 0.05, floor=None)]
    sweep = read_sweep(with_sweep(empty(), rows))
    assert quiet_scales(sweep, 0.05) == [1.0, 2.0]
    assert quiet_scales(sweep, sweep.floors) == [1.0]


def test_gaps_are_over_the_scales_and_classes_that_both_have() -> None:
    rows = [reading("masked", "0", kappa, 0.75) for kappa in (1.0, 2.0, 4.0)]
    rows += [reading("retrained", "0", kappa, 0.25) for kappa in (2.0, 4.0, 8.0)]
    rows += [
        reading("masked", "40", 2.0, 0.5),
        reading("retrained", "40", 2.0, 0.75),
        reading("masked", "50", 2.0, 1.0),
    ]
    found = gaps(read_sweep(with_sweep(empty(), rows)))
    assert found == {"0": {2.0: 0.5, 4.0: 0.5}, "40": {2.0: -0.25}}
    assert mean_gap(list(found.values())) == {2.0: 0.125}
    assert mean_gap([]) == {}


# parts


@pytest.mark.parametrize(
    ("methods", "classes", "told"),
    [
        (["retrained"], ["0"], "; there of Masked, Bad Teacher and SalUn nothing is there."),
        (["masked"], ["0", "40"], "No retrained model is there yet, so nothing can be said of how quiet they are."),
        (["masked", "salun"], ["0"], "Masked and retrained models of the same class are not there yet"),
        (
            ["retrained", "masked"],
            ["40"],
            "neither audit is degenerate, is largest at κ = 1.43 for thing 40 (40) (+0.60).",
        ),
        (["delete"], ["50"], "Masked and retrained models of the same class are not there yet"),
        (list(BASE), ["0", "40"], f"`{SCALES}`: 12 of 18 models of thing 0 (0) and thing 40 (40), at 9 scales"),
    ],
)
def test_a_part_of_the_sweep_is_told_as_a_part(
    kept: Kept, other: Kept, say: Callable[[Kept], str], methods: list[str], classes: list[str], told: str
) -> None:
    rows = sweep_of({m: BASE[m] for m in methods}, {forget: SHIFT[forget] for forget in classes})
    some = with_sweep(kept, rows)
    assert told in say(some)
    text = refresh_beside(TEMPLATE.read_text(encoding="utf-8"), some, other)
    assert re.search(r"\b(None|nan|inf)\b", text) is None
    assert [place for place, content in blocks(text).items() if not content] == []
    for name in ("every-scale", "every-scale-means"):
        assert len(tables_of(other)[name](some).rows) == 9
    shown = cells(tables_of(other)["every-scale"](some)).values()
    assert {(row["recovered"] is None, row["alarms"] is None) for row in shown} == {
        ("masked" not in methods, "retrained" not in methods)
    }


def test_rows_at_the_canonical_scale_alone_are_no_sweep_to_compare(kept: Kept, say: Callable[[Kept], str]) -> None:
    rows = [reading(method, "0", 1.0, 0.5) for method in ("masked", "retrained")]
    assert "At κ = 1.70 there is nothing to compare." in say(with_sweep(kept, rows))


# nothing else is made of them


def test_the_sweep_changes_nothing_else_on_the_page(kept: Kept, other: Kept) -> None:
    rows: list[Row] = list(sweep_of(BASE))
    rows += [{**row, "variant": "reset-row", "rs": 1.0} for row in rows if row["rule"] == "source-free"]
    more: dict[str, Any] = {
        name: [*getattr(kept, name), *({**row, "protocol": SCALES} | made for row in getattr(kept, name)[:40])]
        for name, made in (
            ("selection", {"last": 1.0, "best": 1.0, "early": 1.0}),
            ("models", {"seconds": 1e6, "aus": 9.0}),
            ("originals", {"hits": 0.0}),
            ("pra", {"rs": 1.0}),
            ("probes", {"forget_accuracy": 1.0}),
            ("diagnostics", {"cosine": 1.0, "gain": 9.0, "inner": 9.0, "gap": 1.0}),
        )
    }
    swept = replace(with_sweep(kept, rows), **more)
    for reading_of in (PUBLISHED, VERDICT):
        assert swept.main(*reading_of) == kept.main(*reading_of)
    template = TEMPLATE.read_text(encoding="utf-8")
    before, after = (blocks(refresh_beside(template, one, other)) for one in (kept, swept))
    assert {place for place in before if before[place] != after[place]} == {
        ("text", "summary"),
        ("text", "coverage"),
        ("text", "every-scale"),
        ("table", "every-scale"),
        ("table", "every-scale-means"),
    }
    for line in before["text", "summary"].splitlines():
        assert line in after["text", "summary"]
    drawn = [{name: description(chart) for name, chart in beside_figures(one, other).items()} for one in (kept, swept)]
    assert {name: text for name, text in drawn[1].items() if name != "sweep"} == drawn[0]


def test_the_coverage_of_the_page_is_that_of_its_own_protocol_and_of_the_sweep(kept: Kept, other: Kept) -> None:
    coverage = sentences_of(other)["coverage"]
    lacking = replace(kept, coverage=[*kept.coverage, covered(2)])
    assert f"\n- `{SCALES}`: 2 of 18 audits.\n" in coverage(lacking)
    assert "Not computed yet: 16 audits." in coverage(lacking)
    assert f"\n- `{SCALES}`: 18 of 18 audits.\n" in coverage(replace(kept, coverage=[*kept.coverage, covered(18)]))
    another = replace(kept, coverage=[*kept.coverage, {**covered(2), "protocol": f"{GROUP}-published"}])
    assert coverage(another) == coverage(kept)
    assert SCALES not in coverage(kept)


# the figure


def test_the_figure_is_drawn_of_the_sweep_and_shown(kept: Kept, other: Kept, say: Callable[[Kept], str]) -> None:
    rows = sweep_of(BASE)
    swept = with_sweep(kept, rows)
    drawn = beside_figures(swept, other)
    assert list(drawn) == ["comparison", "comparison-canonical", "heatmap", "sweep"]
    told = description(drawn["sweep"])
    assert told.startswith("RS of 5 methods and the control over 9 scales from κ = 0.85 to 3.40.")
    without = beside_figures(with_sweep(kept, [row for row in rows if row["method"] != "masked"]), other)
    assert description(without["sweep"]).startswith("RS of 5 methods over 9 scales from κ = 0.85 to 3.40.")
    assert "Means at κ = 1.70: " in told
    assert f"SalUn {grid(rows, 'salun')[:, 4].mean():.2f}" in told
    assert "CIFAR-100, ResNet-18. Rule source-free." in str(drawn["sweep"].to_dict())
    assert say(swept).splitlines()[-1] == "![RS over scales](reproduction-cifar100/sweep.svg)"


def test_figures_of_the_first_group_count_the_control_apart_from_the_methods(other: Kept) -> None:
    rows = [row for row in other.audits if (row["variant"], row["scale"], row["rule"]) == ("released", *VERDICT)]
    drawn = {name: description(chart) for name, chart in document_figures(other).items()}
    assert drawn["sweep"].startswith("RS of 11 methods and the control over 9 scales from κ = 0.85 to 3.40.")

    def mean(methods: Sequence[str], size: str) -> float:
        found = {
            method: [row["rs"] for row in rows if (row["method"], row["varied"]) == (method, size)]
            for method in methods
        }
        return float(np.mean([np.mean(some) for some in found.values()]))

    for size, low, high in (("M", 50, 2000), ("N", 50000, 2000000)):
        ours, control = (
            [f"{mean(methods, f'{size.lower()}={end}'):.2f}" for end in (low, high)]
            for methods in (METHOD_LIST, ["masked"])
        )
        assert (
            f"From {size} = {low:,} to {high:,} the mean RS of 11 methods goes from {ours[0]} to {ours[1]} and "
            f"that of the control goes from {control[0]} to {control[1]}."
        ) in drawn["sensitivity"]
