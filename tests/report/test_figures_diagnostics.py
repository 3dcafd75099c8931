"""Figures of diagnostics and of retain budgets: what is drawn together, and what the numbers in words are of."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from builders.charts import rows_of
from builders.diagnosed import diagnosis, mapped
from builders.rows import audit_row
from sfra.core.errors import InputError
from sfra.core.metrics import rs_at_budget
from sfra.report import Setting, draw_all, plan_setting
from sfra.report.figures import alpha_figure, map_figure, margin_figure, tradeoff_figure, with_main
from sfra.report.figures.curves import tradeoff_rows
from sfra.report.figures.diagnoses import MOST_POINTS, alpha_bars
from sfra.report.figures.labels import WIDE, place_labels, spread_out


def test_the_tradeoff_curve_is_rs_at_epsilon_averaged_over_runs() -> None:
    rng = np.random.default_rng(0)
    forgets = [np.sort(rng.uniform(0, 0.9, 30)) * (np.arange(30) > 0) for _ in range(3)]
    runs = []
    for forget in forgets:
        retain = 0.9 - rng.uniform(0, 0.12, 30) * (np.arange(30) > 0)
        kept, back = 1 - np.clip(retain[0] - retain, 0, None), np.clip(forget - forget[0], 0, None)
        rs = 2 * kept * back / (kept + back)
        runs.append({"method": "delete", "retain": retain.tolist(), "rs": rs.tolist(), "back": forget})
    curve = {row["lost"]: row for row in tradeoff_rows(runs)}
    for epsilon in (0.0, 0.02, 0.05, 0.1):
        best = [rs_at_budget(torch.tensor(run["retain"]), torch.tensor(run["back"]), epsilon) for run in runs]
        assert (curve[epsilon]["rs"], curve[epsilon]["std"]) == pytest.approx((np.mean(best), np.std(best, ddof=1)))


def test_the_curve_rises_with_what_may_be_lost_and_no_epoch_that_loses_more_counts() -> None:
    rows = [{"method": "delete", "retain": [0.9, 0.87, 0.7], "rs": [0.0, 0.4, 1.0]}]
    values = [row["rs"] for row in tradeoff_rows(rows)]
    assert values == sorted(values)
    assert set(values) == {0.0, 0.4}
    assert "DELETE" in tradeoff_figure(rows).to_dict()["description"]


def test_alpha_bars_and_quantiles_agree_with_the_raw_values() -> None:
    rng = np.random.default_rng(1)
    raw = {j: np.clip(rng.normal(1 - 0.1 * j, 0.2, 4000), 0, 2) for j in range(3)}
    histograms = {j: np.histogram(values, bins=40, range=(0, 2))[0].tolist() for j, values in raw.items()}
    competitors = [{"label": j, "alpha_histogram": counts} for j, counts in histograms.items()]
    chart = alpha_figure([diagnosis("delete") | {"margin": {"competitors": competitors, "points": []}}])
    shares = [row["share"] for row in sorted(rows_of(chart, "share"), key=lambda row: row["low"])]
    np.testing.assert_allclose(shares, np.histogram(np.concatenate(list(raw.values())), 40, (0, 2))[0] / 12000)
    for row in rows_of(chart, "median"):
        expected = np.quantile(raw[int(row["competitor"])], [0.05, 0.25, 0.5, 0.75, 0.95])
        np.testing.assert_allclose([row[k] for k in ("p5", "q1", "median", "q3", "p95")], expected, atol=0.02)


def test_alpha_is_over_all_single_classes_and_pairs_are_of_the_first() -> None:
    rows = [diagnosis("delete", (1, 6)), diagnosis("delete", (3,)), diagnosis("delete", (7,))]
    alpha, margin = alpha_figure(rows), margin_figure(rows)
    counts = alpha_bars(rows[1:])
    assert sum(bar["count"] for bar in counts) == sum(
        sum(one["alpha_histogram"]) for row in rows[1:] for one in row["margin"]["competitors"]
    )
    pairs = [(row["exact"], row["approximate"]) for row in rows_of(margin, "competitor", "exact")]
    assert sorted(pairs) == sorted((exact, near) for _, exact, near in rows[1]["margin"]["points"])
    assert "forget classes 3, 7. Scale canonical." in " ".join(alpha.to_dict()["title"]["subtitle"])
    assert "forget class 3. Scale canonical." in " ".join(margin.to_dict()["title"]["subtitle"])
    assert "forget classes 1+6." in " ".join(alpha_figure(rows[:1]).to_dict()["title"]["subtitle"])


def test_margin_pairs_are_thinned_evenly_but_described_whole() -> None:
    rng = np.random.default_rng(2)
    near = rng.normal(1, 1, 2 * MOST_POINTS + 1)
    exact = near + rng.normal(0, 0.5, len(near))
    points = [[0, float(e), float(a)] for e, a in zip(exact, near, strict=True)]
    chart = margin_figure([diagnosis("delete") | {"margin": {"competitors": [], "points": points}}])
    assert len(rows_of(chart, "competitor")) == len(points[::3])
    text = chart.to_dict()["description"]
    assert f"{len(points)} pairs: Pearson {np.corrcoef(exact, near)[0, 1]:.2f}" in text
    assert f"{100 * np.mean(np.sign(exact) == np.sign(near)):.0f} % agree in sign" in text


def test_a_map_has_a_panel_per_space_and_names_classes_where_they_lie() -> None:
    points = [
        {"space": space, "x": float(10 * label + i), "y": float(i + up), "kind": kind}
        | {"label": label, "name": f"c{label}"}
        for up, space in enumerate(("features", "logits"))
        for label in range(3)
        for kind in ("real", "probe")
        for i in range(5)
    ]
    chart = map_figure([mapped("delete", (1,)) | {"points": points}])
    assert [panel["title"]["text"] for panel in chart.to_dict()["hconcat"]] == ["feature space", "logit space"]
    groups = [row["group"] for row in rows_of(chart, "kind", "group")]
    assert {g: groups.count(g) for g in set(groups)} == {
        "retain, real": 20,
        "retain, probe": 20,
        "forget, real": 10,
        "forget, probe": 10,
    }
    assert {row["name"] for row in rows_of(chart, "name") if "kind" not in row} == {"c0", "c1 (forget)", "c2"}


def test_a_map_of_many_points_stays_small_and_says_so() -> None:
    points = [
        {"space": "features", "x": float(i % 71), "y": float(i % 67), "kind": "real"}
        | {"label": i % 100, "name": str(i % 100)}
        for i in range(4 * MOST_POINTS)
    ]
    chart = map_figure([mapped("delete", (7,)) | {"points": points}])
    assert len(rows_of(chart, "kind")) == MOST_POINTS
    assert f"{MOST_POINTS} of {len(points)} points shown" in str(chart.to_dict()["title"]["subtitle"])
    assert {row["name"] for row in rows_of(chart, "name") if "kind" not in row} == {"7 (forget)"}


def test_nothing_to_draw_is_an_error() -> None:
    for draw in (alpha_figure, margin_figure, tradeoff_figure, map_figure):
        with pytest.raises(InputError, match="there is nothing to draw: no"):
            draw([])


def test_diagnoses_and_maps_have_figures_by_method_that_do_not_take_each_others_place() -> None:
    pair = mapped("delete", (1, 6))
    setting = Setting(
        audits=[],
        diagnoses=[diagnosis("delete"), diagnosis("delete", (7,)), diagnosis("salun")],
        maps=[mapped("delete"), pair, mapped("salun"), mapped("salun") | {"seed": 4}],
    )
    names = {name for name, one in plan_setting(setting).items() if one.figure.needs in ("diagnoses", "maps")}
    assert names == {
        *(f"{name}-{method}" for name in ("alpha", "margin") for method in ("delete", "salun")),
        *("map-delete-3", "map-delete-1+6", "map-salun", "map-salun-seed-4"),
    }


def test_the_main_audit_counts_among_sizes_that_leave_its_own_out() -> None:
    main, other = audit_row(m=10), audit_row("salun", m=10)
    some = [audit_row(audit="M", m=m) for m in (5, 20)]
    found = with_main([main, other, audit_row(m=10, rule="source-free"), *some])
    assert found[-1] == main | {"audit": "M"}
    assert [row["m"] for row in found if row["audit"] == "M"] == [5, 20, 10]
    whole = [main, *some, audit_row(audit="M", m=10)]
    assert with_main(whole) == whole
    unlike = [audit_row(m=10, score="entropy"), audit_row(m=10, n=7), *some]
    assert with_main(unlike) == unlike


def test_scales_are_drawn_where_audits_swept_them() -> None:
    swept = [audit_row(scale=f"kappa={k}", kappa=k, rule="source-free", reference_rs=0.1) for k in (1.0, 1.7, 2.0)]
    assert "sweep" in draw_all(plan_setting(Setting(audits=swept))).charts
    assert "sweep" in draw_all(plan_setting(Setting(audits=swept[:2]))).left_out


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
