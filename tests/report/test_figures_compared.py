"""A benchmark over scales, and beside the paper."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import rankdata

from builders.charts import rows_of, sweep_rows
from sfra.core.errors import InputError
from sfra.report.figures import MARKS, Style, comparison_figure, sweep_figure
from sfra.report.figures.comparisons import rank_correlation

SWEEP = sweep_rows(("delete", "retrained", "finetune"), classes=3)
PAPER: list[dict[str, Any]] = [
    {"method": method, "class": str(label), "ours": ours + 0.02 * label, "paper": paper - 0.01 * label}
    for method, ours, paper in (("delete", 0.8, 0.9), ("finetune", 0.5, 0.4), ("salun", 0.6, 0.7), ("scrub", 0.3, 0.5))
    for label in range(3)
]


def panels_of(chart: Any) -> dict[str, dict[str, Any]]:
    return {panel["title"]["text"]: panel for panel in chart.to_dict()["concat"]}


def test_sweep_has_a_panel_per_method_in_the_order_of_the_tables() -> None:
    assert list(panels_of(sweep_figure(SWEEP))) == ["Retrained", "Finetune", "DELETE"]


def test_sweep_shows_every_class_and_the_means_of_model_and_reference() -> None:
    chart = sweep_figure(SWEEP)
    lines = {(r["key"], r["forget"], r["kappa"]): r["rs"] for r in rows_of(chart, "forget", "kappa")}
    assert lines == pytest.approx({(r["method"], r["forget"], r["kappa"]): r["rs"] for r in SWEEP})
    for kind, field in (("model", "rs"), ("reference", "reference_rs")):
        for row in (row for row in rows_of(chart, "kind") if row["kind"] == kind):
            same = [r[field] for r in SWEEP if (r["method"], r["kappa"]) == (row["key"], row["kappa"])]
            assert row["rs"] == pytest.approx(np.mean(same))


def test_seeds_of_a_class_are_averaged_before_classes_are() -> None:
    rows = [
        {"method": "delete", "forget": forget, "kappa": 1.7, "rs": rs, "reference_rs": None}
        for forget, rs in (("0", 0.0), ("1", 0.4), ("1", 0.8), ("1", 0.6))
    ]
    chart = sweep_figure(rows)
    assert [row["rs"] for row in rows_of(chart, "kind")] == pytest.approx([0.3])
    assert "dashed" not in str(chart.to_dict()["title"]["subtitle"])


def test_sweep_marks_the_canonical_scale_and_colours_panels_by_method() -> None:
    chart, style = sweep_figure(SWEEP, canonical=1.7), Style()
    assert {"kappa": 1.7} in rows_of(chart, "kappa")
    assert "κ = 1.7" in " ".join(chart.to_dict()["title"]["subtitle"])
    panel = panels_of(chart)["DELETE"]
    bold = [layer["mark"] for layer in panel["layer"] if layer["mark"].get("strokeWidth") == 2.4]
    assert (
        [mark["color"] for mark in bold]
        == [style.pick(MARKS["delete"].light, MARKS["delete"].dark)]
        == [panel["title"]["color"]]
    )
    bare = sweep_figure(SWEEP)
    assert {"kappa": 1.7} not in rows_of(bare, "kappa")


def test_all_panels_of_a_sweep_have_the_same_axes_and_only_the_outer_ones_have_numbers() -> None:
    names = ("retrained", "finetune", "scrub", "salun", "delete", "masked")
    panels = sweep_figure(sweep_rows(names, classes=2)).to_dict()["concat"]
    encodings = [layer["encoding"] for panel in panels for layer in panel["layer"]]
    assert len({str(e["x"]["scale"]) for e in encodings}) == len({str(e["y"]["scale"]) for e in encodings}) == 1
    assert encodings[0]["y"]["scale"]["domain"] == [0, 1]
    first = [panel["layer"][0]["encoding"] for panel in panels]
    assert [e["y"]["axis"]["labelOpacity"] for e in first] == [1, 0, 0, 0, 1, 0]
    assert [e["x"]["axis"]["labels"] for e in first] == [False, False, True, True, True, True]


def test_comparison_shows_every_pair_and_the_means() -> None:
    chart = comparison_figure(PAPER)
    shown = {(r["key"], r["forget"]): (r["ours"], r["paper"]) for r in rows_of(chart, "forget", "ours")}
    assert shown == {(r["method"], r["class"]): (r["ours"], r["paper"]) for r in PAPER}
    for row in rows_of(chart, "sets"):
        mine = [r for r in PAPER if r["method"] == row["key"]]
        assert (row["ours"], row["paper"]) == pytest.approx(
            tuple(np.mean([r[s] for r in mine]) for s in ("ours", "paper"))
        )
    assert [r for r in rows_of(chart, "paper") if "key" not in r] == [{"paper": 0, "ours": 0}, {"paper": 1, "ours": 1}]


def spearman(rows: list[dict[str, Any]]) -> float:
    """The correlation of the ranks, ties by their mean."""
    return float(np.corrcoef(*(rankdata([row[side] for row in rows]) for side in ("ours", "paper")))[0, 1])


def test_the_correlations_in_the_subtitle_are_those_of_the_rows_shown() -> None:
    means = rows_of(comparison_figure(PAPER), "sets")
    text = " ".join(comparison_figure(PAPER).to_dict()["title"]["subtitle"])
    assert f"Spearman's ρ {spearman(means):.2f} over 4 methods, {spearman(PAPER):.2f} over 12 pairs." in text
    reverse = [{"method": row["method"], "ours": row["paper"], "paper": -row["paper"] + 1} for row in means]
    again = comparison_figure(reverse).to_dict()
    assert "Spearman's ρ −1.00 over 4 methods." in " ".join(again["title"]["subtitle"])
    assert rank_correlation(PAPER) == pytest.approx(spearman(PAPER))


def test_too_few_or_equal_pairs_have_no_correlation() -> None:
    assert rank_correlation(PAPER[:2]) is None
    assert rank_correlation([{"ours": 0.5, "paper": x} for x in (0.1, 0.2, 0.3)]) is None
    text = " ".join(comparison_figure(PAPER[:1]).to_dict()["title"]["subtitle"])
    assert "too few or too equal for a correlation" in text


def test_axes_of_a_comparison_are_equal_and_whole() -> None:
    for style in (Style(), Style(size="column")):
        spec = comparison_figure(PAPER, style=style).to_dict()
        assert spec["width"] == spec["height"]
        scales = [layer["encoding"][axis]["scale"] for layer in spec["layer"] for axis in ("x", "y")]
        assert all(scale is None or scale["domain"] == [0, 1] for scale in scales)


def test_pairs_that_are_not_whole_are_left_out_and_none_at_all_is_an_error() -> None:
    partly: list[dict[str, Any]] = [*PAPER, {"method": "masked", "ours": 0.9, "paper": None}]
    assert comparison_figure(partly).to_dict() == comparison_figure(PAPER).to_dict()
    with pytest.raises(InputError, match=r"no pair of our RS and the paper's\n(.*\n)*.*1 rows"):
        comparison_figure(partly[-1:])
    with pytest.raises(InputError, match="no audit swept the scales"):
        sweep_figure([])
