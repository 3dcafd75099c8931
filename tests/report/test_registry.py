"""The registry of figures: one entry is enough for files, pages, lists; two of one name are refused."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from builders.charts import many_audits
from builders.pages import DATE, Parsed, made_up, page_data, true_result
from sfra.cli import main
from sfra.report import (
    FIGURES,
    Setting,
    Style,
    audit_page,
    bench_page,
    draw_all,
    export_audits,
    export_bench,
    figure,
    plan_setting,
)
from sfra.report.figures.style import chart, finish, layered, score

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    before = dict(FIGURES)
    yield
    FIGURES.clear()
    FIGURES.update(before)


def dots(rows: Sequence[dict[str, Any]], style: Style) -> Any:
    points = chart(rows).mark_point().encode(x=score("x"))
    return finish(layered(points, width=style.width, height=40), style, description=f"{len(rows)} scores.")


def test_one_function_adds_a_figure_of_audits_to_files_page_and_list(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    @figure("readings", title="Every score at once", needs="audit")
    def readings_figure(audit: Any, *, style: Style) -> Any:
        return dots([{"rs": one.rs} for one in audit.results], style)

    audit = true_result()
    made = export_audits([("toy", audit)], tmp_path)
    assert tmp_path / "readings.svg" in made.written
    assert "Every score at once" in (tmp_path / "readings.svg").read_text()
    page = audit_page(audit, date=DATE)
    assert "Every score at once" in Parsed(page).text
    assert "audit-readings" in page_data(page)["charts"]
    assert main(["list", "figures"]) == 0
    assert "audit/readings" in capsys.readouterr().out


def test_the_figure_that_contributing_shows_is_drawn_in_files_and_on_the_page_of_a_benchmark(tmp_path: Path) -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    shown = re.search(r"^```python\n(# src/sfra/report/figures/.*?)^```", text, re.M | re.S)
    assert shown
    exec(shown[1], {})  # noqa: S102
    bench = made_up(["retrained", "finetune"], 2)
    assert tmp_path / "digits-small-cnn-strip.svg" in export_bench(bench, tmp_path).written
    assert "place-0-strip" in page_data(bench_page(bench, date=DATE))["charts"]


def test_a_second_figure_of_one_name_is_refused() -> None:
    with pytest.raises(ValueError, match="two figures named violin"):
        figure("violin", title="Again", needs="audits")
    figure("violin", title="An audit may have one too", needs="audit")


def test_what_cannot_be_drawn_is_named_with_its_reason() -> None:
    audits = [row | {"delta_rs": None} for row in many_audits()]
    drawn = draw_all(plan_setting(Setting(audits=audits)))
    assert set(drawn.charts) == {"accuracy", "violin", "heatmap-rs"}
    assert drawn.left_out["scatter"] == drawn.left_out["heatmap-delta-rs"]
    assert drawn.left_out["scatter"] == "there is nothing to draw: no audit has a ΔRS"
    assert "M or N" in drawn.left_out["sensitivity"]
    assert "swept no" in drawn.left_out["sweep"].replace("no audit swept the", "swept no")
    assert {"tradeoff", "alpha", "margin", "map"} <= set(drawn.left_out)


def test_every_registered_figure_has_a_line_in_the_documentation() -> None:
    text = (ROOT / "docs" / "figures.md").read_text(encoding="utf-8")
    assert [name for _, name in FIGURES if f"`{name}`" not in text] == []
