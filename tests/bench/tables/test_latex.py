"""A compiler accepts every table of a report as it is written, and every table fits its page.

Needs ``pdflatex`` with the packages of ``sfra.bench.tables.latex.PACKAGES``; without it these tests are skipped, unless
SFRA_REQUIRE_LATEX is set: then they fail.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from builders.full_grid import ODD, full_grid
from sfra.bench.protocol import load_protocol
from sfra.bench.report import BenchReport, make_tables
from sfra.bench.tables import Column, Table, settings_table, summary_table, to_latex
from sfra.bench.tables.latex import PACKAGES
from sfra.bench.tables.latex_layout import MARGIN, PAGE, break_heading, ems, lay_out

TROUBLE = re.compile(r"^(?:Overfull|LaTeX Warning|Package \w+ Warning|LaTeX Font Warning|Missing character|!).*", re.M)
"""What a user would stumble on in a log."""

HOSTILE = '50% of $x_1$ & #2 {a|b} \\input{secret} ~^`<b>*[1]"--\x07\n-1 Δ± 中 é'


@pytest.fixture(scope="module")
def compiler() -> str:
    found = shutil.which("pdflatex")
    if found is None and os.environ.get("SFRA_REQUIRE_LATEX"):
        pytest.fail("SFRA_REQUIRE_LATEX is set, but there is no pdflatex")
    if found is None:
        pytest.skip("no pdflatex here")
    return found


def document(folder: Path, body: str, *, kind: str = r"\documentclass{article}", packages: Sequence[str] = ()) -> None:
    loaded = "".join(f"\\usepackage{{{name}}}\n" for name in packages)
    text = f"{kind}\n{loaded}\\begin{{document}}\n{body}\n\\end{{document}}\n"
    (folder / "paper.tex").write_text(text, encoding="utf-8")


def compile_twice(compiler: str, folder: Path) -> str:
    """Compile as a user would, twice for the references, and return the log of the second time."""
    command = [compiler, "-interaction=nonstopmode", "-halt-on-error", "paper.tex"]
    for _ in range(2):
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace", check=False)
        assert done.returncode == 0, done.stdout[-2000:]
    return (folder / "paper.log").read_text(encoding="utf-8", errors="replace")


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> tuple[BenchReport, Path]:
    """A report of two backbones, and where it was saved."""
    rows, folder = full_grid(("resnet18-small", "swin-t")), tmp_path_factory.mktemp("report")
    report = BenchReport(protocol=load_protocol("digits"), rows=rows, tables=tuple(make_tables(rows)))
    report.save(folder)
    return report, folder


def test_every_table_of_a_report_compiles_and_none_leaves_its_page(
    compiler: str, saved: tuple[BenchReport, Path]
) -> None:
    report, folder = saved
    labels = [table.label for table in report.tables]
    assert {"summary", "per-class", "multi-class", "missing-row", "distributions", "scores", "support"} <= set(labels)
    assert {"alignment", "confidence", "margin", "sensitivity-m", "sensitivity-n"} <= set(labels)
    assert {"probe-cost", "settings", "failures", "unlearning-quality"} <= set(labels)
    body = "\n".join(f"Table~\\ref{{tab:{label}}}:\\input{{tables/{label}}}\\clearpage" for label in labels)
    document(folder, body, packages=PACKAGES)
    assert TROUBLE.findall(compile_twice(compiler, folder)) == []
    assert (folder / "paper.pdf").read_bytes().startswith(b"%PDF")


def test_a_table_that_left_its_page_would_be_noticed(compiler: str, tmp_path: Path) -> None:
    document(tmp_path, r"\noindent\hbox to 500pt{x\hfil x} \ref{tab:nowhere}")
    found = TROUBLE.findall(compile_twice(compiler, tmp_path))
    assert any(line.startswith("Overfull") for line in found)
    assert any("undefined" in line for line in found)


def test_the_first_line_of_a_file_names_all_packages_it_needs(compiler: str, saved: tuple[BenchReport, Path]) -> None:
    report, folder = saved
    kinds: dict[str, str] = {}
    for table in report.tables:
        first = (folder / "tables" / f"{table.label}.tex").read_text(encoding="utf-8").splitlines()[0]
        kinds.setdefault(first.removeprefix("% needs "), table.label)
    assert set(kinds) == {"booktabs", "booktabs, longtable", "booktabs, longtable, pdflscape"}
    for needs, label in kinds.items():
        document(folder, rf"\input{{tables/{label}}}", packages=needs.split(", "))
        compile_twice(compiler, folder)


def test_the_main_table_of_one_backbone_is_a_float_that_a_paper_of_two_columns_can_hold(
    compiler: str, tmp_path: Path
) -> None:
    rows = full_grid(("swin-t",))
    summary = to_latex(summary_table(rows.audits, rows.pra, scale="native", rule="worst-case"))
    assert r"\begin{table*}" in summary
    body = f"{summary}\n{to_latex(settings_table(rows.audits))} Text."
    document(tmp_path, body, kind=r"\documentclass[twocolumn]{article}", packages=["booktabs"])
    assert TROUBLE.findall(compile_twice(compiler, tmp_path)) == []


def test_a_column_with_few_values_becomes_lines_between_the_rows_and_names_are_not_repeated(
    saved: tuple[BenchReport, Path],
) -> None:
    lines = (saved[1] / "tables" / "summary.tex").read_text(encoding="utf-8").splitlines()
    groups = [line for line in lines if line.startswith(r"\multicolumn")]
    assert groups == [rf"\multicolumn{{7}}{{l}}{{\textit{{{name}}}}} \\*" for name in ("ResNet-18", "Swin-T")]
    deleted = lines.index(next(line for line in lines if line.startswith("DELETE & unlearned")))
    assert [line.split(" & ")[:2] for line in lines[deleted + 1 : deleted + 3]] == [["", "PRA"], ["", "SFRA"]]
    assert all(line.endswith(r"\\*") for line in lines[deleted : deleted + 2])  # a page does not end between them


def test_odd_names_arrive_on_the_page(compiler: str, tmp_path: Path) -> None:
    column = Column(names=("word",), heading="Word", numeric=False)
    table = Table(title="T", label="t", columns=(column,), rows=(((ODD,),),))
    show = r"\showoutput\showboxbreadth=999\showboxdepth=99"
    document(tmp_path, rf"\input{{t}}{show}\clearpage", packages=["booktabs"])
    (tmp_path / "t.tex").write_text(to_latex(table), encoding="utf-8")
    glyphs = re.findall(r"\\(OT1|OML|OMS)/[a-z]+/m/n/10 (\S+)", compile_twice(compiler, tmp_path))
    line = "".join(f"<{font} {glyph}>" if font != "OT1" or len(glyph) > 1 else glyph for font, glyph in glyphs)
    assert "mymethodv2&50%<OT1 ^^A><OMS ^^F>" in line  # the underscore is a rule; ^^A is Delta, ^^F plus-minus


def test_hostile_text_compiles_wherever_it_stands_and_reads_no_file(compiler: str, tmp_path: Path) -> None:
    columns = (
        Column(names=("a",), heading=HOSTILE, numeric=False),
        Column(names=("b",), heading="b"),
        Column(names=("c",), heading="c", numeric=False, wide=True),
    )
    row = ((HOSTILE,), (HOSTILE,), (HOSTILE,))
    table = Table(title=HOSTILE, label="t", columns=columns, rows=(row, row), notes=(HOSTILE,))
    document(tmp_path, to_latex(table), packages=PACKAGES)
    assert "secret" not in compile_twice(compiler, tmp_path)  # a file that is missing would stop it, too


@pytest.mark.parametrize(
    ("heading", "cell", "lines"),
    [
        ("RS", "0.5", ["RS"]),
        ("Original retain (%)", "94.65", ["Original", "retain (%)"]),
        ("Retain (%)", "94.65 ± 0.10", ["Retain (%)"]),
        ("25+58+38", "0.5", ["25+", "58+38"]),
    ],
)
def test_headings_are_broken_where_cells_are_narrow(heading: str, cell: str, lines: list[str]) -> None:
    assert break_heading(heading, ems(cell)) == lines
    assert "".join(lines).replace(" ", "") == heading.replace(" ", "")


def test_type_gets_smaller_as_tables_get_wider_and_at_last_the_page_is_turned() -> None:
    seen: list[tuple[bool, bool, float]] = []
    for number in range(1, 60):
        columns = [Column(names=(f"c{i}",), heading="RS") for i in range(number)]
        layout = lay_out(columns, ["RS"] * number, [["0.55"] * number])
        seen.append((layout.turned, layout.reaching, -layout.line))
        assert layout.turned or layout.total <= PAGE + 2 * MARGIN * layout.reaching
    assert seen == sorted(seen)
    assert len(set(seen)) == 6
