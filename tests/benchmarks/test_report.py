"""Tables and figures of the reproduction follow from the committed rows, of any group that has some."""

from __future__ import annotations

import csv
import random
from html import unescape
from pathlib import Path
from statistics import fmean

import polars as pl
import pytest
from scipy import stats

from reproduction.figures import group_figures
from reproduction.overview import CLAIMS, overview_tables
from reproduction.report import DOCS, OVERVIEW, PAGES, group_tables, include, table_page
from reproduction.rows import BASE, KEPT, PAPER, Group, agree, list_groups, paper_backbone, paper_beside, paper_side
from reproduction.worlds import kappa_at
from sfra.auditing.verdict import FORGET_LOW
from sfra.auditing.verdicts import VERDICTS
from sfra.bench.tables import Table
from sfra.core.errors import InputError

GROUPS = [group.name for group in list_groups()]


def tables(group: str, folder: Path = KEPT) -> dict[str, Table]:
    return {one.label: one for some in group_tables(Group(group, folder)).values() for one in some}


def cells(table: Table) -> dict[str, dict[str, str | None]]:
    return {str(row[table.names[0]]): row for row in table.records}


def audits(group: str, **wanted: str) -> list[dict[str, str]]:
    with (KEPT / group / "audits.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    wanted = {"protocol": group, "audit": "main", "variant": "released"} | wanted
    return [row for row in rows if wanted.items() <= row.items()]


def mean_rs(group: str, **wanted: str) -> str:
    return f"{fmean(float(row['rs']) for row in audits(group, **wanted)):.2f}"


@pytest.mark.parametrize("group", GROUPS)
def test_the_committed_tables_are_those_of_the_rows(group: str) -> None:
    made = group_tables(Group(group))
    for page, some in made.items():
        path = DOCS / "reproduction" / group / f"{page}.md"
        assert path.read_text(encoding="utf-8") == table_page(Group(group), page, some), "run make reproduce-report"
    for page, name in PAGES.items():
        if name == group:
            text = (DOCS / page).read_text(encoding="utf-8")
            assert include(text, made) == text


@pytest.mark.parametrize("group", GROUPS)
def test_no_release_that_kept_part_of_its_class_is_called_clear(group: str) -> None:
    kept = (pl.col("forget_before") > FORGET_LOW) & (pl.col("variant") == "released")
    today, then = Group(group).all_rows("audits"), pl.read_csv(KEPT / group / "audits.csv", infer_schema_length=None)
    now, before = ({VERDICTS[code].kind for code in rows.filter(kept)["verdict"]} for rows in (today, then))
    assert {"back"} <= now <= {"back", "open"}
    assert "clear" in before  # as it was said when they were audited
    assert today.filter(~kept)["verdict"].equals(then.filter(~kept)["verdict"])


@pytest.mark.parametrize("group", GROUPS)
def test_the_committed_figures_are_of_these_rows(group: str) -> None:
    drawn = group_figures(Group(group), paper_beside(Group(group)))
    committed = {path.stem: path for path in (DOCS / "reproduction" / group).glob("*.svg")}
    assert set(committed) == set(drawn)
    for name, chart in drawn.items():
        assert chart.to_dict()["description"] in unescape(committed[name].read_text(encoding="utf-8")), name


@pytest.mark.parametrize("group", GROUPS)
def test_mean_rs_is_that_of_the_csv_files(group: str) -> None:
    line = cells(tables(group)["rs-beside-paper"])["Retrained"]
    method = {"method": "retrained", "seed": "0"}
    assert line["native_worst_case"] == mean_rs(group, scale="native", rule="worst-case", **method)
    assert line["canonical_source_free"] == mean_rs(group, scale="canonical", rule="source-free", **method)
    name = "per_class_cifar100.csv" if group.startswith("cifar100") else "per_class.csv"
    classes = {row["forget"] for row in audits(group, **method)}
    with (PAPER / name).open(newline="") as file:
        theirs = {"backbone": paper_backbone(Group(group).backbone), "method": "Retrained", "variant": "sfra"}
        rows = [row for row in csv.DictReader(file) if theirs.items() <= row.items() and row["forget_class"] in classes]
    printed = [float(row["rs"]) for row in rows if row["dataset"] == ("CIFAR-100" if "100" in name else "CIFAR-10")]
    assert len(printed) == len(classes)
    assert line["paper"] == f"{fmean(printed):.2f}"


def test_other_recipes_are_compared_over_the_classes_that_all_have() -> None:
    line = cells(tables(BASE)["experiments"])["Bad Teacher"]
    assert line["classes"] == "3"
    of = {"method": "bad-teacher", "scale": "native", "rule": "worst-case"}
    three = [row for row in audits(BASE, protocol=f"{BASE}-published", **of) if row["forget"] in ("0", "3", "7")]
    assert line["b"] == f"{fmean(float(row['rs']) for row in three):.2f}"


def test_a_further_group_is_picked_up_without_code(tmp_path: Path) -> None:
    new = "cifar10-resnet18-224"
    for group in (BASE, new):
        (tmp_path / group).mkdir()
        for file in (KEPT / BASE).glob("*.csv"):
            lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
            mine = [line for line in lines[1:] if line.startswith(f"{BASE},")]
            (tmp_path / group / file.name).write_text(lines[0] + "".join(line.replace(BASE, group, 1) for line in mine))
    assert [group.name for group in list_groups(tmp_path)] == [BASE, new]
    made = tables(new, tmp_path)
    assert made["rs-beside-paper"].rows == tables(BASE)["rs-beside-paper"].rows
    assert set(group_figures(Group(new, tmp_path), paper_side("cifar10"))) == {"comparison", "heatmap", "sweep"}


def test_the_committed_overview_is_that_of_the_rows() -> None:
    text = (DOCS / OVERVIEW).read_text(encoding="utf-8")
    assert include(text, {"overview": overview_tables(list_groups())}) == text, "run make reproduce-report"


def test_the_overview_has_the_numbers_of_the_csv_files_and_leaves_out_a_group_without_rows() -> None:
    overview, agreement, claims = overview_tables([Group(BASE)])
    line = cells(overview)["DELETE"]
    assert line["cifar10_resnet18_ours"] == mean_rs(BASE, method="delete", scale="native", rule="worst-case")
    assert line["cifar10_resnet18_verdict"] == mean_rs(BASE, method="delete", scale="canonical", rule="source-free")
    assert line["cifar10_resnet18_difference"] == "−0.02"
    assert not any("224" in name for name in (*overview.names, *claims.names))
    assert [row["models"] for row in agreement.records] == ["110"]
    assert len(claims.rows) == len(CLAIMS)


def test_a_claim_counts_what_the_csv_files_say() -> None:
    (_, _, claims) = overview_tables([Group(BASE)])
    rows = [
        row for row in audits(BASE, scale="native", rule="worst-case") if row["method"] not in ("masked", "retrained")
    ]
    above = sum(float(row["delta_rs"]) > 0 for row in rows)
    gone = [float(row["rs"]) > 0.5 for row in rows if float(row["forget_before"]) <= 0.01]
    told = {str(row["claim"]): str(row["cifar10_resnet18"]) for row in claims.records}
    assert told["More comes back than from a retrained model (ΔRS > 0)"].startswith(f"yes: {above} of {len(rows)} ")
    assert told["A class of which at most 1 % is left comes back (RS > 0.5)"].startswith(
        f"yes: {sum(gone)} of {len(gone)} "
    )


def test_another_backbone_stands_beside_the_paper_s_network_of_its_family() -> None:
    swin, resnet = (paper_side("cifar10", one).rs["native", "worst-case"] for one in ("swin-t", "resnet18-224"))
    assert "boundary-shrink" in resnet
    assert "boundary-shrink" not in swin
    assert swin["delete"] != resnet["delete"]
    with (PAPER / "per_class.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["backbone"] == "Swin-T" and row["variant"] == "sfra"]
    (printed,) = (row["rs"] for row in rows if (row["method"], row["forget_class"]) == ("DELETE", "3"))
    assert swin["delete"]["3"] == float(printed)


def test_a_page_with_an_unknown_table_is_refused() -> None:
    with pytest.raises(InputError, match="unknown table"):
        include("<!-- table: nothing -->\n<!-- end -->", {})


@pytest.mark.parametrize("seed", [0, 1])
def test_agreement_is_that_of_scipy_with_ties(seed: int) -> None:
    source = random.Random(seed)  # noqa: S311 - no secret
    ours, theirs = ({str(i): round(source.random(), 1) for i in range(12)} for _ in range(2))
    found = agree(ours | {"only": 0.5}, theirs)
    assert found is not None
    x, y = list(ours.values()), list(theirs.values())
    assert found.spearman == pytest.approx(stats.spearmanr(x, y).statistic)
    assert found.difference == pytest.approx(fmean(abs(a - b) for a, b in zip(x, y, strict=True)))
    assert agree(ours, {}) is None
    few = agree({"a": 0.1, "b": 0.2}, {"a": 0.3, "b": 0.1})
    assert few is not None
    assert few.spearman is None


def test_the_scale_of_a_value_is_interpolated_and_not_found_beyond_the_curve() -> None:
    curve = {1.0: 0.1, 2.0: 0.3, 4.0: 0.9}
    assert kappa_at(curve, 0.6) == pytest.approx(2 * 2**0.5)
    assert kappa_at(curve, 0.95) is kappa_at(curve, 0.0) is None
