"""The page about disguises says what the rows say."""

from __future__ import annotations

from functools import partial
from statistics import fmean
from typing import Any

import polars as pl
import pytest

from builders.prose import changed_numbers, problems, prose, say
from reproduction.report import include
from sfra.unlearn.disguises import DISGUISES, SCALE

disguises = pytest.importorskip("disguises", reason="the benchmarks are not on the path")
ROWS = pl.read_csv(disguises.ROWS)


HIDING = [name for name, one in DISGUISES.items() if one.hides]
LINEAR = ["channel-scales", "translation", "linear-layer"]


def over(found: pl.DataFrame, reading: str, *names: str) -> dict[str, Any]:
    """Sum up some disguises in one reading."""
    some = found.filter(pl.col("disguise").is_in(names), reading=reading)
    sums = ("models", "found", "cleared", "unclear", "alarms")
    return {"mean": some["mean"].mean(), "most": some["most"].max()} | {one: some[one].sum() for one in sums}


def plain(rows: pl.DataFrame, reading: str, model: str) -> list[str]:
    """List RS without a disguise of the digits networks."""
    some = rows.filter(pl.col("model").str.starts_with(model), data="digits", disguise="none", reading=reading)
    return [f"{rs:.2f}" for rs in some["rs"]]


def quotes(rows: pl.DataFrame) -> list[str]:
    """Write the sentences of the page from the rows."""
    found, models = disguises.summarise(rows), rows.unique(["data", "model", "forget"])
    paper, ours, anchored = (partial(over, found, reading) for reading in disguises.READINGS)
    heads, digits = (models.filter(pl.col("data") == one) for one in ("CIFAR-10", "digits"))
    honest = disguises.moves(rows).filter(
        pl.col("model").str.starts_with("retrain"), pl.col("disguise") != disguises.SEED
    )
    alarms = {name: int(some["alarm"].sum()) for (name,), some in honest.group_by("reading")}
    tried = {name: len(some) for (name,), some in honest.group_by("reading")}
    affine = [name for name in DISGUISES if name not in HIDING]
    apart = {one: [plain(rows, one, model) for model in ("masked", "retrained")] for one in ("anchored", "ours")}
    gaps = {one: fmean(map(float, hidden)) - fmean(map(float, unseen)) for one, (hidden, unseen) in apart.items()}
    return [
        say("has {} disguises", len(DISGUISES)),
        say("{} CIFAR-10 heads (", len(heads)),
        say("{} digits networks (", len(digits)),
        say("N = {:,}, M = {}", disguises.N, disguises.M),
        say("Features times {:g} move it by {:.2f} on average, and {} of {} classes that it had found are cleared",
            SCALE, *(paper("feature-scale")[one] for one in ("mean", "cleared", "found"))),
        say("a translation clears {} of {}, a linear layer {} of {}",
            *(paper(name)[one] for name in ("translation", "linear-layer") for one in ("cleared", "found"))),
        say("Feature scale and a common row move it by at most {:.2f}", ours("feature-scale", "common-row")["most"]),
        say("in {} of {} audits with a hidden output the class is still found",
            ours(*HIDING)["found"] - ours(*HIDING)["cleared"] - ours(*HIDING)["unclear"], ours(*HIDING)["found"]),
        say("move it by {:.2f} on average and by up to {:.2f}", *(ours(*LINEAR)[one] for one in ("mean", "most"))),
        say("of {} audits that should find the class, {} clear it and {} end unclear",
            *(ours(*LINEAR)[one] for one in ("found", "cleared", "unclear"))),
        say("moves it by more than {:.3f}; other random draws move it by up to {:.2f}",
            anchored(*affine)["most"], anchored(disguises.SEED)["most"]),
        say("masked networks give {} and retrained ones {}; at canonical scale {} and {}",
            *(", ".join(values) for pair in apart.values() for values in pair), holds=gaps["anchored"] < gaps["ours"]),
        say("{} of {} in the paper's reading, {} of {} in ours and {} of {} in the anchored one",
            *(value for one in disguises.READINGS for value in (alarms[one], tried[one]))),
    ]  # fmt: skip


def test_the_table_is_that_of_the_rows() -> None:
    text = disguises.PAGE.read_text(encoding="utf-8")
    assert include(text, {"disguises": [disguises.table(ROWS)]}) == text


def test_every_model_was_audited_in_every_disguise() -> None:
    wanted = {"none", disguises.SEED, *DISGUISES}
    for _, rows in ROWS.group_by("data", "model", "forget", "reading"):
        assert sorted(rows["disguise"]) == sorted(wanted)


def test_every_number_of_the_prose_is_one_of_the_rows_and_a_change_is_noticed() -> None:
    text, said = prose("disguises.md"), quotes(ROWS)
    assert problems(text, said) == []
    changes = changed_numbers(text)
    assert len(changes) > 10
    assert all(problems(changed, said) for changed in changes)
    moved = ROWS.with_columns(rs=pl.when(pl.col("disguise") == "translation").then(0.0).otherwise(pl.col("rs")))
    assert problems(text, quotes(moved))


def test_moves_are_differences_to_the_plain_model_and_turned_verdicts_are_counted() -> None:
    row = {"data": "toy", "model": "masked", "forget": 1, "reading": "ours"}
    rows = [
        row | {"disguise": "none", "rs": 0.9, "verdict": "recovered"},
        row | {"disguise": "rotation", "rs": 0.6, "verdict": "generic"},
        row | {"model": "delete", "disguise": "none", "rs": 0.8, "verdict": "recovered"},
        row | {"model": "delete", "disguise": "rotation", "rs": 0.6, "verdict": "degenerate"},
        row | {"model": "retrained", "disguise": "none", "rs": 0.1, "verdict": "not-recovered"},
        row | {"model": "retrained", "disguise": "rotation", "rs": 0.2, "verdict": "recovered"},
    ]
    found = disguises.summarise(pl.DataFrame(rows)).row(0, named=True)
    assert found["mean"] == pytest.approx(0.2)
    assert found["most"] == pytest.approx(0.3)
    assert [found[name] for name in ("models", "found", "cleared", "unclear", "alarms")] == [3, 2, 1, 1, 1]
