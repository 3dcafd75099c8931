"""Models of other trainings: what a schedule, in part or in full, does to RS and to the references."""

from __future__ import annotations

from dataclasses import replace
from statistics import fmean

import pytest

from reproduction.build import COMPARED
from reproduction.document import SENTENCES, TABLES
from reproduction.experiments import FULL, STEPS, World, native_kappa, trained_otherwise
from reproduction.stored import METHOD_LIST, Kept, read_kept
from reproduction_made import (
    LONG,
    STEPPED,
    THREE,
    cells,
    in_full,
    our_mean,
    own_world,
    paper_mean,
    paper_value,
    rated,
    stepped,
)
from sfra.scale import KAPPA


@pytest.fixture(scope="module")
def bare() -> Kept:
    """Only the group's own models."""
    return own_world(read_kept(COMPARED))


def test_the_full_schedule_is_measured_against_the_short_one_and_against_ours(bare: Kept) -> None:
    kept = in_full(stepped(bare, 0.25, methods=[m for m in METHOD_LIST if m != "negative-gradient-plus"]), 0.75)
    found = cells(TABLES["changes"](kept))
    for what, before, methods in (
        ("the full schedule, (c) to (d)", STEPPED, [m for m in METHOD_LIST if m != "negative-gradient-plus"]),
        ("rates and full schedule, (a) to (d)", COMPARED, METHOD_LIST),
    ):
        sides = [{m: our_mean(kept, name, m, THREE) for m in methods} for name in (before, LONG)]
        paper = {m: paper_mean(m, THREE) for m in methods}
        mine = found[what]
        assert (mine["methods"], mine["models"]) == (str(len(methods)), str(3 * len(methods)))
        assert mine["size"] == f"{fmean(abs(sides[0][m] - sides[1][m]) for m in methods):.2f}"
        differences = [fmean(abs(side[m] - paper[m]) for m in methods) for side in sides]
        assert [mine["difference_before"], mine["difference_after"]] == [f"{one:.2f}" for one in differences]
        assert mine["retrained_after"] == f"{sides[1]['retrained']:.2f}"
    told = SENTENCES["experiments"](kept)
    assert "(c) is there in full. (d) is there in full." in told
    assert "The schedule in full, (d) for (c): over 10 methods and 30 models" in told
    assert "Rates and full schedule, (d) for (a): over 11 methods and 33 models" in told
    assert "over 10 methods and 30 models that all have: (a) 0." in told
    table = TABLES["experiments"](kept)
    assert table.names[2:5] == ("paper", "a", "c")
    assert [name for name in table.names if name.endswith("_all")] == ["paper_all", "a_all"]
    row = cells(table)["Negative Gradient+"]
    assert (row["c"], row["d"]) == (None, f"{our_mean(kept, LONG, 'negative-gradient-plus', THREE):.2f}")


# what is said of retrained models


@pytest.mark.parametrize(("world", "form"), [(STEPS, "a shortened form of the paper's"), (FULL, "the paper's")])
@pytest.mark.parametrize(
    ("toward", "told"),
    [
        (1.0, "So the training of ({letter}) closes the gap."),
        (0.5, "So the training of ({letter}) closes 50 % of the gap."),
        (0.0, "So the training of ({letter}), {form}, does not close the gap."),
        (-0.4, "So the training of ({letter}), {form}, does not close the gap."),
        (1.5, "That is past the paper's, by 0."),
    ],
)
def test_the_verdict_on_a_training_follows_the_share_of_the_gap(
    bare: Kept, toward: float, told: str, world: World, form: str
) -> None:
    made = stepped(bare, toward) if world is STEPS else in_full(bare, toward)
    text = SENTENCES["experiments"](made)
    assert told.format(letter=world.letter, form=form) in text
    verdicts = ("closes the gap", "% of the gap", "does not close the gap", "past the paper's", "hardly a gap")
    assert sum(one in text for one in verdicts) == 1


def test_every_training_with_references_of_its_own_has_a_line(bare: Kept) -> None:
    kept = in_full(stepped(rated(bare, 0.5), 0.25), 0.9)
    assert trained_otherwise(kept) == (STEPS, FULL)
    lines = [line for line in SENTENCES["experiments"](kept).splitlines() if line.startswith("- Retrained models")]
    assert len(lines) == 2
    paper, own = paper_mean("retrained", THREE), our_mean(kept, COMPARED, "retrained", THREE)
    for line, name, letter, verdict in zip(
        lines, (STEPPED, LONG), "cd", ("closes 25 % of the gap.", "closes the gap."), strict=True
    ):
        mine = our_mean(kept, name, "retrained", THREE)
        assert f"classes 0, 3 and 7: {own:.2f} in (a), {mine:.2f} in ({letter}), {paper:.2f} in the paper" in line
        assert f"So the training of ({letter}) {verdict}" in line
        assert f"none of ({letter}) gives more than 0." in line


def test_without_a_gap_there_is_nothing_to_close(bare: Kept) -> None:
    audits = [
        {**row, "rs": paper_value("retrained", row["forget"])}
        if (row["protocol"], row["method"], row["variant"]) == (COMPARED, "retrained", "released")
        else row
        for row in bare.audits
    ]
    assert "There is hardly a gap to close." in SENTENCES["experiments"](stepped(replace(bare, audits=audits), 0.0))


def test_the_norm_of_the_rows_is_told_where_it_was_diagnosed(bare: Kept) -> None:
    kept = stepped(bare, 0.5)
    assert "median norm" not in SENTENCES["experiments"](kept)
    assert native_kappa(kept, STEPS, THREE) is None
    more = [
        {**row, "protocol": STEPPED, "gain": 0.5}
        for row in bare.diagnostics
        if row["protocol"] == COMPARED and row["method"] == "retrained" and row["forget"] in THREE
    ]
    kept = replace(kept, diagnostics=[*kept.diagnostics, *more])
    gains = [
        row["gain"]
        for row in bare.diagnostics
        if (row["protocol"], row["method"], row["scale"]) == (COMPARED, "retrained", "canonical")
        and row["forget"] in THREE
    ]
    norms = f"median norm of the retain rows {KAPPA / fmean(gains):.2f} in (a), {KAPPA / 0.5:.2f} in (c)"
    assert norms in SENTENCES["experiments"](kept)
