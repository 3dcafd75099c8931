"""A table in Markdown, CSV and LaTeX: nothing is lost, nothing escapes, and every table fits its page.

Tests that compile need ``pdflatex`` with the packages of ``sfra.bench.tables.latex.PACKAGES``; without it they are
skipped, unless SFRA_REQUIRE_LATEX is set: then they fail.
"""

from __future__ import annotations

import csv
import io
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders.full_grid import ODD, full_grid
from builders.rows import audit_row, failure_row, pra_row, probe_row
from sfra.bench.protocol import load_protocol
from sfra.bench.report import BenchReport
from sfra.bench.rows import Rows
from sfra.bench.tables import TABLES, Column, Table, make_tables, to_markdown
from sfra.bench.tables.ablations import scores_table
from sfra.bench.tables.latex import PACKAGES, escape_latex, to_latex
from sfra.bench.tables.results import failures_table, multi_class_table, per_class_table, settings_table, summary_table
from sfra.bench.tables.table import MISSING, escape_markdown, to_csv
from sfra.core.errors import InputError

READING: dict[str, Any] = {"scale": "native", "rule": "worst-case"}
HOSTILE = '50% of $x_1$ & #2 {a|b} \\input{secret} ~^`<b>*[1]"--\x07\n-1 Δ± 中 é'
TROUBLE = re.compile(r"^(?:Overfull|LaTeX Warning|Package \w+ Warning|LaTeX Font Warning|Missing character|!).*", re.M)
"""What a user would stumble on in a log."""


def one(text: str | None, **changes: Any) -> Table:
    """A table of one word."""
    column = Column(names=("word",), heading="Word", numeric=False)
    return Table(**({"title": "T", "label": "t", "columns": (column,), "rows": (((text,),),)} | changes))


def small() -> Table:
    audits = [audit_row("delete", (c,), rs=0.1 * c, delta_rs=-0.2) for c in (1, 2)]
    return summary_table(Rows(audits=audits, pra=[pra_row()]), **READING)


def long_table() -> Table:
    audits = [audit_row(m, (c,), rs=c / 10, delta_rs=-0.01 * c) for m in ("delete", "my_method") for c in range(10)]
    rows = Rows(audits=audits, pra=[pra_row(forget=(c,)) for c in range(10)], probes=[probe_row()])
    return per_class_table(rows, **READING)


def wide_table() -> Table:
    rows = [audit_row(forget=(c,), score=s, rs_std=0.01) for c in range(10) for s in ("softmax", "energy")]
    return scores_table(Rows(audits=rows), **READING)


def failed(*words: str) -> Table:
    return failures_table(Rows(failures=[failure_row(*words)]))


def test_columns_that_agree_are_folded_into_the_title_for_readers_but_not_in_csv() -> None:
    table = small()
    shown = table.display()
    assert shown.title == "Recovery over single forget classes (CIFAR-10, ResNet-18)"
    assert "Backbone" not in [column.heading for column in shown.columns]
    assert next(csv.DictReader(io.StringIO(to_csv(table))))["backbone"] == "ResNet-18"
    both = summary_table(Rows(audits=[audit_row(), audit_row(backbone="swin-t")]), **READING).display()
    assert both.title == "Recovery over single forget classes (CIFAR-10)"
    assert "Backbone" in [column.heading for column in both.columns]
    pair = multi_class_table(Rows(audits=[audit_row(forget=(1, 6))]), **READING).display()
    assert pair.title == "Several classes forgotten at once (CIFAR-10, ResNet-18, classes 1+6)"


def test_markdown_has_one_cell_per_column_in_every_line() -> None:
    lines = [line for line in to_markdown(small()).splitlines() if line.startswith("|")]
    assert lines[0].startswith("| Method | Stage | Retain (%) |")
    assert lines[1] == "|:--|:--|--:|--:|--:|--:|--:|"
    assert len({len(re.findall(r"(?<!\\)\|", line)) for line in lines}) == 1
    assert lines[2] == f"| Original | original | 95.00 ± 0.00 | (90.00, 90.00, 90.00) | {MISSING} | {MISSING} | 2 |"
    assert lines[-1].endswith("| 0.20 | -0.20 | 2 |")


def test_csv_has_one_field_per_figure_and_leaves_missing_ones_empty() -> None:
    rows = list(csv.DictReader(io.StringIO(to_csv(small()))))
    assert list(rows[0])[:6] == ["dataset", "backbone", "method", "variant", "retain_acc_mean", "retain_acc_std"]
    assert (rows[0]["rs_max"], rows[-1]["delta_rs_max"]) == ("", "-0.20")
    text = 'a,b "c" | d'
    assert next(csv.DictReader(io.StringIO(to_csv(one(text)))))["word"] == text


@given(st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), max_size=30))
def test_markdown_shows_any_text_as_it_is_in_one_cell(text: str) -> None:
    escaped = escape_markdown(text)
    assert re.sub(r"\\([!-/:-@\[-`{-~])", r"\1", escaped) == " ".join(text.split())  # as a reader of Markdown does
    assert not re.search(r"(?<!\\)(\\\\)*[|<>*_`\[\]&$~]", escaped)


@given(st.text(max_size=40) | st.just(HOSTILE))
def test_latex_of_any_text_holds_nothing_that_latex_acts_upon(text: str) -> None:
    known = (
        r"\\(textbackslash|textasciitilde|textasciicircum|textasciigrave|textless|textgreater|textbar|dots)\{\}"
        r"|\\texttt\{U\+[0-9A-F]{4,6}\}|\\[{}%&#_$]|-\{\}|\{[\[\]*]\}"
        r"|\$(\\[A-Za-z]+|\^2|-)\$"
    )
    rest = re.sub(known, "", escape_latex(text))
    assert not re.search(r"[\\{}%&#_$~^`<>|\[\]*]", rest), rest
    assert all(c.isprintable() for c in rest)


def check_latex(text: str) -> None:
    """Check braces, environments, and the number of columns of every line of the table."""
    content = re.sub(r"^%.*\n", "", text)
    depth = 0
    for character in re.sub(r"\\[{}]", "", content):
        depth += (character == "{") - (character == "}")
        assert depth >= 0
    assert depth == 0
    stack: list[str] = []
    for kind, name in re.findall(r"\\(begin|end)\{(\w+)\}", content):
        if kind == "begin":
            stack.append(name)
        else:
            assert stack.pop() == name
    assert stack == []
    found = re.search(r"\\begin\{(?:tabular|longtable)\}\{((?:[lr]|p\{[^}]*\})+)\}", content)
    assert found is not None
    columns = len(re.findall(r"p\{[^}]*\}|[lr]", found.group(1)))
    lines = [line for line in content.splitlines() if line.endswith(r"\\") and r"\caption" not in line]
    assert {len(re.findall(r"(?<!\\)&", line)) + 1 for line in lines} == {columns}
    for name in ("toprule", "midrule", "bottomrule", "caption", "label"):
        assert f"\\{name}" in content


@pytest.mark.parametrize(
    "table",
    [
        *(small(), long_table(), wide_table(), failed(HOSTILE, "error", HOSTILE * 3)),
        one(HOSTILE, title=HOSTILE, notes=(HOSTILE,)),
    ],
    ids=["small", "long", "wide", "failures", "hostile"],
)
def test_latex_is_well_formed(table: Table) -> None:
    check_latex(to_latex(table))


def test_the_check_of_latex_would_notice_a_lost_cell_and_a_lost_brace() -> None:
    good = to_latex(small())
    for bad in (good.replace(" & ", " ", 1), good.replace("}", "", 1), good.replace(r"\end{tabular}", "")):
        with pytest.raises(AssertionError):
            check_latex(bad)


def test_short_tables_float_long_ones_break_and_wide_ones_get_smaller_type_and_at_last_a_turned_page() -> None:
    short, long = to_latex(small()), to_latex(long_table())
    assert "$-$0.20" in short
    assert r"\begin{table*}" in short
    assert r"\begin{table}[" in to_latex(one("short"))
    assert r"\begin{longtable}" in long
    assert long.startswith("% needs booktabs, longtable\n")
    assert r"\setlength{\tabcolsep}" in to_latex(wide_table())
    assert r"p{0.6\linewidth}" in to_latex(failed("a", "b", "c"))
    kinds = []
    for number in (4, 12, 14, 16, 22, 40):
        columns = tuple(Column(names=(f"c{i}",), heading="RS") for i in range(number))
        text = to_latex(one("", columns=columns, rows=((("0.55",),) * number,)))
        kinds.append(re.findall(r"\\(?:small|footnotesize|scriptsize)\b|\{landscape\}", text)[:1])
    assert kinds == [[], [r"\small"], [r"\footnotesize"], [r"\scriptsize"], [r"\scriptsize"], ["{landscape}"]]


def test_a_column_with_few_values_becomes_lines_between_the_rows_and_names_are_not_repeated() -> None:
    rows = full_grid(("resnet18-small", "swin-t"))
    lines = to_latex(summary_table(rows, **READING)).splitlines()
    groups = [line for line in lines if line.startswith(r"\multicolumn")]
    assert groups == [rf"\multicolumn{{7}}{{l}}{{\textit{{{name}}}}} \\*" for name in ("ResNet-18", "Swin-T")]
    deleted = lines.index(next(line for line in lines if line.startswith("DELETE & unlearned")))
    assert [line.split(" & ")[:2] for line in lines[deleted + 1 : deleted + 3]] == [["", "PRA"], ["", "SFRA"]]
    assert all(line.endswith(r"\\*") for line in lines[deleted : deleted + 2])  # a page does not end between them


def test_a_cell_with_parts_missing_says_so() -> None:
    triple = Column(names=("a", "b", "c"), heading="abc", style="triple")
    spread = Column(names=("a", "b"), heading="ab", style="spread")
    assert (triple.text(("1", None, "3")), triple.text((None, None, None))) == ("(1, –, 3)", "–")
    assert (spread.text((None, "1")), spread.text(("1", None))) == ("– ± 1", "1")


def test_a_table_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="zip"):
        to_csv(one("x", rows=((("a",), ("b",)),)))
    twice = Column(names=("a",), heading="A")
    with pytest.raises(InputError, match="distinct names"):
        one("x", columns=(twice, twice), rows=())


@pytest.fixture(scope="module")
def compiler() -> str:
    found = shutil.which("pdflatex")
    if found is None and os.environ.get("SFRA_REQUIRE_LATEX"):
        pytest.fail("SFRA_REQUIRE_LATEX is set, but there is no pdflatex")
    if found is None:
        pytest.skip("no pdflatex here")
    return found


def compiled(
    compiler: str, folder: Path, body: str, packages: Sequence[str], kind: str = r"\documentclass{article}"
) -> str:
    """Compile a document as a user would, twice for the references, and return the log of the second time."""
    loaded = "".join(f"\\usepackage{{{name}}}\n" for name in packages)
    text = f"{kind}\n{loaded}\\begin{{document}}\n{body}\n\\end{{document}}\n"
    (folder / "paper.tex").write_text(text, encoding="utf-8")
    command = [compiler, "-interaction=nonstopmode", "-halt-on-error", "paper.tex"]
    for _ in range(2):
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace", check=False)
        assert done.returncode == 0, done.stdout[-2000:]
    return (folder / "paper.log").read_text(encoding="utf-8", errors="replace")


def test_every_table_of_a_report_compiles_and_none_leaves_its_page(compiler: str, tmp_path: Path) -> None:
    rows = full_grid(("resnet18-small", "swin-t"))
    report = BenchReport(protocol=load_protocol("digits"), rows=rows, tables=tuple(make_tables(rows)))
    report.save(tmp_path)
    labels = [table.label for table in report.tables]
    assert {entry.make(rows, **READING).label for entry in TABLES} <= set(labels)
    body = "\n".join(f"Table~\\ref{{tab:{label}}}:\\input{{tables/{label}}}\\clearpage" for label in labels)
    assert TROUBLE.findall(compiled(compiler, tmp_path, body, PACKAGES)) == []
    kinds: dict[str, str] = {}
    for label in labels:
        first = (tmp_path / "tables" / f"{label}.tex").read_text(encoding="utf-8").splitlines()[0]
        kinds.setdefault(first.removeprefix("% needs "), label)
    assert set(kinds) == {"booktabs", "booktabs, longtable", "booktabs, longtable, pdflscape"}
    for needs, label in kinds.items():
        compiled(compiler, tmp_path, rf"\input{{tables/{label}}}", needs.split(", "))


def test_a_table_that_left_its_page_would_be_noticed(compiler: str, tmp_path: Path) -> None:
    found = TROUBLE.findall(compiled(compiler, tmp_path, r"\noindent\hbox to 500pt{x\hfil x} \ref{tab:nowhere}", ()))
    assert any(line.startswith("Overfull") for line in found)
    assert any("undefined" in line for line in found)


def test_the_main_table_of_one_backbone_is_a_float_that_a_paper_of_two_columns_can_hold(
    compiler: str, tmp_path: Path
) -> None:
    rows = full_grid(("swin-t",))
    summary = to_latex(summary_table(rows, **READING))
    assert r"\begin{table*}" in summary
    body = f"{summary}\n{to_latex(settings_table(rows))} Text."
    log = compiled(compiler, tmp_path, body, ["booktabs"], r"\documentclass[twocolumn]{article}")
    assert TROUBLE.findall(log) == []


def test_odd_names_arrive_on_the_page_and_hostile_text_reads_no_file(compiler: str, tmp_path: Path) -> None:
    show = r"\showoutput\showboxbreadth=999\showboxdepth=99"
    log = compiled(compiler, tmp_path, rf"{to_latex(one(ODD))}{show}\clearpage", ["booktabs"])
    glyphs = re.findall(r"\\(OT1|OML|OMS)/[a-z]+/m/n/10 (\S+)", log)
    line = "".join(f"<{font} {glyph}>" if font != "OT1" or len(glyph) > 1 else glyph for font, glyph in glyphs)
    assert "mymethodv2&50%<OT1 ^^A><OMS ^^F>" in line  # the underscore is a rule; ^^A is Delta, ^^F plus-minus
    wide = Column(names=("c",), heading="c", numeric=False, wide=True)
    columns = (Column(names=("a",), heading=HOSTILE, numeric=False), Column(names=("b",), heading="b"), wide)
    row = ((HOSTILE,), (HOSTILE,), (HOSTILE,))
    table = Table(title=HOSTILE, label="t", columns=columns, rows=(row, row), notes=(HOSTILE,))
    assert "secret" not in compiled(compiler, tmp_path, to_latex(table), PACKAGES)
