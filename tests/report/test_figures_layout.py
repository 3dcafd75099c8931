"""No text of a figure runs into another or leaves it, with all methods, ten classes and long names."""

from __future__ import annotations

from typing import Any, Literal

import altair as alt
import msgspec
import pytest

from builders.audits import SMALL, C, compare, hidden, never_seen
from builders.charts import ALL, ablations, full_audits, sweep_rows, traces
from builders.svg import clipped, collisions, texts_of
from sfra.data.named import CIFAR10
from sfra.report import FIGURES, Style
from sfra.report.figures import comparison_figure, sweep_figure, tradeoff_figure
from sfra.report.figures.labels import spread_out
from sfra.report.figures.trajectory import rule_labels

Size = Literal["column", "page"]
SIZES: tuple[Size, ...] = ("column", "page")
AUDITS = full_audits()
BENCHMARK = {name: one for (_, name), one in FIGURES.items() if one.needs == "audits" and name != "sweep"}
ROWS = [*AUDITS, *ablations([row for row in AUDITS if row["forget"] in ("0", "1")])]
COMPARED = [
    {"method": row["method"], "class": row["forget"], "ours": row["rs"], "paper": row["rs"] ** 1.2}
    for row in AUDITS
    if row["forget"] in "012"
]


def assert_legible(chart: Any) -> None:
    texts, size = texts_of(chart)
    assert len(texts) > 5
    assert collisions(texts) == []
    assert clipped(texts, size) == []


def test_the_check_sees_texts_that_meet_and_texts_that_are_cut() -> None:
    rows = [{"x": 0, "text": "one long name"}, {"x": 30, "text": "another"}]
    marks = alt.Chart(alt.InlineData(values=rows)).mark_text(align="left")
    at = alt.X("x:Q", scale=None, axis=None)
    chart = alt.layer(marks.encode(x=at, text="text:N")).properties(width=50, height=20, description="d", padding=0)
    texts, size = texts_of(chart)
    assert collisions(texts) == [("one long name", "another")]
    assert clipped(texts, (40.0, size[1])) == ["one long name", "another"]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", BENCHMARK)
def test_all_methods_and_ten_classes_fit(name: str, size: Size) -> None:
    assert_legible(BENCHMARK[name](ROWS, style=Style(size=size)))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", ["accuracy", "violin", "heatmap-rs", "heatmap-delta-rs", "scatter"])
def test_names_of_ten_classes_fit(name: str, size: Size) -> None:
    assert_legible(BENCHMARK[name](ROWS, names=CIFAR10.class_names, style=Style(size=size)))


@pytest.mark.parametrize("size", SIZES)
def test_curves_that_end_together_keep_their_names_apart(size: Size) -> None:
    assert_legible(tradeoff_figure(traces(), style=Style(size=size)))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("names", [ALL, ALL[:2]], ids=["all", "two"])
def test_sweeps_and_comparisons_fit(names: tuple[str, ...], size: Size) -> None:
    style = Style(size=size)
    assert_legible(
        sweep_figure(sweep_rows(names, classes=2), canonical=1.7, subtitle="CIFAR-10, ResNet-18.", style=style)
    )
    assert_legible(comparison_figure([row for row in COMPARED if row["method"] in names], style=style))


def test_a_method_with_a_long_name_and_forget_sets_of_many_classes_fit() -> None:
    audits = full_audits(4, names=("retrained", "our own method of selective forgetting"))
    several = [row | {"forget": "0+1+2+3+4", "forget_classes": [0, 1, 2, 3, 4]} for row in audits[::4]]
    for name in ("accuracy", "violin", "heatmap-rs", "scatter"):
        assert_legible(BENCHMARK[name]([*audits, *several]))


@pytest.mark.parametrize("size", SIZES)
def test_figures_of_an_audit_with_long_class_names_fit(size: Size) -> None:
    settings = SMALL | {"epochs": 12, "seeds": 2, "scale": "sweep"}
    made = compare(hidden(samples=20), never_seen(samples=20), **settings)
    audit = msgspec.structs.replace(made, class_names=tuple(f"class of a long name {i}" for i in range(C)))
    for figure in FIGURES.values():
        if figure.needs == "audit":
            assert_legible(figure(audit, style=Style(size=size)))


@pytest.mark.parametrize("size", SIZES)
def test_no_line_of_a_selection_rule_runs_through_the_name_of_another(size: Size) -> None:
    style = Style(size=size)
    for epochs in ((100, 26, 56), (100, 90, 95), (0, 1, 100), (50, 51, 52)):
        chosen = [
            {"rule": rule, "epoch": e, "rs": 0.5} for rule, e in zip(("a rule", "rule b", "c"), epochs, strict=True)
        ]
        for row in (rows := rule_labels(chosen, 100, style)):
            start = row["epoch"] / 100 * style.width
            length = len(row["text"]) * style.font_size * 0.5
            left, right = (start, start + length) if row["side"] == "left" else (start - length, start)
            through = [
                other
                for other in rows
                if other["at"] < row["at"] and left + 1 < other["epoch"] / 100 * style.width < right - 1
            ]
            assert through == [], (epochs, row["text"])


def test_numbers_are_moved_apart_to_both_sides() -> None:
    assert spread_out([50.0, 50.0, 50.0], 10.0, 0.0, 100.0) == [40.0, 50.0, 60.0]
    assert spread_out([98.0, 99.0], 10.0, 0.0, 100.0) == [90.0, 100.0]
    assert spread_out([20.0, 10.0], 5.0, 0.0, 100.0) == [20.0, 10.0]
