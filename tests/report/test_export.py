from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from builders.charts import many_audits
from builders.pages import bench_of, true_result
from sfra.bench.engine.store import Store
from sfra.bench.rows import Rows
from sfra.core.errors import InputError
from sfra.report import export_bench, read_bench, render, save
from sfra.report.export import file_name, ordered
from sfra.report.figures import scatter_figure, violin_figure

AUDITS = many_audits()


def test_the_same_rows_give_the_same_bytes() -> None:
    """A PDF is left out: the renderer numbers some of its objects in a random order."""
    for format in ("svg", "png"):
        assert render(violin_figure(AUDITS), format) == render(violin_figure(many_audits()), format)


def test_sorting_the_resources_of_a_pdf_moves_nothing_else() -> None:
    pdf = b"%PDF\n  /XObject <<\n    /xo2 7 0 R\n    /xo1 9 0 R\n  >>\nstream\n"
    assert ordered(pdf) == b"%PDF\n  /XObject <<\n    /xo1 9 0 R\n    /xo2 7 0 R\n  >>\nstream\n"


def test_other_rows_give_other_bytes() -> None:
    changed = [row | {"rs": row["rs"] * 0.9} for row in AUDITS]
    assert render(violin_figure(changed), "svg") != render(violin_figure(AUDITS), "svg")


def test_an_svg_carries_its_description_and_loads_nothing() -> None:
    chart = scatter_figure(AUDITS)
    text = render(chart, "svg").decode()
    assert text.startswith(f'<svg role="img" aria-label="{chart.to_dict()["description"]}"')
    assert text.count("aria-label") >= 1
    assert set(re.findall(r"https?://[^\"]+", text)) <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}


def test_every_format_is_what_its_name_says(tmp_path: Path) -> None:
    chart = violin_figure(AUDITS)
    starts = {"svg": b"<svg", "pdf": b"%PDF", "png": b"\x89PNG"}
    for format, start in starts.items():
        assert save(chart, tmp_path / f"figure.{format}").read_bytes().startswith(start)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["figure.pdf", "figure.png", "figure.svg"]


def test_a_page_stands_alone() -> None:
    page = render(violin_figure(AUDITS), "html").decode()
    assert not re.search(r"<(script|link)[^>]+(src|href)\s*=", page)


@pytest.mark.parametrize("name", ["figure", "figure.jpg"])
def test_an_unknown_ending_is_refused_before_anything_is_written(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="expected: svg, pdf, png, html"):
        save(violin_figure(AUDITS), tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_everything_is_exported_for_each_data_set_and_the_rest_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sfra.report.export.render", lambda chart, format: str(chart.to_dict()["title"]).encode())
    other = [replace(row, dataset="digits", backbone="small-cnn", delta_rs=None) for row in AUDITS]
    audits = {row.cell: true_result() for row in AUDITS}
    made = export_bench(bench_of(Rows(audits=[*AUDITS, *other]), audits), tmp_path, "svg")
    names = {path.name for path in made.written}
    assert names == {path.name for path in tmp_path.iterdir()}
    whole = ("accuracy", "violin", "heatmap-rs", "heatmap-delta-rs", "scatter", "tradeoff")
    assert names == {f"cifar10-resnet18-small-{name}.svg" for name in whole} | {
        f"digits-small-cnn-{name}.svg" for name in ("accuracy", "violin", "heatmap-rs", "tradeoff")
    }
    assert "no audit has a ΔRS" in made.left_out["digits-small-cnn-scatter"]


def test_an_empty_store_is_an_error(tmp_path: Path) -> None:
    Store(tmp_path / "store")
    with pytest.raises(InputError, match=r"no audit of this benchmark is done\n(.*\n)*.*sfra bench run digits-tiny"):
        read_bench(["digits-tiny"], tmp_path / "store")


def test_a_file_name_holds_nothing_that_a_path_could_mean() -> None:
    assert file_name("alpha-my.module:Own/..\\x y.svg") == "alpha-my.module-Own-..-x-y.svg"


def titled(text: str) -> Any:
    """A chart with a text in its title, in its data and as the name of a column."""
    import altair as alt

    values = alt.Data(values=[{"x": 1, "y": text, text: 2}])  # type: ignore[no-untyped-call]
    chart = alt.Chart(values, title=text).mark_point().encode(x="x:Q", y="y:N")
    return chart.properties(description=text)


@pytest.mark.parametrize("letter", ["\x00", "\x1b", "\x9b", "\ufffe", "\ud800", "\ue0f1"])
@pytest.mark.parametrize("format", ["svg", "png", "html"])
def test_characters_that_no_picture_can_hold_are_replaced(format: str, letter: str) -> None:
    """One of them in the name of a class would end the process."""
    assert render(titled(f"cat{letter}dog"), format) == render(titled("cat\N{REPLACEMENT CHARACTER}dog"), format)
    assert render(titled(f"cat{letter}dog"), "pdf").startswith(b"%PDF")


def test_a_name_cannot_leave_the_script_of_a_page() -> None:
    name = "</script><script>alert(1)</script><!-- "
    page = render(titled(name), "html").decode()
    plain = render(titled("cat"), "html").decode()
    assert "alert(1)" in page
    for mark in ("</script", "<script", "<!--"):
        assert page.count(mark) == plain.count(mark)
    assert page.count(r"\u003c/script>\u003cscript>alert(1)\u003c/script>\u003c!-- ") >= 3
