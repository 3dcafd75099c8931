"""A table in Markdown, CSV and LaTeX: nothing is lost, nothing escapes, the structure holds."""

import csv
import doctest
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sfra.bench.tables.csv_file
import sfra.bench.tables.latex
import sfra.bench.tables.latex_layout
import sfra.bench.tables.markdown
import sfra.bench.tables.names
import sfra.bench.tables.table
from builders.rows import audit_row, failure_row, pra_row, probe_row
from sfra.bench.tables import (
    MISSING,
    Column,
    Table,
    failures_table,
    multi_class_table,
    per_class_table,
    scores_table,
    summary_table,
    to_csv,
    to_latex,
    to_markdown,
    write_tables,
)
from sfra.bench.tables.latex import escape_latex
from sfra.bench.tables.markdown import escape_markdown
from sfra.core.errors import InputError

READING: dict[str, Any] = {"scale": "native", "rule": "worst-case"}
HOSTILE = '50% of $x_1$ & #2 {a|b} \\input{/etc/passwd} ~^`<b>*[1]"--\x07\n-1 Δ± 中 é'


def one(text: str | None, **changes: Any) -> Table:
    """A table of one word."""
    column = Column(names=("word",), heading="Word", numeric=False)
    return Table(**({"title": "T", "label": "t", "columns": (column,), "rows": (((text,),),)} | changes))


def small() -> Table:
    audits = [audit_row("delete", (c,), rs=0.1 * c, delta_rs=-0.2) for c in (1, 2)]
    return summary_table(audits, [pra_row()], **READING)


def test_columns_that_agree_are_folded_into_the_title_for_readers_but_not_in_csv() -> None:
    table = small()
    shown = table.display()
    assert shown.title == "Recovery over single forget classes (CIFAR-10, ResNet-18)"
    assert "Backbone" not in shown.headings
    assert next(csv.DictReader(io.StringIO(to_csv(table))))["backbone"] == "ResNet-18"
    both = summary_table([audit_row(), audit_row(backbone="swin-t")], **READING).display()
    assert both.title == "Recovery over single forget classes (CIFAR-10)"
    assert "Backbone" in both.headings
    pair = multi_class_table([audit_row(forget=(1, 6))], **READING).display()
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
    assert rows[0]["rs_max"] == ""
    assert rows[-1]["delta_rs_max"] == "-0.20"
    assert MISSING not in to_csv(small())


def test_csv_gives_back_any_text() -> None:
    text = 'a,b "c" | d'
    assert next(csv.DictReader(io.StringIO(to_csv(one(text)))))["word"] == text


def read_markdown(text: str) -> str:
    """Undo what a Markdown reader undoes: a backslash before punctuation."""
    return re.sub(r"\\([!-/:-@\[-`{-~])", r"\1", text)


@given(st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), max_size=30))
def test_markdown_shows_any_text_as_it_is_in_one_cell(text: str) -> None:
    escaped = escape_markdown(text)
    assert read_markdown(escaped) == " ".join(text.split())
    assert not re.search(r"(?<!\\)(\\\\)*[|<>*_`\[\]&$~]", escaped)


@given(st.text(max_size=40))
def test_latex_of_any_text_has_balanced_braces_and_no_active_character(text: str) -> None:
    assert_inert(escape_latex(text))


def assert_inert(escaped: str) -> None:
    """Nothing but known commands, and nothing that LaTeX would act upon, is left in a text."""
    known = (
        r"\\(textbackslash|textasciitilde|textasciicircum|textasciigrave|textless|textgreater|textbar|dots)\{\}"
        r"|\\texttt\{U\+[0-9A-F]{4,6}\}|\\[{}%&#_$]|-\{\}|\{[\[\]*]\}"
        r"|\$(\\[A-Za-z]+|\^2|-)\$"
    )
    rest = re.sub(known, "", escaped)
    assert not re.search(r"[\\{}%&#_$~^`<>|\[\]*]", rest), escaped
    assert all(c.isprintable() for c in rest)


def test_hostile_text_is_harmless_in_latex() -> None:
    escaped = escape_latex(HOSTILE)
    assert_inert(escaped)
    assert r"\textbackslash{}input\{/etc/passwd\}" in escaped
    assert r"\texttt{U+4E2D} é" in escaped
    assert "-{}-" in escaped
    assert r"$\Delta$$\pm$" in escaped


def check_latex(text: str) -> None:
    """Check braces, environments, and the number of columns of every line of the table."""
    content = re.sub(r"^%.*\n", "", text)
    bare = re.sub(r"\\[{}]", "", content)
    depth = 0
    for character in bare:
        depth += (character == "{") - (character == "}")
        assert depth >= 0
    assert depth == 0
    stack = []
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
    assert lines
    assert {len(re.findall(r"(?<!\\)&", line)) + 1 for line in lines} == {columns}
    for name in ("toprule", "midrule", "bottomrule", "caption", "label"):
        assert f"\\{name}" in content


def long_table() -> Table:
    audits = [audit_row(m, (c,), rs=c / 10, delta_rs=-0.01 * c) for m in ("delete", "my_method") for c in range(10)]
    return per_class_table(audits, [pra_row(forget=(c,)) for c in range(10)], [probe_row()], **READING)


def wide_table() -> Table:
    rows = [audit_row(forget=(c,), score=s, rs_std=0.01) for c in range(10) for s in ("softmax", "energy")]
    return scores_table(rows, **READING)


@pytest.mark.parametrize(
    "table",
    [
        small(),
        long_table(),
        wide_table(),
        failures_table([failure_row(HOSTILE, "error", HOSTILE * 3)]),
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


def test_minus_signs_are_set_as_such_and_short_tables_float_while_long_ones_break() -> None:
    short, long = to_latex(small()), to_latex(long_table())
    assert "$-$0.20" in short
    assert r"\begin{table*}" in short
    assert r"\begin{table}[" in to_latex(one("short"))
    assert r"\begin{longtable}" not in short
    assert r"\begin{longtable}" in long
    assert long.startswith("% needs booktabs, longtable\n")
    assert r"\setlength{\tabcolsep}" in to_latex(wide_table())
    assert r"p{0.6\linewidth}" in to_latex(failures_table([failure_row("a", "b", "c")]))


def test_an_empty_table_is_its_notes() -> None:
    table = failures_table([])
    assert to_markdown(table) == "**Failures**\n\n- Nothing failed.\n"
    assert to_csv(table) == "label,kind,message\n"
    assert to_latex(table) == "% Failures\n% Nothing failed.\n"


def test_the_page_gets_plain_values() -> None:
    content = small().to_dict()
    assert json.loads(json.dumps(content)) == content
    assert content["columns"][0] == {"heading": "Method", "numeric": False}
    assert content["title"].endswith("(CIFAR-10, ResNet-18)")
    assert {len(row) for row in content["rows"]} == {len(content["columns"])}


def test_every_format_of_every_table_is_written(tmp_path: Path) -> None:
    written = write_tables([small(), long_table()], tmp_path / "tables")
    names = ["summary.md", "summary.csv", "summary.tex", "per-class.md", "per-class.csv", "per-class.tex"]
    assert [path.name for path in written] == names
    assert (tmp_path / "tables" / "summary.csv").read_text(encoding="utf-8") == to_csv(small())


def test_a_cell_with_parts_missing_says_so() -> None:
    triple = Column(names=("a", "b", "c"), heading="abc", style="triple")
    spread = Column(names=("a", "b"), heading="ab", style="spread")
    assert triple.text(("1", None, "3")) == "(1, –, 3)"
    assert triple.text((None, None, None)) == "–"
    assert (spread.text((None, "1")), spread.text(("1", None))) == ("– ± 1", "1")


def test_a_table_that_does_not_fit_is_refused() -> None:
    with pytest.raises(InputError, match="a row of the table t does not fit its columns"):
        one("x", rows=((("a",), ("b",)),))
    with pytest.raises(InputError, match="a column of style spread needs other names"):
        Column(names=("a",), heading="A", style="spread")
    twice = Column(names=("a",), heading="A")
    with pytest.raises(InputError, match="columns of distinct names"):
        one("x", columns=(twice, twice), rows=())
    with pytest.raises(InputError, match="small letters, digits and hyphens"):
        one("x", label="a_b")


@pytest.mark.parametrize(
    "module",
    [
        sfra.bench.tables.csv_file,
        sfra.bench.tables.format,
        sfra.bench.tables.latex,
        sfra.bench.tables.latex_layout,
        sfra.bench.tables.markdown,
        sfra.bench.tables.names,
        sfra.bench.tables.table,
    ],
)
def test_the_examples_of_the_documentation_run(module: Any) -> None:
    result = doctest.testmod(module)
    assert (result.failed, result.attempted > 0) == (0, True)
