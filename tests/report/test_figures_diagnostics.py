from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from builders.audits import SMALL, compare, hidden
from builders.charts import rows_of
from sfra.core.errors import InputError
from sfra.report import alpha_figure, alpha_rows, embedding_figure, margin_figure, margin_rows, tradeoff_figure
from sfra.report.figures_geometry import MOST_POINTS as MOST_EMBEDDED
from sfra.report.figures_labels import WIDE, place_labels, spread_out
from sfra.report.figures_margin import MOST_POINTS
from sfra.report.figures_tradeoff import efficient_epochs, tradeoff_curves, tradeoff_rows


def dominated(epoch: int, retain: list[float], rs: list[float]) -> bool:
    return any(
        retain[o] >= retain[epoch] and rs[o] >= rs[epoch] and (retain[o] > retain[epoch] or rs[o] > rs[epoch])
        for o in range(len(rs))
    )


def test_efficient_epochs_are_those_that_no_other_dominates() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        retain, rs = (rng.integers(0, 6, 12) / 6).tolist(), (rng.integers(0, 6, 12) / 6).tolist()
        expected = {(retain[e], rs[e]) for e in range(12) if not dominated(e, retain, rs)}
        found = efficient_epochs(retain, rs)
        assert {(retain[e], rs[e]) for e in found} == expected
        assert len(found) == len(expected)


def test_the_tradeoff_curve_is_rs_at_epsilon_of_the_audit_averaged_over_seeds() -> None:
    report = compare(hidden(samples=20), **SMALL | {"epochs": 15, "seeds": 2}).to_dict()
    rows = tradeoff_rows(report, method="masked")
    assert len(rows) == 2 * 16
    curve = {round(row["change"], 9): row for row in tradeoff_curves(rows)}
    for budget in ("0.01", "0.02", "0.05"):
        best = [
            max(r["rs"] for r in rows if r["seed"] == seed and r["retain_change"] >= -float(budget) - 1e-9)
            for seed in (0, 1)
        ]
        point = curve[-float(budget)]
        assert (point["rs"], point["std"]) == pytest.approx((np.mean(best), np.std(best, ddof=1)))
        assert point["rs"] == pytest.approx(report["rs_at"][budget], abs=1e-5)


def test_the_curve_rises_with_what_may_be_lost_and_no_epoch_that_loses_more_counts() -> None:
    rows = [
        {"method": "delete", "forget": "7", "seed": 0, "epoch": e, "retain_change": c, "rs": rs, "efficient": True}
        for e, (c, rs) in enumerate([(0.0, 0.0), (-0.03, 0.4), (-0.2, 1.0)])
    ]
    values = [row["rs"] for row in tradeoff_curves(rows)]
    assert values == sorted(values)
    assert set(values) == {0.0, 0.4}
    assert "DELETE" in tradeoff_figure(rows).to_dict()["description"]


def test_alpha_bars_and_quantiles_agree_with_the_raw_values() -> None:
    rng = np.random.default_rng(1)
    raw = {j: np.clip(rng.normal(1 - 0.1 * j, 0.2, 4000), 0, 2) for j in range(3)}
    chart = alpha_figure([{"competitor": j, "alpha": float(a)} for j, values in raw.items() for a in values])
    shares = [row["share"] for row in sorted(rows_of(chart, "share"), key=lambda row: row["low"])]
    counts, _ = np.histogram(np.concatenate(list(raw.values())), bins=40, range=(0, 2))
    np.testing.assert_allclose(shares, counts / 12000)
    for row in rows_of(chart, "median"):
        expected = np.quantile(raw[int(row["competitor"])], [0.05, 0.25, 0.5, 0.75, 0.95])
        np.testing.assert_allclose([row[k] for k in ("p5", "q1", "median", "q3", "p95")], expected, atol=0.02)


def test_rows_are_read_from_a_diagnosis() -> None:
    one: dict[str, Any] = {"label": 4, "alpha_histogram": [0, 3, 1, 0]}
    found = alpha_rows({"competitors": [one]})
    assert [(r["low"], r["high"], r["count"]) for r in found] == [(0, 0.5, 0), (0.5, 1, 3), (1, 1.5, 1), (1.5, 2, 0)]
    assert rows_of(alpha_figure(found), "median")[0]["median"] == pytest.approx(0.5 + 0.5 * 2 / 3)
    assert margin_rows({"points": [(4, 1.0, 2.0)]}) == [{"competitor": 4, "exact": 1.0, "approximate": 2.0}]


def test_margin_pairs_are_thinned_evenly_but_described_whole() -> None:
    rng = np.random.default_rng(2)
    near = rng.normal(1, 1, 2 * MOST_POINTS + 1)
    exact = near + rng.normal(0, 0.5, len(near))
    rows = [{"competitor": 0, "exact": float(e), "approximate": float(a)} for e, a in zip(exact, near, strict=True)]
    chart = margin_figure(rows)
    assert len(rows_of(chart, "competitor")) == len(rows[::3])
    text = chart.to_dict()["description"]
    assert f"{len(rows)} pairs: Pearson {np.corrcoef(exact, near)[0, 1]:.2f}" in text
    assert f"{100 * np.mean(np.sign(exact) == np.sign(near)):.0f} % agree in sign" in text


def test_the_embedding_has_a_panel_per_space_and_names_classes_where_they_lie() -> None:
    rows = [
        {"space": space, "x": float(10 * label + i), "y": float(i), "kind": kind, "label": label, "name": f"c{label}"}
        for space in ("feature", "logit")
        for label in range(3)
        for kind in ("real", "probe")
        for i in range(5)
    ]
    spec = embedding_figure(rows, forget=[1]).to_dict()
    assert [panel["title"]["text"] for panel in spec["hconcat"]] == ["feature space", "logit space"]
    chart = embedding_figure(rows, forget=[1])
    groups = [row["group"] for row in rows_of(chart, "kind", "group")]
    assert {g: groups.count(g) for g in set(groups)} == {
        "retain, real": 20,
        "retain, probe": 20,
        "forget, real": 10,
        "forget, probe": 10,
    }
    assert {row["name"] for row in rows_of(chart, "name") if "kind" not in row} == {"c0", "c1 (forget)", "c2"}


def test_an_embedding_of_many_points_stays_small_and_says_so() -> None:
    rows = [
        {
            "space": "feature",
            "x": float(i % 71),
            "y": float(i % 67),
            "kind": "real",
            "label": i % 100,
            "name": str(i % 100),
        }
        for i in range(4 * MOST_EMBEDDED)
    ]
    chart = embedding_figure(rows, forget=[7])
    assert len(rows_of(chart, "kind")) == MOST_EMBEDDED
    assert f"{MOST_EMBEDDED} of {len(rows)} points shown" in str(chart.to_dict()["title"]["subtitle"])
    assert {row["name"] for row in rows_of(chart, "name") if "kind" not in row} == {"7 (forget)"}


def test_nothing_to_draw_is_an_error() -> None:
    for draw in (alpha_figure, margin_figure, tradeoff_figure):
        with pytest.raises(InputError, match="there is nothing to draw: no"):
            draw([])
    with pytest.raises(InputError, match="no embedded points"):
        embedding_figure([], forget=[0])


def test_spread_numbers_keep_order_and_distance_within_the_range() -> None:
    rng = np.random.default_rng(3)
    for _ in range(50):
        places = rng.uniform(0, 100, 9).tolist()
        moved = spread_out(places, 10.0, 0.0, 100.0)
        assert np.argsort(moved, kind="stable").tolist() == np.argsort(places, kind="stable").tolist()
        assert np.diff(sorted(moved)).min() >= 10.0 - 1e-9
        assert min(moved) >= -1e-9
        assert max(moved) <= 100.0 + 1e-9


def test_labels_of_a_cluster_do_not_cover_each_other() -> None:
    rng = np.random.default_rng(4)
    anchors = [(float(x), float(y)) for x, y in rng.normal((350, 120), 18, (12, 2))]
    labels = place_labels(anchors, ["Learn to Unlearn"] * 12, width=460, height=360, font=11)
    boxes = []
    for label in labels:
        length = len(label.text) * 11 * WIDE
        left = label.x if label.align == "left" else label.x - length
        boxes.append((left, label.y - 5.5, left + length, label.y + 5.5))
        assert left >= 0
        assert left + length <= 460
    overlaps = [
        1 for i, a in enumerate(boxes) for b in boxes[:i] if a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]
    ]
    assert not overlaps
