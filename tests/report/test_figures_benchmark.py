from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pytest

from builders.charts import METHODS, many_audits, rows_of
from builders.rows import audit_row
from sfra.bench.tables.names import method_name
from sfra.core.errors import InputError
from sfra.report import FIGURES, Style
from sfra.report.figures import (
    accuracy_figure,
    heatmap_figure,
    scatter_figure,
    sensitivity_figure,
    violin_figure,
)
from sfra.report.figures.style import contrast
from sfra.report.numbers import signed

AUDITS = many_audits()
OF_AUDITS = [name for (_, name), one in FIGURES.items() if one.needs == "audits" and name != "sweep"]


def by_method(rows: Sequence[Mapping[str, Any]], field: str) -> dict[str, list[float]]:
    found: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        found[row["method"]].append(row[field])
    return found


def ablation() -> list[dict[str, Any]]:
    return [
        row | {"audit": name, key: size, "rs": min(1.0, row["rs"] * (0.6 + 0.1 * i))}
        for row in AUDITS
        for name, key, sizes in (("M", "m", (50, 200, 500)), ("N", "n", (1000, 10_000)))
        for i, size in enumerate(sizes)
    ]


def test_accuracy_shows_the_means_of_all_three_states() -> None:
    shown = {(row["key"], row["state"]): row["accuracy"] for row in rows_of(accuracy_figure(AUDITS), "state")}
    states = {"original": "forget_original", "unlearned": "forget_before", "relearned": "forget_after"}
    expected = {
        (name, state): np.mean(values)
        for state, field in states.items()
        for name, values in by_method(AUDITS, field).items()
    }
    assert shown == pytest.approx(expected)


def test_several_classes_forgotten_at_once_do_not_enter_means_over_single_classes() -> None:
    several = audit_row("delete", (1, 6), scale="canonical", rule="source-free", forget_after=1.0, rs=1.0, delta_rs=0.9)
    for figure in (accuracy_figure, violin_figure):
        assert figure([*AUDITS, several]).to_dict() == figure(AUDITS).to_dict()


def test_model_seeds_are_averaged_before_classes_are_compared() -> None:
    audits = many_audits(seeds=2)
    shown = [row for row in rows_of(violin_figure(audits), "forget", "rs") if row["key"] == "finetune"]
    expected = {
        str(label): np.mean([r["rs"] for r in audits if (r["method"], r["forget"]) == ("finetune", str(label))])
        for label in range(6)
    }
    assert {row["forget"]: row["rs"] for row in shown} == pytest.approx(expected)


def test_violin_shows_medians_and_quartiles_of_the_rows() -> None:
    shown = {row["key"]: (row["q1"], row["median"], row["q3"]) for row in rows_of(violin_figure(AUDITS), "median")}
    assert list(shown) == list(METHODS)
    for name, values in by_method(AUDITS, "rs").items():
        assert shown[name] == pytest.approx(np.percentile(values, [25, 50, 75]))


def test_a_density_lies_in_the_range_of_rs_and_is_that_of_a_reflected_kernel() -> None:
    outline = [row for row in rows_of(violin_figure(AUDITS), "low", "high") if row["key"] == "delete"]
    grid = np.array([row["rs"] for row in outline])
    half = np.array([(row["high"] - row["low"]) / 2 for row in outline])
    values = np.array(by_method(AUDITS, "rs")["delete"])
    assert grid.min() == 0
    assert grid.max() == 1
    from scipy.stats import gaussian_kde

    kernel = gaussian_kde(values, "scott")
    expected = kernel(grid) + kernel(-grid) + kernel(2 - grid)
    np.testing.assert_allclose(half / half.max(), expected / expected.max(), atol=1e-9)


@pytest.mark.parametrize(("classes", "drawn"), [(4, False), (5, True)])
def test_few_points_get_no_density_but_are_all_shown(classes: int, drawn: bool) -> None:
    chart = violin_figure(many_audits(classes))
    assert bool(rows_of(chart, "low", "high")) == drawn
    assert len(rows_of(chart, "forget", "rs")) == classes * len(METHODS)


def test_equal_scores_get_no_density() -> None:
    assert not rows_of(violin_figure([row | {"rs": 0.5} for row in AUDITS]), "low", "high")


@pytest.mark.parametrize("value", ["rs", "delta_rs"])
def test_heatmap_cells_hold_the_scores_and_readable_numbers(value: Literal["rs", "delta_rs"]) -> None:
    for style in (Style(), Style(theme="dark")):
        shown = rows_of(heatmap_figure(AUDITS, value, style=style), "score")
        expected = {(r["method"], r["forget"]): r[value] for r in AUDITS if value == "rs" or r["method"] != "retrained"}
        assert {(row["key"], row["forget"]): row["score"] for row in shown} == pytest.approx(expected)
        assert all(abs(float(row["text"].replace("−", "-")) - row["score"]) <= 0.005001 for row in shown)
        assert min(contrast(row["fill"], row["ink"]) for row in shown) >= 4.5


def test_zero_is_in_the_middle_of_the_diverging_scale_whatever_the_extremes() -> None:
    style = Style()
    lopsided = [row | {"delta_rs": 0.0 if row["forget"] == "0" else 0.8} for row in AUDITS]
    zero = {row["fill"] for row in rows_of(heatmap_figure(lopsided, "delta_rs"), "score") if row["score"] == 0}
    assert zero == {style.colours.diverging[1]}


def test_differences_are_written_with_their_sign() -> None:
    assert [signed(x) for x in (0.25, -0.25, 0.004, -0.004)] == ["+0.25", "−0.25", "0.00", "0.00"]


def test_scatter_shows_every_forget_set_and_the_means_of_each_method() -> None:
    chart = scatter_figure(AUDITS)
    points = {(r["key"], r["forget"]): (r["rs"], r["delta_rs"]) for r in rows_of(chart, "forget", "delta_rs")}
    assert points == {(r["method"], r["forget"]): (r["rs"], r["delta_rs"]) for r in AUDITS}
    means = {row["key"]: (row["rs"], row["delta_rs"]) for row in rows_of(chart, "sets")}
    for name in METHODS:
        expected = [np.mean(by_method(AUDITS, field)[name]) for field in ("rs", "delta_rs")]
        assert means[name] == pytest.approx(expected)
    assert {"delta_rs": 0} in rows_of(chart, "delta_rs")
    assert {"rs": 0.5} in rows_of(chart, "rs")
    assert {row["method"] for row in rows_of(chart, "align")} == {method_name(name) for name in METHODS}


def test_sensitivity_shows_mean_and_sample_deviation_for_each_size() -> None:
    rows = ablation()
    shown = {(r["key"], r["size"]): (r["rs"], r["std"]) for r in rows_of(sensitivity_figure(rows), "std")}
    assert len(shown) == len(METHODS) * 5
    for (name, size), (mean, std) in shown.items():
        key = "m" if size in (50, 200, 500) else "n"
        values = [r["rs"] for r in rows if r["method"] == name and r[key] == size and r["audit"] == key.upper()]
        assert (mean, std) == pytest.approx((np.mean(values), np.std(values, ddof=1)))


def test_one_audit_of_several_seeds_shows_its_own_deviation() -> None:
    row = audit_row("delete", scale="canonical", rule="source-free", audit="M", rs=0.6, rs_std=0.07)
    shown = rows_of(sensitivity_figure([row]), "std")
    assert [(r["rs"], r["std"], round(r["low"], 9), round(r["high"], 9)) for r in shown] == [(0.6, 0.07, 0.53, 0.67)]


def test_methods_come_in_the_order_of_the_tables() -> None:
    shuffled = AUDITS[::-1]
    for chart in (accuracy_figure(shuffled), violin_figure(shuffled)):
        order = list(dict.fromkeys(row["key"] for row in rows_of(chart, "key") if "state" in row or "median" in row))
        assert order == list(METHODS)


@pytest.mark.parametrize("name", OF_AUDITS)
@pytest.mark.parametrize("style", [Style(size="column"), Style(theme="dark")])
def test_every_figure_is_valid_described_with_numbers_and_shows_the_range_of_rs(name: str, style: Style) -> None:
    spec = FIGURES["benchmark", name]([*AUDITS, *ablation()], style=style).to_dict()
    assert any(character.isdigit() for character in spec["description"])
    assert spec["description"].endswith(".")
    assert spec["title"]["text"]
    assert spec["background"] == style.colours.background
    if name in ("violin", "scatter", "sensitivity"):
        assert "'domain': [0, 1]" in str(spec)


@pytest.mark.parametrize("name", OF_AUDITS)
def test_nothing_to_draw_is_an_error_that_says_what_is_missing(name: str) -> None:
    with pytest.raises(InputError, match="there is nothing to draw: no"):
        FIGURES["benchmark", name]([])
    if name != "sensitivity":
        with pytest.raises(InputError, match=r"scale native under rule source-free\n(.*\n)*.*canonical/source-free"):
            FIGURES["benchmark", name](AUDITS, scale="native")


@pytest.mark.parametrize("name", OF_AUDITS)
def test_two_data_sets_in_one_figure_are_refused(name: str) -> None:
    with pytest.raises(InputError, match="one data set and backbone"):
        FIGURES["benchmark", name]([*AUDITS, AUDITS[0] | {"dataset": "digits"}])
