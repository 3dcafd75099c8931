"""Diagnostics as figures: what is drawn together, what files are called, and how much of it a page carries."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from builders.charts import rows_of
from builders.pages import Parsed, made_up, true_audit
from builders.rows import audit_row
from sfra.report.diagnoses import diagnosis_figures, file_name, with_main
from sfra.report.figures import benchmark_figures
from sfra.report.page_bench import page_of_reports
from sfra.report.page_diagnostics import METHODS, diagnostics_part

HOSTILE = '</script><img src=x onerror="alert(1)">'


def margin(forget: int, seed: int) -> dict[str, Any]:
    """A diagnosis of one forget class with made-up figures, as a cell keeps it."""
    draw = np.random.default_rng(seed)
    retain = [label for label in range(10) if label != forget]
    bars = draw.integers(0, 50, (9, 20))
    return {
        "competitors": [
            {"label": label, "alpha_histogram": counts.tolist()} for label, counts in zip(retain, bars, strict=True)
        ],
        "points": [[retain[i % 9], float(a), float(b)] for i, (a, b) in enumerate(draw.normal(size=(300, 2)))],
    }


def diagnosis(method: str, forget: tuple[int, ...] = (3,), **changes: Any) -> dict[str, Any]:
    return {
        "dataset": "digits",
        "backbone": "small-cnn",
        "seed": 0,
        "method": method,
        "forget": "+".join(map(str, forget)),
        "forget_classes": list(forget),
        "variant": "released",
        "scale": "canonical",
        "margin": margin(forget[0], sum(forget)),
    } | changes


def embedding(method: str, points: int = 600, **changes: Any) -> dict[str, Any]:
    draw = np.random.default_rng(0).normal(0.0, 20.0, (points, 2))
    return (
        diagnosis(method)
        | {
            "points": [
                {
                    "space": space,
                    "x": x,
                    "y": y,
                    "kind": ("real", "probe")[i % 2],
                    "label": i % 10,
                    "name": f"class {i % 10}",
                }
                for space in ("features", "logits")
                for i, (x, y) in enumerate(draw.tolist())
            ]
        }
        | changes
    )


def test_alpha_is_over_all_single_classes_and_pairs_are_of_the_first() -> None:
    rows = [diagnosis("delete", (1, 6)), diagnosis("delete", (3,)), diagnosis("delete", (7,))]
    drawn, left_out = diagnosis_figures(rows, [])
    assert set(drawn) == {"alpha-delete", "margin-delete"}
    assert set(left_out) == {"map"}
    bars = sum(np.array([c["alpha_histogram"] for c in row["margin"]["competitors"]]).sum(0) for row in rows[1:])
    shares = [row["share"] for row in rows_of(drawn["alpha-delete"](), "share")]
    assert shares == pytest.approx((bars / bars.sum()).tolist())
    pairs = [(row["exact"], row["approximate"]) for row in rows_of(drawn["margin-delete"](), "competitor", "exact")]
    assert sorted(pairs) == sorted((exact, near) for _, exact, near in rows[1]["margin"]["points"])
    assert "forget classes 3, 7. Scale canonical." in " ".join(drawn["alpha-delete"]().to_dict()["title"]["subtitle"])
    assert "forget class 3. Scale canonical." in " ".join(drawn["margin-delete"]().to_dict()["title"]["subtitle"])


def test_sets_of_several_classes_are_drawn_where_there_are_no_others() -> None:
    drawn, _ = diagnosis_figures([diagnosis("delete", (1, 6))], [])
    assert "forget classes 1+6." in " ".join(drawn["alpha-delete"]().to_dict()["title"]["subtitle"])


def test_what_was_not_computed_is_named() -> None:
    drawn, left_out = diagnosis_figures([], [])
    assert drawn == {}
    assert (
        left_out["alpha"] == left_out["margin"] == "there is nothing to draw: no model of this benchmark was diagnosed"
    )
    assert left_out["map"] == "there is nothing to draw: no model of this benchmark has a map"


def test_models_of_other_seeds_have_maps_of_their_own() -> None:
    drawn, _ = diagnosis_figures([], [embedding("delete"), embedding("delete", seed=4)])
    assert set(drawn) == {"map-delete", "map-delete-seed-4"}


def test_maps_of_several_forget_sets_do_not_take_each_others_place() -> None:
    pair = {**embedding("delete"), "forget": "1+6", "forget_classes": [1, 6]}
    drawn, _ = diagnosis_figures([], [embedding("delete"), pair, embedding("salun")])
    single = embedding("delete")["forget"]
    assert set(drawn) == {f"map-delete-{single}", "map-delete-1+6", "map-salun"}


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
    assert "sweep" in benchmark_figures(swept)[0]
    drawn, left_out = benchmark_figures(swept[:2])
    assert "sweep" not in {**drawn, **left_out}


def test_a_file_name_holds_nothing_that_a_path_could_mean() -> None:
    assert file_name("alpha-my.module:Own/..\\x y.svg") == "alpha-my.module-Own-..-x-y.svg"


def test_a_page_shows_few_methods_those_with_maps_first_and_names_stay_text() -> None:
    report, _ = made_up(["retrained"], 2, true_audit())
    methods = ["retrained", "finetune", "scrub", "delete", HOSTILE]
    part = diagnostics_part(
        report.rows,
        [diagnosis(method) for method in methods],
        [embedding(method) for method in ("delete", HOSTILE)],
        scale="canonical",
        rule="source-free",
    )
    shown = {key.split("-")[-1] for key in part.figures if key.startswith("why-0-alpha-")}
    assert shown == {"retrained", "delete", HOSTILE}
    assert len(shown) == METHODS
    parsed = Parsed(str(part.html))
    assert parsed.all("img") == []
    assert {a["data-figure"] for a in parsed.all("div") if "data-figure" in a} == set(part.figures)


def test_without_diagnostics_a_page_has_no_such_part() -> None:
    report, audits = made_up(["retrained"], 2, true_audit())
    part = diagnostics_part(report.rows, [], [], scale="canonical", rule="source-free")
    assert (part.html, part.figures) == ("", {})
    assert 'id="diagnostics"' not in page_of_reports([report], audits, date="2026-01-02")


def test_a_page_of_110_audits_with_diagnostics_stays_under_five_megabytes() -> None:
    audit = true_audit()
    for run in audit["trajectory"]:
        for name in ("retain", "forget", "rs", "loss"):
            run[name] = [0.123456 + i / 1000 for i in range(101)]
    methods = [f"method {i}" for i in range(11)]
    report, audits = made_up(methods, 10, audit)
    found = [diagnosis(method, (label,)) for method in methods for label in range(10)]
    maps = [embedding(method) for method in methods[:4]]
    page = page_of_reports([report], audits, date="2026-01-02", diagnoses=found, embeddings=maps)
    assert 'data-figure="why-0-map-method 0"' in page
    assert len(page.encode()) < 5_000_000
    start = page.index('id="page-data">') + len('id="page-data">')
    figures = json.loads(page[start : page.index("</script>", start)])["figures"]
    assert sum(len(json.dumps(figures[key])) for key in figures if key.startswith("why-")) < 700_000
